"""Certificates of the job, for the TLS of Ray."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfhet.extras import needed
from tfhet.secure.records import derived_key

AUTHORITY = "tfhet job"
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of the curve P-256."""


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
