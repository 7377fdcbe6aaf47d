"""`tfhet report` and `tfhet top` as commands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tfhet import catalogue
from tfhet.__main__ import main
from tfhet.profile import Cost, Profile
from tfhet.record import Figure, Record, RunFolder, RunSummary, Spread
from tfhet.report.cost import prices_in


@pytest.fixture
def runs(tmp_path: Path, monkeypatch) -> list[str]:
    """Two folders of runs, in the directory where the command runs."""
    monkeypatch.chdir(tmp_path)
    for name, step in (("a", 20.0), ("b", 10.0)):
        cluster = {"dnn_group": {"hosts": ["algo-1"], "instance_type": "ml.c5.18xlarge", "role": "dnn"}}
        RunFolder(Path(name)).create().write_summary(
            RunSummary(name=name, exit_code=0, cluster=cluster, step_ms=Spread.of([step]), wait_pct=0.0)
        )
    return ["a", "b"]


def test_one_run_gets_its_page_in_its_folder_and_nothing_else(runs, tmp_path, capsys) -> None:
    assert main(["report", "a"]) == 0
    assert sorted(path.name for path in tmp_path.rglob("*.html")) == ["report.html"]
    told = capsys.readouterr().out
    assert told.splitlines()[0] == "a/report.html" and "20.0 ms" in told


def test_several_runs_get_theirs_and_a_page_of_all(runs, tmp_path, capsys) -> None:
    assert main(["report", *runs, "--json", "all.json"]) == 0
    assert capsys.readouterr().out.split()[:3] == ["a/report.html", "b/report.html", "report.html"]
    page = (tmp_path / "report.html").read_text()
    assert "2 runs side by side" in page and "1 x ml.c5.18xlarge" in page
    assert [one["name"] for one in json.loads((tmp_path / "all.json").read_text())] == runs


def test_a_run_ends_with_what_to_type_next_and_shows_what_lies_beside_it(runs, capsys) -> None:
    folder = RunFolder(Path("a"))
    waits = {"step_ms": Spread.of([20.0] * 9), "wait_ms": Spread.of([8.0] * 9), "wait_pct": 40.0}
    folder.write_summary(replace(folder.read_summary(), mode="homogeneous", **waits))
    profile, plan = "tfhet profile --script SCRIPT.py --json a/profile.json", "tfhet plan --run a --json a/plan.json"
    submit = "tfhet submit --dry_run job.yaml"
    assert main(["report", "a"]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [f"next: {profile}", f"then: {plan}", f"then: {submit}"]
    assert f"{profile}\n{plan}\n{submit}</pre>\n</section>\n\n<footer>" in folder.report_path.read_text()
    Profile("p", (Cost("blur()", (7.0,), examples=8, kind="Stage"),)).record().write(folder.profile_path)
    assert main(["report", "a"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [f"next: {plan}", f"then: {submit}"]
    assert "What the stages cost" in folder.report_path.read_text()


def test_prices_of_two_markets_are_never_mixed(tmp_path) -> None:
    """One of the two types has a price in both markets, the other in one: that one is taken for both."""
    known = catalogue.default()
    both, one = (
        next(
            name for name in known.instances if [bool(known.price(name, market=m)) for m in catalogue.MARKETS] == wanted
        )
        for wanted in ([True, True], [False, True])
    )
    run = RunSummary(cluster={kind: {"instance_type": kind} for kind in (both, one, "odd")})
    price_of = prices_in("us-east-1", [run])
    assert {price_of(both).market, price_of(one).market} == {catalogue.EC2}
    alone = prices_in("us-east-1", [RunSummary(cluster={"dnn": {"instance_type": both}})])
    assert alone(both).market == catalogue.TRAINING


def test_a_record_gets_a_page_and_a_table(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Record("mine", {"mine.x": Figure.of([3.0, 4.0], unit="x")}).write("mine.json")
    assert main(["report", "mine.json", "--html", "out/mine.html"]) == 0
    assert "out/mine.html" in capsys.readouterr().out
    assert "<h1>mine</h1>" in (tmp_path / "out" / "mine.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "a", "--profile", "a/summary.json"], "benchmark record a/summary.json"),
        (["report", "a", "--plan", "nowhere.json"], "no plan at nowhere.json"),
        (["report", "a", "--region", "moon"], "unknown region 'moon'; known: "),
        (["top", "nowhere"], "no run at nowhere"),
        (["top", "a", "--every_s", "0"], "--every_s: 0: give a number above 0"),
        (["top", "a", "--every_s", "nan"], "--every_s: nan: give a number above 0"),
    ],
)
def test_what_cannot_be_read_is_told(runs, words, message, capsys) -> None:
    assert main(words) in (1, 2)
    assert message in capsys.readouterr().err


def test_top_of_a_run_that_is_over_shows_it_and_ends(runs, capsys) -> None:
    assert main(["top", "a"]) == 0
    assert capsys.readouterr().out == "[top] succeeded\n"
