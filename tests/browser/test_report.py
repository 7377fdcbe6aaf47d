"""The report page in a browser: of a run, of two runs side by side, of a plan and of a record."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfhet.__main__ import main

GIVEN = {
    "a run": ["demo.json"],
    "two runs": ["demo.json", "ten-minutes.json"],
    "a plan": ["demo.json", "--profile", "profile-aws-cifar.json", "--plan", "plan"],
    "a record": ["stages-aws-cifar.json"],
}
"""Sources of each page: records in results/, and a plan that is made of one."""
PLAN = ["--cluster", "ml.g5.xlarge", "--accelerator_ms", "1.5..1.7", "--batch_size", "2048"]
READ = "body"
VALUE = r"([\w-]+ )?(–|[\d.]+( ms| %)?)"
"""The value of a curve at a place, after its name where there are several; – where it has none."""


@pytest.fixture(scope="module")
def pages(browser, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The addresses of the pages."""
    folder, results = tmp_path_factory.mktemp("pages"), repository / "results"
    plan = folder / "plan.json"
    assert main(["plan", "--profile", str(results / "profile-aws-cifar.json"), *PLAN, "--json", str(plan)]) == 0
    made = {}
    for name, words in GIVEN.items():
        named = [str(plan) if word == "plan" else str(results / word) if "." in word else word for word in words]
        page = folder / f"{name}.html"
        assert main(["report", *named, "--html", str(page)]) == 0
        made[name] = page.as_uri()
    return made


def test_a_page_fits_its_window_is_complete_and_can_be_read(pages, sight) -> None:
    for address in pages.values():
        sight.open(address).check(READ)


@pytest.mark.parametrize("name", ["a run", "two runs", "a plan"])
def test_no_picture_is_too_small_to_see(pages, sight_of, name) -> None:
    with sight_of("telephone") as sight:
        boxes = [box.bounding_box() for box in sight.open(pages[name]).page.locator("main svg:visible").all()]
        assert len(boxes) > 1 and all(box["width"] >= 40 and box["height"] >= 10 for box in boxes)


@pytest.mark.parametrize(
    ("name", "marks", "told"),
    [
        ("a run", ".spot", rf"(step|epoch) \d+: {VALUE}(, {VALUE})*"),
        ("two runs", ".spot", rf"(step|epoch) \d+: {VALUE}(, {VALUE})*"),
        ("a plan", ".dot", r".+: [\d,]+ examples/s, \$[\d.]+ per million examples"),
    ],
)
def test_the_pointer_on_a_mark_shows_its_value(pages, desk, name, marks, told) -> None:
    found = desk.open(pages[name]).page.locator(marks)
    assert found.count() > 3
    for index in range(0, found.count(), max(1, found.count() // 5)):
        mark = found.nth(index)
        mark.scroll_into_view_if_needed()
        box = mark.bounding_box()
        middle = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
        words = desk.page.evaluate(
            "([x, y]) => document.elementFromPoint(x, y).querySelector(':scope > title')?.textContent", middle
        )
        assert words and re.fullmatch(told, words), words


def test_what_is_wrong_with_a_page_is_found(pages, sight_of) -> None:
    wrong = {
        "scrolls": "document.querySelector('main').insertAdjacentHTML('beforeend', '<p style=\"width: 3000px\">x</p>')",
        "asked elsewhere": "new Image().src = 'http://example.invalid/x.png'",
        "complaints": "console.error('broken')",
        "faint": "document.querySelector('h1').style.color = '#888'",
        "blank": "document.body.style.filter = 'brightness(0) invert()'",
    }
    for what, done in wrong.items():
        with sight_of("desk") as sight:
            sight.open(pages["a run"]).page.evaluate(f"() => {{ {done}; }}")
            sight.page.wait_for_timeout(200)
            with pytest.raises(AssertionError, match=what):
                sight.check(READ)
