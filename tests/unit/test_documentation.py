"""The documents are true: their Python runs, their commands parse, their figures are those of the records.

The first line of a fenced block may carry marks after the language: `no-run` (the test only compiles it, because it
needs what is missing here), `script=NAME` (a separate program), `catalogue` and `job` (YAML of instance types and
prices, or of a job, instead of a cluster).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.__main__ import suites as proofs
from tfhet.__main__ import _parser
from tfhet.bench import command
from tfhet.bench.suite import Suite, suite_named
from tfhet.launch import LaunchSettings
from tfhet.simulate import ClusterFile, presets

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "tfhet" / "README.md"]
DOCUMENTS += [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """One fenced block of a document."""

    language: str
    marks: str
    content: str


def blocks(path: Path, language: str) -> list[Block]:
    found = re.findall(r"^```(\w+) *([^\n]*)\n(.*?)^```$", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [block for block in (Block(*parts) for parts in found) if block.language == language]


def with_blocks(language: str) -> list[Path]:
    return [path for path in DOCUMENTS if blocks(path, language)]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def rows(path: Path) -> list[list[str]]:
    """The rows of all tables of a document, cell by cell."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("path", with_blocks("python"), ids=name_of)
def test_the_python_of_a_document_runs(path, tmp_path, monkeypatch):
    from tfhet.stages import registry

    monkeypatch.setattr(registry, "_table", dict(registry._table))  # a stage of a document stays there
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    module = ModuleType("document")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # a class of a document is looked up in its module
    for number, block in enumerate(blocks(path, "python"), start=1):
        code = compile(block.content, f"{name_of(path)}, Python block {number}", "exec", dont_inherit=True)
        if not block.marks:
            exec(code, vars(module))


def commands(path: Path) -> list[list[str]]:
    """The command lines of a document's shell blocks, without comments and variables before them."""
    lines = [line for block in blocks(path, "bash") for line in block.content.replace("\\\n", "").splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    bare = [[word for i, word in enumerate(line) if i or not re.fullmatch(r"\w+=.*", word)] for line in words]
    return [line for line in bare if line]


def proof(name: str) -> Suite:
    """The suite that `python -m benchmarks.NAME` runs."""
    try:
        return importlib.import_module(f"benchmarks.{name}.suite").SUITE
    except ModuleNotFoundError:  # the suite is still one of `tfhet bench`
        return suite_named(name)


@pytest.mark.parametrize("path", with_blocks("bash"), ids=name_of)
def test_the_commands_of_a_document_are_understood(path):
    from tfhet.trainer.settings import Settings

    trainer = {item.name for item in fields(Settings)}

    def check_trainer(words: list[str]) -> None:
        Settings.parse(words)
        unknown = [word for word in words if word.startswith("--") and word[2:] not in trainer]
        assert not unknown, f"{name_of(path)}: the trainer does not know {unknown}"

    for words in commands(path):
        head, rest = words[0], words[1:]
        if head.startswith(("scripts/", ".ci/")):
            assert (ROOT / head).is_file(), f"{name_of(path)} names {head}"
        elif head == "tfhet" and rest[0] == "bench":
            command.parser(suite_named(rest[1]), "tfhet bench").parse_args(rest[2:])
        elif words[1:2] == ["-m"] and words[2].startswith("benchmarks."):
            command.parser(proofs()[words[2].partition(".")[2]], "python").parse_args(words[3:])
        elif head == "tfhet":
            own, behind = (rest[: rest.index("--")], rest[rest.index("--") + 1 :]) if "--" in rest else (rest, [])
            if behind and behind[0].startswith("--"):
                behind = ["scripts/launcher.py", *behind]
            made = getattr(_parser().parse_args(own), "source_dir", None)  # has our launcher
            if behind and rest[0] == "simulate":
                place = ROOT / "scripts" if made else ROOT
                assert (place / behind[0]).is_file(), f"{name_of(path)} runs {behind[0]}"
                settings, left = LaunchSettings.parse(behind[1:])
                if not settings.train_script:
                    check_trainer(left)
        elif words[:3] == ["python", "-m", "tfhet.trainer"]:
            check_trainer(words[3:])


@pytest.mark.parametrize("path", with_blocks("yaml"), ids=name_of)
def test_the_yaml_of_a_document_is_read_as_a_cluster_file_or_as_what_its_mark_says(path):
    from tfhet.catalogue.catalogue_file import CatalogueFile
    from tfhet.submit import job_file

    read = {"": ClusterFile.parse, "catalogue": CatalogueFile.parse, "job": job_file.parse}
    for block in blocks(path, "yaml"):
        read[block.marks](block.content, name_of(path))


def test_the_catalogue_is_what_its_script_writes_and_shows_every_stage():
    spec = importlib.util.spec_from_file_location("catalogue", ROOT / "scripts" / "catalogue.py")
    catalogue = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(catalogue)
    assert catalogue.PAGE.read_text() == catalogue.page(), "run scripts/catalogue.py"
    pictures = set(re.findall(r"images/stages/(\w+\.jpg)", catalogue.PAGE.read_text()))
    assert pictures == {path.name for path in catalogue.PICTURES.iterdir()}


def test_the_guide_tells_the_fields_of_a_pipeline():
    from tfhet.placement import Pipeline

    first = {row[0].strip("`") for row in rows(ROOT / "docs" / "pipelines-and-stages.md")}
    assert {item.name for item in fields(Pipeline)} <= first


def test_the_guide_tells_the_presets():
    told = {name for row in rows(ROOT / "docs" / "run-on-your-machine.md") for name in re.findall(r"`(\S+?)`", row[0])}
    assert set(presets()) <= told


def test_the_documents_hold_what_the_records_and_the_code_say():
    script = [sys.executable, str(ROOT / "scripts" / "figures.py"), "--check"]
    result = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert result.returncode == 0, f"{result.stdout[-4000:]}\n{result.stderr[-2000:]}"


def test_each_picture_is_drawn_by_the_command_of_a_record():
    commands = [" ".join(json.loads(path.read_text()).get("command", ())) for path in (ROOT / "results").glob("*.json")]
    pictures = [f"--plot docs/images/{path.name}" for path in (ROOT / "docs" / "images").glob("*.svg")]
    assert pictures and [plot for plot in pictures if not any(plot in command for command in commands)] == []


def test_the_metric_definitions_find_the_numbers_of_the_metric_lines():
    from tfhet.record import StepTime
    from tfhet.steps.meter import Meter

    guide = ROOT / "docs" / "training.md"
    names: dict[str, list[dict[str, str]]] = {}
    for block in blocks(guide, "python"):
        exec(block.content, names)
    meter = Meter()
    meter.add(StepTime(dur_s=0.1, wait_s=0.025, examples=128))
    (end,) = re.findall(r"^\[tfhet\] end of .*$", guide.read_text(), flags=re.MULTILINE)
    lines = [f"[algo-2/0] {meter.line(10, 0, 1.5)}", end]
    found = {
        metric["Name"]: [hit for line in lines for hit in re.findall(metric["Regex"], line)]
        for metric in names["metric_definitions"]
    }
    assert found == {
        "step": ["10"],
        "epoch": ["0"],
        "step_ms": ["100.0"],
        "examples_per_s": ["1280"],
        "wait_pct": ["25.0"],
        "loss": ["1.5000"],
        "accuracy": ["0.4600"],
        "val_loss": ["1.3551"],
        "val_accuracy": ["0.7833"],
        "examples_missing": ["0"],
    }


def test_the_files_of_the_house_are_there():
    house = (ROOT / "tfhet" / "README.md").read_text()
    there = {path.name for folder in ("tfhet", "scripts") for path in (ROOT / folder).rglob("*.py")}
    assert set(re.findall(r"\b\w+\.py\b", house)) - there == set()
    rooms = {path.parent.name for path in (ROOT / "tfhet").glob("*/__init__.py")}
    assert rooms == set(re.findall(r"^  (\w+)/", house, flags=re.MULTILINE))


def test_the_records_name_no_place_of_the_machine_that_made_them():
    for path in (ROOT / "results").glob("*.json"):
        assert not re.search(r"/(root|home|work|tmp|Users)/", path.read_text()), path.name
