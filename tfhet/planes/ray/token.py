"""The token of a job's Ray cluster, and the variables by which a process has it.

Ray's processes answer no call without it (RAY_AUTH_MODE=token). It stands in the environment of those that need it,
never in arguments, logs or records.
"""

from __future__ import annotations

import hashlib
import hmac

AUTH_TOKEN = "RAY_AUTH_TOKEN"


def token_variables(key: bytes) -> dict[str, str]:
    """The variables, made of the key of the job's data plane, which cannot be found from them."""
    token = hmac.new(key, b"tfhet token of a Ray cluster", hashlib.sha256).hexdigest()
    return {"RAY_AUTH_MODE": "token", AUTH_TOKEN: token}
