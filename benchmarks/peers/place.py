"""Where a peer's packages lie: in this environment, or in a folder of their own that is put in front of it.

The folder (`pip install --target`, in the user's cache, named after what is in it) keeps apart what cannot live with
TensorFlow's pins, or is too large to be part of the extra `bench`. Nothing is installed unless asked for.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tfhet.cluster import cache_dir, environment, own_folder
from tfhet.errors import TfhetError

INSTALL, NONE = "install", "none"
"""Values of the option `--peers` that are not names of peers."""
INSTALL_LIMIT_S = 1800.0
LOOK_LIMIT_S = 120.0


class Packaged(Protocol):
    """The fields of a peer about its packages; see Peer."""

    @property
    def name(self) -> str: ...

    @property
    def imports(self) -> tuple[str, ...]: ...

    @property
    def requires(self) -> tuple[str, ...]: ...

    @property
    def dependencies(self) -> bool: ...


@dataclass(frozen=True)
class Place:
    """One peer's packages on this machine."""

    peer: Packaged
    """Whose they are."""
    cache: Path
    """The folder of all peers' folders."""

    @classmethod
    def of(cls, peer: Packaged, cache: Path | None = None) -> Place:
        return cls(peer, (cache or cache_dir(environment())) / "peers")

    @property
    def folder(self) -> Path:
        """Folder of the peer's own packages: another one for other versions or another Python."""
        parts = [*self.peer.requires, str(self.peer.dependencies), sys.version.split()[0], sys.platform]
        return self.cache / f"{self.peer.name}-{hashlib.blake2b(repr(parts).encode(), digest_size=5).hexdigest()}"

    @property
    def installed(self) -> bool:
        """Whether the folder is there. Raises UsageError where others may have put packages there."""
        return self.folder.is_dir() and own_folder(self.cache).is_dir()

    def environment(self) -> dict[str, str]:
        """Environment of the peer's process: its packages before those of this one, and no look for updates."""
        paths = [str(self.folder)] if self.installed else []
        given = dict(environment())
        given["PYTHONPATH"] = os.pathsep.join([*paths, *(path for path in sys.path if path)])
        given |= {"NO_ALBUMENTATIONS_UPDATE": "1", "RAY_USAGE_STATS_ENABLED": "0"}
        given["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # without one Ray leaves one of its own in the user's home
        return {**given, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

    def missing(self) -> str | None:
        """Why its process could not import what it needs; None when it could."""
        look = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
        command = [sys.executable, "-c", look, *self.peer.imports]
        try:
            done = subprocess.run(
                command,
                env=self.environment(),
                capture_output=True,
                text=True,
                timeout=LOOK_LIMIT_S,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return f"importing {', '.join(self.peer.imports)} took more than {LOOK_LIMIT_S:g} s"
        if done.returncode == 0:
            return None
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return last[0]

    def install(self) -> Path:
        """Puts the packages into the folder, whole or not at all. Raises TfhetError with the installer's last words."""
        if self.installed or not self.peer.requires:
            return self.folder
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        own_folder(self.cache)
        with tempfile.TemporaryDirectory(prefix=f".{self.peer.name}-", dir=self.cache) as scratch:
            target = Path(scratch) / "packages"
            command = [*_installer(environment()), "--target", str(target)]
            if not self.peer.dependencies:
                command.append("--no-deps")
            try:
                done = subprocess.run(
                    [*command, *self.peer.requires],
                    capture_output=True,
                    text=True,
                    timeout=INSTALL_LIMIT_S,
                    stdin=subprocess.DEVNULL,
                )
            except subprocess.TimeoutExpired:
                raise TfhetError(f"peer {self.peer.name}: installing took more than {INSTALL_LIMIT_S:g} s") from None
            if done.returncode:
                words = " | ".join((done.stderr or done.stdout).strip().splitlines()[-4:])
                raise TfhetError(f"peer {self.peer.name}: {command[0]} could not install it: {words}")
            if not self.installed:
                os.replace(target, self.folder)
        return self.folder


def _installer(env: Mapping[str, str]) -> list[str]:
    """uv where it is there, for it takes seconds, else pip."""
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)]))
    if uv:
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
