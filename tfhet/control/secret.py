"""The secret of a job, and the keys that are made from it."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tfhet.errors import UsageError
from tfhet.secure import derived_key

SECRET_VARIABLE = "TFHET_SECRET"
HYPERPARAMETER_VARIABLE = "SM_HP_TFHET_SECRET"
HIDDEN = "hidden"
"""Stands for the secret where variables are handed on."""


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
        if len(text) < 16:
            raise UsageError(f"the job's secret has {len(text)} characters; give at least 16")
        return cls(_key("given", text), False)

    @classmethod
    def derive(cls, job_name: str, hosts: Iterable[str]) -> Secret:
        """The key made from the job's identity: keeps out other jobs, but not a peer that knows this one."""
        return cls(_key("derived", job_name, *sorted(hosts)), True)

    @classmethod
    def from_env(cls, env: Mapping[str, str], job_name: str, hosts: Iterable[str]) -> Secret:
        """The secret in the variable `TFHET_SECRET` or the hyperparameter `tfhet_secret`; else the derived one."""
        text = env.get(SECRET_VARIABLE) or env.get(HYPERPARAMETER_VARIABLE)
        return cls.from_text(text) if text else cls.derive(job_name, hosts)

    @staticmethod
    def left_out(env: Mapping[str, str]) -> dict[str, str]:
        """`env` without the secret, for processes that are not to know it: it stands neither in a variable of its own
        nor in those that hold all hyperparameters or arguments, such as `SM_HPS` and `SM_USER_ARGS`."""
        own = (SECRET_VARIABLE, HYPERPARAMETER_VARIABLE)
        rest = {name: value for name, value in env.items() if name not in own}
        for text in filter(None, map(env.get, own)):
            for spelling in (text, json.dumps(text)[1:-1]):  # as it is, and in JSON
                rest = {name: value.replace(spelling, HIDDEN) for name, value in rest.items()}
        return rest

    def derived_key(self, purpose: str) -> bytes:
        """A key of 32 bytes for something else than the link, from which this one cannot be found."""
        return derived_key(self.key, purpose)


def _key(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(("tfhet-link-1", *parts)).encode("utf-8", "surrogatepass")).digest()


def new_secret() -> str:
    """A new secret of 256 bits for a job. It starts with a letter: SageMaker parses hyperparameters as JSON."""
    return "s" + secrets.token_hex(32)
