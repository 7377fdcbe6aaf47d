"""The data plane `feed`: processes on the serving hosts run any Python, and ranks read the batches."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfhet.cluster import DATA, DNN, Place, PortRange, Role, Roles, environment
from tfhet.messages import ProcessChannel, inherited, rank
from tfhet.planes.feed.settings import PORTS, SERVER, FeedSettings, Order
from tfhet.planes.plane import DataPlane, LauncherSide, Outlets
from tfhet.strategies import JobContext

if TYPE_CHECKING:
    from tfhet.planes.costs import CostFile, PlaneCosts
    from tfhet.planes.feed.batch_reader import BatchReader
    from tfhet.planes.feed.source import FeedSource
    from tfhet.planes.reader import RankSide


class Feed(DataPlane):
    name = "feed"
    settings = FeedSettings
    serves_functions = True
    kinds: Mapping[str, bool] = {"feed": False}
    module = SERVER
    orders = Order

    def costs(self, file: CostFile | None = None) -> PlaneCosts:
        from tfhet.planes.costs import CostFile

        return (file or CostFile.default()).plane(self.name).costs(most_servers_per_host=1)

    def arguments(self, servers_on_data_hosts: int, servers_on_dnn_hosts: int) -> Mapping[str, int]:
        # One process for each CPU of a serving host, whatever the number of servers.
        return {"data_host_processes": 0, "dnn_host_processes": -1 if servers_on_dnn_hosts else 0}

    def serving(self, settings: FeedSettings, roles: Roles) -> tuple[str, ...]:
        return (*roles.data_hosts, *(roles.dnn_hosts if settings.dnn_host_processes else ()))

    def ports(self, settings: FeedSettings, role: Role) -> Mapping[str, PortRange]:
        return {PORTS: PortRange(settings.feed_port, processes(settings, role))}

    def host_facts(self, settings: FeedSettings, role: Role) -> Mapping[str, Any]:
        return {"servers_per_host": processes(settings, role)}

    def launcher_side(self, settings: FeedSettings, place: Place, outlets: Outlets) -> LauncherSide:
        from tfhet.planes.feed.launcher_side import FeedLauncherSide

        return FeedLauncherSide(settings, place, outlets, self.serving(settings, place.roles))

    def batches(self, source: FeedSource, job: JobContext, options: Mapping[str, Any]) -> BatchReader:
        from tfhet.planes.feed.alone import alone

        order = Order.parse(job.order)
        if not order.servers:
            return alone(source, job, options)
        from tfhet.planes.feed.reader import FeedReader
        from tfhet.planes.process import key_from

        arguments = {"rank": job.rank, "size": job.size, "seed": job.seed, "is_equal": options["is_equal"]}
        arguments |= {name: options[name] for name in ("ahead", "allocate", "make_limit_s")}
        arguments |= {"encrypted": order.encrypted, "hosts": order.hosts, "host": job.host}
        arguments |= {"say": functools.partial(print, flush=True)}
        reader = FeedReader(order.servers, key_from(environment()), source, **arguments)
        _membership().subscribe(reader.serve_only)
        return reader

    def opens_early(self, job: JobContext) -> bool:
        return bool(Order.parse(job.order).servers)

    def rank_side(self) -> RankSide:
        from tfhet.planes.feed.rank_side import FeedRankSide

        return FeedRankSide()


def processes(settings: FeedSettings, role: Role) -> int:
    """Number of processes on a host of a role, if this host has it."""
    from tfhet.planes.cpus import usable

    count = {DATA: settings.data_host_processes or -1, DNN: settings.dnn_host_processes}.get(role, 0)
    return count if count >= 0 else max(1, len(usable()))


class Membership:
    """The serving hosts, as the launcher reports them, so readers learn of a lost host before they notice it."""

    def __init__(self, channel: ProcessChannel):
        self._channel = channel
        self._listeners: list[weakref.WeakMethod[Callable[[Sequence[str]], None]]] = []
        self._latest: Sequence[str] | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="tfhet-serving", daemon=True).start()

    def subscribe(self, listener: Callable[[Sequence[str]], None]) -> None:
        """Calls a method with the names of the serving hosts at every change while its object lives."""
        with self._lock:
            self._listeners = [each for each in self._listeners if each() is not None]
            self._listeners.append(weakref.WeakMethod(listener))
            latest = self._latest
        if latest is not None:
            listener(latest)

    def _run(self) -> None:
        while self._channel.is_open:
            if (order := self._channel.receive(5.0, rank.ServingHosts)) is not None:
                with self._lock:
                    self._latest, listeners = order.hosts, [each() for each in self._listeners]
                for listener in filter(None, listeners):
                    listener(order.hosts)


_membership = functools.cache(lambda: Membership(inherited(environment())))
FEED = Feed()
