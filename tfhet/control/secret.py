"""The secret that the hosts of one job share."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tfhet.errors import UsageError

SECRET_VARIABLE = "TFHET_SECRET"
HYPERPARAMETER_VARIABLE = "SM_HP_TFHET_SECRET"
SHORTEST = 16
_LABEL = b"tfhet-link-1"


@dataclass(frozen=True)
class Secret:
    """The key of a job's link; its repr does not show it."""

    key: bytes = field(repr=False)
    """32 bytes."""
    derived: bool
    """Whether the key is made from the job's name and hosts, which others may know or guess; the job's log says so."""

    @classmethod
    def from_text(cls, text: str) -> Secret:
        """The key made from a shared text. Raises UsageError, without the text, for fewer than 16 characters."""
        if len(text) < SHORTEST:
            raise UsageError(f"the job's secret has {len(text)} characters; give at least {SHORTEST}")
        return cls(hashlib.sha256(_LABEL + b"\0given\0" + text.encode("utf-8", "surrogatepass")).digest(), False)

    @classmethod
    def derive(cls, job_name: str, hosts: Iterable[str]) -> Secret:
        """The key made from the job's identity: keeps out other jobs, but not somebody who knows this one."""
        identity = "\0".join(("derived", job_name, *sorted(hosts)))
        return cls(hashlib.sha256(_LABEL + b"\0" + identity.encode("utf-8", "surrogatepass")).digest(), True)

    @classmethod
    def from_env(cls, env: Mapping[str, str], job_name: str, hosts: Iterable[str]) -> Secret:
        """The secret in the variable `TFHET_SECRET` or the hyperparameter `tfhet_secret`; else the derived one."""
        text = env.get(SECRET_VARIABLE) or env.get(HYPERPARAMETER_VARIABLE)
        return cls.from_text(text) if text else cls.derive(job_name, hosts)

    def sign(self, data: bytes) -> bytes:
        """HMAC-SHA256 of `data`, 32 bytes."""
        return hmac.new(self.key, data, hashlib.sha256).digest()


def new_secret() -> str:
    """A new secret of 256 bits for a job. It starts with a letter: SageMaker parses hyperparameters as JSON."""
    return "s" + secrets.token_hex(32)
