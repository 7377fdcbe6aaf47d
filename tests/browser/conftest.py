"""A browser for the tests of what a reader sees: Chromium of this machine, driven by Playwright.

`scripts/test --browser` brings Playwright and builds the site; without these or a Chromium, the tests are skipped.
"""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import pytest
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Route

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
DEADLINE_S = 20
"""Seconds that one action in the browser may take; three times that to start it."""
VIEWS = {
    "desk": (1280, "light"),
    "dark": (1280, "dark"),
    "narrow": (500, "light"),
    "telephone": (390, "light"),
}
"""The width of the window, and the colour scheme that its user has chosen."""
ELSEWHERE = re.compile(r"^(https?|wss?)://(?!127\.0\.0\.1[:/])")
DIAGRAMS = "https://unpkg.com/mermaid@"
"""Beginning of the only addresses elsewhere that the site fetches, on a page with a diagram: see docs/developing.md."""

OPENED = """() => {
  document.querySelectorAll("details").forEach(one => one.open = true);
  document.getAnimations().forEach(one => one.finish());  // colours fade from one scheme to the next
}"""
WIDTHS = """() => {
  const root = document.documentElement, width = root.clientWidth;
  const scrolls = one => {
    for (let each = one; each && each !== document.body; each = each.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(each).overflowX)) return true;
    return false;
  };
  const wide = [...document.querySelectorAll("main *")].filter(one =>
    one.checkVisibility() && one.getBoundingClientRect().right > width + 1 &&
    !one.closest("svg, .quiet") && !scrolls(one));
  return {width, scroll: root.scrollWidth, wide: wide.map(one => one.tagName + "." + one.className).slice(0, 5)};
}"""
FAINT = """selector => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true}), known = new Map();
  const paint = (colour, alpha = 1) => {
    canvas.globalAlpha = alpha; canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = rgb => {
    const [r, g, b] = rgb.map(x => x / 255).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (grounds, ink, alpha) => {
    const key = [...grounds, ink, alpha].join();
    if (!known.has(key)) {
      paint("white");
      const [low, high] = [light(grounds.map(one => paint(one)).at(-1) ?? [255, 255, 255]), light(paint(ink, alpha))]
        .sort((a, b) => a - b);
      known.set(key, (high + 0.05) / (low + 0.05));
    }
    return known.get(key);
  };
  const layers = new Map([[null, {grounds: [], alpha: 1}]]);
  const below = one => {
    if (!layers.has(one)) {
      const {grounds, alpha} = below(one.parentElement), style = getComputedStyle(one), own = style.backgroundColor;
      const added = own === "rgba(0, 0, 0, 0)" ? [] : [own];
      layers.set(one, {grounds: [...grounds, ...added], alpha: alpha * Number(style.opacity)});
    }
    return layers.get(one);
  };
  let texts = 0;
  const faint = [];
  for (const top of document.querySelectorAll(selector)) {
    const walker = document.createTreeWalker(top, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const one = walker.currentNode.parentElement, words = walker.currentNode.data.trim();
      const shown = one.checkVisibility({visibilityProperty: true, opacityProperty: true});
      if (!words || !shown || one.closest("svg, script, style, .headerlink, .quiet")) continue;
      const {grounds, alpha} = below(one), ink = getComputedStyle(one).color, found = contrast(grounds, ink, alpha);
      texts += 1;
      if (found < 4.5) faint.push(`${found.toFixed(2)} ${ink} on ${grounds.at(-1)}: ${words.slice(0, 40)}`);
    }
  }
  return {texts, faint};
}"""


class Sight:
    """A window with one page, and what it did that no page may do.

    view: a name in `VIEWS`.
    """

    def __init__(self, page: Page, view: str) -> None:
        self.page = page
        self.width, self.scheme = VIEWS[view]
        self.complaints: list[str] = []
        """Errors on the console."""
        self.elsewhere: list[str] = []
        """Addresses of other hosts that were asked for. None was: they are refused, or answered here."""
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.context.route(ELSEWHERE, self._asked)

    def open(self, address: str) -> Sight:
        """Goes to a page, and opens all that is folded on it."""
        self.page.goto(address)
        self.page.evaluate(OPENED)
        return self

    def check(self, texts: str) -> None:
        """Checks a page: it is not wider than the window, is complete without other hosts, says nothing on
        the console, can be read, is light or dark as its user wants, and shows something.

        texts: a selector of what is to be read.
        """
        widths = self.page.evaluate(WIDTHS)
        assert self.width - 20 <= widths["width"] <= self.width  # a scroll bar takes the rest
        assert widths["scroll"] <= widths["width"] and widths["wide"] == [], f"{self.page.url} scrolls: {widths}"
        assert not self.elsewhere, f"{self.page.url} asked elsewhere: {self.elsewhere}"
        assert not self.complaints, f"complaints of {self.page.url}: {self.complaints}"
        found = self.page.evaluate(FAINT, texts)
        assert found["texts"] > 10
        assert not found["faint"], f"faint on {self.page.url}: {found['faint'][:5]}"
        picture = Image.open(io.BytesIO(self.page.screenshot())).convert("L")
        shades = picture.histogram()
        ground = max(range(256), key=shades.__getitem__)
        assert (ground < 128) == (self.scheme == "dark")
        assert 0.2 < shades[ground] / sum(shades) < 0.995 and sum(map(bool, shades)) > 20, "the screenshot is blank"

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"{message.text} ({message.location.get('url')})")

    def _asked(self, route: Route) -> None:
        address = route.request.url
        if address.startswith(DIAGRAMS):
            drawn = "window.mermaid = {initialize() {}, render: async () => ({svg: '<svg></svg>'})}"
            route.fulfill(content_type="text/javascript", body=drawn)
        else:
            self.elsewhere.append(address)
            route.abort()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Chromium of the module, with a home of its own; it ends with the module, and its folders with it."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright; scripts/test --browser brings it")
    home = {"HOME": str(tmp_path_factory.mktemp("home"))}
    away = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in away} | home
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, env=environment, timeout=3000 * DEADLINE_S)
        yield chromium
        chromium.close()


@contextmanager
def _sight(browser: Browser, view: str) -> Iterator[Sight]:
    width, scheme = VIEWS[view]
    window = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce")
    window.set_default_timeout(1000 * DEADLINE_S)
    try:
        yield Sight(window.new_page(), view)
    finally:
        window.close()


@pytest.fixture
def sight_of(browser: Browser) -> Callable[[str], AbstractContextManager[Sight]]:
    """A window in a view."""
    return lambda view: _sight(browser, view)


@pytest.fixture(params=VIEWS)
def sight(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Sight]:
    """A window in each of the views."""
    with _sight(browser, request.param) as made:
        yield made


@pytest.fixture
def desk(browser: Browser) -> Iterator[Sight]:
    """A wide window."""
    with _sight(browser, "desk") as made:
        yield made
