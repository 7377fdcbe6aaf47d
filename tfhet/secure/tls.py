"""TLS with certificates of the job: for connections that have passed the handshake, and for Ray."""

from __future__ import annotations

import datetime
import functools
import ipaddress
import select
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfhet.extras import needed
from tfhet.secure.handshake import HANDSHAKE_S, derived_key

AUTHORITY = "tfhet job"
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of the curve P-256."""


class TlsSocket:
    """An encrypted socket with some methods of a socket. OpenSSL allows one thread at a time in it, so no call waits
    for the network while it holds the lock."""

    def __init__(self, end: socket.socket, key: bytes, is_server: bool, limit_s: float = HANDSHAKE_S):
        """Does the handshake of TLS on a blocking socket. Raises OSError, and UsageError without `cryptography`."""
        end.settimeout(limit_s)
        wrapped = tls_context(key, is_server).wrap_socket(end, server_side=is_server)
        wrapped.setblocking(False)
        self._end, self._lock = wrapped, threading.Lock()
        self._limit_s: float | None = None

    def settimeout(self, limit_s: float | None) -> None:
        self._limit_s = limit_s

    def recv_into(self, memory: memoryview, size: int, flags: int) -> int:
        return self._do(functools.partial(self._end.recv_into, memory))

    def sendall(self, memory: memoryview) -> None:
        memory = memory.cast("B") if memory.nbytes else memory
        while memory.nbytes:
            memory = memory[self._do(functools.partial(self._end.send, memory)) :]

    def shutdown(self, how: int) -> None:
        self._end.shutdown(how)

    def close(self) -> None:
        self._end.close()

    def _do(self, call: Callable[[], int]) -> int:
        while True:
            try:
                with self._lock:
                    return call()
            except ssl.SSLWantReadError:
                event = select.POLLIN
            except ssl.SSLWantWriteError:
                event = select.POLLOUT
            except ssl.SSLEOFError as error:
                raise ConnectionError(str(error)) from None
            poll = select.poll()
            try:
                poll.register(self._end, event)
            except ValueError:
                raise ConnectionError("this side has closed the connection") from None
            if not poll.poll(None if self._limit_s is None else 1e3 * self._limit_s):
                raise TimeoutError(f"nothing was received for {self._limit_s:g} s")


@dataclass(frozen=True)
class Certificates:
    """The job's certificate authority and a certificate of this process, in PEM."""

    authority: bytes
    own: bytes
    private_key: bytes = field(repr=False)
    """Of `own`."""


def certificates(key: bytes, addresses: Sequence[str] = ()) -> Certificates:
    """Makes a certificate, signed by the authority whose private key is derived from the job's key.

    Args:
        key: The job's key.
        addresses: IP addresses at which this process is dialled, for clients that compare them.

    Raises:
        MissingPackage: The package `cryptography` is not installed.
    """
    with needed("--data_plane_encryption"):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

    def signed(subject: str, public: ec.EllipticCurvePublicKey, is_authority: bool) -> bytes:
        named, issuer = (
            x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in (subject, AUTHORITY)
        )
        since = datetime.datetime(2020, 1, 1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(named)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(since)
            .not_valid_after(since.replace(year=2120))
            .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None), critical=True)
        )
        if addresses and not is_authority:
            found = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
            builder = builder.add_extension(x509.SubjectAlternativeName(found), critical=False)
        return builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    # A number from 1 to the order of the curve minus 1 (SEC 1, 3.2.1).
    number = int.from_bytes(derived_key(key, "certificate authority")) % (_ORDER - 1) + 1
    authority, own = ec.derive_private_key(number, ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    private = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    named = signed(AUTHORITY, authority.public_key(), True), signed("tfhet", own.public_key(), False)
    return Certificates(*named, private)


@functools.lru_cache(maxsize=2)
def tls_context(key: bytes, is_server: bool) -> ssl.SSLContext:
    """Returns a context for TLS 1.3 in which both sides show, and trust only, certificates of the job's authority."""
    made = certificates(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the handshake before it has checked the address
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=made.authority.decode())
    with tempfile.TemporaryDirectory(prefix="tfhet-tls-") as folder:  # ssl reads private keys from files only
        path = Path(folder) / "own.pem"
        path.touch(mode=0o600)
        path.write_bytes(made.private_key + made.own)
        context.load_cert_chain(path)
    return context
