"""Inputs of the fuzz tests for readers: documents that are almost right, and bytes that never were.

TFHET_FUZZ=full (`scripts/test --fuzz`) multiplies the number of inputs.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings, strategies as st

FULL = os.environ.get("TFHET_FUZZ") == "full"


def fuzz(examples: int, *strategies: st.SearchStrategy[Any]) -> Any:
    """Runs a test function with this number of examples, or 20 times as many in a full run."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        return settings(
            max_examples=examples * (20 if FULL else 1),
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
        )(given(*strategies)(test))

    return decorate


# JSON has no way to build these from values: they are put in when a document becomes text.
_MARKS: dict[str, Callable[[int], str]] = {
    "deep": lambda n: "[" * n + "]" * n,
    "deeper": lambda n: '{"a":' * n + "1" + "}" * n,
    "digits": lambda n: "9" * n,
    "long": lambda n: '"' + "x" * n + '"',
    "exponent": lambda n: f"1e{n}",
}
_MARK = re.compile(r'"@(\w+) (\d+)@"')
_SIZES = st.sampled_from([1, 30, 300, 400, 900, 980, 2000, 4400, 70_000])
marks = st.tuples(st.sampled_from(sorted(_MARKS)), _SIZES).map(lambda mark: f"@{mark[0]} {mark[1]}@")

texts = st.text(max_size=6) | st.sampled_from(
    ["", "\0", "\ud800", "\udcff", "a\nb", "\u0663", "\u00b2", "\u202e", "\ufeff", "\U0001f600", "\x7f", "x" * 300]
    + ["NaN", "Infinity", "-1", "1e999", "../..", "{}", "null", " ", "algo-1", "data_group", "localhost", "a:1"]
)  # fmt: skip
numbers = st.sampled_from(
    [0, -1, 1, 2, 3, 255, 256, 65535, 65536, 2**31, 2**53, 2**53 + 1, -(2**53), 2**63, 2**64, 10**400, -(10**400)]
    + [1e308, float("nan"), float("inf"), -float("inf"), -0.0, 1.5, 5e-324]
)
scalars = st.none() | st.booleans() | numbers | texts | marks
anything = scalars | st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    keys = document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    return [place for key in list(keys) for place in ((document, key), *places(document[key]))]


@st.composite
def mutated(draw: st.DrawFn, documents: st.SearchStrategy[Any], words: tuple[str, ...] = ()) -> Any:
    """A document with up to three of its values dropped, replaced, moved, renamed, doubled or added.

    `words`: names and values that mean something to the reader.
    """
    values = (anything | st.sampled_from(words)) if words else anything
    names = st.sampled_from(words) | texts if words else texts
    document = {"": copy.deepcopy(draw(documents))}
    for _ in range(draw(st.integers(0, 3))):
        found = places(document)
        if not found:
            break
        container, key = found[draw(st.integers(0, len(found) - 1))]
        change = draw(st.sampled_from(["replace", "replace", "drop", "move", "rename", "double", "add"]))
        value = container[key]
        if change == "replace":
            container[key] = draw(values)
        elif change == "drop":
            del container[key]
        elif change == "move":
            other, there = found[draw(st.integers(0, len(found) - 1))]
            container[key] = copy.deepcopy(other[there])
        elif change == "double" and isinstance(value, list):
            value.extend(copy.deepcopy(value))
        elif change == "add" and isinstance(value, dict):
            value[draw(names)] = draw(values)
        elif isinstance(container, dict):
            container[draw(names)] = container.pop(key)
    return document.get("")


def filled(text: str) -> str:
    """The text of a document with its marks replaced."""
    return _MARK.sub(lambda found: _MARKS[found[1]](int(found[2])), text)


@st.composite
def spoilt(draw: st.DrawFn, texts_: st.SearchStrategy[str]) -> bytes:
    """A text as bytes; in every other case cut, doubled in part, with bytes put in, or in another encoding."""
    text = draw(texts_)
    change = draw(st.sampled_from([""] * 6 + ["cut", "insert", "flip", "double", "recode", "repeat key"]))
    if change == "recode":
        return text.encode(draw(st.sampled_from(["utf-16", "utf-32", "utf-8-sig", "utf-7"])), "replace")
    raw = text.encode("utf-8", "surrogatepass")
    if not change or not raw:
        return raw
    at = draw(st.integers(0, len(raw) - 1))
    if change == "cut":
        return raw[:at]
    if change == "insert":
        return (
            raw[:at]
            + draw(st.binary(max_size=6) | st.sampled_from([b"\0", b"\n", b"\xff", b'"', b"{", b"\\u"]))
            + raw[at:]
        )
    if change == "flip":
        return raw[:at] + bytes([raw[at] ^ draw(st.integers(1, 255))]) + raw[at + 1 :]
    if change == "double":
        end = draw(st.integers(at, len(raw)))
        return raw[:end] + raw[at:]
    names = re.findall(rb'"\w+":', raw)
    twice = names[at % len(names)] if names else b'"a":'
    return raw.replace(b"{", b"{" + twice + b"null,", 1)


def json_text(documents: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    """Documents as JSON text, with escapes or without."""
    return st.builds(lambda d, ascii_: filled(json.dumps(d, ensure_ascii=ascii_)), documents, st.booleans())


def json_bytes(documents: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """Documents as JSON text, spoilt in every other case; and bytes that are none."""
    return spoilt(json_text(documents)) | st.binary(max_size=30)
