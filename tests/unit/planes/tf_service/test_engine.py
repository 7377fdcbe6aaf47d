"""A lean engine serves as a whole one does: real processes, one epoch through compiled ops each."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_wire import KEY

from tfhet import native
from tfhet.cluster import free_ports
from tfhet.messages import CHANNEL_VARIABLE, rank, server as messages
from tfhet.pipeline import Pipeline
from tfhet.planes.tf_service import engine
from tfhet.planes.tf_service.engine import lean_engine, whole_engine
from tfhet.planes.tf_service.reader import ServiceReader
from tfhet.schema import decode, encode
from tfhet.source import SyntheticSource
from tfhet.strategies import JobContext

CHAIN = "dilate(3); gaussian_blur(3, 0.8); random_rotation(0.2); random_flip(); rescale()"


class Server:
    """One process of the data service, and the launcher's end of its channel."""

    def __init__(self, *arguments: object, env: dict[str, str] | None = None):
        self.end, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = other.fileno()
        self.folder = tempfile.TemporaryDirectory(prefix="tfhet-sockets-")
        where = ["--address", "127.0.0.1", "--folder", self.folder.name]
        command = [sys.executable, "-m", "tfhet.planes.tf_service.server", *map(str, arguments), *where]
        self.end.send(encode(rank.Key(KEY.hex()), 1000))
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **(env or {})}
        env[CHANNEL_VARIABLE] = f"{number}:{os.fstat(number).st_ino}"
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed in `close`
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT, env=env, pass_fds=[number])
        other.close()

    def ready(self) -> messages.Ready:
        """Its first report, which it sends when it serves."""
        packet = self.end.recv(1 << 16)
        assert packet, self.output()
        report = decode(packet, messages.Report)
        assert isinstance(report, messages.Ready)
        return report

    def output(self) -> list[str]:
        """The lines that it has printed."""
        self.log.seek(0)
        return self.log.readlines()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()
        self.end.close()
        self.folder.cleanup()

    def imports_tensorflow(self) -> bool:
        """Whether TensorFlow's Python was loaded: its core is an extension module that nothing else needs."""
        maps = Path(f"/proc/{self.process.pid}/maps").read_text()
        return "_pywrap_tfe.so" in maps


@pytest.fixture
def start() -> Iterator[Any]:
    running: list[Server] = []

    def begin(*arguments: object, env: dict[str, str] | None = None) -> Server:
        running.append(Server(*arguments, env=env))
        return running[-1]

    yield begin
    for one in running:
        one.close()


@pytest.fixture(scope="module")
def built() -> tuple[str, ...]:
    """The compiled ops, which a lean engine finds in the cache from then on."""
    kernels = whole_engine().kernels
    if kernels != native.names():
        pytest.skip("compiled ops cannot be built here")
    return kernels


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_lean_and_whole_workers_agree(start, built):
    declared = Pipeline(SyntheticSource(60, 12, (16, 12, 3)), CHAIN, batch_size=8)
    found: list[dict[int, np.ndarray]] = []
    for how in ((), ("--whole",)):
        ports = free_ports(2)
        address = f"127.0.0.1:{ports[0]}"
        dispatcher = start("dispatcher", "--port", ports[0], *how)
        assert tuple(dispatcher.ready().facts["native"]) == built
        worker = start("worker", "--port", ports[1], "--dispatcher", address, *how)
        assert tuple(worker.ready().facts["native"]) == built
        assert [one.imports_tensorflow() for one in (dispatcher, worker)] == [bool(how)] * 2
        job = JobContext("job", "heterogeneous", plane="tf_service", order={"dispatcher": address})
        reader = ServiceReader(declared, job)
        reader.agree()
        reader.offer(1)
        batches = list(reader.dataset(1, None, 0))
        found.append({int(i): x for batch in batches for i, x in zip(batch["id"], batch["image"].numpy(), strict=True)})
    lean, whole = found
    assert len(lean) == 60 and lean.keys() == whole.keys()
    assert all((lean[number] == whole[number]).all() for number in lean)


def test_no_lean_engine_without_compiled_ops(tmp_path):
    assert lean_engine({"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}) is None


def test_no_lean_engine_with_plug_ins(built, monkeypatch):
    monkeypatch.setattr("tfhet.planes.tf_service.engine.entry_points", lambda group: [group])
    assert lean_engine(dict(os.environ)) is None


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_process_without_compiled_ops_is_whole(start, tmp_path):
    (port,) = free_ports(1)
    # No compiler, so that it is not kept waiting for what it would build.
    env = {"XDG_CACHE_HOME": str(tmp_path), "CXX": str(tmp_path / "none"), "HOME": str(tmp_path)}
    shutil.copy(native.wire_library(), native.of_here(native.WIRE, env))
    dispatcher = start("dispatcher", "--port", port, env=env)
    assert dispatcher.ready() == messages.Ready(port, {"native": []})
    assert dispatcher.imports_tensorflow()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_process_without_the_wire_ends(start, tmp_path):
    env = {"XDG_CACHE_HOME": str(tmp_path), "CXX": str(tmp_path / "none"), "HOME": str(tmp_path)}
    dispatcher = start("dispatcher", "--port", *free_ports(1), env=env)
    assert dispatcher.process.wait(100) == 1
    assert "--data_plane local" in dispatcher.output()[-1]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_unknown_tensorflow_is_loaded_whole(start, tmp_path, built):
    # As if this TensorFlow had no such module where the lean engine looks.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, tfhet.planes.private as private\n"
        "private.CONFIGS = private.CONFIGS if '--whole' in sys.orig_argv else 'tensorflow.core.protobuf.gone_pb2'\n"
    )
    (port,) = free_ports(1)
    env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    dispatcher = start("dispatcher", "--port", port, env=env)
    assert tuple(dispatcher.ready().facts["native"]) == built
    assert dispatcher.imports_tensorflow()


def test_whole_engine_prints_lines_while_it_compiles(monkeypatch, capfd):
    monkeypatch.setattr(engine, "BUILD_LINE_S", 0.05)
    monkeypatch.setattr(native, "load_all", lambda: time.sleep(0.5) or ("slow",))
    assert whole_engine().kernels == ("slow",)
    lines = capfd.readouterr().out.splitlines()
    assert lines[:2] == [f"after {each} s: still compiling operations for this CPU" for each in ("0.05", "0.1")]
    time.sleep(0.2)
    assert not capfd.readouterr().out
