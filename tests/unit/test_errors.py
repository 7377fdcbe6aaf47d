from __future__ import annotations

import pytest

from tfhet.errors import shown


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
