"""The table of faults."""

from __future__ import annotations

import functools

from faults.case import BUSY, CONTINUES, FAILS, NEVER_JOINS, REFUSES, STOPS, FaultCase
from faults.job import LEASE_S

_FOUR = "two-data-two-dnn"
_TWO = "two-and-two"
_TALKS = ("--log_every", "1")
_SAVES = ("--checkpoint_every_steps", "10")
_OFTEN = ("--checkpoint_every_steps", "4", "--step_ms", "150")
_BOTH = ("launcher", "host")
_LOCAL = ("--on_data_loss", "local")
_SKIP = ("--on_bad_record", "skip")
_LEARNS = ("--model", "small_cnn")


def _continues(*faults: str, **more: object) -> FaultCase:
    return FaultCase(faults, CONTINUES, **more)  # type: ignore[arg-type]


def _fails(*faults: str, named: tuple[str, ...], end: str = FAILS, **more: object) -> FaultCase:
    return FaultCase(faults, end, named, **more)  # type: ignore[arg-type]


def _stops(*faults: str, **more: object) -> FaultCase:
    return FaultCase(faults, STOPS, ("SIGTERM",), code=143, **more)  # type: ignore[arg-type]


_fails_to_stop = functools.partial(_fails, end=STOPS, code=143)
_never_joins = functools.partial(_fails, end=NEVER_JOINS)
_refuses = functools.partial(_fails, end=REFUSES)


def _hang(what: str, place: str, leases: float) -> str:
    return f"hang:{what}@{place}:after=0.5:for={leases * LEASE_S:g}"


# A launcher, or its whole host, that is silent for a while. The leader is on dnn-1.
_SILENCES = (
    *(
        _continues(_hang("launcher", at, n), cluster=_TWO)
        for at in ("data-1", "dnn-1", "dnn-2")
        for n in (0.25, 0.5, 0.75)
    ),
    *(_continues(_hang("launcher", "data-1", n), cluster=_TWO, lost=("data-1",)) for n in (1.5, 3.0)),
    *(_fails(_hang("host", "data-1", n), named=("data-1", "silent"), code=1) for n in (1.5, 3.0)),
    *(
        _fails(_hang(what, "dnn-1", n), named=("stood still",), code=1, cluster=_TWO)
        for what in _BOTH
        for n in (1.5, 3.0)
    ),
    *(
        _fails(_hang(what, "dnn-2", n), named=("rank-1", "silent"), code=1, cluster=_TWO)
        for what in _BOTH
        for n in (1.5, 3.0)
    ),
)

# Other faults of a machine: full and failing disks, clocks that jump, names that are slow, logs that are not read.
_MACHINES = (
    _continues("stall:data-1:after=0.5:for=8"),
    _continues("stall:dnn-1:after=0.5:for=8", arguments=_TALKS),
    _continues("stall:dnn-1:from=start", arguments=_TALKS),
    _fails("stall:dnn-1:after=0.5", "kill:rank=1:after=1", named=("rank 1", "SIGKILL")),
    _continues("slow-write:data-1:from=start"),
    _continues("slow-write:dnn-1:from=start"),
    _continues("full-disk:data-1:from=start"),
    _continues("full-disk:dnn-2:after=0.5", cluster=_TWO),
    _fails("full-disk:dnn-1:after=3", arguments=_SAVES, named=("No space left",)),
    _continues("failing-write:data-1:from=start"),
    _continues("failing-write:dnn-2:after=0.5", cluster=_TWO),
    _fails("failing-write:dnn-1:after=3", arguments=_SAVES, named=("Input/output error",)),
    _fails_to_stop("full-disk:dnn-1:after=3", "sigterm:launcher@dnn-1:after=3.1", named=("SIGTERM", "No space left")),
    _fails_to_stop(
        "failing-write:dnn-1:after=3", "sigterm:launcher@data-1:after=3.1", named=("SIGTERM", "exit code 1")
    ),
    _continues("slow-dns=3s:data-1:from=start"),
    _continues("slow-dns=12s:dnn-1:after=0.5:for=10"),
    _fails("slow-dns=12s:data-1:after=0.5", "kill:host@dnn-1:after=1", named=("lease",), code=1),
    _fails("slow-dns=12s:dnn-1:after=0.5", "kill:host@data-1:after=1", named=("data-1",), code=1),
    _continues("clock=+600s:data-1:after=0.5"),
    _continues("clock=+86400s:dnn-1:after=0.5", arguments=_SAVES),
    _continues("clock=-600s:dnn-1:after=0.5:for=2", arguments=_SAVES),
    _continues("second-job:data-1:after=0.5"),
    _continues("second-job:dnn-1:after=0.5"),
    _continues("second-job:dnn-1:from=scripts"),
    _continues("kill:dispatcher:after=0.5", "second-job:dnn-1:after=0.5"),
    _continues("same-base:dnn-1"),
    _fails("same-base:dnn-1", "same-base:data-1", "kill:rank=1:after=0.5", named=("rank 1", "SIGKILL")),
    _stops("half-checkpoint:dnn-1", "sigterm:launcher@dnn-1:after=5", arguments=_OFTEN, resumes=True),
    _stops("half-checkpoint:dnn-1", "sigterm:launcher@data-2:after=5", cluster=_FOUR, arguments=_OFTEN, resumes=True),
)
# Hosts with networks of their own, in namespaces.
_NETWORKS = (
    _continues("loss=1%:data-1:after=0.5", hosts="namespace"),
    _continues("delay=50ms:dnn-1:after=0.5", hosts="namespace"),
    _continues("rate=100mbit:data_group:after=0.5", hosts="namespace"),
    _continues("partition:data_group:after=0.5:for=1.5", hosts="namespace"),
    _continues("kill:host@data-2:after=0.5", cluster=_TWO, lost=("data-2",), hosts="namespace"),
    _fails("kill:host@dnn-2:after=0.5", named=("rank",), cluster=_TWO, hosts="namespace"),
    _fails("partition:data-1:after=0.5", named=("data-1", "silent"), hosts="namespace"),
    _fails("hang:host@dnn-1:after=0.5", named=("lease",), cluster=_TWO, hosts="namespace"),
    _stops("sigterm:host@data-1:after=3", hosts="namespace"),
)
# Cuts of one way only.
_ONE_WAY = (
    _continues("partition-in:data-1:after=0.5:for=1.5"),
    _continues("partition-out:dnn-2:after=0.5:for=1.5", cluster=_TWO),
    _continues("partition-in:data-2:after=0.5", cluster=_TWO, lost=("data-2",)),
    _fails("partition-in:data-1:after=0.5", named=("data-1",), code=1),
    _fails("partition-out:data-1:after=0.5", named=("data-1", "silent"), code=1),
    _fails("partition-in:dnn-1:after=0.5", named=("lease",), cluster=_TWO, code=1),
    _fails("partition-out:dnn-1:after=0.5", named=("was lost",), cluster=_TWO, code=1),
    _fails("partition-in:dnn-2:after=0.5", named=("rank",), cluster=_TWO, code=1),
    _fails("partition-out:dnn-2:after=0.5", named=("rank", "silent"), cluster=_TWO, code=1),
)
# While the job starts, and while it leaves.
_START_AND_END = (
    _fails("kill:worker@data-1:from=start:after=0.2", named=("worker-0", "data-1", "SIGKILL")),
    _fails("kill:dispatcher:from=start:after=0.2", named=("dispatcher", "SIGKILL")),
    _continues("hang:launcher@data-1:from=start:after=1:for=2"),
    _never_joins("kill:host@data-1:from=start:after=1", named=("data-1",)),
    _never_joins("hang:host@data-1:from=start:after=1", named=("data-1",)),
    _never_joins("kill:host@dnn-2:from=start:after=1", named=("rank-1",), cluster=_TWO),
    _continues("hang:launcher@data-1:from=end:for=3"),
    _continues("hang:launcher@dnn-1:from=end:for=2", cluster=_TWO),
    _continues("hang:launcher@dnn-2:from=end:for=2", cluster=_TWO),
    _continues("partition:data-1:from=end:for=2"),
    _continues("stall:dnn-1:from=end"),
    _continues("clock=+600s:dnn-1:from=end"),
    _continues("slow-write:dnn-1:from=end"),
)

CASES = (
    _continues(),
    # Processes of the data service that die, hang, or have no memory.
    _continues("kill:worker@data-1:after=0.5"),
    _continues("kill:worker@data-1:from=scripts"),
    _continues("kill:worker:after=0.5:every=5"),
    _continues("kill:dispatcher:after=0.5"),
    _continues("kill:dispatcher:from=scripts"),
    _continues("kill:dispatcher:after=0.5", "kill:worker:after=1"),
    _continues("hang:worker@data-1:after=0.5:for=2"),
    _continues("hang:dispatcher:after=0.5:for=2"),
    _continues("hang:worker@data-1:after=0.5"),
    _continues("hang:dispatcher:after=0.5"),
    _continues("oom:worker@data-1:after=0.5"),
    _continues("kill:worker@data-2:after=0.5", cluster=_FOUR),
    _continues("kill:worker@data-1:after=0.5", "kill:worker@data-2:after=0.5", cluster=_FOUR),
    # Silences shorter than the lease, strangers, and hosts that start late.
    _continues("hang:launcher@data-1:after=0.5:for=2"),
    _continues("partition:data-1:after=0.5:for=1.5"),
    _continues("slow-disk:data-1:after=0.5:for=2"),
    _continues("stranger:dnn-1"),
    _continues("stranger:data-1"),
    _continues("stranger:dnn-1:every=5", "kill:worker:after=1"),
    _continues("late-join:data-1:after=5"),
    _continues("late-join:dnn-1:after=5"),
    *_SILENCES,
    *_MACHINES,
    *_NETWORKS,
    *_ONE_WAY,
    *_START_AND_END,
    # Data hosts that are lost for good.
    _continues("kill:host@data-2:after=0.5", cluster=_FOUR, lost=("data-2",)),
    _continues("kill:host@data-2:from=scripts", cluster=_FOUR, lost=("data-2",)),
    _continues("hang:host@data-2:after=0.5", cluster=_FOUR, lost=("data-2",)),
    _continues("kill:launcher@data-2:after=0.5", cluster=_FOUR, lost=("data-2",)),
    _continues("partition:data-2:after=0.5", cluster=_FOUR, lost=("data-2",)),
    _continues("kill:host@data-1:after=0.5", arguments=_LOCAL, lost=("data-1",)),
    _continues(
        "kill:host@data-1:after=0.5",
        "kill:host@data-2:after=1",
        cluster=_FOUR,
        arguments=_LOCAL,
        lost=("data-1", "data-2"),
    ),
    _fails("kill:host@data-1:after=0.5", named=("data-1",)),
    _fails("kill:host@data-1:from=scripts", named=("data-1",)),
    _fails("kill:launcher@data-1:after=0.5", named=("data-1",)),
    _fails("hang:host@data-1:after=0.5", named=("data-1", "silent")),
    _fails("hang:launcher@data-1:after=0.5", named=("data-1", "silent")),
    _fails("partition:data-1:after=0.5", named=("data-1", "silent")),
    _fails("kill:host@data-1:after=0.5", "kill:host@data-2:after=0.5", named=("data-",), cluster=_FOUR),
    # Ranks and dnn hosts.
    _fails("kill:rank=0:after=0.5", named=("rank 0", "SIGKILL")),
    _fails("kill:rank=1:after=0.5", named=("rank 1", "SIGKILL")),
    _fails("kill:rank=1:from=scripts", named=("rank 1", "SIGKILL")),
    _fails("kill:rank=3:after=0.5", named=("rank 3", "SIGKILL"), cluster=_FOUR),
    _fails("oom:rank=1:after=0.5", named=("rank 1",)),
    _fails("kill:launcher@dnn-1:after=0.5", named=("lost",)),
    _fails("kill:launcher@dnn-2:after=0.5", named=("rank-",), cluster=_FOUR),
    _fails("kill:host@dnn-1:after=0.5", named=("lease",)),
    _fails("kill:host@dnn-2:after=0.5", named=("rank",), cluster=_FOUR),
    _fails("hang:host@dnn-1:after=0.5", named=("lease",)),
    _fails("hang:host@dnn-2:after=0.5", named=("rank", "silent"), cluster=_FOUR),
    _fails("partition:dnn-1:after=0.5", named=("lease",)),
    _fails("partition:dnn-2:after=0.5", named=("rank", "silent"), cluster=_FOUR),
    # Jobs that are asked to stop.
    _stops("sigterm:launcher@data-1:after=0.5"),
    _stops("sigterm:host@dnn-1:after=0.5"),
    _stops("sigterm:host@data-1:after=0.5", "sigterm:host@dnn-1:after=0.5"),
    _stops("sigterm:launcher@dnn-1:after=1.5", resumes=True),
    _stops("sigterm:host@data-2:after=0.5", cluster=_FOUR, resumes=True),
    _stops("sigterm:host@dnn-2:after=0.5", cluster=_FOUR),
    _stops("sigterm:launcher@data-1:after=0.5", arguments=_LEARNS),
    # Hosts that never join.
    _never_joins("late-join:data-1:after=60", named=("data-1", "did not join")),
    _never_joins("late-join:data-2:after=60", named=("data-2", "did not join"), cluster=_FOUR),
    _never_joins("late-join:dnn-2:after=60", named=("rank-2, rank-3 did not join",), cluster=_FOUR),
    _never_joins(before=f"{BUSY}control", named=("port",), is_linked=False),
    # Faults that the job itself finds.
    _refuses(before=f"{BUSY}dispatcher", named=("port",)),
    _refuses(before=f"{BUSY}worker", named=("port",)),
    _refuses("kill:worker:after=0.5:every=0.2", named=("worker-0", "data-1", "times in")),
    _refuses(before="truncated", named=(".tfrecord", "byte")),
    _refuses(before="corrupt", named=(".tfrecord", "byte")),
    _continues(before="corrupt", arguments=_SKIP, bad=1),
)
