"""`tfhet report`, `tfhet top` and `tfhet timeline`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tfhet import catalogue
from tfhet.__main__ import main
from tfhet.events import Event
from tfhet.profile import Cost, Profile
from tfhet.record import Figure, HostUsage, Record, RunFolder, RunSummary, Spread, StepTime, TimelineFile, UsageSample
from tfhet.report.cost import prices_in


@pytest.fixture
def runs(tmp_path: Path, monkeypatch) -> list[str]:
    """Two folders of runs, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, step in (("a", 20.0), ("b", 10.0)):
        cluster = {"dnn_group": {"hosts": ["algo-1"], "instance_type": "ml.c5.18xlarge", "role": "dnn"}}
        run = RunSummary(name=name, exit_code=0, cluster=cluster, step_ms=Spread.of([step]), wait_pct=0.0)
        RunFolder(Path(name)).create().write_summary(run)
    return ["a", "b"]


def test_runs_get_pages_and_tables(runs, tmp_path, capsys) -> None:
    assert main(["report", "a"]) == 0
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.html")] == ["a/report.html"]
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "a/report.html" and "20.0 ms" in out
    assert main(["report", *runs, "--json", "all.json"]) == 0
    assert capsys.readouterr().out.split()[:3] == ["a/report.html", "b/report.html", "report.html"]
    assert "1 x ml.c5.18xlarge" in (tmp_path / "report.html").read_text()
    assert [one["name"] for one in json.loads((tmp_path / "all.json").read_text())] == runs


def test_report_ends_with_next_commands(runs, capsys) -> None:
    folder = RunFolder(Path("a"))
    waits = {"step_ms": Spread.of([20.0] * 9), "wait_ms": Spread.of([8.0] * 9), "wait_pct": 40.0}
    folder.write_summary(replace(folder.read_summary(), mode="homogeneous", **waits))
    Path("job.yaml").touch()
    profile = "tfhet profile --script SCRIPT.py --json a/profile.json"
    plan = "tfhet plan --run a --json a/plan.json --write job.yaml"
    submit = "tfhet submit --dry_run job.yaml"
    assert main(["report", "a"]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [f"next: {profile}", f"then: {plan}", f"then: {submit}"]
    assert f"{profile}\n{plan}\n{submit}</pre>" in folder.report_path.read_text()
    Profile("p", (Cost("blur()", (7.0,), examples=8, kind="Stage"),)).record().write(folder.profile_path)
    assert main(["report", "a"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [f"next: {plan}", f"then: {submit}"]
    assert "<code>blur()</code>" in folder.report_path.read_text(), "the profile in the folder is shown"


def test_prices_of_two_markets_are_never_mixed() -> None:
    """One of the two types has a price in both markets, the other in one: that market is used for both."""
    known = catalogue.default()

    def priced(*markets: bool) -> str:
        found = {name: tuple(bool(known.price(name, market=m)) for m in catalogue.MARKETS) for name in known.instances}
        return next(name for name, has in found.items() if has == markets)

    both, one = priced(True, True), priced(False, True)
    run = RunSummary(cluster={kind: {"instance_type": kind} for kind in (both, one, "odd")})
    price_of = prices_in("us-east-1", [run])
    assert {price_of(both).market, price_of(one).market} == {catalogue.EC2}
    alone = prices_in("us-east-1", [RunSummary(cluster={"dnn": {"instance_type": both}})])
    assert alone(both).market == catalogue.TRAINING


def test_record_gets_a_page(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Record("mine", {"mine.x": Figure.of([3.0, 4.0], unit="x")}).write("mine.json")
    assert main(["report", "mine.json", "--html", "out/mine.html"]) == 0
    assert "out/mine.html" in capsys.readouterr().out
    assert "<h1>mine</h1>" in (tmp_path / "out" / "mine.html").read_text()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["report", "a", "--profile", "a/summary.json"], "a/summary.json"),
        (["report", "a", "--plan", "nowhere.json"], "nowhere.json"),
        (["report", "a", "--region", "moon"], "'moon'"),
        (["top", "nowhere"], "nowhere"),
        (["top", "a", "--every_s", "0"], "--every_s: 0"),
        (["timeline", "a"], "--timeline"),
    ],
)
def test_unreadable_material_is_named(runs, words, named, capsys) -> None:
    assert main(words) in (1, 2)
    assert named in capsys.readouterr().err


@pytest.mark.parametrize("name", ["events.jsonl", "timeline.jsonl", "logs/algo-1.log"])
@pytest.mark.parametrize("content", [b"\xff\xfe\x00\n{}\n[1]\nnull\n", b"", None], ids=["garbage", "empty", "folder"])
def test_damaged_parts_of_a_record_are_left_out(runs, name, content) -> None:
    path = Path("a") / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.mkdir() if content is None else path.write_bytes(content)
    assert main(["report", "a"]) == 0


@pytest.fixture
def timed(tmp_path: Path) -> RunFolder:
    """A run of one rank and one data host, with a timeline."""
    folder = RunFolder(tmp_path / "run")
    times = {"dur_s": 0.5, "wait_s": 0.125, "copy_s": 0.0625, "allreduce_s": None}
    steps = [StepTime(host="algo-1", rank=0, step=n + 1, epoch=0, at_s=10.0 + n, **times) for n in range(5)]
    use = UsageSample("algo-2", 11.0, 1.0, "algo-2", {"worker-0": 0.75}, HostUsage(1, 2, "machine", 5, 0, 0))
    for host, name, entries in (("algo-1", "steps-0", steps), ("algo-2", "use-algo-2", [use])):
        path = folder.path / "hosts" / host / "output" / "data" / "tfhet" / "timeline" / f"{name}.jsonl"
        TimelineFile(path).append(entries)
    folder.write_event(Event("host.lost", 12.0, {"host": "algo-2"}))
    return folder


def test_timeline_shows_where_time_went(timed, tmp_path, capsys):
    assert main(["timeline", str(timed.path), "--wide", "--json", str(tmp_path / "shares.json")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["0", "algo-1", "2", "500", "25.0", "25.0", "12.5", "62.5", "–", "0"] in rows
    assert any(row[:3] == ["algo-2", "worker-0", "0.750"] for row in rows)
    content = json.loads((tmp_path / "shares.json").read_text())
    assert content["ranks"][0]["step_ms"] == 500.0 and content["hosts"][0]["of_cpus"] == 2


def test_timeline_writes_trace_and_boards(timed, tmp_path, capsys):
    trace, boards = tmp_path / "trace.json", tmp_path / "boards"
    assert main(["timeline", str(timed.path), "--chrome", str(trace), "--tensorboard", str(boards)]) == 0
    written = [Path(line) for line in capsys.readouterr().out.splitlines()[-3:]]
    assert written[0] == trace and [path.parent.name for path in written[1:]] == ["host-algo-2", "rank-0"]
    events = json.loads(trace.read_text())["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "i"] == ["host.lost"]
    assert sum(event["name"] == "step" for event in events) == 5 and all(path.is_file() for path in written)
