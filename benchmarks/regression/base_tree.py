"""The commit to compare with, and its `tfhet` package in a temporary folder."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from tfhet.errors import UsageError

GIT_LIMIT_S = 60.0
UPSTREAMS = ("main@{upstream}", "origin/main")


def base_commit(root: Path, wanted: str | None) -> str | None:
    """Returns the commit to compare the working tree of `root` with: `wanted`, else the merge base with main's
    upstream, or HEAD~1 if that is HEAD and nothing is changed. None if there is none, as in a shallow clone. Raises
    UsageError for an unknown `wanted`."""
    if wanted is not None:
        if (found := _git(root, "rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}")) is None:
            raise UsageError(f"--base {wanted}: this repository has no such commit; fetch it")
        return found
    head, is_changed = _git(root, "rev-parse", "HEAD"), bool(_git(root, "status", "--porcelain", "--", "tfhet"))
    for upstream in UPSTREAMS:
        found = _git(root, "merge-base", "HEAD", upstream)
        if found is not None and (found != head or is_changed):
            return found
    return _git(root, "rev-parse", "--verify", "--quiet", "HEAD~1^{commit}")


def extract(root: Path, commit: str, folder: Path) -> None:
    """Writes the `tfhet` package of a commit to `folder`. Raises UsageError if it has none."""
    command = ["git", "-C", str(root), "archive", "--format=tar", commit, "tfhet"]
    done = subprocess.run(command, capture_output=True, timeout=GIT_LIMIT_S, check=False)
    if done.returncode:
        raise UsageError(f"commit {commit} has no package to compare with: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


def _git(root: Path, *words: str) -> str | None:
    """The output of a command, None if it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=GIT_LIMIT_S, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
