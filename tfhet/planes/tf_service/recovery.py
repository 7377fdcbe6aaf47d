"""Recovery from the loss of a host: the leader's launcher gives the ranks a dispatcher that does not know that host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tfhet.messages import rank
from tfhet.planes.tf_service.fleet import Fleet

RENEWALS = 3
"""Maximum number of renewals caused by workers of one lost host, which are then accepted and watched; and of watches
that end although the worker is still there."""


@dataclass
class Recovery:
    fleet: Fleet
    """The one with the dispatcher."""
    workers: dict[str, int]
    """Their number on each host that serves and is not lost."""
    tell_script: Callable[[rank.Order], None]
    """Sends a message to the script of this rank."""
    fail: Callable[[str], None]
    """Ends the job, with a cause."""
    when_gone: Callable[[Sequence[str], Callable[[], None]], None]
    """Makes a call as soon as a worker of these hosts that lives is gone."""
    _lost: list[str] = field(default_factory=list)
    _is_watching: bool = False
    _reads: list[bool] = field(default_factory=list)
    _renewals: int = 0
    _watches: int = 0

    def reads(self, endlessly: bool) -> None:
        self._reads.append(endlessly)

    @property
    def _reads_endlessly(self) -> bool:
        return bool(self._reads) and all(self._reads)

    def begin(self) -> None:
        """Tells the script which hosts serve, unless a loss has already said so."""
        if not self._lost:
            self.tell()

    def lost(self, host: str) -> None:
        """Lets the ranks read the rest of their epoch from the hosts that are left."""
        self._lost.append(host)
        self.workers.pop(host, None)
        # An endless data set goes on with the workers that are left; another dispatcher would end it.
        if not (self._reads_endlessly and self.workers):
            self._renewals = self._watches = 0
            self._renew()

    def expect_workers(self) -> None:
        """Called at another number of registered workers. After a loss, tells the script once the remaining ones are.

        A returning worker of the lost host would be given work and be lost again, so the dispatcher is renewed once
        more. One that lives on without its launcher is accepted in the end, and its end causes a renewal."""
        if not self._lost or self._reads_endlessly:
            return
        surplus = self.fleet.workers_registered - sum(self.workers.values())
        if surplus > 0 and self._renewals < RENEWALS:
            self._renewals += 1
            self._renew()
        elif surplus >= 0:
            if surplus and not self._is_watching and self._watches < RENEWALS:
                self._is_watching = True
                self._watches += 1
                self.when_gone(self._lost, self._worker_gone)
            self.tell()

    def _worker_gone(self) -> None:
        self._is_watching = False
        self._renew()

    def tell(self, is_complete: bool = True) -> None:
        """Sends the script the hosts that serve and are not lost; is_complete: the dispatcher knows all workers."""
        self.tell_script(rank.ServingHosts(tuple(self.workers), is_complete))

    def _renew(self) -> None:
        self.tell(is_complete=False)
        try:
            self.fleet.renew_dispatcher()
        except OSError as error:
            self.fail(f"the dispatcher cannot begin anew: {error}")
