"""The toys of tests/toys as third parties: `toys` registers them as entry points would."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tfhet import registry

TOYS = Path(__file__).parents[1] / "toys"
GROUPS = {"tfhet.planes": "toy_plane:TOY", "tfhet.strategies": "toy_strategy:TOY"}


@pytest.fixture(scope="module", autouse=True)
def toys() -> Iterator[None]:
    """Registers the toys for a module, and in the processes that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOYS))
        patch.setenv("PYTHONPATH", ":".join(filter(None, (str(TOYS), os.environ.get("PYTHONPATH", "")))))
        patch.setattr(registry, "_points", lambda group: {"toy": EntryPoint("toy", GROUPS[group], group)})
        yield
    for name in [name for name in sys.modules if name.startswith("toy_")]:
        del sys.modules[name]
