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
        (["simulate", "nowhere.yaml", "--", "x.py"], "nowhere.yaml: this cluster file cannot be read"),
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
    assert f"--run_dir {there} is there already" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["fly"], ["simulate", "--max-run-s", "long"], ["convert"]])
def test_words_that_do_not_parse_exit_2_with_the_usage(words, capsys):
    assert main(words) == 2
    assert "usage: tfhet" in capsys.readouterr().err


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parsers of all commands, by name."""
    made = _parser()
    (group,) = (action for action in made._actions if isinstance(action, argparse._SubParsersAction))
    return {name: parser for name, parser in group.choices.items() if name != "bench"}


@pytest.mark.parametrize("command", commands())
def test_every_command_says_what_it_does_and_ends_its_help_with_examples(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: tfhet {command}") and commands()[command].description in " ".join(out.split())
    examples = out.partition("\nexamples:\n")[2].splitlines()
    assert 1 <= len(examples) <= 2 and all(line.startswith(f"  tfhet {command}") for line in examples)


@pytest.mark.parametrize("command", commands())
def test_the_examples_of_a_help_are_understood(command):
    for line in commands()[command].epilog.splitlines()[1:]:
        words = line.partition(" | ")[0].partition(" -- ")[0].split()[1:]
        _parser().parse_args(words if command != "launch" else words[:1])


@pytest.mark.parametrize("command", commands())
def test_long_options_have_one_spelling_and_the_other_one_is_understood(command):
    parser = commands()[command]
    told = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
    assert [name for name in told if "-" in name[2:]] == []
    assert len(told) == len([action for action in parser._actions if action.option_strings])


def test_both_spellings_of_an_option_are_one():
    for word in ("--run_dir", "--run-dir"):
        assert _parser().parse_args(["simulate", "demo", word, "a-b"]).run_dir == Path("a-b")
    assert _parser().parse_args(["simulate", "demo", "--run-dir=--a-b"]).run_dir == Path("--a-b")


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out == f"tfhet {tfhet.__version__}\n"


def test_no_command_shows_the_help_with_all_commands(capsys):
    assert main([]) == 2
    error = capsys.readouterr().err
    assert all(f"\n    {name} " in error for name in commands()) and "examples:" in error


def test_the_help_of_simulate_shows_where_the_entry_point_goes(capsys):
    with pytest.raises(SystemExit):
        main(["simulate", "--help"])
    assert "-- [ENTRY_POINT] [ARGUMENTS]" in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["simulat", "demo"], "simulate"),
        (["simulate", "demo", "--fualt", "x"], "--fault"),
        (["top", "--evry-s=3"], "--every_s"),
        (["simulate", "demo", "--hosts", "proces"], "process"),
        (["bench", "stage"], "stages"),
        (["bench", "stages", "--reapets", "2"], "--repeats"),
        (["fly"], None),
    ],
)
def test_what_is_not_known_gets_the_nearest_that_is(words, meant, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert (f"; did you mean {meant}?" in error) if meant else ("did you mean" not in error)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["simulate", "demo", "--max_run_s", "0"], "--max_run_s: 0: give a number above 0"),
        (["profile", "synthetic", "--repeats", "0"], "--repeats: 0: give a whole number from 1 on"),
        (["profile", "synthetic", "--batch_size", "1.5"], "--batch_size: 1.5: give a whole number from 1 on"),
        (["plan", "--trainer_cpu_ms", "-1"], "--trainer_cpu_ms: -1: give a number from 0 on"),
        (["plan", "--max_hosts", "0"], "--max_hosts: 0: give a whole number from 1 on"),
        (["convert", "a", "b", "--size", "32", "0"], "--size: 0: give a whole number from 1 on"),
        (["bench", "stages", "--warmup", "-1"], "--warmup: -1: give a whole number from 0 on"),
        (["follow", "job", "--deadline_s", "inf"], "--deadline_s: inf: give a number above 0"),
        (["doctor", "--json", "."], "--json: . is a folder: name a file in it"),
    ],
)
def test_a_number_out_of_range_is_named_with_its_option_and_the_range(words, message, capsys):
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_json_for_a_pipe_is_alone_on_standard_output(capsys):
    assert main(["prices", "c5.xlarge", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["prices"][0]["type"] == "ml.c5.xlarge"
    assert "vCPU" in err


def test_json_of_a_command_that_fails_before_it_has_any_is_nothing(capsys, tmp_path):
    assert main(["runs", str(tmp_path), "--json", "-"]) == 2
    assert capsys.readouterr().out == ""


def test_ctrl_c_ends_a_command_with_one_line(monkeypatch, capsys):
    def interrupted(args: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    (prices,) = (room for room in COMMANDS if room.__name__ == "tfhet.cli.catalogue")
    monkeypatch.setattr(prices, "run", interrupted)
    assert main(["prices"]) == 128 + signal.SIGINT
    assert capsys.readouterr().err == "tfhet: interrupted\n"


@pytest.mark.parametrize("environment", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_a_reader_that_ends_early_ends_the_command_quietly(environment, repository):
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


def test_all_mistakes_of_a_command_are_told_at_once(tmp_path, capsys):
    (tmp_path / "c.yaml").write_text("groups: {a: {hosts: many}, b: {cpu: 1}}")
    assert main(["simulate", str(tmp_path / "c.yaml"), "--fault", "kil:a", "--fault", "kill:worker@a:after=x"]) == 2
    told = capsys.readouterr().err
    assert "5 mistakes" in told
    for part in ("kil", "after", "what should run?", "groups: a: hosts must be", "the name 'cpu' must be one of hosts"):
        assert part in told
    assert main(["plan", "--hosst", "1", "--clusterr", "x"]) == 2
    told = capsys.readouterr().err
    assert (
        "unrecognized argument --hosst" in told and "unrecognized argument --clusterr; did you mean --cluster" in told
    )


@pytest.mark.parametrize(
    ("line", "offered"),
    [("tfhet simu", "simulate"), ("tfhet simulate --max_r", "--max_run_s"), ("tfhet simulate --hosts ", "namespace")],
)
def test_a_shell_is_told_how_a_word_may_go_on(line, offered, tmp_path):
    """As bash asks programs of argcomplete."""
    answer = tmp_path / "answer"
    asked = {
        "_ARGCOMPLETE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
    }
    words = [sys.executable, "-m", "tfhet"]
    subprocess.run(words, env={**os.environ, **asked, "_ARGCOMPLETE_IFS": "\n"}, timeout=50, check=False)
    assert offered in answer.read_text().split()
