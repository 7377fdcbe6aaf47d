import json
import os
import sys
import threading
import time
import types

import pytest

from tfhet.watching.inside import jax_device, readers, recorder as recorders, stacks, tf_data, torch_device
from tfhet.watching.inside.recorder import END, Recorder, examples_in
from tfhet.watching.notes import ProcessNotes


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Records into a folder; returns a function that reads what was recorded."""
    monkeypatch.setattr(Recorder, "folder", str(tmp_path))
    monkeypatch.setattr(Recorder, "_of_process", None)
    monkeypatch.setattr(recorders, "_said", set())

    def read() -> ProcessNotes:
        Recorder.here().write(is_last=True)
        (path,) = tmp_path.glob("notes-*.jsonl")
        return ProcessNotes.read(path)

    yield read
    sampler = getattr(Recorder.here(), "stack_sampler", None)
    if sampler is not None:
        sampler.close()
    Recorder.here().close()


def test_passes_over_a_marked_iterable(notes):
    marked = readers.marked([[1, 2, 3], [4, 5, 6]], training=True)
    assert [list(marked), list(marked), len(marked)] == [[[1, 2, 3], [4, 5, 6]]] * 2 + [2]
    found = notes()
    assert [row.examples for row in found.rows] == [3, 3, END] * 2
    assert found.training_passes() == {row.begun for row in found.rows} and len(found.passes) == 2
    assert found.pid == os.getpid()


def test_only_the_outermost_reader_is_noted(notes):
    inner = readers.marked(range(4), training=True)
    assert list(readers.marked(inner, training=False)) == [0, 1, 2, 3]
    assert notes().training_passes() == set()


def test_errors_of_the_reader_reach_the_script(notes):
    def broken():
        yield 1
        raise OSError("disk")

    iterator = iter(readers.marked(broken(), training=True))
    assert next(iterator) == 1
    with pytest.raises(OSError, match="disk"):
        next(iterator)
    assert [row.examples for row in notes().rows] == [1]


def test_errors_of_the_hooks_do_not(notes, tmp_path, monkeypatch):
    monkeypatch.setattr(Recorder, "add", None)
    assert list(readers.marked([1, 2], training=True)) == [1, 2]
    assert len((tmp_path / "errors.log").read_text().splitlines()) <= 2


def test_a_full_recorder_says_so(notes, monkeypatch):
    monkeypatch.setattr(recorders, "MOST_ROWS", 3)
    assert list(readers.marked(range(9), training=True)) == [*range(9)]
    found = notes()
    assert len(found.rows) == 3 and found.is_full


def test_a_fork_does_not_continue_the_file(notes):
    list(readers.marked([1], training=True))
    notes()
    child = os.fork()
    if child == 0:
        os._exit(0 if Recorder._of_process is None else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_workers_record_nothing(notes, monkeypatch):
    list(readers.marked([1], training=True))
    with monkeypatch.context() as patched:
        patched.setattr(Recorder, "is_worker", True)
        list(readers.marked([1], training=True))
    assert len(notes().rows) == 2


def test_the_rank_follows_the_launcher(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    found = recorders.rank_of_process()
    assert (found["rank"], found["size"]) == (1, 4)


@pytest.mark.parametrize(
    ("batch", "count"), [([[1, 2], [3, 4]], 2), ({"x": ["a", "b", "c"]}, 3), (5, 1), ([], 1), ((), 1), ("text", 1)]
)
def test_examples_of_a_batch(batch, count):
    assert examples_in(batch) == count


def test_iterators_of_dali(notes):
    class Base:
        pass

    module = types.SimpleNamespace(_DaliBaseIterator=Base)
    readers.on_dali(module)

    class Generic(Base):
        batch_size = 3

        def __init__(self) -> None:
            self.left = 3
            self.first = Generic.__next__(self)  # as DALI does; it is no delivery to the script

        def __iter__(self) -> "Generic":
            return self

        def __next__(self) -> list[list[int]]:
            if not self.left:
                raise StopIteration
            self.left -= 1
            return [[1, 2, 3]]

    class Classification(Generic):
        def __next__(self) -> list[list[int]]:
            return super().__next__()

    iterator = Classification()
    assert len(list(iterator)) == 2
    iterator.left = 1
    assert len(list(iterator)) == 1
    found = notes()
    assert [row.examples for row in found.rows] == [3, 3, END, 3, END] and len(found.passes) == 2


class Device:
    """A device with a queue: events are reached at `now_ms`, which the test moves."""

    now_ms = 0.0
    busy_until_ms = 0.0

    class Event:
        def __init__(self, enable_timing: bool):
            assert enable_timing

        def record(self) -> None:
            self.at_ms = max(Device.now_ms, Device.busy_until_ms)

        def query(self) -> bool:
            return Device.now_ms >= self.at_ms

        def elapsed_time(self, end: "Device.Event") -> float:
            return end.at_ms - self.at_ms

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def is_current_stream_capturing() -> bool:
        return False


@pytest.mark.parametrize(("busy_until_ms", "at_once", "later"), [(30.0, 0.02, 0.02), (90.0, None, 0.0)])
def test_the_device_waits_when_it_is_idle(monkeypatch, busy_until_ms, at_once, later):
    monkeypatch.setattr(Device, "busy_until_ms", busy_until_ms)
    monkeypatch.setattr(Device, "now_ms", 0.0)
    mark = torch_device.Marks(Device).request()
    Device.now_ms = 50.0
    mark.delivered()
    assert mark.wait_s() == at_once
    Device.now_ms = 100.0
    assert mark.wait_s() == later


def test_marks_are_in_the_notes(notes, monkeypatch):
    monkeypatch.setattr(Device, "busy_until_ms", 0.0)
    monkeypatch.setattr(Device, "now_ms", 1.0)
    monkeypatch.setattr(Recorder, "device_marks", [torch_device.Marks(Device)])
    list(readers.marked([1], training=True))
    assert notes().rows[0].device_wait_s == 0.0


class Output:
    """An array of JAX, which is ready when the test says so."""

    def __init__(self, is_deleted: bool = False):
        self.ready, self._is_deleted = threading.Event(), is_deleted

    def is_ready(self) -> bool:
        return self.ready.is_set()

    def is_deleted(self) -> bool:
        return self._is_deleted


def test_a_step_of_jax_computes_during_the_wait(monkeypatch):
    bridge, output = types.SimpleNamespace(backends_are_initialized=lambda: True), Output()
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)
    marks = jax_device.Marks(types.SimpleNamespace(live_arrays=lambda: [output, Output(is_deleted=True)]))
    mark = marks.request()
    mark.delivered()
    assert mark.wait_s() == 0.0  # the step still computes
    mark = marks.request()
    began_s = time.monotonic()
    time.sleep(0.02)
    output.ready.set()
    while mark.is_followed() and time.monotonic() < began_s + 20:
        time.sleep(0.001)
    time.sleep(0.05)
    mark.delivered()
    assert 0.05 <= mark.wait_s() <= time.monotonic() - began_s - 0.02
    assert marks.request() is None  # no step is in progress: the whole wait counts
    marks.close()
    assert not marks._thread.is_alive()  # Python aborts a process that ends while a thread is inside of JAX


def test_no_mark_initializes_jax(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", types.SimpleNamespace(backends_are_initialized=lambda: 0))
    assert jax_device.Marks(None).request() is None


def test_the_rank_follows_jax(monkeypatch):
    state = types.SimpleNamespace(process_id=3, num_processes=4)
    monkeypatch.setitem(sys.modules, "jax._src.distributed", types.SimpleNamespace(global_state=state))
    found = recorders.rank_of_process()
    assert (found["rank"], found["size"], found["source"]) == (3, 4, "jax.distributed")


def test_keras_with_jax_or_pytorch(notes):
    class Trainer:
        def fit(self, iterator: "Iterator") -> list[object]:
            self.evaluate(Iterator([[1]] * 2))
            return [each for batch in iter(iterator._get_iterator()) for each in batch]

        def evaluate(self, iterator: "Iterator") -> None:
            list(iterator._get_iterator())

        predict = evaluate

    class Iterator:
        def __init__(self, batches: list[list[int]]):
            self.data_adapter = types.SimpleNamespace(num_batches=len(batches))
            self._batches = batches

        def _get_iterator(self) -> list[list[int]]:
            return self._batches

    tf_data.on_keras(types.SimpleNamespace(JAXTrainer=Trainer, JAXEpochIterator=Iterator))
    assert Trainer().fit(Iterator([[1, 2]] * 3)) == [1, 2] * 3
    found = notes()
    assert [row.examples for row in found.rows] == [1, 1, END, 2, 2, 2, END]
    assert [of for _, of in found.passes.values()] == ["validation", "training"]


def slow_transform(until: threading.Event) -> None:
    until.wait(20)


def test_stacks_name_the_function():
    ends = threading.Event()
    thread = threading.Thread(target=slow_transform, args=[ends])
    thread.start()
    sampler = stacks.StackSampler("worker", lambda: None)
    try:
        time.sleep(0.05)
        sampler.sample(sys._current_frames()[thread.ident])
        assert not sampler.counts  # outside of a worker's `fetch` nothing is counted
    finally:
        ends.set()
        thread.join()
        sampler.close()


def test_stacks_of_requests_of_this_process(notes, tmp_path):
    def prepare() -> int:
        time.sleep(0.2)
        return 1

    def batches():
        for _ in range(3):
            yield prepare()

    list(readers.marked(batches(), training=True))
    Recorder.here().stack_sampler.close()
    (path,) = tmp_path.glob("stacks-*.json")
    content = json.loads(path.read_text())
    assert content["role"] == "main"
    assert any("prepare in test_recorder.py" in what for what in content["counts"])
