"""News of the hosts that serve, from the launcher: a rank learns by it that one is lost, before it notices itself."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence

from tfhet.messages import ProcessChannel, rank

_WAIT_S = 5.0

Heard = Callable[[Sequence[str]], None]


class HostNews:
    """Passes each message on to all readers of this process: one thread takes what comes over the channel."""

    def __init__(self, channel: ProcessChannel):
        self._channel = channel
        self._readers: list[weakref.WeakMethod[Heard]] = []
        self._latest: Sequence[str] | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="tfhet-serving", daemon=True).start()

    def pass_to(self, reader: Heard) -> None:
        """Calls a method with the names of the hosts that serve, if they have changed already, and from now on as long
        as its object lives."""
        with self._lock:
            self._readers.append(weakref.WeakMethod(reader))
            latest = self._latest
        if latest is not None:
            reader(latest)

    def _run(self) -> None:
        while self._channel.is_open:
            if (order := self._channel.receive(_WAIT_S, rank.ServingHosts)) is not None:
                self._pass_on(order.hosts)

    def _pass_on(self, hosts: Sequence[str]) -> None:
        with self._lock:
            self._latest, readers = hosts, [each() for each in self._readers]
        for reader in readers:
            if reader is not None:
                reader(hosts)
