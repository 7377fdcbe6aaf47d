"""Roots to run commands in: overlays of layers, and a stand-in for the image that the Dockerfile comes from.

Without Docker that image itself is not to be had; it is made anew from what it is made of: Ubuntu 22.04, Ubuntu's
Python 3.11 and TensorFlow by pip (tensorflow/build, tensorflow_runtime_dockerfiles). Used by scripts/image.py.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tfhet"
STEP_LIMIT_S = 1800
ARCHIVE = "http://archive.ubuntu.com/ubuntu"
SUITE = "jammy"
KEYRING = ("pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb",
           "0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f")  # fmt: skip
"""Debian does not package Ubuntu's keys. Held: F6EC B376 2474 EDA9 D21B 7022 8719 20D1 991B C93C."""
BASE_PACKAGES = "build-essential ca-certificates curl pkg-config python3.11 python3.11-distutils python3.11-venv \
software-properties-common unzip"
BASE_STEPS = f"""
printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d  # as in Ubuntu's images: a package starts no service
chmod 755 /usr/sbin/policy-rc.d
printf 'deb {ARCHIVE} {SUITE}%s main universe\\n' '' -updates -security >/etc/apt/sources.list
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends {BASE_PACKAGES} >/dev/null
ln -sf python3.11 /usr/bin/python3
ln -sf python3.11 /usr/bin/python
python -m venv /tmp/first
/tmp/first/bin/python -m pip install -q --no-cache-dir --upgrade pip
/tmp/first/bin/python -m pip --python /usr/bin/python3.11 install -q --no-cache-dir pip setuptools wheel
rm -rf /tmp/first
python -m pip install -q --no-cache-dir --root-user-action=ignore 'tensorflow==VERSION'
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
"""
NETWORK = ("/etc/resolv.conf", "/etc/hosts")
"""What a root is lent of this machine, as Docker's builder does."""
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
LENT_CERTIFICATES = "/run/certificates.crt"


class NotHere(Exception):
    """This machine cannot run the check; says why."""


class Failed(Exception):
    """A step of the Dockerfile, or the job, went wrong."""


def say(line: str) -> None:
    print(f"image: {line}", flush=True)


def sh(*command: object, limit_s: float = STEP_LIMIT_S, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs a command of this machine. Raises CalledProcessError."""
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, text=True, timeout=limit_s, **options)  # type: ignore[call-overload]


PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What an image starts with."""


def inside(root: Path, env: Mapping[str, str], folder: str) -> list[str]:
    """The words before a command that runs in a root, with an environment of its own."""
    return [
        "chroot",
        str(root),
        "/usr/bin/env",
        "-i",
        "-C",
        folder,
        *(f"{name}={value}" for name, value in env.items()),
    ]


def network_variables() -> dict[str, str]:
    """Of this process's environment, what says how to reach the network."""
    names = ("http_proxy", "https_proxy", "no_proxy", "pip_index_url", "pip_extra_index_url", "pip_trusted_host")
    found = {name: value for name, value in os.environ.items() if name.lower() in names}
    # The index may be behind a proxy with a certificate that only this machine knows.
    return {**found, "PIP_CERT": LENT_CERTIFICATES} if CERTIFICATES.is_file() else found


def mounted(layers: Sequence[Path], place: Path, read_only: bool = False, network: bool = True) -> Path:
    """Mounts layers, the first of which is written to; with /proc, /dev, and this machine's way to the network."""
    root = place / "root"
    root.mkdir(parents=True, exist_ok=True)
    if read_only:
        sh("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={':'.join(map(str, layers))}", root)
        return root
    work = place / "work"
    for path in (layers[0], work):
        path.mkdir(parents=True, exist_ok=True)
    lower = ":".join(map(str, layers[1:]))
    sh("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={layers[0]},workdir={work}", root)
    provide(root, network)
    return root


def provide(root: Path, network: bool = True) -> None:
    """/proc, a small /dev, and the way to the network."""
    for name in ("proc", "dev", "sys", "tmp", "run"):
        (root / name).mkdir(exist_ok=True)
    sh("mount", "-t", "proc", "proc", root / "proc")
    sh("mount", "-t", "tmpfs", "-o", "mode=755", "dev", root / "dev")
    for name, minor in {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}.items():
        sh("mknod", "-m", "666", root / "dev" / name, "c", 1, minor)
    for name in ("fd", "stdin", "stdout", "stderr"):
        (root / "dev" / name).symlink_to(
            "/proc/self/fd" + {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}[name]
        )
    (root / "dev/shm").mkdir(mode=0o1777)
    lent = {name: name for name in NETWORK} | {str(CERTIFICATES): LENT_CERTIFICATES} if network else {}
    for here, there in lent.items():
        if Path(here).is_file():
            place = root / there.lstrip("/")
            if place.is_symlink() or not place.exists():
                place.unlink(missing_ok=True)
                place.touch()
            sh("mount", "--bind", here, place)


def unmount(root: Path) -> None:
    """Takes off whatever is mounted at a folder or below it, the last first. Raises CalledProcessError."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    for point in [Path(line.split()[4].encode().decode("unicode_escape")) for line in reversed(lines)]:
        if point.is_relative_to(root):
            sh("umount", point)


def discard(folder: Path) -> None:
    """Removes a folder with what is in it, and never what is only mounted there."""
    if folder.exists():
        unmount(folder)
        shutil.rmtree(folder)


def base_root(image: str) -> Path:
    """A stand-in for TensorFlow's CPU image, from the cache or made now. Raises NotHere, Failed."""
    name, _, version = image.rpartition(":")
    if not name.endswith("tensorflow/tensorflow") or version.endswith("-gpu"):
        raise Failed(f"there is no stand-in for the image {image}")
    steps = BASE_STEPS.replace("VERSION", version)
    key = hashlib.blake2b("\0".join((ARCHIVE, SUITE, steps)).encode(), digest_size=8).hexdigest()
    place = CACHE / "image" / f"base-{key}"
    if place.is_dir():
        return place
    if not shutil.which("debootstrap"):
        raise NotHere("debootstrap is not installed (Debian: apt-get install debootstrap)")
    building = place.with_name(f".building-{key}")
    discard(building)
    building.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    say(f"making a stand-in for {image}: Ubuntu, its Python 3.11, TensorFlow {version}")
    keys = keyring(building.parent)
    log = building.parent / "debootstrap.log"
    with open(log, "w") as file:
        words = ["debootstrap", "--variant=minbase", "--components=main,universe", f"--keyring={keys}", SUITE]
        try:
            sh(*words, building, ARCHIVE, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        except subprocess.CalledProcessError:
            last = log.read_text().strip().splitlines()[-1:]
            raise NotHere(f"debootstrap failed: {' '.join(last)} (log: {log})") from None
    provide(building)
    try:
        env = {**network_variables(), "PATH": PATH}
        sh(*inside(building, env, "/"), "/bin/bash", "-euc", steps, stdin=subprocess.DEVNULL)
    except subprocess.CalledProcessError:
        raise Failed("the stand-in for the base image could not be made; see above") from None
    finally:
        unmount(building)
    building.rename(place)
    say(f"the stand-in is ready after {time.monotonic() - began:.0f} s; it stays in {place}")
    return place


def keyring(folder: Path) -> Path:
    """Ubuntu's public keys, from its own package, whose content is known here."""
    path, digest = KEYRING
    try:
        with urllib.request.urlopen(f"{ARCHIVE}/{path}", timeout=60) as answer:
            content = answer.read()
    except OSError as error:
        raise NotHere(f"{ARCHIVE} cannot be reached: {error}") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise Failed(f"{path} is not the file that was expected")
    package = folder / Path(path).name
    package.write_bytes(content)
    sh("dpkg-deb", "-x", package, folder / "keys")
    return folder / "keys/usr/share/keyrings/ubuntu-archive-keyring.gpg"
