"""A data plane with its two ends open, and the cost of moving batches: CPU seconds of each side, and the rate."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfhet.bench.child_process import AnsweringProcess
from tfhet.bench.harness import in_rounds
from tfhet.clock import SYSTEM, Clock, cpu_of
from tfhet.errors import TfhetError
from tfhet.events import Observer
from tfhet.planes import with_malloc_tunables
from tfhet.units import GB

CLIENTS, WORKERS = "clients", "workers"
OPEN_LIMIT_S, GRACE_S = 180.0, 10.0
LEAST = 4
"""Minimum number of batches of a turn, for each client."""
LOOK_S = 0.05
IDLE_SHARE = 0.1
"""Share of one CPU: the processes of a lane are idle when they use less for two looks."""
SETTLE_LIMIT_S = 60.0


@dataclass(frozen=True)
class Turn:
    """Batches that were moved at one go, and their cost."""

    bytes: int
    """Bytes of tensors, of all clients together, those that were taken ahead included."""
    cpu_s: Mapping[str, float]
    gb_per_s: float
    """Rate of all clients together, without the batches taken ahead."""

    def per_gb(self, side: str) -> float:
        """Returns the CPU seconds of a side per GB; 0 for a side that this way lacks."""
        return self.cpu_s.get(side, 0.0) * GB / self.bytes

    @property
    def all_per_gb(self) -> float:
        return sum(self.cpu_s.values()) * GB / self.bytes


@dataclass(frozen=True)
class Lane:
    key: str
    bytes: int
    clients: Sequence[AnsweringProcess]
    pids: Mapping[str, Sequence[int]]
    """Processes whose CPU time counts, by side. They stay the same."""
    ahead: int = 0
    """Batches that may lie ready between turns, for each client; they are taken before the clock starts."""

    def turn(self, count: int, clock: Clock = SYSTEM) -> Turn:
        """Moves `count` batches to each client after those ahead; returns with full buffers. Raises TfhetError."""
        before = self._cpu_s()
        for client in self.clients:
            client.request({"ahead": self.ahead, "count": count})
        took = [float(client.answer()["seconds"]) for client in self.clients]
        self._settle(clock)
        spent = {side: now - before[side] for side, now in self._cpu_s().items()}
        moved = (self.ahead + count) * len(self.clients) * self.bytes
        return Turn(moved, spent, sum(count * self.bytes / seconds for seconds in took) / GB)

    def fitting(self, seconds: float, clock: Clock = SYSTEM) -> int:
        """Returns the number of batches for each client that take about `seconds`, at least LEAST, after trying."""
        count = LEAST
        while True:
            rate = self.turn(count, clock).gb_per_s * GB / self.bytes / len(self.clients)
            fits = max(LEAST, round(seconds * rate))
            if fits <= 4 * count:
                return fits
            count = min(fits, 16 * count)

    def _cpu_s(self) -> dict[str, float]:
        try:
            return {side: sum(map(cpu_of, pids)) for side, pids in self.pids.items()}
        except OSError:
            raise TfhetError(f"{self.key}: one of its processes has ended") from None

    def _settle(self, clock: Clock) -> None:
        end_s = clock.monotonic() + SETTLE_LIMIT_S
        idle, looked_s, spent_s = 0, clock.monotonic(), sum(self._cpu_s().values())
        while idle < 2:
            if looked_s > end_s:
                raise TfhetError(f"{self.key}: its processes work for {SETTLE_LIMIT_S:g} s after the last batch")
            clock.sleep(LOOK_S)
            now_s, used_s = clock.monotonic(), sum(self._cpu_s().values())
            idle = idle + 1 if used_s - spent_s < IDLE_SHARE * (now_s - looked_s) else 0
            looked_s, spent_s = now_s, used_s


def start_ends(stack: contextlib.ExitStack, module: str, way: str, env: Mapping[str, str]) -> list[AnsweringProcess]:
    """Starts the sender and the receiver of a way as `python -m MODULE WAY send|receive`; they end with the stack."""
    ends = []
    for side in ("send", "receive"):
        command = [sys.executable, "-m", module, way, side]
        own = with_malloc_tunables({**env, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"})
        ends.append(AnsweringProcess(f"{way} {side}", command, own, OPEN_LIMIT_S))
        stack.callback(ends[-1].close, GRACE_S)
    return ends


def connect(key: str, size: int, ends: Sequence[AnsweringProcess]) -> Lane:
    """Opens both ends for batches of `size` bytes. Raises TfhetError."""
    sender, receiver = ends
    facts = sender.ask({"open": {"size": size}})
    found = receiver.ask({"open": {"size": size, **facts}})
    sides = {CLIENTS: [receiver.pid], WORKERS: [sender.pid]}
    return Lane(key, size, [receiver], sides, ahead=int(found.get("ahead", 0)))


def rounds(
    lanes: Sequence[Lane], seconds: float, warmup: int, repeats: int, observer: Observer, clock: Clock = SYSTEM
) -> dict[str, list[Turn]]:
    """Returns turns of about `seconds` on all lanes, A B C A B C, by key, without the first `warmup` rounds."""
    counts = {lane.key: lane.fitting(seconds, clock) for lane in lanes}

    def describe(key: str, turn: Turn) -> str:
        spent = ", ".join(f"{side} {turn.per_gb(side):.2f}" for side in turn.cpu_s)
        return f"{turn.gb_per_s:.2f} GB/s, CPU s/GB: {spent}"

    cases = {lane.key: lambda _, lane=lane: lane.turn(counts[lane.key], clock) for lane in lanes}
    return in_rounds(cases, describe, warmup=warmup, repeats=repeats, observer=observer, clock=clock)
