"""The key of a job's data plane, which a launcher sends to each process as the first message."""

from __future__ import annotations

from collections.abc import Mapping

from tfhet.errors import NotReady
from tfhet.messages import inherited, rank

KEY_BYTES = 32
KEY_S = 30.0
"""Seconds that a process waits for the key from its launcher."""
_keys: dict[int, bytes] = {}


def key_from(env: Mapping[str, str]) -> bytes:
    """Returns the key that the launcher has sent to this process. Raises NotReady after KEY_S seconds."""
    channel = inherited(env)
    if id(channel) in _keys:
        return _keys[id(channel)]
    if (message := channel.receive(KEY_S, rank.Key)) is not None:
        return _keys.setdefault(id(channel), bytes.fromhex(message.key))
    raise NotReady(
        f"no key of the job's data plane came from the launcher within {KEY_S:g} s; only a process that it started "
        "gets one, so call tfhet.distribute, or tfhet.batches, in the training script itself"
    )
