"""The rank of a process, from the variables of the program that started it."""

from __future__ import annotations

import pytest

from tfhet.cluster import Rank
from tfhet.errors import ClusterError
from tfhet.strategies import rank_of, source_of

PREFIXES = {"mpi": "OMPI_COMM_WORLD", "horovod": "HOROVOD", "tfhet": "TFHET"}
STARTERS = {"mpi": "mpirun", "horovod": "horovodrun", "tfhet": "alone", "one process": "alone"}


def variables(source: str, *numbers: object) -> dict[str, str]:
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    return {f"{PREFIXES[source]}_{name}": str(value) for name, value in zip(names, numbers, strict=True)}


@pytest.mark.parametrize("source", PREFIXES)
def test_variables_of_each_source_are_read(source: str) -> None:
    rank = Rank(3, 4, 1, 2, source)
    assert rank_of(variables(source, 3, 4, 1, 2)) == rank
    assert rank_of(variables(source, " 3\n", "4\x1f", 1, 2)) == rank, "white space is no part of a number"
    assert source != "tfhet" or rank_of(rank.to_env()) == rank
    assert rank_of({"PATH": "/bin"}) is None


def test_starter_of_each_source() -> None:
    assert {source: source_of(Rank(0, 1, 0, 1, source)).starter for source in STARTERS} == STARTERS


@pytest.mark.parametrize(("first", "second"), [("mpi", "horovod"), ("horovod", "tfhet"), ("mpi", "tfhet")])
def test_sources_must_agree(first: str, second: str) -> None:
    assert rank_of(variables(first, 1, 2, 1, 2) | variables(second, 1, 2, 1, 2)) == Rank(1, 2, 1, 2, first)
    with pytest.raises(ClusterError, match=f"{first} .*{PREFIXES[second]}_RANK"):
        rank_of(variables(first, 0, 2, 0, 2) | variables(second, 1, 2, 1, 2))


@pytest.mark.parametrize(
    "numbers", [(2, 2, 0, 1), (0, 0, 0, 0), (0, 2, 1, 2), (1, 2, 0, 3), (3, 4, 2, 2), (0, 1, 0, 2)]
)
def test_contradictory_numbers_are_refused(numbers: tuple[int, int, int, int]) -> None:
    with pytest.raises(ClusterError):
        rank_of(variables("mpi", *numbers))


@pytest.mark.parametrize("text", ["", "x", "-1", "1.0", "٣", "9" * 5000, None])
def test_wrong_number_is_refused(text: str | None) -> None:
    env = variables("mpi", 0, text, 0, 1)
    if text is None:
        del env["OMPI_COMM_WORLD_SIZE"]
    with pytest.raises(ClusterError, match="OMPI_COMM_WORLD_SIZE"):
        rank_of(env)
