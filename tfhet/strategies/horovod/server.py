"""Horovod's server of the ranks' rendezvous, at one address, for the hosts of the job only."""

from __future__ import annotations

import logging
import socket
from collections.abc import Collection
from http import HTTPStatus
from typing import Any

from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

from tfhet.cluster import is_loopback

logger = logging.getLogger(__name__)


class _Handler(RendezvousHandler):
    def do_HEAD(self) -> None:
        """Refuses the request: Horovod's base class would answer it from the working directory."""
        self.send_error(HTTPStatus.NOT_IMPLEMENTED)


class RendezvousServer(RendezvousHTTPServer):
    """Listens at a free port of the IP address `listen`, and answers this machine and the IP addresses `peers`.
    Horovod's protocol has no authentication and no encryption (0.28.1): any process that sends from a host's address
    can read and change its values."""

    daemon_threads = True  # a silent peer must not keep this process from ending

    def __init__(self, listen: str, peers: Collection[str]):
        self.address_family = socket.AF_INET6 if ":" in listen else socket.AF_INET
        self._peers, self._refused = frozenset(peers), set[str]()
        super().__init__((listen, 0), _Handler, 0)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether the peer gets an answer; other connections are closed."""
        peer = str(client_address[0])
        if peer in self._peers or is_loopback(peer) or peer == request.getsockname()[0]:
            return True
        if peer not in self._refused and len(self._refused) < 10:
            self._refused.add(peer)
            logger.warning("the ranks' rendezvous refuses %s, which is no address of a host of this job", peer)
        return False
