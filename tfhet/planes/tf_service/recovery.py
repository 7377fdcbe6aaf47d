"""Recovery from the loss of a host: the leader's launcher gives the ranks a dispatcher that does not know it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tfhet.messages import rank

RENEWALS = 3
"""Maximum number of dispatcher renewals caused by workers of one lost host; after that they are accepted."""


class Dispatcher(Protocol):
    """What recovery needs of the fleet that has the dispatcher."""

    workers_registered: int

    def renew_dispatcher(self) -> None:
        """Raises OSError."""


class Recovery:
    """What the launcher of rank 0 does about the data service of the job."""

    def __init__(
        self,
        workers: Mapping[str, int],
        tell_script: Callable[[rank.Order], None],
        fail: Callable[[str], None],
    ):
        """workers: their number on each host that serves. tell_script: sends a message to the script of this rank.
        fail: called with the cause when the job cannot go on."""
        self._workers = dict(workers)
        self._tell_script = tell_script
        self._fail = fail
        self._lost = False
        self._reads: list[bool] = []
        self._renewals = 0

    def reads(self, endlessly: bool) -> None:
        """Notes that the script reads a data set, and whether that is endless."""
        self._reads.append(endlessly)

    @property
    def _reads_endlessly(self) -> bool:
        return bool(self._reads) and all(self._reads)

    def lost(self, dispatcher: Dispatcher | None, host: str) -> None:
        """Lets the ranks read the rest of their epoch from the hosts that are left."""
        self._lost = True
        self._workers.pop(host, None)
        # An endless data set goes on with the workers that are left; another dispatcher would end it.
        if dispatcher is not None and not (self._reads_endlessly and self._workers):
            self._renewals = 0
            self._renew(dispatcher)

    def expect_workers(self, dispatcher: Dispatcher) -> None:
        """The dispatcher has said how many workers it knows. After a loss, tells the script once all others are there.

        A worker of the lost host that was frozen and comes back would be given work and taken away again: then the
        dispatcher is renewed once more.
        """
        if not self._lost or self._reads_endlessly:
            return
        surplus = dispatcher.workers_registered - sum(self._workers.values())
        if surplus > 0 and self._renewals < RENEWALS:
            self._renewals += 1
            self._renew(dispatcher)
        elif surplus >= 0:
            self.tell()

    def tell(self, is_complete: bool = True) -> None:
        """Sends the script the hosts that serve and are not lost, and whether the dispatcher knows all their workers:
        by then these have given up what they did for an earlier dispatcher."""
        self._tell_script(rank.ServingHosts(tuple(self._workers), is_complete))

    def _renew(self, dispatcher: Dispatcher) -> None:
        self.tell(is_complete=False)
        try:
            dispatcher.renew_dispatcher()
        except OSError as error:
            self._fail(f"the dispatcher cannot begin anew: {error}")
