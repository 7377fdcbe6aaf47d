"""The cases of the table of faults."""

from __future__ import annotations

from benchmarks.faults.case import BUSY, LEASE_S, FaultCase

_FOUR = "two-data-two-dnn"
_TWO = "two-and-two"
_TALKS = ("--log_every", "1")
_SAVES = ("--checkpoint_every_steps", "10")
_OFTEN = ("--checkpoint_every_steps", "4", "--step_ms", "150")
_BOTH = ("launcher", "host")
_LOCAL = ("--on_data_loss", "local")
_SKIP = ("--on_bad_record", "skip")
_LEARNS = ("--model", "small_cnn")


def _goes_on(*faults: str, **more: object) -> FaultCase:
    return FaultCase(faults, "goes on", **more)  # type: ignore[arg-type]


def _fails(*faults: str, named: tuple[str, ...], **more: object) -> FaultCase:
    return FaultCase(faults, "failure", named, **more)  # type: ignore[arg-type]


def _stops(*faults: str, **more: object) -> FaultCase:
    return FaultCase(faults, "stop", ("SIGTERM",), **more)  # type: ignore[arg-type]


def _failed_stop(*faults: str, named: tuple[str, ...], **more: object) -> FaultCase:
    return FaultCase(faults, "failed stop", named, **more)  # type: ignore[arg-type]


def _never(*faults: str, named: tuple[str, ...], **more: object) -> FaultCase:
    return FaultCase(faults, "never joined", named, **more)  # type: ignore[arg-type]


def _refused(*faults: str, named: tuple[str, ...], **more: object) -> FaultCase:
    return FaultCase(faults, "refused", named, **more)  # type: ignore[arg-type]


def _hang(what: str, place: str, leases: float) -> str:
    return f"hang:{what}@{place}:after=0.5:for={leases * LEASE_S:g}"


# A launcher, or its whole host, that is silent for a while and then goes on. The leader is on dnn-1.
_SILENCES = (
    *(
        _goes_on(_hang("launcher", at, n), cluster=_TWO)
        for at in ("data-1", "dnn-1", "dnn-2")
        for n in (0.25, 0.5, 0.75)
    ),
    *(_goes_on(_hang("launcher", "data-1", n), cluster=_TWO, lost=("data-1",)) for n in (1.5, 3.0)),
    *(_fails(_hang("host", "data-1", n), named=("data-1", "silent"), exits=1) for n in (1.5, 3.0)),
    *(
        _fails(_hang(what, "dnn-1", n), named=("stood still",), exits=1, cluster=_TWO)
        for what in _BOTH
        for n in (1.5, 3.0)
    ),
    *(
        _fails(_hang(what, "dnn-2", n), named=("rank-1", "silent"), exits=1, cluster=_TWO)
        for what in _BOTH
        for n in (1.5, 3.0)
    ),
)

# What else a machine does: full and failing disks, clocks that jump, names that are slow, logs that are not read.
_MACHINES = (
    _goes_on("stall:data-1:after=0.5:for=8"),
    _goes_on("stall:dnn-1:after=0.5:for=8", arguments=_TALKS),
    _goes_on("stall:dnn-1:from=start", arguments=_TALKS),
    _fails("stall:dnn-1:after=0.5", "kill:rank=1:after=1", named=("rank 1", "SIGKILL")),
    _goes_on("slow-write:data-1:from=start"),
    _goes_on("slow-write:dnn-1:from=start"),
    _goes_on("full-disk:data-1:from=start"),
    _goes_on("full-disk:dnn-2:after=0.5", cluster=_TWO),
    _fails("full-disk:dnn-1:after=3", arguments=_SAVES, named=("No space left",)),
    _goes_on("failing-write:data-1:from=start"),
    _goes_on("failing-write:dnn-2:after=0.5", cluster=_TWO),
    _fails("failing-write:dnn-1:after=3", arguments=_SAVES, named=("Input/output error",)),
    _failed_stop("full-disk:dnn-1:after=3", "sigterm:launcher@dnn-1:after=3.1", named=("SIGTERM", "No space left")),
    _failed_stop("failing-write:dnn-1:after=3", "sigterm:launcher@data-1:after=3.1", named=("SIGTERM", "exit code 1")),
    _goes_on("slow-dns=3s:data-1:from=start"),
    _goes_on("slow-dns=12s:dnn-1:after=0.5:for=10"),
    _fails("slow-dns=12s:data-1:after=0.5", "kill:host@dnn-1:after=1", named=("lease",), exits=1),
    _fails("slow-dns=12s:dnn-1:after=0.5", "kill:host@data-1:after=1", named=("data-1",), exits=1),
    _goes_on("clock=+600s:data-1:after=0.5"),
    _goes_on("clock=+86400s:dnn-1:after=0.5", arguments=_SAVES),
    _goes_on("clock=-600s:dnn-1:after=0.5:for=2", arguments=_SAVES),
    _goes_on("second-job:data-1:after=0.5"),
    _goes_on("second-job:dnn-1:after=0.5"),
    _goes_on("second-job:dnn-1:from=scripts"),
    _goes_on("kill:dispatcher:after=0.5", "second-job:dnn-1:after=0.5"),
    _goes_on("same-base:dnn-1"),
    _fails("same-base:dnn-1", "same-base:data-1", "kill:rank=1:after=0.5", named=("rank 1", "SIGKILL")),
    _stops("half-checkpoint:dnn-1", "sigterm:launcher@dnn-1:after=5", arguments=_OFTEN, resumes=True),
    _stops("half-checkpoint:dnn-1", "sigterm:launcher@data-2:after=5", cluster=_FOUR, arguments=_OFTEN, resumes=True),
)
# Cuts of one way only.
_ONE_WAY = (
    _goes_on("partition-in:data-1:after=0.5:for=1.5"),
    _goes_on("partition-out:dnn-2:after=0.5:for=1.5", cluster=_TWO),
    _goes_on("partition-in:data-2:after=0.5", cluster=_TWO, lost=("data-2",)),
    _fails("partition-in:data-1:after=0.5", named=("data-1",), exits=1),
    _fails("partition-out:data-1:after=0.5", named=("data-1", "silent"), exits=1),
    _fails("partition-in:dnn-1:after=0.5", named=("lease",), cluster=_TWO, exits=1),
    _fails("partition-out:dnn-1:after=0.5", named=("was lost",), cluster=_TWO, exits=1),
    _fails("partition-in:dnn-2:after=0.5", named=("rank",), cluster=_TWO, exits=1),
    _fails("partition-out:dnn-2:after=0.5", named=("rank", "silent"), cluster=_TWO, exits=1),
)
# While the job starts, and while it leaves.
_START_AND_END = (
    _fails("kill:worker@data-1:from=start:after=0.2", named=("worker-0", "data-1", "SIGKILL")),
    _fails("kill:dispatcher:from=start:after=0.2", named=("dispatcher", "SIGKILL")),
    _goes_on("hang:launcher@data-1:from=start:after=1:for=2"),
    _never("kill:host@data-1:from=start:after=1", named=("data-1",)),
    _never("hang:host@data-1:from=start:after=1", named=("data-1",)),
    _never("kill:host@dnn-2:from=start:after=1", named=("rank-1",), cluster=_TWO),
    _goes_on("hang:launcher@data-1:from=end:for=3"),
    _goes_on("hang:launcher@dnn-1:from=end:for=2", cluster=_TWO),
    _goes_on("hang:launcher@dnn-2:from=end:for=2", cluster=_TWO),
    _goes_on("partition:data-1:from=end:for=2"),
    _goes_on("stall:dnn-1:from=end"),
    _goes_on("clock=+600s:dnn-1:from=end"),
    _goes_on("slow-write:dnn-1:from=end"),
)

CASES = (
    _goes_on(),
    # Processes of the data service that die, hang, or have no memory.
    _goes_on("kill:worker@data-1:after=0.5"),
    _goes_on("kill:worker@data-1:from=scripts"),
    _goes_on("kill:worker:after=0.5:every=5"),
    _goes_on("kill:dispatcher:after=0.5"),
    _goes_on("kill:dispatcher:from=scripts"),
    _goes_on("kill:dispatcher:after=0.5", "kill:worker:after=1"),
    _goes_on("hang:worker@data-1:after=0.5:for=2"),
    _goes_on("hang:dispatcher:after=0.5:for=2"),
    _goes_on("hang:worker@data-1:after=0.5"),
    _goes_on("hang:dispatcher:after=0.5"),
    _goes_on("oom:worker@data-1:after=0.5"),
    _goes_on("kill:worker@data-2:after=0.5", cluster=_FOUR),
    _goes_on("kill:worker@data-1:after=0.5", "kill:worker@data-2:after=0.5", cluster=_FOUR),
    # What is over before the lease is.
    _goes_on("hang:launcher@data-1:after=0.5:for=2"),
    _goes_on("partition:data-1:after=0.5:for=1.5"),
    _goes_on("slow-disk:data-1:after=0.5:for=2"),
    _goes_on("stranger:dnn-1"),
    _goes_on("stranger:data-1"),
    _goes_on("stranger:dnn-1:every=5", "kill:worker:after=1"),
    _goes_on("late-join:data-1:after=5"),
    _goes_on("late-join:dnn-1:after=5"),
    *_SILENCES,
    *_MACHINES,
    *_ONE_WAY,
    *_START_AND_END,
    # Data hosts that are lost for good.
    _goes_on("kill:host@data-2:after=0.5", cluster=_FOUR, lost=("data-2",)),
    _goes_on("kill:host@data-2:from=scripts", cluster=_FOUR, lost=("data-2",)),
    _goes_on("hang:host@data-2:after=0.5", cluster=_FOUR, lost=("data-2",)),
    _goes_on("kill:launcher@data-2:after=0.5", cluster=_FOUR, lost=("data-2",)),
    _goes_on("partition:data-2:after=0.5", cluster=_FOUR, lost=("data-2",)),
    _goes_on("kill:host@data-1:after=0.5", arguments=_LOCAL, lost=("data-1",)),
    _goes_on(
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
    # Told to stop.
    _stops("sigterm:launcher@data-1:after=0.5"),
    _stops("sigterm:host@dnn-1:after=0.5"),
    _stops("sigterm:host@data-1:after=0.5", "sigterm:host@dnn-1:after=0.5"),
    _stops("sigterm:launcher@dnn-1:after=1.5", resumes=True),
    _stops("sigterm:host@data-2:after=0.5", cluster=_FOUR, resumes=True),
    _stops("sigterm:host@dnn-2:after=0.5", cluster=_FOUR),
    _stops("sigterm:launcher@data-1:after=0.5", arguments=_LEARNS),
    # Hosts that never come.
    _never("late-join:data-1:after=60", named=("data-1", "did not join")),
    _never("late-join:data-2:after=60", named=("data-2", "did not join"), cluster=_FOUR),
    _never("late-join:dnn-2:after=60", named=("rank-2, rank-3 did not join",), cluster=_FOUR),
    _never(before=f"{BUSY}control", named=("port",), linked=False),
    # What the job itself finds wrong.
    _refused(before=f"{BUSY}dispatcher", named=("port",)),
    _refused(before=f"{BUSY}worker", named=("port",)),
    _refused("kill:worker:after=0.5:every=0.2", named=("worker-0", "data-1", "times in")),
    _refused(before="truncated", named=(".tfrecord", "byte")),
    _refused(before="corrupt", named=(".tfrecord", "byte")),
    _goes_on(before="corrupt", arguments=_SKIP, bad=1),
)
