"""An end of another way: `python -m benchmarks.transport.end MODULE:FUNCTION` opens it and moves batches."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from tfhet.bench.wire.end import End, serve
from tfhet.errors import UsageError


def sends(facts: dict[str, Any]) -> End:
    """Returns the end that only gives, when the other end asks for batches."""

    def never(count: int) -> None:
        raise UsageError("this end sends")

    return End(never, facts)


if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    serve(getattr(importlib.import_module(module), name))
