"""Authenticated connections between the processes of a job, for the link and all data planes.

handshake.py    both sides prove that they have the job's key
records.py      the messages that follow, with tags or encrypted
listener.py     accepts connections and passes on the authenticated ones
tls.py          certificates of the job
"""

from tfhet.secure.handshake import (
    HANDSHAKE_S,
    KEY_BYTES,
    MAGIC,
    Purpose,
    Unauthenticated,
    as_client,
    as_server,
    perform_handshake,
    perform_handshake_async,
)
from tfhet.secure.listener import Listener, ListenerThread, listening
from tfhet.secure.records import TAG_BYTES, EncryptedRecords, Forged, Records, derived_key
from tfhet.secure.tls import certificates
