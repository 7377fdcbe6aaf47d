"""Schedules of faults that broke a promise once, by name: they are run again whenever chaos is."""

from __future__ import annotations

REGRESSIONS = {
    # Seed 17 of the first draw: the renewed dispatcher was frozen, and then nothing listened at its port any more.
    "frozen-after-renewal": (
        "two-and-two",
        (
            "kill:dispatcher:from=scripts:after=2.7",
            "hang:dispatcher:from=scripts:after=3.4",
            "kill:host@data-1:from=scripts:after=1.6",
        ),
    ),
}
"""Cluster and faults."""
