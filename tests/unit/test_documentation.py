"""What the documents say is so: their Python runs, their commands parse, their tables and figures are the code's.

A fenced block's first line may carry marks behind the language: `no-run` (compiled only: it needs what is not here),
`script=NAME` (a program of its own), `catalogue` and `job` (YAML of instance types and prices, or of a job, not of a
cluster).
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType

import pytest

from tfhet.__main__ import _parser
from tfhet.bench import command, suites
from tfhet.launch import LaunchSettings
from tfhet.record import Record, RunSummary, document
from tfhet.record.run import KIND
from tfhet.report import figure_table, numbers, run_table, text
from tfhet.simulate import ClusterFile, presets

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "tfhet" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


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


@pytest.mark.horovod
def test_the_script_of_a_document_runs_alone(tmp_path, monkeypatch):
    (script,) = [block for block in blocks(ROOT / "docs" / "your-own-script.md", "python") if "script=" in block.marks]
    (tmp_path / "train.py").write_text(script.content.replace("epochs=3", "epochs=1"))
    monkeypatch.setenv("HOME", str(tmp_path))
    result = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert (tmp_path / "model" / "1" / "saved_model.pb").is_file()


def commands(path: Path) -> list[list[str]]:
    """The command lines of a document's shell blocks, without comments and variables before them."""
    lines = [line for block in blocks(path, "bash") for line in block.content.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    bare = [[word for i, word in enumerate(line) if i or not re.fullmatch(r"\w+=.*", word)] for line in words]
    return [line for line in bare if line]


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
            command._parser(suites.get(rest[1])).parse_args(rest[2:])
        elif head == "tfhet":
            own, behind = (rest[: rest.index("--")], rest[rest.index("--") + 1 :]) if "--" in rest else (rest, [])
            made = getattr(_parser().parse_args(own), "source_dir", None)  # has our launcher
            if behind:
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


def assert_told(settings: type, path: Path) -> None:
    """Every argument stands in a table of the document, with its default."""
    told = {}
    for first, *_, default in (row for row in rows(path) if row[0].startswith("`--")):
        names, defaults = re.findall(r"`--(\w+)`", first), default.replace("`", "").split(", ")
        told.update(zip(names, defaults * len(names) if len(defaults) == 1 else defaults, strict=True))
    assert told == {item.name: str(item.default) for item in fields(settings)}


def test_the_readme_tells_the_arguments_of_the_launcher():
    assert_told(LaunchSettings, ROOT / "README.md")


def test_the_guide_tells_the_arguments_of_the_trainer():
    from tfhet.trainer.settings import Settings

    assert_told(Settings, ROOT / "docs" / "training.md")


def test_the_catalogue_is_what_its_script_writes_and_shows_every_stage():
    spec = importlib.util.spec_from_file_location("catalogue", ROOT / "scripts" / "catalogue.py")
    catalogue = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(catalogue)
    assert catalogue.PAGE.read_text() == catalogue.page(), "run scripts/catalogue.py"
    pictures = set(re.findall(r"images/stages/(\w+\.jpg)", catalogue.PAGE.read_text()))
    assert pictures == {path.name for path in catalogue.PICTURES.iterdir()}


def test_the_guide_tells_the_chains_and_the_fields_of_a_pipeline():
    from tfhet.placement import Pipeline
    from tfhet.stages import CHAINS

    first = {row[0].strip("`") for row in rows(ROOT / "docs" / "pipelines-and-stages.md")}
    assert set(CHAINS) | {item.name for item in fields(Pipeline)} <= first


def test_the_guide_tells_presets_and_the_fields_of_a_summary():
    table = rows(ROOT / "docs" / "run-on-your-machine.md")
    told = {name for row in table for name in re.findall(r"`(\S+?)`", row[0])}
    assert set(presets()) | {item.name for item in fields(RunSummary)} <= told


def test_the_metric_definitions_find_the_numbers_of_the_metric_lines():
    from tfhet.trainer.meter import Meter, StepTime

    guide = ROOT / "docs" / "training.md"
    names: dict[str, list[dict[str, str]]] = {}
    for block in blocks(guide, "python"):
        exec(block.content, names)
    meter = Meter()
    meter.add(StepTime(step_s=0.1, wait_s=0.025, examples=128))
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
    there = {path.name for path in (ROOT / "tfhet").rglob("*.py")}
    assert set(re.findall(r"\b\w+\.py\b", house)) - there == set()
    rooms = {path.parent.name for path in (ROOT / "tfhet").glob("*/__init__.py")}
    assert rooms == set(re.findall(r"^  (\w+)/", house, flags=re.MULTILINE))


def quoted(table: str) -> list[str]:
    return [line.rstrip() for line in table.splitlines() if line.strip()]


def test_the_readme_quotes_the_run_that_is_recorded():
    told = quoted((ROOT / "README.md").read_text())
    summary = RunSummary.from_json(document.read(ROOT / "results" / "demo.json", KIND))
    lines = quoted(text(run_table(summary)))
    missing = [line for line in lines if line not in told]
    assert not missing, "README.md does not show these lines of results/demo.json:\n" + "\n".join(missing)


def test_the_readme_quotes_the_benchmark_that_is_recorded():
    told = quoted((ROOT / "README.md").read_text())
    record = Record.read(ROOT / "results" / "stages-aws-cifar.json")
    lines = quoted(text(figure_table(record.figures)))
    missing = [line for line in lines if line not in told]
    assert not missing, "README.md does not show these lines of the record:\n" + "\n".join(missing)
    assert all(figure.samples for figure in record.figures.values())


@pytest.mark.parametrize(
    ("guide", "name"),
    [*(("measuring", name) for name in ("beside", "launch", "limits", "plan", "scaling")), ("timeline", "timeline")],
)
def test_the_guides_quote_the_benchmarks_that_are_recorded(guide, name):
    told = quoted((ROOT / "docs" / f"{guide}.md").read_text())
    record = Record.read(ROOT / "results" / f"{name}.json")
    missing = [line for line in quoted(text(figure_table(record.figures))) if line not in told]
    assert not missing, f"docs/{guide}.md does not show these lines of results/{name}.json:\n" + "\n".join(missing)
    assert all(figure.samples for figure in record.figures.values())


def test_the_guide_of_measuring_says_what_moving_data_costs_as_the_record_does():
    figures = Record.read(ROOT / "results" / "transport.json").figures
    names = {"gRPC": "raw_grpc.{}", "Ray Data": "ray.{}", "a TCP connection": "raw_socket.{}"}
    for dtype in ("uint8", "float32"):
        names |= {dtype: f"{dtype}.{{}}.none", f"{dtype}, Snappy": f"{dtype}.{{}}.snappy"}
        names |= {
            f"{dtype}, {words}": f"{dtype}.{{}}.none.{words.replace(' ', '_')}" for words in ("small pages", "tcmalloc")
        }
    told = {first: cells for first, *cells in rows(ROOT / "docs" / "measuring.md")}
    for words, name in names.items():
        sizes = zip(("150kB", "1600kB", "19MB", "77MB"), told[words], strict=True)
        assert sum(cell != "" for cell in told[words]) >= 2
        for size, cell in ((size, cell) for size, cell in sizes if cell):
            sides = [figures[f"transport.{name.format(size)}.{side}_cpu_s_per_gb"] for side in ("client", "worker")]
            assert cell == " + ".join(numbers.number(figure.value) for figure in sides), (words, size)
    for dtype, half in itertools.product(("uint8", "float32"), ("small_pages", "tcmalloc")):
        told = figures[f"transport.vs_plain.{dtype}.77MB.none.{half}"].value
        assert 1.7 < (told if half == "small_pages" else 1 / told) < 2.3  # "twice as much", "half of that again"


def test_the_guide_of_measuring_says_which_instance_is_best_for_what_as_the_record_does():
    details = Record.read(ROOT / "results" / "instances.json").details
    told = [row for row in rows(ROOT / "docs" / "measuring.md") if row[1:2] and row[1].startswith("ml.")]
    assert told == [
        [
            f"`{row['workload']}`",
            row["instance"],
            *("" if row[name] is None else f"{numbers.number(row[name])} x" for name in ("x time", "x cost")),
            row["why"],
        ]
        for row in details["rows"]
    ]
    assert len({best["cheapest"] for best in details["best"].values()}) == 3  # "another one each time"


def test_the_readme_opens_with_the_comparison_that_is_recorded():
    told = {first: cells for first, *cells in rows(ROOT / "README.md")}
    record = Record.read(ROOT / "results" / "cluster-aws-post.json")
    figures = record.figures
    keys = {variant["words"]: variant["key"] for variant in record.details["variants"].values()}
    shown = [row for row in record.details["rows"] if row["run"] in told]
    assert len(shown) == 4
    for row in shown:
        step = figures[f"cluster.aws-post.{keys[row['run']]}.step_ms"]
        low, high = numbers.number(step.low), numbers.number(step.high)
        assert told[row["run"]] == [
            f"{numbers.number(step.value)} ms",
            f"{low} to {high} ms",
            str(step.n),
            f"{row['wait %']:.1f} %",
            f"{numbers.number(row['USD/million examples'])} USD",
        ]
    assert f"{record.details['case']['busy']:g} of the step" in (ROOT / "README.md").read_text()


def test_the_readme_compares_two_launchers_as_the_record_does():
    figures = Record.read(ROOT / "results" / "launch.json").figures
    told = {first: cells for first, *cells in rows(ROOT / "README.md")}
    for words, name in (
        ("a step", "step_ms"),
        ("from the start to the first batch", "first_batch_s"),
        ("from the last step to the end of the last launcher", "teardown_s"),
    ):
        both = (figures[f"launch.example.{name}"], figures[f"launch.{name}"])
        assert told[words] == [f"{numbers.number(figure.value)} {figure.unit}" for figure in both]


def test_the_readme_compares_libraries_as_the_records_do():
    peers = ("", "tf-image.", "opencv.", "albumentations.", "grain.", "dali.", "keras.")
    found = 0
    for chain, *cells in rows(ROOT / "README.md"):
        path = ROOT / "results" / f"stages-{chain.strip('`')}.json"
        if not path.is_file():
            continue
        figures = Record.read(path).figures
        for peer, cell in zip(peers, cells, strict=True):
            figure = figures.get(f"stages.{chain.strip('`')}.{peer}linear.uint8.us_per_image")
            assert cell == (f"{figure.value:.0f}" if figure else ""), (chain, peer)
            found += figure is not None
        if chain == "`imagenet-train`":
            assert figures["stages.imagenet-train.over_crop_decode"].value < 1.0
    assert found >= 20


def test_the_records_name_no_place_of_the_machine_that_made_them():
    for path in (ROOT / "results").glob("*.json"):
        assert not re.search(r"/(root|home|work|tmp|Users)/", path.read_text()), path.name


def test_the_guide_of_failures_says_what_the_table_of_faults_holds():
    record = Record.read(ROOT / "results" / "faults.json")
    told = " ".join((ROOT / "docs" / "failures-and-exit-codes.md").read_text().split())
    figures = {name: figure.value for name, figure in record.figures.items()}
    assert figures["faults.broken"] == figures["faults.left_behind"] == 0
    assert f"{figures['faults.cases']:.0f} cases" in told
    assert f"over after {figures['faults.worst_exit_s']:.1f} s" in told
    rows = record.details["rows"]
    assert len(rows) == figures["faults.cases"]
    went_on = [row for row in rows if row["kind"] == "goes on"]
    assert {(row["missing"], row["repeated"]) for row in went_on} == {(0, 0)}
    long = {n: f.value for n, f in Record.read(ROOT / "results" / "faults-endurance.json").figures.items()}
    assert f"leaves {long['faults.kill_every_5s.throughput_ratio']:.0%} of".replace("%", " %") in told
    assert f"asks for {long['faults.kill_every_5s.demand']:.0%} of".replace("%", " %") in told
    assert long["faults.kill_every_5s.missing"] == 0
    share = Record.read(ROOT / "results" / "faults-overhead.json").figures["faults.supervision_overhead_pct"].value
    assert f"take {share:.1f} % of a job's CPU" in told


def test_the_guide_of_failures_says_what_the_soak_of_drawn_schedules_holds():
    record = Record.read(ROOT / "results" / "chaos.json")
    told = " ".join((ROOT / "docs" / "failures-and-exit-codes.md").read_text().split())
    figures = {name: figure.value for name, figure in record.figures.items()}
    assert figures["chaos.hangs"] == figures["chaos.leaks"] == figures["chaos.uncounted_examples"] == 0
    assert f"Of {figures['chaos.schedules']:.0f} drawn schedules" in told
    schedules = record.details["schedules"]
    assert f"{sum(not one['breaches'] for one in schedules)} kept every promise" in told
    kinds = [one["kind"] for one in schedules if not one["breaches"]]
    counts = [kinds.count(kind) for kind in ("goes on", "failure", "stop", "never joined")]
    words = (
        "{} jobs went on as if nothing was, {} failed with their cause, {} were stopped and taken up again, {} never"
    )
    assert words.format(*counts) in told
