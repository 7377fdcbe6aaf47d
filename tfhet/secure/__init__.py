"""Authenticated connections between the processes of a job, for the link and all data planes.

handshake.py    the protocol: both sides prove that they have the job's key, and records carry tags
listener.py     accepts connections and passes on the authenticated ones
tls.py          encryption with certificates of the job
"""

from tfhet.secure.handshake import (
    HANDSHAKE_S,
    KEY_BYTES,
    MAGIC,
    TAG_BYTES,
    Forged,
    Purpose,
    Records,
    Unauthenticated,
    as_client,
    as_server,
    derived_key,
    perform_handshake,
    perform_handshake_async,
)
from tfhet.secure.listener import Listener, ListenerThread, listening
from tfhet.secure.tls import TlsSocket, certificates
