"""Every threshold of the advice: from which value on something is called slow, busy, idle, full or uneven."""

from __future__ import annotations

INPUT_BOUND_PCT = 10.0
"""Share of a step spent waiting for data from which a run is input-bound: without the wait it is 1.1 times faster."""
INPUT_KEEPS_UP_PCT = 3.0
"""Share of a step below which waiting for data is no more than the hand-over of a batch."""

BUSY_PCT = 80.0
"""Utilisation from which a resource is used up: one-minute means of bursty work do not reach 100 %."""
IDLE_PCT = 50.0
"""Utilisation below which most of a resource is unused: half of the data hosts' CPUs would do, for one."""
FULL_PCT = 90.0
"""Share of memory or disk, at the 90th percentile over time, from which it is nearly full."""
UNEVEN_PCT = 20.0
"""Difference, in percentage points, from which hosts of one group are used unevenly."""

LARGE_SHARE = 0.1
"""Share of a pipeline's CPU, 0 to 1, from which a part is worth advice."""
DOMINANT_SHARE = 0.5
"""Share of a pipeline's CPU, 0 to 1, from which a part dominates it."""
TRAINER_SHARE = 0.5
"""Largest share of a pipeline's CPU, 0 to 1, that may move to the trainer in order to send fewer bytes."""
FEWER_BYTES = 2.0
"""A cut is worth advice when it divides the bytes between hosts at least by this."""

LEAST_BREAK_EVEN_USD = 0.001
"""USD per hour: a data host whose break-even price is lower pays at no price."""
