"""The wire of servers and readers in a process of the tests, which no launcher gives a key."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator

import pytest
from own_key import KEY

from tfhet.planes.tf_service import Wire, wire


class _OwnWire(Wire):
    """Joined at its first use: a process that only imports a test module does not join."""

    def __init__(self) -> None:
        """Joins nothing."""

    @functools.cached_property
    def protocol(self) -> str:  # type: ignore[override]
        # Not named tfhet-*: it stays until pytest removes its temporary folder, after the search for leftovers.
        return Wire.join(KEY, "127.0.0.1", folder=tempfile.mkdtemp(prefix="own-wire-")).protocol


WIRE = _OwnWire()


@pytest.fixture(autouse=True, scope="session")
def _own_wire() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(wire._own, "wire", WIRE)
        yield
