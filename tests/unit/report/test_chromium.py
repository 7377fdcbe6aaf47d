"""The page in a browser: at the width of a telephone and of a desk, in light and in dark. Needs Chromium."""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tfhet.record import Record, RunSummary, read_json
from tfhet.report import Given, page
from tfhet.report.run_view import views

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
RESULTS = Path(__file__).parents[3] / "results"
WIDTHS = (390, 1280)
SCHEMES = {"dark": 0, "light": 1}
"""By the number that Chromium has for each."""
DEADLINE_S = 240

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here"),
    pytest.mark.timeout(2 * DEADLINE_S + 60),
    pytest.mark.slow,
]

MEASURING = """<!doctype html><body>%s<pre id="found"></pre><script>
addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const root = frame.contentDocument.documentElement, width = root.clientWidth;
    frame.contentDocument.querySelectorAll("details").forEach(one => one.open = true);
    const inScroll = one => one.closest(".scroll, pre, svg, .quiet");
    const wide = [...frame.contentDocument.querySelectorAll("main *")].filter(
      one => !inScroll(one) && one.getBoundingClientRect().right > width + 1
    ).map(one => one.tagName + "." + one.className);
    const pictures = [...frame.contentDocument.querySelectorAll("svg")].filter(
      one => one.getBoundingClientRect().width < 40 || one.getBoundingClientRect().height < 10).length;
    const style = frame.contentWindow.getComputedStyle(frame.contentDocument.body);
    return {width, scroll: root.scrollWidth, wide, pictures, ink: style.color, paper: style.backgroundColor};
  });
  document.getElementById("found").textContent = JSON.stringify(found);
});
</script>"""


@pytest.fixture(scope="module")
def full_page() -> str:
    """Runs, a profile and a record with long names: the recorded ones."""
    demo = RunSummary.from_json(read_json(RESULTS / "demo.json", "run summary"))
    profile, bench = (Record.read(RESULTS / f"{name}.json") for name in ("profile-aws-cifar", "stages-aws-cifar"))
    return page(Given(tuple(views([(demo, None), (demo, None)])), (bench,), profile))


def dom_of(file: Path, scheme: int, profile: Path) -> str:
    """What Chromium makes of a page; all its processes are ended."""
    words = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={profile}",
        f"--blink-settings=preferredColorScheme={scheme}",
        "--window-size=1400,900",
        "--dump-dom",
        file.as_uri(),
    ]
    child = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        return child.communicate(timeout=DEADLINE_S)[0]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def frame(shown: str, width: int) -> str:
    """A page in a window of that width."""
    return f'<iframe width="{width}" height="800" style="border:0" srcdoc="{html.escape(shown)}"></iframe>'


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_page_fits_a_telephone_and_a_desk_and_follows_the_scheme(full_page, scheme, tmp_path) -> None:
    frames = [frame(full_page, width) for width in WIDTHS]
    frames.append(frame(full_page.replace("</main>", '<p style="width:3000px">wide</p></main>'), WIDTHS[0]))
    file = tmp_path / "frames.html"
    file.write_text(MEASURING % "".join(frames))
    dom = dom_of(file, SCHEMES[scheme], tmp_path / "profile")
    (said,) = re.findall(r'<pre id="found">(.*?)</pre>', dom)
    *measured, too_wide = json.loads(html.unescape(said))
    assert too_wide["wide"] == ["P."] and too_wide["scroll"] > 3000  # what is too wide is found
    for width, found in zip(WIDTHS, measured, strict=True):
        assert width - 20 <= found["width"] <= width  # a scroll bar takes the rest
        assert found["wide"] == [] and found["scroll"] <= found["width"], f"wider than {width} pixels: {found['wide']}"
        assert found["pictures"] == 0
        ink, paper = (sum(map(int, re.findall(r"\d+", found[key])[:3])) for key in ("ink", "paper"))
        assert (ink < paper) == (scheme == "light") and abs(ink - paper) > 400
