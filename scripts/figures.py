"""Fills the marked numbers of pages from the records in results/, and draws the plots of docs/benchmarks.md.

    python scripts/figures.py            # writes the pages and plots that differ from the records
    python scripts/figures.py --check    # writes nothing; exits 1 if a page or plot differs or a marker is wrong

A marker names a record and one of its figures or fields, optionally a part of the figure and a format of the number:

    <!--= results/launch.json launch.step_vs_example:low .1f -->1.7<!--/-->
    <!--= results/launch.json created -->2026-11-27<!--/-->

Parts: value (default), low, high, n, level, interval ("1.69 to 2.20"), row (cells of a table: value, interval, level,
n). Default format: three significant digits. Fields of the record: created (the date), machine, commit.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tfhet.errors import TfhetError, UsageError
from tfhet.record import Figure, Record
from tfhet.report import number
from tfhet.report.chart import Axis, nice_ticks

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/benchmarks.md")
read = cache(Record.read)
MARKER = re.compile(r"<!--=\s*(\S+)\s+([^\s:]+)(?::(\w+))?(?:\s+([^\s<>]+))?\s*-->([^<]*)<!--/-->")
PLOTS = {
    "docs/images/imagenet-train.svg": (
        "JPEG file to 224x224 crop in a batch (uint8, bilinear): CPU microseconds per image",
        "results/stages-imagenet-train.json",
        "stages.imagenet-train{}.linear.uint8.us_per_image",
        {
            "": "tfhet", ".tf-image": "tf.data, tf.image", ".turbojpeg": "libjpeg-turbo, OpenCV", ".opencv": "OpenCV",
            ".grain": "Grain, OpenCV", ".dali": "DALI (on the CPU)", ".torchvision": "torchvision v2",
        },
    ),
    "docs/images/transport.svg": (
        "Moving batches of 19 MB: CPU of both sides relative to a plain TCP connection",
        "results/transport.json",
        "transport.vs_raw_socket.{}",
        {
            "uint8.19MB.none": "tfhet's wire", "feed.19MB": "feed", "service_encrypted.19MB": "tfhet's wire, encrypted",
            "service_open.19MB": "tf.data service as shipped", "feed_encrypted.19MB": "feed, encrypted",
        },
    ),
}  # fmt: skip
"""Title, record, pattern of the figures' names, and the label of each bar by what fills the pattern."""


def shown(record: Record, name: str, part: str, spec: str | None) -> str:
    """A field of a record, or a part of one of its figures with numbers formatted by `spec`."""
    fields = {
        "created": record.created[:10],
        "machine": f"{record.machine['cores']} cores ({str(record.machine['cpu']).replace('(R)', '')})",
        "commit": str(record.code.get("commit", ""))[:8] or "not noted",
    }
    if name in fields:
        return fields[name]
    if name not in record.figures:
        raise UsageError(f"no figure {name!r} in the record {record.name}")
    figure, write = record.figures[name], (lambda value: format(value, spec)) if spec else number
    parts = {
        **{end: write(getattr(figure, end)) for end in ("value", "low", "high")},
        "n": str(figure.n),
        "level": f"{int(100 * figure.level)} %" if figure.level else "none",
        "interval": f"{write(figure.low)} to {write(figure.high)}",
    }
    parts["row"] = " | ".join(parts[name] for name in ("value", "interval", "level", "n"))
    if part not in parts:
        raise UsageError(f"no part {part!r}: choose from {', '.join(parts)}")
    return parts[part]


def fill(text: str, page: str, root: Path = ROOT) -> str:
    """The text of a page with every marked number filled. Raises UsageError with page and line of a wrong marker."""

    def where(position: int) -> str:
        return f"{page}:{text.count(chr(10), 0, position) + 1}"

    def filled(found: re.Match[str]) -> str:
        path, name, part, spec, _ = found.groups()
        try:
            words = shown(read(root / path), name, part or "value", spec)
        except (TfhetError, ValueError) as error:
            raise UsageError(f"{where(found.start())}: {error}") from error
        return text[found.start() : found.start(5)] + words + "<!--/-->"

    starts = {found.start() for found in MARKER.finditer(text)}
    for opened in re.finditer("<!--=", text):
        if opened.start() not in starts:
            raise UsageError(f"{where(opened.start())}: write <!--= RECORD FIGURE[:PART] [FORMAT] -->number<!--/-->")
    return MARKER.sub(filled, text)


def bars(title: str, figures: Mapping[str, Figure]) -> str:
    """An SVG of horizontal bars with the intervals of their medians, and the values at the end."""
    left, width, row, top, bottom = 190, 440, 26, 34, 34 + 26 * len(figures)
    axis = Axis(0.0, nice_ticks(max(figure.high for figure in figures.values()), 8)[-1])
    x = lambda value: f"{left + width * axis.at(value) / 100:.1f}"  # noqa: E731
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 60}" height="{bottom + 26}"'
        ' font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="8" y="20" font-weight="bold">{title}</text>',
    ]
    for tick in axis.round_ticks(5):
        at = f"{left + width * tick.at / 100:.1f}"
        lines += [f'<path d="M{at},{top}V{bottom}" stroke="#ddd"/>']
        lines += [f'<text x="{at}" y="{bottom + 16}" text-anchor="middle" fill="#666">{tick.label}</text>']
    for index, (label, figure) in enumerate(figures.items()):
        y, colour = top + row * index + row // 2, "#1f6feb" if label.startswith(("tfhet", "feed")) else "#9aa4af"
        lines += [f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{label}</text>']
        lines += [f'<path d="M{left},{y}H{x(figure.value)}" stroke="{colour}" stroke-width="14"/>']
        lines += [f'<path d="M{x(figure.low)},{y}H{x(figure.high)}" stroke="#111"/>']
        lines += [f'<text x="{float(x(figure.high)) + 6:.1f}" y="{y + 4}">{number(figure.value)}</text>']
    return "\n".join([*lines, "</svg>\n"])


def generated(root: Path = ROOT) -> dict[Path, str]:
    """The content of every page and plot."""
    pages = {root / page: fill((root / page).read_text(encoding="utf-8"), page, root) for page in PAGES}
    for path, (title, source, pattern, labels) in PLOTS.items():
        figures = read(root / source).figures
        pages[root / path] = bars(title, {label: figures[pattern.format(key)] for key, label in labels.items()})
    return pages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page or plot differs")
    is_check = parser.parse_args().check
    try:
        wanted = generated()
    except TfhetError as error:
        sys.exit(f"figures: {error}")
    differing = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in differing:
        print(f"figures: {path} {'differs from its records: run scripts/figures.py' if is_check else 'is written'}")
        if not is_check:
            path.write_text(wanted[path], encoding="utf-8")
    return int(is_check and bool(differing))


if __name__ == "__main__":
    sys.exit(main())
