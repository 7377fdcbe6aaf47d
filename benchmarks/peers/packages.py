"""The packages of a peer: in this environment, or in a folder of their own in the user's cache.

The folder (`pip install --target`) is for packages that conflict with TensorFlow's pins or are large. Only
`--peers install` installs packages.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Protocol

from tfhet.cluster import cache_dir, environment, own_folder
from tfhet.errors import TfhetError

INSTALL_LIMIT_S = 1800.0
CHECKOUT = Path(__file__).resolve().parents[2]


class Library(Protocol):
    """A library with its packages, such as a peer."""

    @property
    def name(self) -> str: ...

    @property
    def requires(self) -> tuple[str, ...]: ...


def folder_of(peer: Library, cache: Path | None = None) -> Path:
    """Returns the folder of the peer's packages. Peers that require the same versions share one; each Python has its
    own. cache: the folder of all peers' folders, instead of one in the user's cache."""
    parts = repr([*peer.requires, sys.version.split()[0], sys.platform])
    words = "+".join(re.split("[=<>]", package)[0] for package in peer.requires if "/" not in package)
    return _all_peers(cache) / f"{words}-{hashlib.blake2b(parts.encode(), digest_size=5).hexdigest()}"


def environment_of(peer: Library, cache: Path | None = None) -> dict[str, str]:
    """Returns the environment of the peer's process, in which its own packages come first, then the tfhet of this
    checkout. Raises UsageError if other users can write to the folder."""
    folder = folder_of(peer, cache)
    own = [str(folder)] if folder.is_dir() and own_folder(_all_peers(cache)) else []
    paths = os.pathsep.join([*own, str(CHECKOUT), *(path for path in sys.path if path)])
    quiet = {"NO_ALBUMENTATIONS_UPDATE": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    return {**environment(), "PYTHONPATH": paths, **quiet}


def install(peer: Library, cache: Path | None = None) -> None:
    """Installs the peer's packages into their folder, completely or not at all. Raises TfhetError with the installer's
    last lines."""
    folder, peers = folder_of(peer, cache), _all_peers(cache)
    peers.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{peer.name}-", dir=own_folder(peers)) as scratch:
        target = Path(scratch) / "packages"
        command = [*_installer(), "--target", str(target), *peer.requires]
        quiet = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        try:
            subprocess.run(command, timeout=INSTALL_LIMIT_S, check=True, **quiet)  # type: ignore[call-overload]
        except (OSError, subprocess.SubprocessError) as error:
            last = str(getattr(error, "stderr", "")).strip().splitlines()[-3:]
            raise TfhetError(f"peer {peer.name} cannot be installed: {' | '.join([str(error), *last])}") from None
        if not folder.is_dir():
            os.replace(target, folder)


def _all_peers(cache: Path | None) -> Path:
    return (cache or cache_dir(environment())) / "peers"


def _installer() -> list[str]:
    """uv, which is faster, or pip."""
    path = os.pathsep.join([str(Path(sys.executable).parent), environment().get("PATH", os.defpath)])
    if uv := shutil.which("uv", path=path):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
