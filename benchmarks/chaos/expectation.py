"""The possible results of a job to which faults are done."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.chaos.schedule import DISK, SERVERS, Aim
from tfhet.planes.supervised import RestartPolicy
from tfhet.simulate import Fault
from tfhet.simulate.fault import CUTS

GOES_ON, FAILURE, STOP, NEVER_JOINED = "goes on", "failure", "stop", "never joined"
"""Results of a job: it ends as without faults; it fails; it stops on request; it never begins."""
HARMLESS, HARMFUL = 0.6, 1.5
"""Silences as shares of the lease: up to the first no host is lost, beyond the second the silent host surely is."""
FROZEN_S = RestartPolicy().stopped_s
"""Seconds after which a frozen process of a data plane is killed."""


def allowed(faults: Sequence[Fault], aim: Aim) -> frozenset[str]:
    """Possible results of a job to which all of `faults` are done while it starts or trains.

    Faults name hosts as `data-1` and `dnn-2`. "goes on" is among the results only if no fault must end the job.
    """
    silent_s = sum(fault.for_s or 0.0 for fault in faults if silences(fault))
    cut_off = [fault for fault in faults if silences(fault) and _loss(fault, faults, silent_s, aim)]
    silent = {host for fault in cut_off for host in aim.named(fault.host)}
    each = [_alone(fault, faults, aim, silent_s, silent) for fault in faults] + [_without_data(faults, aim, silent_s)]
    if frozenset({NEVER_JOINED}) in each:
        return frozenset({NEVER_JOINED})  # and what is done to it while it trains never is
    kinds = frozenset().union(*each)
    return kinds if all(GOES_ON in one for one in each) else kinds - {GOES_ON}


def harmful(fault: Fault, aim: Aim) -> bool:
    """Whether a fault alone may end the job, or take a data host away from it."""
    return allowed([fault], aim) != {GOES_ON} or _loss(fault, [fault], fault.for_s or 0.0, aim) > 0


def _alone(fault: Fault, faults: Sequence[Fault], aim: Aim, silent_s: float, silent: set[str]) -> frozenset[str]:
    """Possible results of one of `faults`, apart from those that depend on the number of data hosts left.

    silent: hosts that may be lost for being out of reach, and may be told to stop just then.
    """
    if fault.kind == "late-join":
        if fault.after_s < aim.ready_timeout_s / 2:
            return frozenset({GOES_ON})
        early = fault.after_s < aim.ready_timeout_s
        return frozenset({GOES_ON, NEVER_JOINED} if early else {NEVER_JOINED})
    is_data = aim.named(fault.host)[0].startswith("data-")
    if (fault.kind == "oom" and fault.process != "script") or (fault.kind in DISK and not is_data):
        # A server without memory or disk may refuse a request, which is an error of the rank's.
        return frozenset({GOES_ON, FAILURE})
    if fault.process == "ray" and fault.host in aim.needing:
        return _of_a_rank_s_node(fault)
    if fault.kind == "kill" and fault.process in SERVERS and fault.since == "start":
        return frozenset({GOES_ON, FAILURE, NEVER_JOINED})  # one that was never ready is not started again
    if fault.process == "script":
        return frozenset({GOES_ON if fault.kind == "hang" and fault.for_s is not None else FAILURE})
    if fault.kind == "sigterm" and fault.process in ("launcher", "host"):
        is_heard = silent.isdisjoint(aim.named(fault.host))
        return frozenset({STOP} if is_heard else {STOP, GOES_ON})
    return frozenset({GOES_ON}) if is_data else _by_loss(_loss(fault, faults, silent_s, aim), fault)


def _of_a_rank_s_node(fault: Fault) -> frozenset[str]:
    """Possible results of the loss of the node of Ray on a host that trains: its ranks end with it. One that is frozen
    is lost when it has been for FROZEN_S."""
    if fault.kind == "hang" and fault.for_s is not None:
        return frozenset({GOES_ON} if fault.for_s < HARMLESS * FROZEN_S else {GOES_ON, FAILURE})
    return frozenset({FAILURE, *([NEVER_JOINED] if fault.since == "start" else [])})


def _without_data(faults: Sequence[Fault], aim: Aim, silent_s: float) -> frozenset[str]:
    """Possible results of the loss of data hosts."""
    losses = dict.fromkeys(aim.serving, 0.0)
    early = frozenset[str]()
    for fault in faults:
        for host in aim.named(fault.host):
            if host in losses and host.startswith("data-"):
                loss = _loss(fault, faults, silent_s, aim)
                if not aim.built_in and aim.plane == "tf_service" and fault.since in ("start", "scripts"):
                    loss = min(loss, 0.5)  # perhaps before the script reads, which then never had that host
                losses[host] = max(losses[host], loss)
                early |= _by_loss(loss, fault) if fault.since == "start" else early
    if not losses or (aim.built_in and aim.on_data_loss == "local"):
        return early | {GOES_ON}
    kinds = _by_loss(min(losses.values()) if aim.built_in else max(losses.values()))
    return kinds | early if early else kinds


def silences(fault: Fault) -> bool:
    """Whether a fault puts a host's launchers out of reach."""
    return fault.kind in CUTS or (fault.kind == "hang" and fault.process in ("launcher", "host"))


def _watched_s(fault: Fault, faults: Sequence[Fault], aim: Aim) -> float:
    """Seconds of a silence that has an end during which others are awake to notice it. A host that is frozen notices
    nothing: the leader's silence may come to the end while all followers are frozen, and a follower's while the leader
    is. A host that is cut off notices that itself."""
    silence_s = fault.for_s or 0.0
    if fault.kind != "hang":
        return silence_s
    hosts = aim.named(fault.host)
    watchers = [host for host in aim.hosts if host not in hosts] if "dnn-1" in hosts else ["dnn-1"]
    asleep_s = dict.fromkeys(watchers, 0.0)
    for other in faults:
        for host in asleep_s.keys() & set(aim.named(other.host)):
            if other is not fault and other.kind == "hang" and silences(other):
                asleep_s[host] += silence_s if other.for_s is None else other.for_s
    return silence_s - min(asleep_s.values(), default=0.0)


def _loss(fault: Fault, faults: Sequence[Fault], silent_s: float, aim: Aim) -> float:
    """How surely one of `faults` costs the job its host: 0 not at all, 1 surely.

    silent_s: longest silence of hosts, in seconds, by this fault and others like it.
    """
    if fault.kind == "kill" and fault.process in ("launcher", "host"):
        return 1.0
    if not silences(fault):
        return 0.0
    if fault.for_s is None or _watched_s(fault, faults, aim) > HARMFUL * aim.lease_s:
        is_over = fault.since == "start" and fault.for_s is not None  # perhaps before the host joins, on a slow machine
        return 0.5 if is_over else 1.0
    return 0.5 if silent_s > HARMLESS * aim.lease_s else 0.0


def _by_loss(loss: float, fault: Fault | None = None) -> frozenset[str]:
    """Possible results of the loss of a host that the job needs, so surely; `fault`: that does it, perhaps before the
    host has joined."""
    early = {NEVER_JOINED} if fault is not None and fault.since == "start" and loss else set()
    return frozenset({GOES_ON} if loss == 0.0 else {FAILURE} if loss == 1.0 else {GOES_ON, FAILURE}) | early
