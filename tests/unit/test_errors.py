from __future__ import annotations

import pytest

from tfhet.errors import ClusterError, Mistakes, UsageError, shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"),
        (None, "None"),
        (1.5, "1.5"),
        ([1], "list"),
        ({}, "dict"),
        ("x" * 1000, "'" + "x" * 76 + "..."),
    ],
    ids=["text", "none", "number", "list", "dict", "long text"],
)
def test_a_value_is_shown_in_few_characters(value: object, text: str) -> None:
    assert shown(value) == text


def test_one_mistake_is_raised_as_it_is() -> None:
    only = ClusterError("a")
    with pytest.raises(ClusterError) as raised, Mistakes() as mistakes, mistakes.noted():
        raise only
    assert raised.value is only


def test_several_mistakes_are_told_at_once_each_once() -> None:
    with pytest.raises(UsageError, match="^3 mistakes:\n  a\n  b\n  c$") as raised, Mistakes() as outer:
        for _ in range(2):
            with outer.noted(), Mistakes() as inner:
                inner.add(UsageError("a"))
                raise UsageError("b")
        outer.add(UsageError("c"))
    assert raised.value.mistakes == ("a", "b", "c")


def test_another_error_is_not_held_up_by_mistakes() -> None:
    with pytest.raises(OSError, match="disk"), Mistakes() as mistakes:
        mistakes.add(UsageError("a"))
        raise OSError("disk")
    with Mistakes():
        pass
