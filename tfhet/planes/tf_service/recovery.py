"""Recovery from the loss of a data host: the chief's launcher gives the ranks a dispatcher that does not know it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tfhet.cluster import Serving
from tfhet.launch.chief import Chief
from tfhet.planes.tf_service import Fleet

RENEWALS = 3
"""So often the dispatcher is renewed because of workers of a lost host; if they still come then, they are welcome."""


class Recovery:
    """What the launcher of rank 0 does about the data service of the job. `record`: where the script is told."""

    def __init__(self, record: Path, say: Callable[[str], None]):
        self._record = record
        self._say = say
        self._reads: list[bool] = []
        self._renewals = 0

    def reads(self, endlessly: bool) -> bool:
        """The script said that it reads a data set, and whether that is endless. Whether it is the first."""
        self._reads.append(endlessly)
        return len(self._reads) == 1

    @property
    def _reads_endlessly(self) -> bool:
        return bool(self._reads) and all(self._reads)

    def go_on_without(self, chief: Chief, fleet: Fleet | None, host: str) -> None:
        """A data host was lost: the ranks are to read the rest of their epoch from the others."""
        why, left = chief.lost_hosts[host], ", ".join(chief.serving) or "no host"
        self._say(f"{host} was lost: {why}; training goes on, {left} serves data")
        # A data set without end goes on with the workers that are left; another dispatcher would end it.
        if fleet is not None and not (self._reads_endlessly and chief.serving):
            self._renewals = 0
            self._renew(chief, fleet)

    def expect_workers(self, chief: Chief, fleet: Fleet) -> None:
        """The dispatcher told how many workers it knows. After a loss, tells the script when all the others' are there.

        A worker of the lost host that comes back, frozen until now, would be given work and taken away again: then the
        dispatcher is renewed once more.
        """
        if not chief.lost_hosts or self._reads_endlessly:
            return
        place = chief.place
        lost = len(chief.lost_hosts.keys() & set(place.roles.data_hosts))
        surplus = fleet.workers_registered - (place.workers - lost * place.settings.data_host_workers)
        if surplus > 0 and self._renewals < RENEWALS:
            self._renewals += 1
            self._renew(chief, fleet)
        elif surplus >= 0:
            self.tell(Serving(chief.serving))

    def tell(self, serving: Serving) -> None:
        """Tells the script who serves data."""
        try:
            serving.write(self._record)
        except OSError as error:
            self._say(f"the script cannot be told who serves data: {error}")

    def _renew(self, chief: Chief, fleet: Fleet) -> None:
        self.tell(Serving(chief.serving, is_complete=False))
        try:
            fleet.renew_dispatcher()
        except OSError as error:
            chief.report({"type": "failed", "code": 1, "cause": f"the dispatcher cannot begin anew: {error}"})
