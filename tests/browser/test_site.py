"""The documentation site in a browser: its pages, its search, and the way from one page to the next."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

PAGES = ("", "stages/", "measuring/", "plan/", "reference/")
"""The first one has a diagram; others have wide tables, pictures, code, or what is made of docstrings."""
READ = "article, nav.md-tabs"


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, and writes no line for each request."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(browser, repository: Path) -> Iterator[str]:
    """The address of the site that scripts/docs built."""
    folder = repository / "build" / "site"
    if not (folder / "index.html").is_file():
        pytest.skip("the site is not built; scripts/test --browser builds it")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_page_fits_its_window_is_complete_and_can_be_read(site, sight) -> None:
    for path in PAGES:
        sight.open(site + path).check(READ)


def test_the_search_finds_a_word_and_leads_to_it(site, desk) -> None:
    page = desk.open(site).page
    page.locator("input.md-search__input").click()
    page.keyboard.type("distribute")
    first = page.locator(".md-search-result__item", has_text="distribute").first
    first.locator("a").first.click()
    page.wait_for_url(lambda address: address.partition("?")[0] != site)
    assert "distribute" in page.locator("article").inner_text()
    assert desk.elsewhere == [] and desk.complaints == []


def test_links_lead_from_page_to_page(site, desk) -> None:
    page = desk.open(site).page
    for link, heading in {
        "nav.md-tabs a:has-text('Costs')": "Where the CPU of an input pipeline goes",
        "nav.md-nav--primary a[href$='/plan/']": "Which cluster",
        "article a[href*=your-own-script]": "Your own training script",
        "header a.md-logo": "tfhet",
    }.items():
        page.locator(link).first.click()
        page.locator("article h1", has_text=heading).wait_for()
    assert desk.elsewhere == [] and desk.complaints == []


def test_the_reader_can_change_the_colours(site, desk) -> None:
    page = desk.open(site + "plan/").page
    page.locator("header label[title=Dark]").click()
    page.locator("body[data-md-color-scheme=slate]").wait_for()
    desk.scheme = "dark"
    page.evaluate("() => document.getAnimations().forEach(one => one.finish())")
    desk.check(READ)
