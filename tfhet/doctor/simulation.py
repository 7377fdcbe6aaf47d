"""Checks of the simulator: its abilities on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfhet import container
from tfhet.doctor.check import Check, Status

_OPTIONAL = {
    "unshare": "trying namespaces",
    "CPU set": "hosts in namespaces whose CPUs are counted",
    "memory limit": "hosts in namespaces with less memory than the machine",
    "netem": "packet delays that cost no CPU",
}
"""Purposes of features of the machine that a simulation can do without: another way is taken, or the record says so."""


def simulation_checks(features: Iterable[container.KernelFeature]) -> Iterator[Check]:
    """The section `simulation`: what the simulator can do to hosts on this machine."""
    for feature in features:
        if feature.name in ("toolkit", "mpi4py"):  # the section `software` has them
            continue
        status, what = Status.OK, ""
        if feature.there is None:
            status, what = Status.UNKNOWN, "run tfhet doctor as root"
        elif not feature.there:
            status = Status.LIMITED if feature.name in _OPTIONAL else Status.MISSING
            what = feature.what_to_do
        why = container.PURPOSES[feature.needed_for[0]] if feature.needed_for else _OPTIONAL.get(feature.name, "")
        yield Check("simulation", feature.name, status, feature.detail, why, what)
