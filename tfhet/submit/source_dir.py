"""Makes the code directory of a job, SageMaker's `source_dir`, from the installed package, without network.

It has launcher.py (the entry point), the training script, tfhet as a wheel, and a requirements.txt that names it, which
SageMaker's toolkit installs on every host.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shutil
import zipfile
from importlib import metadata
from pathlib import Path

from tfhet.errors import UsageError

PACKAGE = Path(__file__).parents[1]
TEMPLATES = Path(__file__).parent / "templates"
LAUNCHER = TEMPLATES / "launcher.py"
MARK = "# Written by tfhet package."
REQUIREMENTS = """\
{mark}
# SageMaker's toolkit installs this on every host before the launcher starts.
./{wheel}
# The toolkit starts each rank by python -m mpi4py.
{mpi4py}
# More than one rank also needs what no wheel brings: Open MPI and sshd for MPI, and Horovod, which has to be built for
# the image's TensorFlow (some minutes on every host, were it installed from here). tfhet's Dockerfile has all three.
# {horovod}
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: tfhet package\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
"""Any host may install it: compiled kernels in it are used only where they fit."""


def make(target: Path, script: Path | None = None, requirements: Path | None = None) -> None:
    """Makes or updates the directory; other files in it stay. script: None for the built-in trainer. requirements: file
    with further lines for requirements.txt. Raises UsageError if the directory was made by something else, or a file
    would change how the toolkit starts the job."""
    listing = target / "requirements.txt"
    was_made = listing.is_file() and listing.read_text(encoding="utf-8").partition("\n")[0] == MARK
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file; give a directory")
    if target.is_dir() and any(target.iterdir()) and not was_made:
        raise UsageError(f"{target} is not empty and was not made by tfhet package; give a new directory")
    for name, why in (
        ("setup.py", "would switch SageMaker's toolkit into package mode"),
        ("tfhet", "would hide the wheel: the toolkit puts this directory first on PYTHONPATH"),
    ):
        if (target / name).exists():
            raise UsageError(f"{target / name} {why}; remove it")
    if script and script.name in ("launcher.py", "setup.py"):
        raise UsageError(f"--script {script}: {script.name} means something else in this directory; rename your script")
    for option, file in (("--script", script), ("--requirements", requirements)):
        if file and not file.is_file():
            raise UsageError(f"{option} {file}: no such file")
    more = f"# From {requirements.name}:\n{requirements.read_text(encoding='utf-8')}" if requirements else ""
    name, content = wheel()
    target.mkdir(parents=True, exist_ok=True)
    if not listing.exists():  # it names the wheel last, so that an interrupted call can be repeated
        listing.write_text(f"{MARK}\n", encoding="utf-8")
    for old in target.glob("tfhet-*.whl"):
        old.unlink()
    (target / name).write_bytes(content)
    shutil.copyfile(LAUNCHER, target / "launcher.py")
    if script and script.resolve() != (target / script.name).resolve():
        shutil.copyfile(script, target / script.name)
    pins = {package: _required(package) for package in ("mpi4py", "horovod")}
    listing.write_text(REQUIREMENTS.format(mark=MARK, wheel=name, **pins) + more, encoding="utf-8")


def wheel() -> tuple[str, bytes]:
    """Returns name and content of a reproducible wheel of this package. Its version ends with a hash of its content:
    pip keeps an installed tfhet of the same version, such as an image's. Raises UsageError if none is installed."""
    installed = _installed()
    paths = [path for path in sorted(PACKAGE.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    files = {f"tfhet/{path.relative_to(PACKAGE).as_posix()}": path.read_bytes() for path in paths}
    about = {name: installed.read_text(name) for name in ("METADATA", "entry_points.txt", "licenses/LICENSE")}
    digest = hashlib.sha256(repr(about).encode())
    for name, content in files.items():
        digest.update(f"{name} {len(content)} ".encode() + content)
    version = f"{installed.version.partition('+')[0]}+s{digest.hexdigest()[:12]}"
    about["METADATA"] = re.sub(r"^Version: .*", f"Version: {version}", about["METADATA"] or "", count=1, flags=re.M)
    folder = f"tfhet-{version}.dist-info"
    files |= {f"{folder}/{name}": text.encode() for name, text in {**about, "WHEEL": WHEEL}.items() if text}
    record = [f"{folder}/RECORD,,\n"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            sha256 = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={sha256},{len(content)}\n")
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo(f"{folder}/RECORD"), "".join(record), zipfile.ZIP_DEFLATED)
    return f"tfhet-{version}-py3-none-any.whl", packed.getvalue()


def _installed() -> metadata.Distribution:
    try:
        return metadata.distribution("tfhet")
    except metadata.PackageNotFoundError:
        missing = "tfhet is not installed here, so it cannot be packed: pip install tfhet, or a checkout"
        raise UsageError(missing) from None


def _required(package: str) -> str:
    lines = [line.partition(";")[0].strip() for line in _installed().requires or ()]
    return next(line for line in lines if line.startswith(package))
