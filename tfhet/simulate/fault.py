"""Faults that the simulator injects into a running job.

KIND[=AMOUNT]:TARGET[:from=MOMENT][:after=SECONDS][:every=SECONDS][:for=SECONDS]

kill:worker@data-1:after=3    kill:rank=1:from=scripts    oom:dispatcher           hang:host@data-1:for=4
sigterm:launcher@dnn-1        loss=1%:data-1              delay=50ms:dnn-1         rate=100mbit:data_group
partition:data_group:for=4    partition-in:data-1         partition-out:dnn-1      stall:dnn-1:for=8
slow-disk:data-1              slow-write:dnn-1            full-disk:dnn-1:for=5    failing-write:dnn-1
slow-dns=12s:data-1           clock=+600s:dnn-1           second-job:data-1        stranger:data-1
late-join:dnn-1:after=20      same-base:dnn-1             half-checkpoint:dnn-1

`docs/run-on-your-machine.md` describes each of them.
"""

from __future__ import annotations

import errno
import os
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from tfhet import planes
from tfhet.errors import UsageError, check_known
from tfhet.kernels import compiled

NETWORK = {"rate": "limit", "delay": "delay", "loss": "lose"}
"""Kinds with an amount (bits per second, seconds, a share of the packets), and their keys of `container.PURPOSES`."""
CUTS = ("partition", "partition-in", "partition-out")
"""Kinds that cut hosts off: in both directions, from receiving, from sending."""
PRELOADED = ("slow-disk", "slow-write", "full-disk", "failing-write", "slow-dns", "clock")
"""Kinds that need the library that the processes of a host preload."""
ONCE = ("late-join", "same-base", "half-checkpoint")
"""Kinds at a fixed moment: two when the host starts, one when the job has ended."""
IMPAIRMENTS = (*NETWORK, *PRELOADED)
LASTING = ("hang", *CUTS, "stall", *IMPAIRMENTS)
"""Kinds that may end after some time."""
OF_A_HOST = (*CUTS, "stall", *IMPAIRMENTS, "second-job", "stranger", *ONCE)
"""Kinds whose target is a host, or a group."""
KINDS = ("kill", "oom", "sigterm", *LASTING, "second-job", "stranger", *ONCE)
PROCESSES = ("script", "launcher", "host")
"""Targets in addition to the processes of data planes."""
MOMENTS = ("start", "scripts", "steps", "end")
"""Moments that `after=` counts from: the hosts have started; the ranks' scripts have started; the ranks read their
first batches, or ran for some time without a report; a rank's script has succeeded, so the job is ending."""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([a-z%]*)")
_ELSE_CUT = "; to cut a host off write partition:data-1"
_SECONDS = {"ms": "0.001", "s": "1"}
_RATES = {"kbit": "1e3", "mbit": "1e6", "gbit": "1e9"}
_AMOUNTS = {
    "rate": (_RATES, "100mbit", 10e3, 1e15, f"a rate is at least 10kbit{_ELSE_CUT}"),
    "delay": (_SECONDS, "50ms", 0.0, 10.0, f"a delay is at most 10 s{_ELSE_CUT}"),
    "loss": ({"%": "0.01"}, "1%", 0.0, 1.0, "no more than 100% can be lost"),
    "slow-dns": (_SECONDS, "12s", 0.001, 600.0, "a look-up takes more than 0 and at most 600 s longer"),
    "clock": ({"s": "1"}, "+600s", 0.001, 1e8, "a clock jumps by more than 0 and at most 1e8 s"),
}
"""Units, example, minimum, maximum, and message for other amounts."""
READ_MS, WRITE_MS = 50, 200
"""Delays of a read and of a write of a slow disk, in milliseconds."""
CONTROL = Path("/etc/tfhet-host-faults")
"""Control file and preload list of a container; process hosts use variables instead."""
PRELOAD = Path("/etc/ld.so.preload")
_FLAGS = ("-O2", "-fPIC", "-shared", "-D_GNU_SOURCE", "-fno-exceptions", "-fno-threadsafe-statics", "-Wl,--as-needed")


@dataclass(frozen=True)
class Fault:
    """A fault of one kind at one target."""

    kind: str
    process: str
    """A kind of a data plane's processes, or one of PROCESSES; "" if the kind determines the target."""
    host: str = ""
    """`data-1`: the first host of the data group; `dnn-2`; a host's name, `algo-3`; "": any host with the process."""
    rank: int | None = None
    after_s: float = 0.0
    """Seconds after `since`; for `late-join`, after the other hosts started."""
    every_s: float | None = None
    """Seconds between repetitions; None: once."""
    for_s: float | None = None
    """Duration in seconds of a fault in LASTING; None: until the end."""
    amount: float | None = None
    """Share of lost packets (0 to 1), bits per second, seconds of delay, or seconds that a clock jumps."""
    since: str = "steps"

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Parses a fault in the syntax above. Raises UsageError."""
        first, *parts = text.strip().split(":")
        kind, _, given = first.partition("=")
        check_known("fault", kind, KINDS)
        amount = _amount(text, kind, given)
        if not parts:
            raise UsageError(f"fault {text!r} has no target: write like kill:worker@data-1:after=3s")
        target, *options = parts
        times: dict[str, float] = {}
        since = "steps"
        for option in options:
            name, _, value = option.partition("=")
            found = _NUMBER.fullmatch(value.removesuffix("s"))
            if name == "from" and kind not in ONCE:
                check_known(f"moment of fault {text!r}", value, MOMENTS)
                since = value
            elif name not in ("after", "every", "for") or not found or found[2]:
                raise UsageError(f"fault {text!r}: {option!r} is not after=, every= or for= and seconds, like after=3s")
            else:
                times[f"{name}_s"] = float(found[1])
        process, host, rank = _target(text, kind, target)
        if "for_s" in times and kind not in LASTING:
            raise UsageError(f"fault {text!r}: for= belongs to {', '.join(LASTING)}")
        if kind in ONCE and {*times} - ({"after_s"} if kind == "late-join" else set()):
            raise UsageError(f"fault {text!r}: {kind} comes once, at a moment of its own; only late-join has after=")
        if "every_s" in times and kind in LASTING[1:] and "for_s" not in times:
            raise UsageError(f"fault {text!r}: a repeated fault must end first; give for= too")
        if times.get("every_s") == 0.0:
            raise UsageError(f"fault {text!r}: every= is more than 0 seconds")
        return cls(kind, process, host, rank, **times, amount=amount, since=since)

    def __str__(self) -> str:
        where = f"rank={self.rank}" if self.rank is not None else "@".join(filter(None, (self.process, self.host)))
        times = {"after": self.after_s or None, "every": self.every_s, "for": self.for_s}
        amount = self.amount or 0.0
        written = {
            "loss": f"={100 * amount:.6g}%",
            "delay": f"={1000 * amount:g}ms",
            "rate": f"={amount / 1000:g}kbit",
            "slow-dns": f"={amount:g}s",
            "clock": f"={amount:+.12g}s",
        }
        kind, since = self.kind + written.get(self.kind, ""), [f"from={self.since}"] * (self.since != "steps")
        return ":".join([kind, where, *since, *(f"{name}={s:g}" for name, s in times.items() if s is not None)])


def _amount(text: str, kind: str, given: str) -> float | None:
    if kind not in _AMOUNTS:
        if given:
            raise UsageError(f"fault {text!r}: {kind} has no amount; only {', '.join(_AMOUNTS)} have")
        return None
    units, example, least, most, bounds = _AMOUNTS[kind]
    is_signed = kind == "clock" and given[:1] in ("+", "-")
    found = _NUMBER.fullmatch(given[is_signed:])
    if not found or found[2] not in units or (kind == "clock") != is_signed:
        raise UsageError(f"fault {text!r}: how much? write like {kind}={example}:data-1")
    amount = float(Decimal(found[1]) * Decimal(units[found[2]]))
    if not least <= amount <= most:
        raise UsageError(f"fault {text!r}: {bounds}")
    return -amount if given[0] == "-" else amount


def _target(text: str, kind: str, target: str) -> tuple[str, str, int | None]:
    if kind in OF_A_HOST:
        if not target.removeprefix("host@"):
            raise UsageError(f"fault {text!r}: which host? write {kind}:data-1")
        return "", target.removeprefix("host@"), None
    if target.startswith("rank="):
        if not target[5:].isdigit():
            raise UsageError(f"fault {text!r}: {target!r} is not a rank")
        return "script", "", int(target[5:])
    process, _, host = target.partition("@")
    check_known("target of a fault", process, (*planes.kinds(), *PROCESSES, "rank=N"))
    if kind == "oom" and process in ("launcher", "host"):
        raise UsageError(f"fault {text!r}: write oom:worker@data-1, oom:dispatcher or oom:rank=1")
    if process == "host" and not host:
        raise UsageError(f"fault {text!r}: which host? write host@data-1")
    return process, host, None


def library(env: Mapping[str, str]) -> Path:
    """Path of the library, compiled unless it is in the cache. Raises UsageError if it cannot be compiled."""
    what = f"the library of the faults {', '.join(PRELOADED)}"
    return compiled(Path(__file__).with_name("host_faults.cc"), env, what, "omit them", _FLAGS, ".so")


class HostFaults:
    """The control file of one host. It begins with a number for each kind in PRELOADED; 0: the fault is off."""

    def __init__(self, path: Path):
        self.path = path

    def open(self, reads: Iterable[Path], writes: Iterable[Path]) -> None:
        """Writes the file with all faults off. reads, writes: the real folders whose reads or writes are affected."""
        lines = [*(f"r{folder}\n" for folder in reads), *(f"w{folder}\n" for folder in writes)]
        self.path.write_bytes(bytes(8 * len(PRELOADED)) + os.fsencode("".join(lines)) + b"\0")

    def set(self, kind: str, amount: float | None = None, *, is_on: bool = True) -> None:
        """Starts or ends a fault of a kind in PRELOADED. amount: the amount of a Fault."""
        place = PRELOADED.index(kind)
        numbers = (READ_MS, WRITE_MS, errno.ENOSPC, errno.EIO, (amount or 0.0) * 1e3, (amount or 0.0) * 1e9)
        with open(self.path, "r+b", buffering=0) as file:
            file.seek(8 * place)
            file.write(struct.pack("=q", round(is_on * numbers[place])))

    def variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """Variables of the host's processes, in addition to `env`."""
        preload = ":".join(filter(None, (str(library(env)), env.get("LD_PRELOAD", ""))))
        return {"LD_PRELOAD": preload, "TFHET_HOST_FAULTS": str(self.path)}
