"""The wire of servers and readers in a process of the tests, which no launcher gives a key."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator

import pytest
from own_key import KEY

from tfhet.planes.tf_service import Wire, wire


@functools.cache
def _made() -> tuple[Wire, tempfile.TemporaryDirectory[str]]:
    folder = tempfile.TemporaryDirectory(prefix="tfhet-wire-")
    return Wire.join(KEY, "127.0.0.1", folder=folder.name), folder


def __getattr__(name: str) -> Wire:
    """`WIRE`, made when it is asked for: a process that imports a test module need not run its tests."""
    if name != "WIRE":
        raise AttributeError(name)
    return _made()[0]


@pytest.fixture(autouse=True, scope="session")
def _own_wire() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        made, folder = _made()
        patch.setitem(wire._own, "wire", made)
        yield
    folder.cleanup()
