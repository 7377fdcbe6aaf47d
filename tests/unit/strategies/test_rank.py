from __future__ import annotations

import pytest

from tfhet.cluster import Rank
from tfhet.errors import ClusterError
from tfhet.strategies import rank_of, source_of


def _mpi(rank: object, size: object, local_rank: object, local_size: object) -> dict[str, str]:
    prefix = "OMPI_COMM_WORLD_"
    return {
        prefix + "RANK": str(rank),
        prefix + "SIZE": str(size),
        prefix + "LOCAL_RANK": str(local_rank),
        prefix + "LOCAL_SIZE": str(local_size),
    }


def _horovod(rank: object, size: object, local_rank: object, local_size: object) -> dict[str, str]:
    mpi = _mpi(rank, size, local_rank, local_size)
    return {name.replace("OMPI_COMM_WORLD_", "HOROVOD_"): value for name, value in mpi.items()}


def test_without_a_launcher_there_is_no_rank() -> None:
    assert rank_of({"PATH": "/bin"}) is None


def test_each_launchers_variables_are_read() -> None:
    assert rank_of(_mpi(3, 4, 1, 2)) == Rank(3, 4, 1, 2, "mpi")
    assert rank_of(_horovod(3, 4, 1, 2)) == Rank(3, 4, 1, 2, "horovod")
    ours = {name.replace("HOROVOD_", "TFHET_"): value for name, value in _horovod(3, 4, 1, 2).items()}
    assert rank_of(ours) == Rank(3, 4, 1, 2, "tfhet")


def test_a_rank_of_ours_is_written_as_it_is_read() -> None:
    rank = Rank(5, 6, 1, 2, "tfhet")
    assert rank_of(rank.to_env()) == rank


def test_a_rank_of_ours_and_the_variables_of_the_ring_that_it_is_in_agree() -> None:
    assert rank_of(Rank(1, 2, 1, 2, "tfhet").to_env() | _horovod(1, 2, 1, 2)) == Rank(1, 2, 1, 2, "horovod")
    with pytest.raises(ClusterError, match="two launchers disagree: mpi .*TFHET_RANK"):
        rank_of(Rank(1, 2, 1, 2, "tfhet").to_env() | _mpi(0, 2, 0, 2))


def test_who_started_the_ranks_is_said() -> None:
    said = {
        source: source_of(Rank(0, 1, 0, 1, source)).starter for source in ("mpi", "horovod", "tfhet", "one process")
    }
    assert said == {"mpi": "mpirun", "horovod": "horovodrun", "tfhet": "alone", "one process": "alone"}


def test_two_launchers_may_agree_but_not_disagree() -> None:
    assert rank_of(_mpi(1, 2, 1, 2) | _horovod(1, 2, 1, 2)) == Rank(1, 2, 1, 2, "mpi")
    with pytest.raises(ClusterError, match="two launchers disagree.*HOROVOD_RANK"):
        rank_of(_mpi(0, 1, 0, 1) | _horovod(1, 2, 1, 2))


@pytest.mark.parametrize(
    "numbers", [(2, 2, 0, 1), (0, 0, 0, 0), (0, 2, 1, 2), (1, 2, 0, 3), (3, 4, 2, 2), (0, 1, 0, 2)]
)
def test_ranks_that_contradict_each_other_are_refused(numbers: tuple[int, int, int, int]) -> None:
    with pytest.raises(ClusterError, match="contradict"):
        rank_of(_mpi(*numbers))


@pytest.mark.parametrize("text", ["", "x", "-1", "1.0", "٣", "9" * 5000])
def test_what_is_not_a_number_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="OMPI_COMM_WORLD_RANK"):
        rank_of(_mpi(text, 2, 0, 1))


def test_white_space_around_a_number_is_no_part_of_it() -> None:
    assert rank_of(_mpi(" 1\n", "2\x1f", 0, 1)) == Rank(1, 2, 0, 1, "mpi")


def test_a_missing_variable_is_named() -> None:
    env = _horovod(0, 2, 0, 1)
    del env["HOROVOD_SIZE"]
    with pytest.raises(ClusterError, match="HOROVOD_SIZE is not set"):
        rank_of(env)
