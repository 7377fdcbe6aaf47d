"""bench/apart.py: processes of a suite's own."""

from __future__ import annotations

import pytest

from benchmarks.cluster_runs.kept_process import Apart, run
from tfhet.container.cgroup import Cgroup
from tfhet.container.limits import Limits
from tfhet.errors import TfhetError, UsageError


@pytest.fixture
def groups() -> None:
    try:
        Cgroup.create("tfhet-tests-apart").remove()
    except UsageError as error:
        pytest.skip(f"no control groups here: {error}")


def test_the_lines_of_a_process_come_back_and_its_failure_names_the_last_ones() -> None:
    assert run("stages", limit_s=60.0) == []  # a module that does nothing by itself
    with pytest.raises(TfhetError, match="channel failed.*not enough values"):
        run("channel", limit_s=60.0)


def test_a_process_that_is_kept_answers_each_time_and_ends_with_its_context(groups, tmp_path, monkeypatch) -> None:
    package = tmp_path / "tfhet" / "bench"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "counting.py").write_text(
        "import sys\n"
        "for turn, line in enumerate(sys.stdin):\n"
        "    print('noise')\n"
        "    print('[measured]', turn, flush=True)\n"
    )
    monkeypatch.chdir(tmp_path)  # `python -m` looks there first
    with Apart.kept("counting") as apart:
        assert [apart.ask(60.0, limits).strip() for limits in (None, Limits(0.5), None)] == ["0", "1", "2"]


def test_a_process_that_is_gone_is_an_error_with_what_it_said_last(groups) -> None:
    with pytest.raises(TfhetError, match="channel ended.*not enough values"), Apart.kept("channel") as apart:
        apart.ask(60.0)


def test_a_process_that_does_not_answer_in_time_is_an_error(groups) -> None:
    with (
        pytest.raises(TfhetError, match="took more than 0.2 s"),
        Apart.kept("bench_sleeper_that_is_not_there") as apart,
    ):
        apart.ask(0.2)
