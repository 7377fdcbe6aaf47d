"""The wire of servers and readers in a process of the tests, which no launcher gives a key."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest
from own_key import KEY

from tfhet.planes.tf_service import Wire, wire

_FOLDER = tempfile.TemporaryDirectory(prefix="tfhet-wire-")
WIRE = Wire.join(KEY, "127.0.0.1", folder=_FOLDER.name)


@pytest.fixture(autouse=True, scope="session")
def _own_wire() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(wire._own, "wire", WIRE)
        yield
    _FOLDER.cleanup()
