"""The pages run: their Python, the commands of their shell blocks, and their cluster, job and catalogue files.

A mark after the language of a fenced block: `no-run` Python is only compiled, `yaml job` is no cluster file.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

from tfhet.__main__ import _parser
from tfhet.bench import suite_named
from tfhet.catalogue.catalogue import CatalogueFile
from tfhet.cli import bench
from tfhet.launch import LaunchSettings
from tfhet.simulate import ClusterFile
from tfhet.submit import job_file
from tfhet.trainer.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples" / "README.md"]
READERS = {"": ClusterFile.parse, "catalogue": CatalogueFile.parse, "job": job_file.parse}


def blocks(path: Path, language: str) -> list[tuple[str, str]]:
    """Mark and content of each fenced block in one language."""
    pattern = rf"^```{language}\b *([^\n]*)\n(.*?)^```$"
    return re.findall(pattern, path.read_text(), flags=re.MULTILINE | re.DOTALL)


def pages_with(language: str) -> list[Path]:
    return [path for path in PAGES if blocks(path, language)]


def commands(path: Path, program: str) -> list[list[str]]:
    """Arguments of each call of a program in the shell blocks of a page."""
    lines = [line for _, block in blocks(path, "bash") for line in re.split(r"\n| && ", block.replace("\\\n", ""))]
    calls = [re.sub(r"^(\w+=\S* )*", "", line.strip()) for line in lines]
    return [shlex.split(call[len(program) :], comments=True) for call in calls if call.startswith(f"{program} ")]


def check_trainer(words: list[str]) -> None:
    names = {item.name for item in fields(Settings)}
    assert [word for word in words if word.startswith("--") and word[2:] not in names] == []
    Settings.parse(words)


def test_fences_begin_their_lines():
    """A fence within a line is text: the block around it is neither shown as code nor tested."""
    within = re.compile(r"\S.*```")
    found = [(path.name, line) for path in PAGES for line in path.read_text().splitlines() if within.match(line)]
    assert found == []


@pytest.mark.parametrize("path", pages_with("python"), ids=lambda path: path.name)
def test_python_of_a_page_runs(path, tmp_path, monkeypatch):
    from tfhet.stages import registry

    monkeypatch.setattr(registry, "_table", dict(registry._table))  # a stage of one page is not registered in others
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # where dataclasses look up their annotations
    for number, (mark, content) in enumerate(blocks(path, "python"), start=1):
        code = compile(content, f"{path.name}, Python block {number}", "exec", dont_inherit=True)
        if mark != "no-run":
            exec(code, vars(module))


@pytest.mark.parametrize("path", pages_with("bash"), ids=lambda path: path.name)
def test_commands_of_a_page_parse(path):
    for words in commands(path, "tfhet"):
        if words[0] == "bench":
            bench.parser(suite_named(words[1]), "tfhet bench").parse_args(words[2:])
            continue
        own, launcher = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
        _parser().parse_args(own)
        if launcher and words[0] == "simulate":
            settings, rest = LaunchSettings.parse(launcher[not launcher[0].startswith("--") :])
            if not settings.train_script:
                check_trainer(rest)
    for words in commands(path, "python -m tfhet.trainer"):
        check_trainer(words)


@pytest.mark.parametrize("path", pages_with("yaml"), ids=lambda path: path.name)
def test_yaml_of_a_page_is_read(path):
    for mark, content in blocks(path, "yaml"):
        if mark or re.search("^groups:", content, flags=re.MULTILINE):  # else a part of a file
            READERS[mark](content, path.name)
