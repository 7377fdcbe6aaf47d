"""How many batches a server may have: few of a slow one, several small quick ones."""

import pytest

from tfhet.errors import UsageError
from tfhet.planes.feed.credit import FOR_S, LEAST, MOST, MOST_BYTES, Credit


def most(size: int, between_s: float, servers: int = 1, fixed: int | None = None) -> int:
    """Number of batches that a server may have after some have come."""
    credit = Credit(servers, fixed)
    for at in range(20):
        credit.came(size, 100.0 + at * between_s)
    return credit.most


@pytest.mark.parametrize(
    ("size", "between_s", "servers", "expected"),
    [
        (1, FOR_S / 100, 1, MOST),
        (1, FOR_S / 4.5, 1, 4),
        (1, 10.0, 1, LEAST),
        (MOST_BYTES // 6, 1e-4, 1, 6),
        (MOST_BYTES // 12, 1e-4, 4, 3),
        (MOST_BYTES, 1e-4, 1, LEAST),
        (0, 0.0, 1, MOST),
    ],
)
def test_a_server_has_as_many_as_it_makes_in_a_while_and_memory_allows(size, between_s, servers, expected):
    assert most(size, between_s, servers) == expected


def test_before_anything_came_it_has_the_least_and_what_is_given_stays():
    assert Credit().most == LEAST
    assert most(1, 1e-4, fixed=1) == 1 and most(MOST_BYTES, 10.0, fixed=20) == 20
    with pytest.raises(UsageError, match="ahead must be at least 1, not 0"):
        Credit(1, 0)


def test_a_server_that_becomes_slow_gets_less():
    credit = Credit()
    for at in range(20):
        credit.came(1, at * 1e-3)
    assert credit.most == MOST
    for at in range(20):
        credit.came(1, 1.0 + at)
    assert credit.most == LEAST


@pytest.mark.parametrize(("fixed", "asks"), [(1, [1, 0]), (2, [2, 1, 0]), (5, [5, 4, 3, 0, 0, 0])])
def test_what_is_free_is_asked_for_when_it_is_half_of_all(fixed, asks):
    assert [Credit(1, fixed).asks(has) for has in range(fixed + 1)] == asks
