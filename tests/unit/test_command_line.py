from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfhet.__main__ import main
from tfhet.record import RunFolder, RunSummary
from tfhet.simulate import presets

pytestmark = pytest.mark.timeout(60)

ONE_HOST = "name: one\ngroups: {only: {hosts: 1}}\n"


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    file = tmp_path / "one.yaml"
    file.write_text(ONE_HOST)
    return file


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text("import sys; print('hello'); sys.exit(int(sys.argv[sys.argv.index('--code') + 1]))")
    return file


@pytest.mark.parametrize(("code", "exit_code"), [(0, 0), (3, 1)])
def test_simulate_exits_0_when_the_job_succeeds_and_1_when_it_fails(
    cluster, script, tmp_path, repository, capsys, code, exit_code
):
    where = ["--run-dir", str(tmp_path / "run"), "--json", str(tmp_path / "summary.json")]
    launcher = [str(repository / "scripts" / "launcher.py"), "--train_script", str(script), "--code", str(code)]
    assert main(["simulate", str(cluster), *where, "--", *launcher]) == exit_code
    out, err = capsys.readouterr()
    assert "[algo-1/0] hello" in out.splitlines()
    assert (f"rank 0: exit code {code}: hello" in err) == bool(code)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["exit_code"] == code
    assert summary["exit_codes"] == {"algo-1/0": code}
    assert RunSummary.from_json(summary) == RunFolder(tmp_path / "run").read_summary()


def test_quiet_shows_the_table_only(cluster, script, tmp_path, repository, capsys):
    command = [str(repository / "scripts" / "launcher.py"), "--train_script", str(script), "--code", "0"]
    assert main(["simulate", str(cluster), "--quiet", "--run-dir", str(tmp_path / "run"), "--", *command]) == 0
    out = capsys.readouterr().out
    assert "hello" not in out
    assert "exit code of the job" in out
    assert "[algo-1/0] hello" in RunFolder(tmp_path / "run").log_path("algo-1").read_text()


def test_simulate_lists_its_presets(capsys):
    assert main(["simulate", "--list"]) == 0
    assert capsys.readouterr().out.split() == presets() == ["demo", "homogeneous", "two-data-two-dnn"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["simulate"], "which cluster? a YAML file, or one of: demo, homogeneous, two-data-two-dnn"),
        (["simulate", "demo"], "what should run? put it after --"),
        (["simulate", "dmo", "--", "x.py"], "unknown cluster 'dmo': neither a file nor a preset; presets: demo"),
        (["simulate", "nowhere.yaml", "--", "x.py"], "nowhere.yaml: cannot be read"),
        (["simulate", "demo", "--", "nowhere.py"], "expected a Python file"),
        (["simulate", "demo", "--", "scripts/launcher.py", "--lease_s", "soon"], "--lease"),
        (["report", "nowhere"], "nowhere"),
    ],
)
def test_wrong_use_exits_2_and_says_what_to_do(words, message, repository, monkeypatch, capsys):
    monkeypatch.chdir(repository)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("tfhet: error: ")
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize("kind", ["a folder with something in it", "a file"])
def test_a_run_never_writes_over_what_is_there(kind, cluster, script, tmp_path, repository, capsys):
    there = tmp_path / "there"
    if kind == "a file":
        there.touch()
    else:
        (there / "precious").mkdir(parents=True)
    assert main(["simulate", str(cluster), "--run-dir", str(there), "--", str(script)]) == 2
    assert f"--run-dir {there} is there already" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["fly"], ["simulate", "--max-run-s", "long"], ["report"]])
def test_words_that_do_not_parse_exit_2_with_the_usage(words, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert "usage: tfhet" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["simulate", "report", "top", "convert"])
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"usage: tfhet {command}" in capsys.readouterr().out
