"""`tfhet` and its commands: help, wrong use, spellings, JSON for a pipe, and `tfhet simulate`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tfhet
from tfhet.__main__ import COMMANDS, _parser, main
from tfhet.record import RunFolder, RunSummary
from tfhet.simulate import presets

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    file = tmp_path / "one.yaml"
    file.write_text("name: one\ngroups: {only: {hosts: 1}}\n")
    return file


@pytest.mark.parametrize(("code", "exit_code", "quiet"), [(0, 0, ["--quiet"]), (3, 1, [])])
def test_simulate_ends_with_the_jobs_result(cluster, tmp_path, repository, capsys, code, exit_code, quiet):
    script, run = tmp_path / "train.py", tmp_path / "run"
    script.write_text("import sys; print('hello'); sys.exit(int(sys.argv[sys.argv.index('--code') + 1]))")
    where = ["--run-dir", str(run), "--json", str(tmp_path / "summary.json"), *quiet]
    launcher = [str(repository / "scripts" / "launcher.py"), "--train_script", str(script), "--code", str(code)]
    assert main(["simulate", str(cluster), *where, "--", *launcher]) == exit_code
    out, err = capsys.readouterr()
    assert ("[algo-1/0] hello" in out.splitlines()) == (not quiet) and ("hello" in err) == bool(code)
    assert "[algo-1/0] hello" in RunFolder(run).log_path("algo-1").read_text()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["exit_code"], summary["exit_codes"]) == (code, {"algo-1/0": code})
    assert RunSummary.from_json(summary) == RunFolder(run).read_summary()


def test_simulate_lists_its_presets(capsys):
    assert main(["simulate", "--list"]) == 0
    assert capsys.readouterr().out.split() == presets() == ["demo", "homogeneous", "two-data-two-dnn"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["simulate"], "demo, homogeneous, two-data-two-dnn"),
        (["simulate", "demo"], "--"),
        (["simulate", "dmo", "--", "x.py"], "'dmo'"),
        (["simulate", "nowhere.yaml", "--", "x.py"], "nowhere.yaml"),
        (["simulate", "demo", "--", "nowhere.py"], "Python file"),
        (["simulate", "demo", "--", "scripts/launcher.py", "--lease_s", "soon"], "--lease"),
        (["report", "nowhere"], "nowhere"),
        (["simulate", "demo", "--max_run_s", "0"], "--max_run_s: 0:"),
        (["profile", "synthetic", "--repeats", "0"], "--repeats: 0:"),
        (["profile", "synthetic", "--batch_size", "1.5"], "--batch_size: 1.5:"),
        (["plan", "--trainer_cpu_ms", "-1"], "--trainer_cpu_ms: -1:"),
        (["convert", "a", "b", "--size", "32", "0"], "--size: 0:"),
        (["bench", "stages", "--warmup", "-1"], "--warmup: -1:"),
        (["follow", "job", "--deadline_s", "inf"], "--deadline_s: inf:"),
        (["follow", "job", "--every_s", "nan"], "--every_s: nan:"),
        (["doctor", "--json", "."], "--json: ."),
        ([], "usage: tfhet"),
        (["fly"], "usage: tfhet"),
        (["convert"], "usage: tfhet"),
    ],
)
def test_wrong_use_ends_with_2(words, named, repository, monkeypatch, capsys):
    monkeypatch.chdir(repository)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert named in error and "Traceback" not in error


@pytest.mark.parametrize("is_file", [True, False])
def test_run_overwrites_nothing(is_file, cluster, tmp_path, capsys):
    there = tmp_path / "there"
    there.touch() if is_file else (there / "precious").mkdir(parents=True)
    (tmp_path / "x.py").touch()
    assert main(["simulate", str(cluster), "--run-dir", str(there), "--", str(tmp_path / "x.py")]) == 2
    assert str(there) in capsys.readouterr().err and there.is_file() == is_file


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parsers of all commands, by name."""
    (group,) = (action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction))
    return {name: parser for name, parser in group.choices.items() if name != "bench"}


@pytest.mark.parametrize("command", commands())
def test_help_has_valid_examples(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    out = capsys.readouterr().out
    assert end.value.code == 0 and out.startswith(f"usage: tfhet {command}")
    examples = out.partition("\nexamples:\n")[2].splitlines()
    assert 1 <= len(examples) <= 2
    for line in examples:
        words = line.partition(" | ")[0].partition(" -- ")[0].split()
        assert words[:2] == ["tfhet", command]
        _parser().parse_args(words[1:] if command != "launch" else words[1:2])


@pytest.mark.parametrize("command", commands())
def test_long_options_have_one_spelling(command):
    actions = commands()[command]._actions
    names = [name for action in actions for name in action.option_strings if name.startswith("--")]
    assert [name for name in names if "-" in name[2:]] == []
    assert len(names) == len([action for action in actions if action.option_strings])


def test_dashes_and_underscores_are_equal():
    for word in ("--run_dir", "--run-dir"):
        assert _parser().parse_args(["simulate", "demo", word, "a-b"]).run_dir == Path("a-b")
    assert _parser().parse_args(["simulate", "demo", "--run-dir=--a-b"]).run_dir == Path("--a-b")


def test_version_and_list_of_commands(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out == f"tfhet {tfhet.__version__}\n"
    assert main([]) == 2
    error = capsys.readouterr().err
    assert all(f"\n    {name} " in error for name in commands()) and "examples:" in error


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["simulat", "demo"], "simulate"),
        (["simulate", "demo", "--fualt", "x"], "--fault"),
        (["top", "--evry-s=3"], "--every_s"),
        (["simulate", "demo", "--hosts", "proces"], "process"),
        (["bench", "stage"], "stages"),
        (["bench", "stages", "--reapets", "2"], "--repeats"),
        (["plan", "--hosst", "1", "--clusterr", "x"], "--cluster"),
        (["fly"], None),
    ],
)
def test_nearest_word_is_suggested(words, meant, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert (f"; did you mean {meant}?" in error) if meant else ("did you mean" not in error)


def test_all_mistakes_are_reported_at_once(tmp_path, capsys):
    (tmp_path / "c.yaml").write_text("groups: {a: {hosts: many}, b: {cpu: 1}}")
    assert main(["simulate", str(tmp_path / "c.yaml"), "--fault", "kil:a", "--fault", "kill:worker@a:after=x"]) == 2
    error = capsys.readouterr().err
    for part in ("5 mistakes", "kil", "after", "--train_script", "groups: a: hosts", "'cpu'"):
        assert part in error


def test_json_for_a_pipe_is_alone(capsys, tmp_path):
    assert main(["prices", "c5.xlarge", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["prices"][0]["type"] == "ml.c5.xlarge" and "vCPU" in err
    assert main(["runs", str(tmp_path), "--json", "-"]) == 2
    assert capsys.readouterr().out == "", "a command that fails before writes nothing"


def test_interrupt_ends_with_one_line(monkeypatch, capsys):
    def interrupted(args: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    (prices,) = (module for module in COMMANDS if module.__name__ == "tfhet.cli.catalogue")
    monkeypatch.setattr(prices, "run", interrupted)
    assert main(["prices"]) == 128 + signal.SIGINT
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("redirection", "code"), [(">/dev/full", 1), (">&-", 0), (">&- 2>&-", 0), ("<&- >&-", 0)])
def test_unusable_standard_output_is_no_traceback(redirection, code, repository):
    words = ["bash", "-c", f"{sys.executable} -m tfhet simulate --list {redirection}"]
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (code, code)


@pytest.mark.parametrize("environment", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_closed_pipe_ends_quietly(environment, repository):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "tfhet", "prices"],
        cwd=repository,
        env={**os.environ, **environment},
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=50,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("line", "offered"),
    [("tfhet simu", "simulate"), ("tfhet simulate --max_r", "--max_run_s"), ("tfhet simulate --hosts ", "namespace")],
)
def test_shell_completes_words(line, offered, tmp_path):
    """As bash asks programs of argcomplete."""
    answer = tmp_path / "answer"
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([sys.executable, "-m", "tfhet"], env={**os.environ, **asked}, timeout=50, check=False)
    assert offered in answer.read_text().split()
