from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tfhet.container import kernel
from tfhet.container.bridge import Bridge
from tfhet.container.container import OVERLAY, READ_ONLY, SHARED, Container, Mount
from tfhet.messages import ContainerFailureLine, parse_line

pytestmark = pytest.mark.timeout(60)

LOOKS = """
import json, os, socket, sys
def attempt(path):
    try:
        open(path, "w").write("theirs")
        return "written"
    except OSError as error:
        return type(error).__name__
print(json.dumps({
    "name": socket.gethostname(),
    "pid": os.getpid(),
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "interfaces": sorted(name for _, name in socket.if_nameindex()),
    "environment": dict(os.environ),
    "cwd": os.getcwd(),
    "tmp": os.listdir("/tmp"),
    "shm": os.listdir("/dev/shm"),
    "hosts": open("/etc/hosts").read(),
    "key": oct(os.stat("/root/.ssh/key").st_mode & 0o777),
    "placed": [open(path).read() for path in sys.argv[1:3]],
    "wrote": [attempt(path) for path in sys.argv[3:]],
}))
"""


@pytest.fixture
def contained(tmp_path: Path, repository: Path):
    """`contained(command, **fields)`: a container that is running and attached to a network."""
    if lacking := kernel.missing("namespace", tmp_path):
        pytest.skip("; ".join(f"{feature.name}: {feature.what_to_do}" for feature in lacking))
    started: list[subprocess.Popen[str]] = []
    bridge = Bridge("test")

    def start(command: list[str], *, attached: bool = True, **fields) -> subprocess.Popen[str]:
        number = len(started)
        scratch = tmp_path / f"scratch-{number}"
        scratch.mkdir()
        given = {"environment": {"PATH": os.environ["PATH"]}, "directory": "/", **fields}
        # If containers do not see the checkout's place, Python has to be mounted.
        hidden = [path for path in (str(repository), sys.prefix) if path.startswith(("/tmp/", "/run/", "/mnt/"))]
        carried = [path for path in hidden if path == hidden[0] or not path.startswith(hidden[0] + "/")]
        given["mounts"] = (*(Mount(path, path) for path in carried), *given.get("mounts", ()))
        container = Container("algo-7", str(scratch), command, **given)
        spec = tmp_path / f"spec-{number}.json"
        container.write(spec)
        assert Container.read(spec) == container
        words = [sys.executable, "-m", "tfhet.container.container", str(spec)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        started.append(process)
        ours, until = os.readlink("/proc/self/ns/net"), time.monotonic() + 20
        with contextlib.suppress(FileNotFoundError):  # it has ended
            while os.readlink(f"/proc/{process.pid}/ns/net") == ours:
                assert time.monotonic() < until
                time.sleep(0.01)
        if attached:
            bridge.attach(f"algo-{number}", process.pid, f"10.77.0.{number + 2}")
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
    bridge.close()


def test_container_is_isolated_from_the_machine(contained, tmp_path):
    folders = {kind: tmp_path / kind for kind in (OVERLAY, READ_ONLY, SHARED)}
    for folder in folders.values():
        folder.mkdir()
        (folder / "file").write_text("ours")
    (other := tmp_path / "other").write_text("a file of ours")
    placed = ("/opt/seen/overlay/placed", "/opt/new/placed")
    (folders[OVERLAY] / "placed").write_text("theirs")
    mounts = [Mount(str(folder), f"/opt/seen/{kind}", kind) for kind, folder in folders.items()]
    mounts += [Mount(str(other), place, READ_ONLY) for place in placed]
    elsewhere = "/etc/tfhet-test-file"
    process = contained(
        [sys.executable, "-c", LOOKS, *placed, *(f"/opt/seen/{kind}/file" for kind in folders), elsewhere],
        mounts=tuple(mounts),
        files={"/etc/hosts": "10.77.0.2 algo-7\n", "/root/.ssh/key": "BEGIN PRIVATE KEY"},
        environment={"PATH": os.environ["PATH"], "WORD": "x"},
        directory="/opt/seen",
    )
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output
    seen = json.loads(output)
    assert (seen["name"], seen["pid"], seen["processes"]) == ("algo-7", 1, [1])
    assert seen["interfaces"] == ["eth0", "lo"]
    assert seen["environment"]["WORD"] == "x" and "HOME" not in seen["environment"]
    assert (seen["cwd"], seen["shm"], seen["key"]) == ("/opt/seen", [], "0o600")
    assert not [name for name in seen["tmp"] if Path("/tmp", name) in tmp_path.parents]
    assert seen["hosts"] == "10.77.0.2 algo-7\n" and "algo-7" not in Path("/etc/hosts").read_text()
    assert seen["placed"] == ["a file of ours"] * 2 and (folders[OVERLAY] / "placed").read_text() == "theirs"
    assert seen["wrote"] == ["written", "OSError", "written", "written"]
    now = {kind: (folder / "file").read_text() for kind, folder in folders.items()}
    assert now == {OVERLAY: "ours", READ_ONLY: "ours", SHARED: "theirs"}
    assert not Path(elsewhere).exists()


def test_links_stay_inside_the_container(contained, tmp_path):
    seen, ours = tmp_path / "seen", tmp_path / "ours"
    for folder in (seen, ours):
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "file").write_text("")
    (seen / "up").symlink_to("../" * 20 + "opt/seen/data")
    (seen / "over").symlink_to("/opt/seen/data")
    mounts = (Mount(str(seen), "/opt/seen"), Mount(str(ours), "/opt/seen/up/mounted", SHARED))
    files = {"/opt/seen/over/.ssh/key": "theirs"}
    process = contained(["find", "/opt/seen/data", "-type", "f"], mounts=mounts, files=files)
    output, _ = process.communicate(timeout=30)
    found = {line.removeprefix("/opt/seen/data/") for line in output.splitlines()}
    assert (process.returncode, found) == (0, {"file", ".ssh/key", "mounted/data/file"})
    assert not (seen / "data" / ".ssh").exists() and not Path("/opt/seen").exists()


@pytest.mark.parametrize("target", ["missing", "self"])
def test_failure_to_mount_is_reported(contained, tmp_path, capfd, target):
    (tmp_path / "self").symlink_to("self")
    source = "/nowhere" if target == "missing" else str(tmp_path)
    mounts = (Mount(str(tmp_path), "/opt/seen"), Mount(source, f"/opt/seen/{target}", SHARED))
    assert contained(["true"], attached=False, mounts=mounts).wait(30) == 1
    failures = [parse_line(line) for line in capfd.readouterr().err.splitlines()]
    assert any(isinstance(line, ContainerFailureLine) for line in failures)


INIT = [sys.executable, "-m", "tfhet.launch.init"]


def test_stop_reaches_process_1_only(contained):
    process = contained([*INIT, "bash", "-c", "trap 'echo asked; exit 5' TERM; sleep 60 & echo up; wait"])
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30)[0] == "asked\n"
    assert process.returncode == 5


def test_early_stop_is_not_lost(contained):
    process = contained(["sleep", "60"], attached=False)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) in (1, -signal.SIGTERM)  # the latter before the outer process handles signals


def test_container_ends_by_its_first_process_signal(contained):
    process = contained(["sleep", "60"])
    (first,) = psutil.Process(process.pid).children()
    first.kill()
    assert process.wait(30) == -signal.SIGKILL


def test_everything_inside_dies_with_the_outer_process(contained):
    process = contained(["bash", "-c", "sleep 600 & setsid sleep 600 & echo up; wait"])
    assert process.stdout.readline() == "up\n"
    inside = psutil.Process(process.pid).children(recursive=True)
    assert len(inside) >= 3
    process.kill()
    assert psutil.wait_procs(inside, timeout=20)[1] == []
