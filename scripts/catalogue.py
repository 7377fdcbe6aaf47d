"""Writes docs/stages.md, with an entry for each registered stage, and its example images.

    .venv/bin/python scripts/catalogue.py [--text-only]

The text of an entry is the stage's docstrings. Images show two photographs of scikit-learn: first the photograph, then
the result of the stage; a random stage shows four draws.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "stages.md"
PICTURES = ROOT / "docs" / "images" / "stages"
COSTS = ROOT / "results" / "stages-each.json"
SIDE, GAP, DRAWS = 112, 6, 4

GROUPS = {
    "From bytes": ["decode"],
    "Size and place": ["resize", "resized_center_crop", "center_crop", "random_crop", "random_resized_crop", "pad"],
    "Geometry": [
        "random_flip",
        "random_rotation",
        "random_zoom",
        "random_translation",
        "random_shear",
        "random_affine",
        "affine",
    ],
    "Filters": ["gaussian_blur", "sharpen", "dilate", "erode"],
    "Colour and levels": [
        "random_brightness",
        "random_contrast",
        "random_saturation",
        "random_hue",
        "color_jitter",
        "gamma",
        "grayscale",
        "autocontrast",
        "equalize",
        "posterize",
        "solarize",
        "invert",
    ],
    "Noise and holes": ["gaussian_noise", "random_erasing", "cutout"],
    "Policies": ["one_of", "probability", "randaugment", "trivialaugment"],
    "Mixing, and labels": ["mixup", "cutmix", "one_hot"],
    "Range and type": ["rescale", "normalize", "cast"],
    "How examples flow": ["interleave", "cache", "shuffle", "repeat", "batch", "prefetch"],
}

SHOWN = {
    "affine": "affine(degrees=20, scale=0.8, shear=0.2)",
    "cast": None,
    "center_crop": "center_crop(72, 72)",
    "cutmix": "one_hot(2); cutmix()",
    "cutout": "cutout(32)",
    "dilate": "dilate(5)",
    "erode": "erode(5)",
    "gamma": "gamma(2)",
    "gaussian_blur": "gaussian_blur(11, 3)",
    "gaussian_noise": "gaussian_noise(0.1)",
    "mixup": "one_hot(2); mixup(1.0)",
    "one_of": "one_of(posterize(2), solarize(128))",
    "pad": "pad(16, 16, 16, 16, mode='reflect')",
    "posterize": "posterize(2)",
    "probability": "probability(invert(), 0.5)",
    "random_affine": "random_affine(degrees=20)",
    "random_crop": "random_crop(72, 72)",
    "random_erasing": "random_erasing(probability=1)",
    "random_flip": "random_flip(True, True)",
    "random_resized_crop": "random_resized_crop(112, 112)",
    "random_shear": "random_shear(0.4)",
    "random_translation": "random_translation(0.3, 0.3)",
    "random_zoom": "random_zoom(0.4)",
    "random_hue": "random_hue(0.3)",
    "random_saturation": "random_saturation(0, 3)",
    "resize": "resize(56, 112)",
    "resized_center_crop": "resized_center_crop(96, 96, 128)",
    "normalize": None,
    "rescale": None,
    "sharpen": "sharpen(5)",
    **dict.fromkeys((*GROUPS["From bytes"], *GROUPS["How examples flow"], "one_hot")),
}
"""Chain that the picture shows, where it is not the stage with its defaults; None for no picture."""


def shown(name: str) -> str | None:
    """Returns the chain that the picture of a stage shows; None for no picture."""
    return SHOWN.get(name, f"{name}()")


def field_words(kind: type) -> dict[str, str]:
    """Returns the docstring under each field of a class and its ancestors."""
    words: dict[str, str] = {}
    for ancestor in reversed(kind.__mro__):
        try:
            (body,) = (n.body for n in ast.parse(inspect.getsource(sys.modules[ancestor.__module__])).body
                       if isinstance(n, ast.ClassDef) and n.name == ancestor.__name__)  # fmt: skip
        except (OSError, TypeError, ValueError, KeyError):
            continue
        for field, below in zip(body, body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
                words[field.target.id] = " ".join(ast.literal_eval(below.value).split())
    return words


def entry(name: str) -> str:
    """Returns the stage's part of the page."""
    from tfhet import stages

    kind = stages.get(name)
    lines = [f"### {name}", "", *inspect.cleandoc(kind.__doc__ or "").split("\n"), ""]
    words = field_words(kind)
    for field in dataclasses.fields(kind):
        if field.init:
            default = "" if field.default is dataclasses.MISSING else f" (default `{field.default!r}`)"
            lines.append(f"- `{field.name}`{default}: {words.get(field.name, '')}")
    if lines[-1]:
        lines.append("")
    if (chain := shown(name)) is not None:
        lines += [f"`{chain}`<br>", f"![{chain}](images/stages/{name}.jpg)", ""]
    return "\n".join(lines)


def costs(names: Iterable[str]) -> list[str]:
    """Returns the table of the stages' CPU times and of their ratios to another library, from a benchmark's record."""
    from tfhet.record import Record

    figures = Record.read(COSTS).figures
    rows = []
    for name in names:
        cells, against = [], ""
        for dtype in ("uint8", "float32"):
            for side in (32, 224):
                ratio = figures.get(f"stages.each.{name}.{dtype}.{side}")
                us = figures.get(f"stages.each.{name}.{dtype}.{side}.us_per_image")
                against = ratio.against or "" if ratio else against
                times = f", {ratio.value:.3g}x" if ratio else ""
                cells.append(f"{us.value:.3g} us{times}" if us else "")
        if any(cells):
            rows.append(f"| [{name}](#{name}) | {' | '.join(cells)} | {against and f'`{against}`'} |")
    return [
        "| stage | uint8 32x32 | uint8 224x224 | float32 32x32 | float32 224x224 | compared with |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def page() -> str:
    """Returns the text of docs/stages.md."""
    from tfhet import stages

    known = [name for name in stages.names() if stages.get(name).__module__.startswith("tfhet.")]
    listed = {name for group in GROUPS.values() for name in group}
    if listed != set(known):
        sys.exit(f"GROUPS in {Path(__file__).name} lacks {sorted(set(known) - listed)}, or knows {listed - set(known)}")
    lines = [
        "# The stages",
        "",
        "This page lists each stage with its arguments, an example image and CPU cost. `scripts/catalogue.py` writes",
        "it from the code. [Pipelines and stages](pipelines-and-stages.md) explains how to write chains of stages.",
        "",
        "In each image the photograph comes first; a random stage draws new numbers for every example.",
        "",
        "| | |",
        "|---|---|",
        *(f"| **{g}** | {', '.join(f'[{n}](#{n})' for n in names)} |" for g, names in GROUPS.items()),
        "",
    ]
    for group, names in GROUPS.items():
        lines += [f"## {group}", "", *(entry(name) for name in names)]
    lines += [
        "## CPU per image",
        "",
        "CPU time per RGB image in a batch in memory. `2.36x` means that the operation in the last column needs 2.36",
        "times as much ([record](../results/stages-each.json), [benchmarks](benchmarks.md)).",
        "`python -m benchmarks.stages --each` measures your machine.",
        "",
        *costs(name for names in GROUPS.values() for name in names),
    ]
    return "\n".join(lines).rstrip() + "\n"


def picture(chain: str) -> bytes:
    """A JPEG: a row for each photograph, the photograph first."""
    import numpy as np
    import tensorflow as tf

    from tfhet import stages
    from tfhet.stages import ImageSpec, randomness

    photos = _photos()
    parts = stages.parse(chain)
    draws = DRAWS if any(stage.random for stage in parts) else 1
    columns = [photos]
    for draw in range(draws):
        images, labels = tf.constant(photos), tf.range(len(photos))
        spec = ImageSpec.of(tf.TensorSpec(images.shape, images.dtype))
        for position, stage in enumerate(parts):
            ids = tf.range(len(photos), dtype=tf.int64) + len(photos) * draw
            drawn = stage.parameters(randomness.keys(0, stage.name, position, 0, ids), spec) if stage.random else {}
            labels, images, spec = stage.labels(labels, drawn), stage.apply(images, drawn), stage.spec(spec)
        values = np.asarray(images, np.float32)
        if spec.dtype == "float32":
            values = (values - spec.low) * 255.0 / (spec.high - spec.low)
        columns.append(np.broadcast_to(values.round().clip(0, 255).astype(np.uint8), (*values.shape[:3], 3)))
    height = max(column.shape[1] for column in columns)
    blank = lambda rows, across: np.full((rows, across, 3), 255, np.uint8)  # noqa: E731
    rows = []
    for row in range(len(photos)):
        cells = []
        for column in columns:
            image = column[row]
            cells += [np.concatenate([image, blank(height - len(image), image.shape[1])]), blank(height, GAP)]
        rows += [np.concatenate(cells[:-1], axis=1)]
        rows += [blank(GAP, rows[0].shape[1])]
    return tf.io.encode_jpeg(np.concatenate(rows[:-1]), quality=85).numpy()


def _photos():
    """uint8 [2, SIDE, SIDE, 3]: the middle of each photograph."""
    import numpy as np
    import tensorflow as tf
    from sklearn.datasets import load_sample_images

    small = [
        tf.image.resize(tf.image.resize_with_crop_or_pad(image, 420, 420), (SIDE, SIDE), antialias=True)
        for image in load_sample_images().images
    ]
    return np.stack(small).round().clip(0, 255).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text-only", action="store_true", help="leave the pictures as they are")
    args = parser.parse_args()
    PAGE.write_text(page(), encoding="utf-8")
    if args.text_only:
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    wanted = {f"{name}.jpg": chain for group in GROUPS.values() for name in group if (chain := shown(name)) is not None}
    for old in {path.name for path in PICTURES.iterdir()} - set(wanted):
        (PICTURES / old).unlink()
    for file, chain in wanted.items():
        (PICTURES / file).write_bytes(picture(chain))
        print(f"{file}: {chain}")


if __name__ == "__main__":
    main()
