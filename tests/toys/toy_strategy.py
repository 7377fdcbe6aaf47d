"""A strategy of about 100 lines: the ranks exchange what they have at a host of a third role.

It is the example of docs/strategies.md. The leader keeps a board with one line, the address of that host; the host of
the group `toy_group` listens, writes its address on the board, and gives every rank what all ranks have sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import toy_wire

from tfhet.cluster import Place, Rank, Role, environment, is_loopback
from tfhet.errors import ClusterError, shown
from tfhet.strategies import Collective, RankSource, Strategy

HELPER = Role("toy")
PLACE = "TOY_PLACE"


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True


class Board(Server):
    """See `Meeting`. It has one value, written once; whoever reads it before that waits."""

    def __init__(self) -> None:
        super().__init__(("", 0), self._Request, bind_and_activate=False)
        self.value: Any = None
        self.written = threading.Event()
        self.is_open = False

    class _Request(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            board, value = self.server, toy_wire.receive(self.request)
            assert isinstance(board, Board)
            if value is not None:
                board.value = value
                board.written.set()
            board.written.wait()
            toy_wire.send(self.request, board.value)

    def load(self) -> None:
        return None

    def open(self, address: str, interface: str, listen: str, peers: Collection[str]) -> Mapping[str, Any]:
        self.server_address, self.peers = (listen, 0), frozenset(peers)
        self.server_bind()
        self.server_activate()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        self.is_open = True
        return {"address": address, "port": self.server_address[1]}

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return client_address[0] in (*self.peers, request.getsockname()[0]) or is_loopback(client_address[0])

    def close(self) -> None:
        self.written.set()
        if self.is_open:
            self.shutdown()
        self.is_open = False
        self.server_close()


def ask(order: Mapping[str, Any], value: Any = None) -> Any:
    """The board's answer, once it has a value; `value` is written on it."""
    with socket.create_connection((order["address"], order["port"])) as connection:
        toy_wire.send(connection, value)
        return toy_wire.receive(connection)


class Exchange(Server):
    """Gives all ranks what each has sent under one name: in the order of the ranks, once all have."""

    def __init__(self, address: str) -> None:
        super().__init__((address, 0), self._Request)
        self.sent: dict[str, dict[int, Any]] = {}
        self.all_sent = threading.Condition()

    class _Request(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            exchange, turns = self.server, dict[str, int]()
            assert isinstance(exchange, Exchange)
            with contextlib.suppress(OSError):
                while True:
                    rank, size, name, value = toy_wire.receive(self.request)
                    turns[name] = turns.get(name, 0) + 1
                    with exchange.all_sent:
                        found = exchange.sent.setdefault(f"{name}/{turns[name]}", {})
                        found[rank] = value
                        exchange.all_sent.notify_all()
                        exchange.all_sent.wait_for(lambda found=found, size=size: len(found) == size)
                    toy_wire.send(self.request, [found[one] for one in range(size)])


class ToyStrategy(Strategy):
    """See `Strategy`."""

    name = "toy"
    roles: Sequence[Role] = (HELPER,)

    def meeting(self, hosts: Sequence[str], per_host: int, source: RankSource) -> Board:
        return Board()

    def check(self, order: Mapping[str, Any]) -> None:
        port = order.get("port")
        if not isinstance(order.get("address"), str) or type(port) is not int or not 0 < port < 65536:
            raise ClusterError(f"toy: no address of a board: {shown(order)}")

    def environment(self, order: Mapping[str, Any], host: str, rank: Rank, env: Mapping[str, str]) -> dict[str, str]:
        self.check(order)
        place = (order["address"], order["port"], rank.rank, rank.size, rank.local_rank)
        return {**env, PLACE: " ".join(map(str, place))}

    async def serve(self, place: Place, order: Mapping[str, Any], say: Callable[[str], None]) -> None:
        address = place.address(place.host)
        with Exchange(address) as exchange:
            threading.Thread(target=exchange.serve_forever, args=(0.05,), daemon=True).start()
            await asyncio.to_thread(ask, order, (address, exchange.server_address[1]))
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                exchange.shutdown()

    def is_consequence(self, line: str) -> bool:
        broken = ("the other end has closed the connection", "ConnectionResetError", "BrokenPipeError")
        return any(words in line for words in broken)

    def collective(self, size: int) -> Collective:
        from toy_collective import ToyCollective

        address, port, rank, size_there, local_rank = environment()[PLACE].split()
        assert size == int(size_there)
        there = ask({"address": address, "port": int(port)})
        return ToyCollective(there, int(rank), size, int(local_rank))


TOY = ToyStrategy()
