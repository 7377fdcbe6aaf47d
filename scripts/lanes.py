"""Runs the tests in lanes, for scripts/test: a lane is a selection of tests in one Python environment.

Without a lane, scripts/test runs `tests`: everything that is not marked slow or matrix. Paths (tests/...,
benchmarks/...) replace the selection of the lane `tests`; unknown arguments go to pytest (-m, -k, -x, --cov, -n 0).

  scripts/test                          what a developer waits for
  scripts/test -m slow                  the tests marked slow
  scripts/test tests/unit/plan -k cut   some tests
  scripts/test --torch --ray            two other lanes
  scripts/test --classic [...]          the same in .venv-classic, with TensorFlow 2.15 and Keras 2

TFHET_TEST_TURN=2/4 runs the second quarter of the tests marked slow or matrix.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

import psutil

ROOT = Path(__file__).resolve().parents[1]
CPUS = os.cpu_count() or 1
LIMIT_S = 3600.0
"""Deadline of one command, in seconds."""
SKIPPED, NO_TESTS, OVER_LIMIT = 77, 5, 124
"""Exit codes: this machine cannot run the lane, and says why; pytest selected no test; the lane took too long."""
UNMARKED = "not slow and not matrix"
TORCH = [
    *(f"tests/integration/test_{name}.py" for name in ("torch", "torch_recipes", "drift", "try", "watch_torch")),
    "tests/unit/test_torch_loader.py",
    "tests/unit/test_torch_stages.py",
    "tests/unit/stages/test_torchvision.py",
]
RAY = [
    "tests/contract/test_planes.py",
    "tests/contract/test_collective.py",
    "tests/differential/test_scripts.py",
    *(f"tests/integration/test_{name}.py" for name in ("ray", "ray_profile", "strategies_alike", "torch_tfdata")),
    "tests/faults",
]
"""Tests of the lanes of these names."""


@dataclass
class Result:
    """The outcome of one lane; `seconds` is its wall time."""

    name: str
    seconds: float
    code: int
    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0

    @classmethod
    def of(cls, name: str, seconds: float, code: int, junit: Path) -> Result:
        """Counts the tests of a JUnit file; a lane without one counts as one test."""
        if code == SKIPPED:
            return cls(name, seconds, 0, skipped=1)
        if code == NO_TESTS:
            return cls(name, seconds, 0)
        if not junit.exists():
            return cls(name, seconds, code, passed=int(code == 0), errors=int(code != 0))
        suites = list(ElementTree.parse(junit).getroot().iter("testsuite"))
        counts = {
            key: sum(int(suite.get(key, 0)) for suite in suites) for key in ("tests", "failures", "errors", "skipped")
        }
        failed, errors, skipped = counts["failures"], counts["errors"], counts["skipped"]
        passed = counts["tests"] - failed - errors - skipped
        if code and not failed and not errors:  # a worker crashed, or a test left something behind
            errors = 1
        return cls(name, seconds, code, passed, failed, errors, skipped)

    def __str__(self) -> str:
        state = f"FAILED ({self.code})" if self.code else "ok"
        counts = f"{self.passed} passed, {self.failed} failed, {self.errors} errors, {self.skipped} skipped"
        return f"{self.name:<12} {self.seconds:5.0f} s  {state:<12} {counts}"


class Unavailable(Exception):
    """This machine cannot run a lane; the text says why."""


def exit_code(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs a command in the checkout and returns its exit code; after LIMIT_S, ends all its processes and says so.

    SIGABRT lets pytest's processes print their stacks.
    """
    with subprocess.Popen(command, cwd=ROOT, env=env) as process:
        try:
            return process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            print(f"test: {command[-1]} has not ended after {LIMIT_S:.0f} s; its processes:", file=sys.stderr)
        below = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
        for signal_number in (signal.SIGABRT, signal.SIGKILL):
            for each in below:
                with contextlib.suppress(psutil.Error):
                    if signal_number == signal.SIGABRT:
                        print(each.pid, each.status(), " ".join(each.cmdline())[:200], file=sys.stderr)
                    each.send_signal(signal_number)
            psutil.wait_procs(below, timeout=10)
    return OVER_LIMIT


class Lanes:
    """Runs lanes and keeps their results; every public method is a lane.

    scratch: temporary folder. arguments: for pytest, in every lane.
    """

    def __init__(self, scratch: Path, paths: Sequence[str], arguments: Sequence[str]):
        self.results: list[Result] = []
        self._scratch, self._paths, self._arguments = scratch, list(paths), list(arguments)
        self._env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2")}
        self._env["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
        # A process that may not write .pyc files imports TensorFlow in 6 to 10 s of CPU time instead of 3.
        self._env.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, name: str) -> None:
        """Runs a lane and records its result."""
        print(f"=== {name}", flush=True)
        begun = time.monotonic()
        self._junit = self._scratch / f"{name}.xml"
        try:
            code = getattr(self, name)()
        except subprocess.CalledProcessError as error:
            print(f"test: {error}", file=sys.stderr)
            code = error.returncode
        except Unavailable as reason:
            print(f"test: {name} cannot run here: {reason}", file=sys.stderr)
            code = SKIPPED
        self.results.append(Result.of(name, time.monotonic() - begun, code, self._junit))

    def tests(self) -> int:
        """the tests that need no other environment (the default)"""
        return self._pytest(self._paths or ["tests"])

    def benchmarks(self) -> int:
        """the tests of the benchmarks"""
        return self._pytest(["benchmarks"])

    def fuzz(self) -> int:
        """the fuzz tests with 20 times as many inputs, more than 50,000"""
        files = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/property/test_fuzz_*.py"))
        return self._pytest(["--dist", "load", *files], env={"TFHET_FUZZ": "full"})

    def sanitize(self) -> int:
        """runs the compiled core under the sanitizers of addresses, undefined behaviour and threads"""
        command = [sys.executable, str(ROOT / "tests" / "sanitized_core.py")]
        return exit_code(command, {**self._env, "PYTHONPATH": str(ROOT)})

    def notebook(self) -> int:
        """executes the notebooks"""
        return self._pytest(["--nbmake", "--nbmake-timeout=600", "--timeout=900", "notebooks"], at_once=0)

    def base(self) -> int:
        """checks the wheel without extras, and with TensorFlow, without a compiler, in environments of their own"""
        self._call("scripts/wheel", self._scratch / "dist")
        (wheel,) = (self._scratch / "dist").glob("tfhet-*manylinux*.whl")
        env = {name: value for name, value in self._env.items() if name != "PYTHONPATH"}
        for file, extras in (("base_install.py", ()), ("wheel_install.py", ("--extra", "tensorflow"))):
            lock = self._scratch / f"{file}.lock"
            compiled = ("uv", "pip", "compile", "-q", "pyproject.toml", "-c", "requirements.lock", *extras)
            self._call(*compiled, "-o", lock)
            python = self._environment(f"{file}-environment", lock)
            self._call("uv", "pip", "install", "-q", "--no-deps", "--python", python, wheel)
            subprocess.run([python, ROOT / "tests" / file], cwd=self._scratch, env=env, check=True, timeout=LIMIT_S)
        return 0

    def aarch64(self) -> int:
        """builds the wheel for aarch64 and compares its core, under QEMU, with this machine's"""
        if shutil.which("qemu-aarch64-static") is None:
            raise Unavailable("qemu-aarch64-static is not installed (Debian: qemu-user-static)")
        self._call("scripts/wheel", "--aarch64", self._scratch / "aarch64")
        (wheel,) = (self._scratch / "aarch64").glob("tfhet-*_aarch64.whl")
        system, packages = self._scratch / "aarch64-system", self._scratch / "aarch64-packages"
        self._call("scripts/sysroot", system, "python3", "libstdc++6")
        version = (system / "usr/bin/python3").resolve().name.removeprefix("python")
        options = ("--python-platform", "aarch64-manylinux_2_40", "--python-version", version, "--target", packages)
        self._call("uv", "pip", "install", "-q", "--only-binary", ":all:", "-c", "requirements.lock", *options, wheel)
        command = [sys.executable, str(ROOT / "tests/wheel_aarch64.py"), str(system), str(packages)]
        return exit_code(command, {**self._env, "PYTHONPATH": str(ROOT)})

    def torch(self) -> int:
        """the tests that need PyTorch, in an environment without TensorFlow"""
        return self._pytest(["-m", "torch and not slow", *TORCH], self._with_torch("torch"))

    def ray(self) -> int:
        """the tests that need Ray, or PyTorch with TensorFlow, in an environment of its own"""
        # Two Ray clusters on one machine could choose the same ports.
        return self._pytest(["-m", "(ray or torch) and not slow", *RAY], self._with_torch("ray"), at_once=0)

    def _pytest(
        self,
        words: Sequence[str],
        python: Path | str = sys.executable,
        *,
        at_once: int | None = None,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> int:
        """Runs pytest and returns its exit code. at_once: processes; by default one more than CPUs, at most 5."""
        at_once = min(CPUS + 1, 5) if at_once is None else at_once  # a third of a test's time is waiting
        words = [*self._arguments, *words]
        command = [str(python), "-m", "pytest", f"--junitxml={self._junit}", "-n", str(at_once)]
        command += ["--dist", "loadfile", "--no-loadscope-reorder"] if at_once else []
        if any(word == "-x" or word.startswith(("--exitfirst", "--maxfail")) for word in words):
            command += ["--max-worker-restart", "0"]  # else pytest-xdist waits for the successor of a crashed worker
        if "-m" not in words:
            command += ["-m", UNMARKED]
        env = {**self._env, **env}
        if python != sys.executable:
            path = f"{Path(python).parent}:{env['PATH']}"
            env = {**env, "TFHET_TEST_TURN": "", "PYTHONPATH": str(ROOT), "PATH": path}
        return exit_code([*command, *words], env)

    def _call(self, *words: object) -> None:
        subprocess.run([str(word) for word in words], cwd=ROOT, env=self._env, check=True, timeout=LIMIT_S)

    def _environment(self, name: str, lock: Path, python: str = sys.executable) -> Path:
        """Makes a virtual environment with the versions of a lock file and returns its Python."""
        venv = self._scratch / name
        self._call("uv", "venv", "-q", "--python", python, venv)
        self._call("uv", "pip", "install", "-q", "--no-deps", "--python", venv / "bin/python", "-r", lock)
        return venv / "bin/python"

    def _with_torch(self, name: str) -> Path:
        """An environment with PyTorch's CPU wheel, which pip finds and uv may not, on the Python of the lock files."""
        lines = (ROOT / f"tests/environments/{name}.lock").read_text().splitlines()
        (pinned,) = (line for line in lines if line.startswith("torch=="))
        lock = self._scratch / f"{name}.lock"
        lock.write_text("\n".join(line for line in lines if line != pinned))
        python = self._environment(name, lock, "3.11")
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", pinned]
        if subprocess.run(command, cwd=self._scratch, check=False, timeout=LIMIT_S).returncode:
            raise Unavailable(f"pip does not find {pinned}; PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL names its index")
        # torchvision's wheels are for CUDA: without their operators, its import fails where it declares two of them.
        for file in (self._scratch / name).glob("lib/*/site-packages/torchvision/_meta_registrations.py"):
            text = file.read_text()
            text = re.sub(r'@torch\.library\.register_fake\("torchvision::(\w+)"\)', r'@register_meta("\1")', text)
            file.write_text(text)
        return python


LANES = [name for name in vars(Lanes) if not name.startswith("_") and name != "run"]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/test",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for name in LANES:
        parser.add_argument(f"--{name}", action="store_true", help=getattr(Lanes, name).__doc__)
    parser.add_argument("--all", action="store_true", help="all lanes")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the results of the lanes as JSON")
    options, rest = parser.parse_known_args()
    paths = [word for word in rest if word.split("/")[0] in ("tests", "benchmarks")]
    wanted = [name for name in LANES if options.all or getattr(options, name)] or ["tests"]
    with tempfile.TemporaryDirectory(prefix="lanes-") as scratch:
        lanes = Lanes(Path(scratch), paths, [word for word in rest if word not in paths])
        for name in wanted:
            lanes.run(name)
    if options.report:
        options.report.write_text(json.dumps([asdict(result) for result in lanes.results]), encoding="utf-8")
    if len(wanted) > 1:
        print("=== lanes", *map(str, lanes.results), sep="\n")
    return 1 if any(result.code for result in lanes.results) else 0


if __name__ == "__main__":
    sys.exit(main())
