"""The hook of the documentation site: pages, links between them, and the public names of the reference."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIGURED = (ROOT / "mkdocs.yml").read_text()


@pytest.fixture(scope="module")
def site():
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "scripts" / "site_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def gathered(site, tmp_path, monkeypatch):
    """A repository of few files, whose README.md and docs/run.md are pages."""
    for path in ("README.md", "docs/run.md", "docs/run.png", "results/a.json", "results/b.json", "tests/toys/toy.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    monkeypatch.setattr(site, "ROOT", tmp_path)
    return site.Gathered({"README.md": "index.md", "docs/run.md": "run.md"})


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("README.md", "index.md"),
        ("docs/README.md", "guides.md"),
        ("docs/plan.md", "plan.md"),
        ("CHANGELOG.md", "changelog.md"),
        ("benchmarks/chaos/README.md", "benchmarks/chaos/index.md"),
    ],
)
def test_each_document_has_a_page(site, path, page):
    assert site.page_of(path) == page


@pytest.mark.parametrize(
    ("path", "link", "on_the_site"),
    [
        ("README.md", "docs/run.md#faults", "run.md#faults"),
        ("README.md", "docs/run.png", "run.png"),
        ("docs/run.md", "../README.md", "index.md"),
        ("docs/run.md", "../results/a.json", "files/results/a.json"),
        ("docs/run.md", "../results/", "files/results/index.md"),
        ("docs/run.md", "../tests/toys/../toys", "files/tests/toys/index.md"),
        ("docs/run.md", "#faults", "#faults"),
        ("docs/run.md", "https://host.example/a.md", "https://host.example/a.md"),
        ("docs/run.md", "../gone.md", "../gone.md"),
    ],
)
def test_links_lead_where_they_lead_in_the_repository(gathered, path, link, on_the_site):
    gathered.write(path, f'[a]({link}) and ![b]({link} "title")')
    page = gathered.pages[path]
    assert gathered.texts[page] == f'[a]({on_the_site}) and ![b]({on_the_site} "title")'


def test_a_folder_without_a_readme_gets_a_list_of_its_files(gathered):
    gathered.write("docs/run.md", "[records](../results)")
    assert gathered.texts["files/results/index.md"].endswith("- [a.json](a.json)\n- [b.json](b.json)")
    assert gathered.copied == {"results/a.json", "results/b.json"}


def test_code_keeps_its_links_and_loses_the_marks_of_the_tests(gathered):
    gathered.write("README.md", "`[a](docs/run.md)`\n```yaml job\n[a](docs/run.md)\n```\n[a](docs/run.md)\n")
    expected = "`[a](docs/run.md)`\n```yaml\n[a](docs/run.md)\n```\n[a](run.md)\n"
    assert gathered.texts["index.md"] == expected


def test_the_reference_has_the_public_names_and_leaves_modules_to_their_rooms(site):
    import tfhet
    from tfhet import submit

    assert {*site.public("tfhet")} == {*tfhet.__all__} - {"stages", "torch"}
    assert {*site.public("tfhet.submit")} == {*submit.__all__}
    pages = site.reference()
    names = re.findall(r"^::: tfhet\.(\w+)$", pages["reference/index.md"], flags=re.MULTILINE)
    assert names == sorted(site.public("tfhet"))
    assert {"reference/plan.md", "reference/stages.md"} <= set(pages)


def test_names_that_share_an_assignment_are_left_out_of_the_reference(site, tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("from b import c\nD = 1\nE: int = 2\nF, G = 3, 4\ndef h(): ...\nclass I: ...\n")
    monkeypatch.setattr(site, "ROOT", tmp_path)
    assert site.alone("a") == {"c", "D", "E", "h", "I"}


def test_an_example_that_ends_a_docstring_becomes_code_and_sentences_stay(site):
    assert site.with_example("Reads.\n\nimport a\n\na.b()") == "Reads.\n\n```python\nimport a\n\na.b()\n```"
    for kept in ("Reads.", "Reads.\n\nA sentence of words.", "Reads.\n\n    import a\n\nThen it is read."):
        assert site.with_example(kept) == kept


def test_the_navigation_has_every_guide():
    pages = {"guides.md" if path.name == "README.md" else path.name for path in (ROOT / "docs").glob("*.md")}
    assert pages - set(re.findall(r"\S+\.md$", CONFIGURED, flags=re.MULTILINE)) == set()


def test_the_lock_holds_the_versions_that_the_list_asks_for():
    environments = ROOT / "tests" / "environments"
    asked = re.findall(r"^(\S+)==(\S+)\.\*", (environments / "docs.in").read_text(), flags=re.MULTILINE)
    locked = (environments / "docs.lock").read_text()
    assert len(asked) == 4
    assert [name for name, version in asked if f"\n{name}=={version}." not in locked] == []
