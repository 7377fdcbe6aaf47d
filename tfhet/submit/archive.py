"""The archive of a job's code directory, without what does not belong to the code: caches, hidden files and secrets."""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfhet.errors import UsageError
from tfhet.submit.job import Code

ARCHIVE_NAME = "sourcedir.tar.gz"
CACHES = (
    "__pycache__",
    "*.pyc",
    ".git",
    ".venv",
    ".ipynb_checkpoints",
    ".*_cache",
    ".DS_Store",
    ".git[ia]*",
    ".hg",
    ".svn",
)
"""Names of files and folders that are left out without a word."""
SECRETS = (
    *(".*", "_netrc", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.kdbx"),
    *("kaggle.json", "credentials", "*service[-_]account*.json", "client_secret*.json"),
    *(
        f"{name}.{kind}"
        for name in ("credentials", "secrets")
        for kind in ("json", "yaml", "yml", "toml", "ini", "csv")
    ),
)
"""Names of hidden files and folders, and of files that usually hold secrets. They are left out, and named."""
_KEY = b"PRIVATE KEY-----"
MOST_BYTES = 200 * 2**20
"""Maximum size of all files. Every host fetches them before it begins; data belong into a channel."""


@dataclass(frozen=True)
class Archive:
    """A packed code directory: the same files make the same bytes."""

    content: bytes
    uri: str
    """S3 URI below the code's prefix, named by a hash of the content, so that no archive is overwritten."""
    left_out: tuple[str, ...] = ()
    """Hidden files and files with secrets, which are not in the archive; a folder's name ends with a slash."""

    @classmethod
    def of(cls, code: Code) -> Archive:
        """Packs without owners, times and permissions (except the right to execute).

        Raises:
            UsageError: The directory is too large, cannot be read, or holds a pipe, a device or the like, a link to a
                directory, or a link to a file outside of it.
        """
        packed, left_out = io.BytesIO(), list[str]()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name, path in _files(code.directory, left_out):
                try:
                    data = path.read_bytes()
                    executable = bool(path.stat().st_mode & 0o100)
                except OSError as error:
                    raise _refused(path, str(error)) from None
                if data.startswith(b"-----BEGIN") and _KEY in data[:100]:
                    left_out.append(name)
                    continue
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(data), 0o755 if executable else 0o644
                archive.addfile(member, io.BytesIO(data))
        named = hashlib.sha256(packed.getvalue()).hexdigest()[:16]
        content = gzip.compress(packed.getvalue(), mtime=0)
        return cls(content, f"{code.uri}/{named}/{ARCHIVE_NAME}", tuple(sorted(left_out)))

    @property
    def place(self) -> dict[str, str]:
        """Bucket and key, as boto3's `put_object` takes them."""
        return dict(zip(("Bucket", "Key"), self.uri.split("/", 3)[2:], strict=True))


def _files(directory: Path, left_out: list[str]) -> Iterator[tuple[str, Path]]:
    """Returns the files by their names in the archive, in the order of these names; adds to `left_out`."""
    found: dict[str, Path] = {}
    total, inside = 0, directory.resolve()
    for place, folders, files in os.walk(directory, onerror=_raise):
        kept = []
        for name in (*folders, *files):
            path = Path(place, name)
            label = path.relative_to(directory).as_posix()
            if _matches(name, CACHES):
                continue
            if _matches(name.lower(), SECRETS):
                left_out.append(f"{label}/" if path.is_dir() else label)
                continue
            try:
                status = path.stat()
            except OSError as error:
                raise _refused(path, str(error)) from None
            if stat.S_ISDIR(status.st_mode):
                if path.is_symlink():
                    raise _refused(path, "a link to a directory; copy it there")
                kept.append(name)
                continue
            if not stat.S_ISREG(status.st_mode):
                raise _refused(path, "neither a file nor a directory (a pipe, a device or a socket); remove it")
            if not path.resolve().is_relative_to(inside):
                raise _refused(path, f"a link out of the directory, to {path.resolve()}; copy the file there")
            total += status.st_size
            if total > MOST_BYTES:
                why = f"more than {MOST_BYTES >> 20} MiB, which every host would fetch: give data as a channel"
                raise UsageError(f"the code directory {directory} holds {why}; {path} has {status.st_size >> 20} MiB")
            found[label] = path
        folders[:] = kept
    return iter(sorted(found.items()))


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(f"the code directory cannot be packed: {path}: {why}")


def _raise(error: OSError) -> None:
    raise _refused(Path(str(error.filename)), str(error))
