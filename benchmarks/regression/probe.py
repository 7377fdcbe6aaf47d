"""Runs the cases of one side. A copy runs in a temporary folder, with the `tfhet` package of one side on PYTHONPATH.

This file and its copy of `transport/ends.py` must work with an older `tfhet`, too. A case that raises is reported as
missing.

{"build": true}                 -> {}: compiled kernels are in the cache
{"serve": WAY}                  -> how a reader reaches this process
{"open": CASE, "count": n}      -> {} or {"missing": reason}
{"run": CASE, "count": n}       -> {"cpu_s": s}: CPU seconds of all processes of the case
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ENDS = "tfhet_regression_ends"
FRAME_BYTES = 1_600_000
PHOTOS, DIGITS = 32, 8192
SETTLE_LIMIT_S, LOOK_S, IDLE_SHARE = 10.0, 0.02, 0.1
"""A case has settled when its processes use less than a tenth of a CPU for two looks."""
LAUNCH_LIMIT_S = 60.0
HERE = "127.0.0.1"
Pull = Callable[[int], object]
"""Does a number of units of a case's work: batches, frames or launches."""
servers: list[subprocess.Popen[str]] = []


def chain_32(folder: Path) -> Pull:
    from tfhet import source

    return _batches(source.digits.repeated(folder, DIGITS), "aws-cifar", 256)


def chain_jpeg(folder: Path) -> Pull:
    from tfhet import source

    photos = source.photos.photos(folder / "photos", count=PHOTOS)
    return _batches(source.TFRecordSource.from_directory(photos), "imagenet-train", 16)


def _batches(source: Any, chain: str, batch_size: int) -> Pull:
    from tfhet import Pipeline

    batches = iter(Pipeline(source, chain, batch_size).dataset().repeat())

    def pull(count: int) -> None:
        for _ in itertools.islice(batches, count):
            pass

    return pull


def _moved(way: str, folder: Path) -> Pull:
    """Frames over a way of `benchmarks.transport`, whose file is next to this one."""
    facts = _served(way)
    return keep(importlib.import_module(ENDS).WAYS[way]["receive"](FRAME_BYTES, **facts)).pull


def launch(folder: Path) -> Pull:
    """A job of one host and one rank whose script does nothing."""
    script = folder / "train.py"
    script.write_text("", encoding="utf-8")
    group = {"instance_group_name": "dnn_group", "instance_type": "ml.m5.large", "hosts": ["algo-1"]}
    job = {
        "SAGEMAKER_BASE_DIR": str(folder),
        "TRAINING_JOB_NAME": "regression",  # with a name the launcher ends when this process does
        "SM_CURRENT_HOST": "algo-1",
        "SM_CURRENT_INSTANCE_GROUP": "dnn_group",
        "SM_RESOURCE_CONFIG": json.dumps({"current_host": "algo-1", "instance_groups": [group]}),
        "TFHET_ADDRESSES": json.dumps({"algo-1": HERE}),
    }

    def pull(count: int) -> None:
        for _ in range(count):
            with socket.create_server((HERE, 0)) as free:
                ports = json.dumps({"control": free.getsockname()[1]})
            command = [sys.executable, "-m", "tfhet.launch", "--train_script", str(script)]
            env = {**os.environ, **job, "TFHET_PORTS": ports}
            done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=LAUNCH_LIMIT_S)
            if done.returncode:
                raise RuntimeError(f"the launcher ended with code {done.returncode}: {done.stdout + done.stderr}")

    return pull


CASES: dict[str, Callable[[Path], Pull]] = {
    "chain_32": chain_32,
    "chain_jpeg": chain_jpeg,
    "tf_service": functools.partial(_moved, "service"),
    "feed": functools.partial(_moved, "feed"),
    "launch": launch,
}
_kept: list[Any] = []


def keep(value: Any) -> Any:
    """Keeps a value until the process ends."""
    _kept.append(value)
    return value


def _served(name: str) -> dict[str, Any]:
    """Starts a server in another process like this one, which ends when this process does. Returns its facts."""
    command = [sys.executable, "-m", Path(__file__).stem]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    servers.append(server)
    assert server.stdin is not None and server.stdout is not None
    print(json.dumps({"serve": name}), file=server.stdin, flush=True)
    facts: dict[str, Any] = json.loads(server.stdout.readline() or '{"error": "the server has ended"}')
    if "error" in facts:
        raise RuntimeError(facts["error"])
    return facts


def cpu_s() -> float:
    """CPU seconds of this process, of its servers and of the processes that it has waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    serving = sum(time.clock_gettime(~server.pid << 3 | 2) for server in servers)
    return time.process_time() + serving + ended.ru_utime + ended.ru_stime


def run(pull: Pull, count: int) -> float:
    """Does the work and waits until all buffers are full again. Returns the CPU seconds."""
    begun_s = cpu_s()
    pull(count)
    idle, end_s, spent_s = 0, time.monotonic() + SETTLE_LIMIT_S, cpu_s()
    while idle < 2 and time.monotonic() < end_s:
        time.sleep(LOOK_S)
        now_s = cpu_s()
        idle, spent_s = (idle + 1 if now_s - spent_s < IDLE_SHARE * LOOK_S else 0), now_s
    return spent_s - begun_s


def answer(request: dict[str, Any], opened: dict[str, Pull]) -> dict[str, Any]:
    if "build" in request:
        with contextlib.suppress(ImportError, AttributeError):  # else each case builds its kernels when it opens
            from tfhet import native

            native.load_all()
            native.wire_library()
        return {}
    if "serve" in request:
        return keep(importlib.import_module(ENDS).WAYS[request["serve"]]["send"](FRAME_BYTES)).facts
    if "open" in request:
        folder = Path(tempfile.mkdtemp(prefix=request["open"]))
        try:
            opened[request["open"]] = CASES[request["open"]](folder)
            run(opened[request["open"]], request["count"])  # the first turn traces, compiles and fills buffers
        except Exception as error:  # noqa: BLE001  whatever an older tfhet raises
            return {"missing": f"{type(error).__name__}: {error}"}
        return {}
    return {"cpu_s": run(opened[request["run"]], request["count"])}


def main() -> None:
    opened: dict[str, Pull] = {}
    with os.fdopen(os.dup(1), "w") as answers:  # what libraries print goes to standard error
        os.dup2(2, 1)
        for line in sys.stdin:
            try:
                found = answer(json.loads(line), opened)
            except Exception as error:  # noqa: BLE001
                found = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(found), file=answers, flush=True)
    os._exit(0)  # threads of libraries may wait forever


if __name__ == "__main__":
    main()
