"""One training job made of a job file: named, packed, checked, sent."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tfhet.aws import Patient
from tfhet.clock import SYSTEM, Clock
from tfhet.control import new_secret
from tfhet.errors import TfhetError, UsageError
from tfhet.schema import checked
from tfhet.submit import rules, values
from tfhet.submit.job import Code, Job
from tfhet.submit.request import REDACTED, create_request

ARCHIVE_NAME = "sourcedir.tar.gz"
LEFT_OUT = ("__pycache__", ".git", ".venv", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".aws")
"""Names of files and folders that are never packed."""
MOST_BYTES = 200 * 2**20
"""Maximum size of all files. Every host fetches them before it begins; data belong into a channel."""


@dataclass(frozen=True)
class Archive:
    """A packed code directory: the same files make the same bytes."""

    content: bytes
    uri: str
    """S3 URI below the code's prefix, named by a hash of the content, so that no archive is overwritten."""

    @classmethod
    def of(cls, code: Code) -> Archive:
        """Packs without owners, times and permissions (but for the right to execute); links are followed. Raises
        UsageError for a directory that is too large, cannot be read, or holds a link to a directory."""
        packed, total = io.BytesIO(), 0
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name, path in _files(code.directory):
                try:
                    data = path.read_bytes()
                    executable = bool(path.stat().st_mode & 0o100)
                except OSError as error:
                    raise UsageError(f"the code directory cannot be packed: {path}: {error}") from None
                total += len(data)
                if total > MOST_BYTES:
                    why = f"more than {MOST_BYTES >> 20} MiB, which every host would fetch: give data as a channel"
                    raise UsageError(f"the code directory {code.directory} holds {why}")
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(data), 0o755 if executable else 0o644
                archive.addfile(member, io.BytesIO(data))
        named = hashlib.sha256(packed.getvalue()).hexdigest()[:16]
        return cls(gzip.compress(packed.getvalue(), mtime=0), f"{code.uri}/{named}/{ARCHIVE_NAME}")

    @property
    def place(self) -> dict[str, str]:
        """Bucket and key, as boto3's `put_object` takes them."""
        return dict(zip(("Bucket", "Key"), self.uri.split("/", 3)[2:], strict=True))


def _files(directory: Path) -> Iterator[tuple[str, Path]]:
    """Yields the files by their names in the archive, in the order of these names."""
    found: dict[str, Path] = {}
    for place, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        for name in folders:
            if (link := Path(place, name)).is_symlink():
                raise UsageError(f"the code directory cannot be packed: {link} is a link to a directory; copy it there")
        for name in files:
            if name not in LEFT_OUT and not name.endswith((".pyc", ".pem")) and not name.startswith(".env"):
                path = Path(place, name)
                found[path.relative_to(directory).as_posix()] = path
    yield from sorted(found.items())


@dataclass(frozen=True)
class JobSubmission:
    """A training job that can be sent. Its repr does not show the secret."""

    job: Job
    name: str
    archive: Archive = field(repr=False)
    secret: str = field(repr=False)
    clock: Clock = field(default=SYSTEM, repr=False)

    @classmethod
    def of(cls, job: Job, name: str | None = None, clock: Clock = SYSTEM) -> JobSubmission:
        """Makes a training job with a fresh secret; its name is by default the job's name and the time (UTC). Raises
        UsageError for a name that SageMaker would refuse, and for code that cannot be packed or would not start."""
        if name is None:
            name = f"{job.name}-{datetime.fromtimestamp(clock.wall(), UTC):%Y%m%d-%H%M%S}"
        checked(name, values.TrainingJobName, "--name")
        rules.check_code(job)
        return cls(job, name, Archive.of(job.code), new_secret(), clock)

    @property
    def request(self) -> dict[str, Any]:
        """The request that is sent, with the secret."""
        return create_request(self.job, self.name, self.archive.uri, self.secret)

    @property
    def shown(self) -> dict[str, Any]:
        """The request that may be shown, without the secret."""
        return create_request(self.job, self.name, self.archive.uri, REDACTED)

    def send(self, sagemaker: Any, s3: Any) -> str:
        """Stores the code, creates the training job, and returns its ARN. sagemaker, s3: boto3's clients. Raises as
        `Patient` does, and never with the secret in the message."""
        patient = Patient(self.clock)
        try:
            patient(s3.put_object, **self.archive.place, Body=self.archive.content)
            return str(patient(sagemaker.create_training_job, **self.request)["TrainingJobArn"])
        except TfhetError as error:
            if self.secret in str(error):
                raise TfhetError(str(error).replace(self.secret, REDACTED)) from None
            raise
