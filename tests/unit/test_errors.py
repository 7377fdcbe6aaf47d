from __future__ import annotations

import pytest

from tfhet.errors import ClusterError, Mistakes, UsageError, shown


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "'a'"), (None, "None"), (1.5, "1.5"), ([1], "list"), ({}, "dict"), ("x" * 1000, "'" + "x" * 76 + "...")],
    ids=["text", "none", "number", "list", "dict", "long text"],
)
def test_shown_values_are_short(value: object, text: str) -> None:
    assert shown(value) == text


def test_single_mistake_is_raised_itself() -> None:
    only = ClusterError("a")
    with pytest.raises(ClusterError) as raised, Mistakes() as mistakes, mistakes.noted():
        raise only
    assert raised.value is only


def test_several_mistakes_are_raised_together() -> None:
    with pytest.raises(UsageError, match="^3 mistakes:\n  a\n  b\n  c$") as raised, Mistakes() as outer:
        for _ in range(2):
            with outer.noted(), Mistakes() as inner:
                inner.add(UsageError("a"))
                raise UsageError("b")
        outer.add(UsageError("c"))
    assert raised.value.mistakes == ("a", "b", "c")


def test_other_errors_pass() -> None:
    with pytest.raises(OSError, match="disk"), Mistakes() as mistakes:
        mistakes.add(UsageError("a"))
        raise OSError("disk")
    with Mistakes():
        pass
