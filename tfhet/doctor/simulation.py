"""The section `simulation`: what the simulator can do to hosts on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfhet.container.kernel import PURPOSES, Feature
from tfhet.doctor.check import Check, Status

SECTION = "simulation"
_ELSE = {
    "unshare": "trying namespaces",
    "CPU set": "hosts in namespaces whose CPUs are counted",
    "memory limit": "hosts in namespaces with less memory than the machine",
    "netem": "packet delays that cost no CPU",
}
"""What features are for that no purpose fails without."""
_STOOD_IN = {"netem", "CPU set", "memory limit", "unshare"}
"""Without them something is done in another way, or left out and said in the record."""

_IN_SOFTWARE = {"toolkit", "mpi4py"}


def checks(features: Iterable[Feature]) -> Iterator[Check]:
    """`features`: as `tfhet.container.kernel.probe` finds them."""
    for feature in features:
        if feature.name in _IN_SOFTWARE:
            continue
        if feature.there is None:
            status = Status.UNKNOWN
        elif feature.there:
            status = Status.OK
        else:
            status = Status.LIMITED if feature.name in _STOOD_IN else Status.MISSING
        what = (
            "" if status is Status.OK else feature.what_to_do if feature.there is False else "run tfhet doctor as root"
        )
        yield Check(SECTION, feature.name, status, feature.detail, _needed_for(feature), what)


def _needed_for(feature: Feature) -> str:
    purposes = [PURPOSES[purpose] for purpose in feature.needed_for]
    return purposes[0] if purposes else _ELSE.get(feature.name, "")
