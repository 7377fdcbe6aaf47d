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
    # The worker of the lost host lived on until its launcher thawed, and the epoch waited for what it had held.
    "thawed-after-loss": ("two-and-two", ("hang:launcher@data-1:after=0.5:for=12",)),
    # The worker of a host that was lost before the ranks read lived on, and the dispatcher was renewed for ever.
    "frozen-before-reading": ("two-and-two", ("hang:launcher@data-1:from=scripts:after=0.3",)),
    # Seed 314: the second job was alone, listened at the loopback only, and did not find the leader's port in use.
    "alone-beside-the-leader": ("one-and-one", ("second-job:dnn-1:after=2.6",)),
}
"""Cluster and faults."""
WITH_RAY = {
    # The rank ended with the node, and the cause was the last that Ray had said to it, of its connection.
    "node-of-a-rank": ("two-and-two", ("kill:ray@dnn-2:after=1",)),
    # None of it broke: what Ray promises, in one schedule.
    "node-and-host": ("two-and-two", ("kill:ray@data-1:from=scripts:after=4", "kill:host@data-2:after=6")),
}
"""The same of jobs with Ray."""
