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
    "wrote": {path: attempt(path) for path in sys.argv[1:]},
}))
"""


@pytest.fixture
def contained(tmp_path: Path, repository: Path):
    """`contained(command, **fields)`: a container that was started and attached to a network."""
    if lacking := kernel.missing("namespace", tmp_path):
        pytest.skip("; ".join(f"{feature.name}: {feature.what_to_do}" for feature in lacking))
    started: list[subprocess.Popen[str]] = []
    bridge = Bridge("test")

    def start(command: list[str], *, attached: bool = True, **fields) -> subprocess.Popen[str]:
        number = len(started)
        scratch = tmp_path / f"scratch-{number}"
        scratch.mkdir()
        given = {"environment": {"PATH": os.environ["PATH"]}, "directory": "/", **fields}
        # Where the checkout is in a place that containers do not see, Python has to be carried in.
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
        ours = os.readlink("/proc/self/ns/net")
        until = time.monotonic() + 20
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


def test_a_container_sees_a_machine_of_its_own_and_changes_nothing_of_ours(contained, tmp_path):
    folders = {kind: tmp_path / kind for kind in (OVERLAY, READ_ONLY, SHARED)}
    for folder in folders.values():
        folder.mkdir()
        (folder / "file").write_text("ours")
    mounts = [Mount(str(folder), f"/opt/seen/{kind}", kind) for kind, folder in folders.items()]
    paths = [f"/opt/seen/{kind}/file" for kind in folders]
    elsewhere = "/etc/tfhet-test-file"
    process = contained(
        [sys.executable, "-c", LOOKS, *paths, elsewhere],
        mounts=tuple(mounts),
        files={"/etc/hosts": "10.77.0.2 algo-7\n", "/root/.ssh/key": "BEGIN PRIVATE KEY"},
        environment={"PATH": os.environ["PATH"], "WORD": "x"},
        directory="/opt/seen",
    )
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 0, said
    seen = json.loads(said)
    assert (seen["name"], seen["pid"], seen["processes"]) == ("algo-7", 1, [1])
    assert seen["interfaces"] == ["eth0", "lo"]
    assert seen["environment"]["WORD"] == "x" and "HOME" not in seen["environment"]
    assert seen["cwd"] == "/opt/seen"
    assert not [name for name in seen["tmp"] if Path("/tmp", name) in tmp_path.parents]
    assert seen["shm"] == []
    assert seen["hosts"] == "10.77.0.2 algo-7\n"
    assert seen["key"] == "0o600"
    assert list(seen["wrote"].values()) == ["written", "OSError", "written", "written"]
    now = {kind: (folder / "file").read_text() for kind, folder in folders.items()}
    assert now == {OVERLAY: "ours", READ_ONLY: "ours", SHARED: "theirs"}
    assert not Path(elsewhere).exists()
    assert "algo-7" not in Path("/etc/hosts").read_text()


def test_a_file_of_ours_takes_the_place_of_another_in_the_container_which_is_not_copied(contained, tmp_path):
    seen, ours = tmp_path / "seen", tmp_path / "ours"
    seen.mkdir()
    (seen / "file").write_text("theirs")
    ours.write_text("ours")
    looks = "import sys; print([open(path).read() for path in sys.argv[1:]])"
    places = ("/opt/seen/file", "/opt/new/file")
    mounts = (Mount(str(seen), "/opt/seen"), *(Mount(str(ours), place, READ_ONLY) for place in places))
    process = contained([sys.executable, "-c", looks, *places], mounts=mounts)
    said, _ = process.communicate(timeout=30)
    assert (process.returncode, said.strip()) == (0, "['ours', 'ours']")
    assert (seen / "file").read_text() == "theirs"
    assert not list(tmp_path.glob("scratch-0/upper-*/file"))


def test_links_lead_nowhere_but_into_the_container(contained, tmp_path):
    seen, ours = tmp_path / "seen", tmp_path / "ours"
    for folder in (seen, ours):
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "file").write_text("")
    (seen / "up").symlink_to("../" * 20 + "opt/seen/data")
    (seen / "over").symlink_to("/opt/seen/data")
    mounts = (Mount(str(seen), "/opt/seen"), Mount(str(ours), "/opt/seen/up/mounted", SHARED))
    files = {"/opt/seen/over/.ssh/key": "theirs"}
    process = contained(["find", "/opt/seen/data", "-type", "f"], mounts=mounts, files=files)
    said, _ = process.communicate(timeout=30)
    found = {line.removeprefix("/opt/seen/data/") for line in said.splitlines()}
    assert (process.returncode, found) == (0, {"file", ".ssh/key", "mounted/data/file"})
    assert not (seen / "data" / ".ssh").exists() and not Path("/opt/seen").exists()


def test_links_without_end_are_said(contained, tmp_path, capfd):
    (tmp_path / "seen").mkdir()
    (tmp_path / "seen" / "self").symlink_to("self")
    mounts = (Mount(str(tmp_path / "seen"), "/opt/seen"), Mount(str(tmp_path), "/opt/seen/self", SHARED))
    assert contained(["true"], attached=False, mounts=mounts).wait(30) == 1
    lines = map(parse_line, capfd.readouterr().err.splitlines())
    assert any(isinstance(line, ContainerFailureLine) for line in lines)


@pytest.mark.parametrize(("code", "how"), [(3, "exit 3"), (-signal.SIGKILL, "kill -9 $$; sleep 9")])
def test_it_ends_as_its_command_did(contained, code, how):
    # A signal that process 1 sends itself does nothing, so a child dies, and the shell says so.
    process = contained(["bash", "-c", f"bash -c '{how}'; exit $?"])
    assert process.wait(30) == (code if code > 0 else 128 - code)


INIT = [sys.executable, "-m", "tfhet.launch.init"]


def test_a_stop_reaches_process_1_and_nobody_else(contained):
    hears = "trap 'echo heard; exit 5' TERM; sleep 60 & echo up; wait"
    process = contained([*INIT, "bash", "-c", hears])
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30)[0] == "heard\n"
    assert process.returncode == 5


def test_a_stop_that_comes_before_there_is_anybody_to_hear_it_is_not_lost(contained):
    process = contained(["sleep", "60"], attached=False)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) in (1, -signal.SIGTERM)  # the latter where not even the outside listens yet


def test_a_container_whose_first_process_is_killed_ends_by_that_signal(contained):
    process = contained(["sleep", "60"])
    (first,) = psutil.Process(process.pid).children()
    first.kill()
    assert process.wait(30) == -signal.SIGKILL


def test_all_inside_dies_with_the_process_outside(contained):
    process = contained(["bash", "-c", "sleep 600 & setsid sleep 600 & echo up; wait"])
    assert process.stdout.readline() == "up\n"
    inside = psutil.Process(process.pid).children(recursive=True)
    assert len(inside) >= 3
    process.kill()
    assert psutil.wait_procs(inside, timeout=20)[1] == []


def test_what_cannot_be_made_is_said(contained, capfd):
    mounts = (Mount("/nowhere", "/opt/x", READ_ONLY),)
    process = contained(["bash", "-c", "true"], attached=False, mounts=mounts)
    assert process.wait(30) == 1
    assert '[algo-7] [tfhet] container_failure cause="mount bind /nowhere' in capfd.readouterr().err
