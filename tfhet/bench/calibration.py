"""`tfhet plan --calibrate`: measures the costs of a plan on this machine, in at most two minutes.

The CPU time of a side is a cost per batch plus a cost per GB, so batches of two sizes give both. A data plane that
cannot be measured here keeps the costs of the package, divided by the speed of this machine's vCPUs.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tfhet.bench import cpu_work
from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.lane import CLIENTS, WORKERS, Lane, connect, rounds, start_ends
from tfhet.clock import SYSTEM
from tfhet.cluster import environment
from tfhet.errors import TfhetError
from tfhet.events import ignore
from tfhet.planes import CostFile, MovingCost, VcpuCost
from tfhet.record import Figure, Interval, machine, median
from tfhet.report import Step
from tfhet.units import GB, KB, MB

LIMIT_S = 110.0
"""Maximum time for all measurements; the processes end within the rest of two minutes."""
TURN_S, WARMUP, ROUNDS = 0.25, 1, 5
SMALL, LARGE = 150 * KB, 19 * MB
"""Bytes of one image of 224x224, and of a batch of 128 of them."""
PASSES = 25
LEAST_PER_GB = 1e-3
LEAST_SHARE = 0.9
"""Minimum CPU time over wall time of busy processes: below it the machine had other work."""
COMMAND = "tfhet plan --calibrate"
NEEDS = {"feed": "numpy", "tf_service": "tensorflow"}
"""The data planes that are measured, each with the module that it needs. Ray is not: on one machine, a task for each
batch costs several times the CPU time of a job, whose tasks make blocks of several batches."""


@dataclass(frozen=True)
class Calibration:
    costs: CostFile
    speed: Interval
    """Speed of a vCPU of this machine relative to the reference machine."""
    measured: tuple[str, ...]
    """Names of the data planes that were measured; the others keep the costs of the package."""
    notes: tuple[str, ...]


async def calibrate(step: Step, limit_s: float = LIMIT_S) -> Calibration:
    """Measures the costs. Raises TfhetError if the speed of the vCPUs cannot be measured."""
    shipped, end_s = CostFile.shipped(), asyncio.get_running_loop().time() + limit_s
    facts, day = machine(), datetime.fromtimestamp(SYSTEM.wall(), UTC).date()
    cpus = int(facts["cores_usable"])
    origin: dict[str, Any] = {"date": str(day), "machine": f"{facts['cpu']}, {cpus} vCPUs", "source": COMMAND}
    step(0, len(shipped.planes), "planes: speed of a vCPU")
    try:
        async with asyncio.timeout_at(end_s):
            pass_ms, share = await _pass_ms(cpus)
    except TimeoutError:
        raise TfhetError(f"no speed of a vCPU within {limit_s:g} s: repeat it when the machine is idle") from None
    speed = pass_ms.inverse().times(shipped.vcpu.pass_ms.value)
    planes, measured, notes = dict[str, MovingCost](), list[str](), list[str]()
    if share < LEAST_SHARE:
        notes.append(f"busy processes had a CPU {share:.0%} of the time: repeat it when the machine is idle")
    for name in shipped.planes:
        try:
            step(len(planes), len(shipped.planes), f"planes: {name}")
            async with asyncio.timeout_at(end_s):
                planes[name] = replace(shipped.planes[name], **origin, **await _costs(name))
            measured.append(name)
        except (TimeoutError, TfhetError) as error:
            reason = str(error) or f"it was not measured within {limit_s:g} s"
            planes[name] = shipped.planes[name].at_speed(speed.value)
            notes.append(f"{name} keeps the costs of the package, divided by the speed of a vCPU: {reason}")
    return Calibration(CostFile(VcpuCost(**origin, pass_ms=pass_ms), planes), speed, tuple(measured), tuple(notes))


async def _pass_ms(processes: int) -> tuple[Interval, float]:
    """Returns CPU milliseconds per pass with all vCPUs busy, and the share of time that the processes had a CPU."""
    with contextlib.ExitStack() as stack:
        modules = [AnsweringProcess.of_module("tfhet.bench.cpu_work", env=environment()) for _ in range(processes)]
        started = [stack.enter_context(module) for module in modules]

        def turn() -> tuple[float, float]:
            for process in started:
                process.request({"passes": PASSES})
            answers = [process.answer() for process in started]
            if any(answer["checksum"] != cpu_work.CHECKSUM for answer in answers):
                raise TfhetError("the work on the vCPUs gave a wrong result: report it with the version of NumPy")
            cpu_s, wall_s = (sum(answer[name] for answer in answers) for name in ("cpu_s", "wall_s"))
            return 1e3 * cpu_s / len(answers) / PASSES, cpu_s / wall_s

        taken = [await asyncio.to_thread(turn) for _ in range(WARMUP + ROUNDS)][WARMUP:]
    return _interval([ms for ms, _ in taken]), median([share for _, share in taken])


async def _costs(plane: str) -> dict[str, Any]:
    """Returns the measured fields of `MovingCost`. Raises TfhetError if the plane cannot be measured here."""
    if plane not in NEEDS:
        raise TfhetError("only a cluster can measure it")
    if importlib.util.find_spec(NEEDS[plane]) is None:
        raise TfhetError(f"{NEEDS[plane]} is not installed")
    with contextlib.ExitStack() as stack:  # ends the processes if a timeout cancels the wait for a thread
        both = [start_ends(stack, "tfhet.bench.ends", plane, environment()) for _ in (SMALL, LARGE)]
        lanes = [
            await asyncio.to_thread(connect, f"{plane}.{size}", size, ends)
            for size, ends in zip((SMALL, LARGE), both, strict=True)
        ]
        taken = await asyncio.to_thread(rounds, lanes, TURN_S, WARMUP, ROUNDS, ignore)

    def per_batch_s(side: str, lane: Lane) -> list[float]:
        return [turn.per_gb(side) * lane.bytes / GB for turn in taken[lane.key]]

    sides = {"reader": CLIENTS, "server": WORKERS}
    return _split({name: [per_batch_s(side, lane) for lane in lanes] for name, side in sides.items()})


def _split(batch_s: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, Any]:
    """Returns the costs by field. batch_s: by side, the CPU seconds of a small and of a large batch in each round."""
    found: dict[str, Any] = {}
    for side, (small_s, large_s) in batch_s.items():
        pairs = list(zip(small_s, large_s, strict=True))
        per_gb = [max(LEAST_PER_GB, (large - small) * GB / (LARGE - SMALL)) for small, large in pairs]
        per_batch = [max(0.0, small - each * SMALL / GB) for (small, _), each in zip(pairs, per_gb, strict=True)]
        found |= {f"{side}_cpu_s_per_batch": _interval(per_batch), f"{side}_cpu_s_per_gb": _interval(per_gb)}
    return found


def _interval(samples: Sequence[float]) -> Interval:
    return Interval.of(Figure.of(samples, unit="")).rounded()
