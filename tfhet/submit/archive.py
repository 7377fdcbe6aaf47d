"""sourcedir.tar.gz: the code directory, packed so that the same files make the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfhet.errors import UsageError
from tfhet.submit.job import Code

NAME = "sourcedir.tar.gz"
LEFT_OUT = ("__pycache__", ".git", ".venv", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache")
"""Names of files and folders that are never packed."""
MOST_BYTES = 200 * 2**20
"""Maximum size of all files. Every host fetches them before it begins: data belongs into a channel."""


@dataclass(frozen=True)
class Archive:
    """A packed code directory."""

    content: bytes
    uri: str
    """Where it belongs: below the code's S3 prefix, under a name made of its content, so that nothing there changes."""

    @classmethod
    def of(cls, code: Code) -> Archive:
        """Owners, times and permissions (but for the right to execute) are left out, links are followed.

        Raises UsageError for a directory that is too large, cannot be read, or holds a link to a directory.
        """
        packed = io.BytesIO()
        total = 0
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name, path in _files(code.directory):
                try:
                    data = path.read_bytes()
                    executable = bool(path.stat().st_mode & 0o100)
                except OSError as error:
                    raise UsageError(f"the code directory cannot be packed: {path}: {error}") from None
                total += len(data)
                if total > MOST_BYTES:
                    raise UsageError(
                        f"the code directory {code.directory} holds more than {MOST_BYTES >> 20} MiB, which every host "
                        "would fetch: give data as a channel"
                    )
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(data), 0o755 if executable else 0o644
                archive.addfile(member, io.BytesIO(data))
        named = hashlib.sha256(packed.getvalue()).hexdigest()[:16]
        return cls(gzip.compress(packed.getvalue(), mtime=0), f"{code.uri}/{named}/{NAME}")

    @property
    def bucket(self) -> str:
        return self.uri.removeprefix("s3://").partition("/")[0]

    @property
    def key(self) -> str:
        return self.uri.removeprefix("s3://").partition("/")[2]


def _files(directory: Path) -> Iterator[tuple[str, Path]]:
    """The files by their names in the archive, in the order of these names."""
    found: dict[str, Path] = {}
    for place, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        for name in folders:
            if (link := Path(place, name)).is_symlink():
                raise UsageError(f"the code directory cannot be packed: {link} is a link to a directory; copy it there")
        for name in files:
            if name not in LEFT_OUT and not name.endswith(".pyc"):
                path = Path(place, name)
                found[path.relative_to(directory).as_posix()] = path
    yield from sorted(found.items())
