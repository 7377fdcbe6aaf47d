import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tfhet.advice import Diagnosis, InputState, of_run
from tfhet.record import RunFolder
from tfhet.watching import merge
from tfhet.watching.notes import ProcessNotes, Row


class Script:
    """Writes the notes of a script on a clock of its own."""

    def __init__(self, path: Path, rank: int = 0, size: int = 1):
        self.path, self.at_s, self.steps, self.passes = path, 100.0, 0, 0
        place = {"kind": "process", "pid": 7 + rank, "rank": rank, "size": size, "host": "h", "source": "RANK"}
        self.lines: list[object] = [{**place, "ahead_s": 1000.0}]
        for number in (1, 2):
            self.lines.append({"kind": "reader", "reader": number, "name": "DataLoader", "facts": {"num_workers": 0}})

    def begin(self, reader: int, of: str = "") -> int:
        self.passes += 1
        self.lines.append({"kind": "pass", "pass": self.passes, "reader": reader, "of": of})
        return self.passes

    def batch(self, begun: int, wait_s: float, compute_s: float, *, steps: bool = True, grad: bool = True) -> None:
        self.lines.append([begun, self.at_s, self.at_s + wait_s, 4, int(grad), self.steps, None])
        self.at_s += wait_s + compute_s
        self.steps += steps

    def end(self, begun: int) -> None:
        self.lines.append([begun, self.at_s, self.at_s, -1, 1, self.steps, None])

    def whole_pass(self, reader: int, waits_s: Sequence[float], compute_s: float, **more: bool) -> None:
        """Writes a pass over a reader from its beginning to its end. more: as `batch`."""
        begun = self.begin(reader)
        for wait_s in waits_s:
            self.batch(begun, wait_s, compute_s, **more)
        self.end(begun)

    def write(self) -> ProcessNotes:
        self.path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return ProcessNotes.read(self.path)

    def result(self) -> Diagnosis:
        """Writes the notes, and returns the verdict on all notes of the folder."""
        self.write()
        return verdict(self.path.parent)


def verdict(folder: Path) -> Diagnosis:
    return of_run(merge.summarize(folder, merge.ranks_in(folder)))


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path / "notes-h-7.jsonl")


def test_validation_inside_of_an_epoch_is_not_training(script, tmp_path):
    training = script.begin(1)
    for _ in range(3):
        for _ in range(10):
            script.batch(training, 0.01, 0.03)
        script.whole_pass(2, [0.5] * 5, 0.1, steps=False, grad=False)
    script.end(training)
    notes = script.write()
    assert notes.training_passes() == {training}
    found = merge.summarize(tmp_path, merge.ranks_in(tmp_path))
    assert found.steps == 30 and found.watched["other_batches"] == 15
    assert abs(found.wait_pct - 25.0) < 0.1 and abs(found.step_ms.median - 40.0) < 0.1


def test_validation_with_gradients_is_not_training(script):
    for _ in range(2):
        script.whole_pass(1, [0.01] * 10, 0.03)
        script.whole_pass(2, [0.5] * 5, 0.1, steps=False)
    assert script.write().training_passes() == {1, 3}


def test_two_loaders_of_one_step_both_train(script):
    labeled, unlabeled = script.begin(1), script.begin(2)
    for _ in range(10):
        script.batch(labeled, 0.01, 0.0, steps=False)
        script.batch(unlabeled, 0.02, 0.03)
    script.batch(labeled, 0.01, 0.0, steps=False)
    assert script.write().training_passes() == {labeled, unlabeled}


def test_without_an_optimizer_gradients_decide(script):
    training, inference = script.begin(1), script.begin(2)
    for _ in range(5):
        script.batch(training, 0.01, 0.01, steps=False)
        script.batch(inference, 0.01, 0.01, steps=False, grad=False)
    assert script.write().training_passes() == {training}


def test_a_thread_that_prefetches_hides_its_waits(script, tmp_path):
    script.lines[0]["training_thread"] = 1
    hidden = script.begin(1)
    script.lines[-1]["thread"] = 2
    for _ in range(30):
        script.batch(hidden, 0.04, 0.01)
    assert script.write().training_passes() == set()
    found = verdict(tmp_path)
    assert found.state is InputState.UNKNOWN
    marked = script.begin(2, "training")
    script.lines[-1]["thread"] = 1
    for _ in range(30):
        script.batch(marked, 0.01, 0.01)
        script.batch(hidden, 0.005, 0.0)
    assert script.write().training_passes() == {marked}
    assert merge.summarize(tmp_path, merge.ranks_in(tmp_path)).steps == 30


def test_the_beginning_of_the_waiting_is_named(script):
    script.whole_pass(1, [0.0 if index < 53 else 0.03 for index in range(103)], 0.03)
    found = script.result()
    assert [each.kind for each in found.evidence] == ["waits_since"]


@pytest.mark.parametrize("steps", [1, 22, 23])
def test_few_steps_have_no_verdict(script, steps):
    script.whole_pass(1, [0.03] * steps, 0.03)
    found = script.result()
    assert found.state is (InputState.UNKNOWN if steps < 23 else InputState.BOUND)
    assert bool(found.levers) == (steps >= 23)


SETTINGS = {"num_workers": 2, "cpus": 2, "pin_memory": True, "has_gpu": True, "torch_threads": 1}


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, "cheaper_stages"),
        ({"num_workers": 0}, "no_workers"),
        ({"cpus": 8}, "few_workers"),
        ({"num_workers": 0, "is_iterable": True}, "no_workers"),
        ({"cpus": 8, "is_iterable": True}, "few_workers"),
        ({"num_workers": 8}, "many_workers"),
        ({"pin_memory": False}, "not_pinned"),
        ({"opencv_threads": 4}, "opencv_threads"),
    ],
)
def test_advice_follows_the_settings(script, settings, kind):
    script.lines[1]["facts"] = {**SETTINGS, **settings}
    script.whole_pass(1, [0.03] * 40, 0.03)
    first = script.result().levers[0]
    assert first.kind == kind and ("get_worker_info" in first.clause) == bool(settings.get("is_iterable"))


def test_the_script_decides_if_it_says(script):
    validation, training = script.begin(1, "validation"), script.begin(2, "training")
    script.batch(validation, 0.01, 0.01)
    script.batch(training, 0.01, 0.01, steps=False, grad=False)
    assert script.write().training_passes() == {training}


def test_a_busy_device_is_no_wait():
    assert Row(1, 5.0, 5.5, 4, 1, 0, device_wait_s=0.0).wait_s == 0.0
    assert Row(1, 5.0, 5.5, 4, 1, 0, device_wait_s=9.0).wait_s == 0.5
    assert Row(1, 5.0, 5.5, 4, 1, 0).wait_s == 0.5


def test_broken_lines_are_omitted(tmp_path):
    path = tmp_path / "notes-h-7.jsonl"
    path.write_text(
        '{"kind": "process"}\n[1, 2]\nnonsense\n[[[\n3\n{"kind": "pass", "pass": 1, "reader": 1, "of": ""}\n'
    )
    assert ProcessNotes.read(path).passes == {1: (1, "")}
    assert merge.ranks_in(tmp_path) == []


def test_record_of_two_ranks(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    for rank, wait_s in enumerate((0.002, 0.04)):
        script = Script(notes / f"notes-h-{rank}.jsonl", rank, 2)
        script.whole_pass(1, [wait_s] * 40, 0.05 - wait_s)
        script.write()
    run = RunFolder(tmp_path).create()
    summary = merge.write(run, notes, name="two")
    assert run.read_summary() == summary
    assert summary.ranks == 2 and [round(each["wait_pct"]) for each in summary.by_rank] == [4, 80]
    assert {step.rank for step in run.timeline().steps} == {0, 1}
    assert min(step.at_s for step in run.timeline().steps) == 1100.0
    found = of_run(summary)
    assert found.state is InputState.BOUND
    assert [each.kind for each in found.evidence] == ["ranks_apart"]
    assert found.levers[0].kind == "no_workers"


def test_a_process_that_looks_at_the_data_is_no_rank(tmp_path):
    for pid, steps in ((7, 3), (8, 40)):
        script = Script(tmp_path / f"notes-h-{pid}.jsonl")
        script.whole_pass(1, [0.01] * steps, 0.01)
        script.write()
    (only,) = merge.ranks_in(tmp_path)
    assert only.phase.steps == 40


@pytest.mark.parametrize("is_iterable", [False, True])
def test_a_function_without_cpu_wants_more_workers(script, tmp_path, is_iterable):
    script.lines[1]["facts"] = {**SETTINGS, "is_iterable": is_iterable}
    script.whole_pass(1, [0.03] * 40, 0.03)
    script.write()
    counts = {"counts": {"load in train.py": 90}, "timed": {"load in train.py": 80}, "waited": {"load in train.py": 79}}
    content = {"pid": 8, "parent": 7, "role": "worker", **counts}
    (tmp_path / "stacks-8.json").write_text(json.dumps(content))
    found = verdict(tmp_path)
    assert [each.kind for each in found.levers] == ["wait_in_parallel", "shorter_waits", "cache"]
    assert ("get_worker_info" in found.levers[0].clause) == is_iterable
    content["waited"] = {}
    (tmp_path / "stacks-8.json").write_text(json.dumps(content))
    found = verdict(tmp_path)
    assert [each.kind for each in found.levers] == ["cheaper_code", "cache", "more_cpus"]


@pytest.mark.parametrize("steady_s", [0.0, 0.02])
def test_restarted_workers_are_the_first_advice(script, steady_s):
    script.lines[1]["facts"] = SETTINGS
    for _ in range(5):
        script.whole_pass(1, [steady_s if index else 0.9 for index in range(20)], 0.03)
    found = script.result()
    kinds = [each.kind for each in found.levers]
    assert kinds[:1] == ["restarted_workers"] and "bridge_epochs" not in kinds


@pytest.mark.parametrize("workers", [1, 4])
def test_a_wait_at_the_beginning_is_named(script, workers):
    script.whole_pass(1, [0.1 if index < 43 and index % workers == 0 else 0.001 for index in range(203)], 0.03)
    found = script.result()
    assert [each.kind for each in found.evidence] == ["waited_until"] and found.levers[0].kind == "warm_up"


def test_one_long_wait_at_the_beginning_is_a_stall(script):
    script.whole_pass(1, [2.0 if index == 5 else 0.0 for index in range(203)], 0.03)
    found = script.result()
    assert not found.evidence and found.levers[0].kind == "look_at_stalls"


def test_stalls_of_a_fast_loader_want_a_setting(script):
    script.lines[1]["facts"] = SETTINGS
    script.whole_pass(1, [0.5 if index % 40 == 20 else 0.0 for index in range(203)], 0.03)
    found = script.result()
    assert [each.kind for each in found.levers] == ["little_prefetch", "look_at_stalls"]
    assert "from 2 to 10" in found.levers[0].clause  # 0.5 s are 17 steps of 30 ms, for two workers


@pytest.mark.parametrize("is_iterable", [False, True])
def test_expensive_validation_is_named(script, tmp_path, is_iterable):
    script.lines[2]["facts"] = {"num_workers": 0, "is_iterable": is_iterable}
    for _ in range(3):
        script.whole_pass(1, [0.0] * 20, 0.03)
        script.whole_pass(2, [0.1] * 10, 0.01, steps=False, grad=False)
    script.write()
    summary = merge.summarize(tmp_path, merge.ranks_in(tmp_path))
    assert summary.watched["validation"]["num_workers"] == 0 and summary.watched["validation"]["wait_pct"] > 80
    found = of_run(summary)
    assert found.state is InputState.NOT and [each.kind for each in found.evidence] == ["validation"]
    assert [each.kind for each in found.levers] == ["shorten_validation"]
    assert ("get_worker_info" in found.levers[0].clause) == is_iterable


def test_idle_workers_hand_over_too_much(script, tmp_path):
    script.lines[1]["facts"] = SETTINGS
    script.whole_pass(1, [0.03] * 203, 0.03)
    script.write()
    content = {"pid": 8, "parent": 7, "role": "worker", "counts": {"a": 9}, "timed": {}, "waited": {}}
    (tmp_path / "stacks-8.json").write_text(json.dumps(content))
    found = verdict(tmp_path)
    assert [each.kind for each in found.levers] == ["hand_over"]


def test_the_slowest_rank_decides(tmp_path):
    for rank in range(4):
        script = Script(tmp_path / f"notes-h-{rank}.jsonl", rank, 4)
        script.lines[1]["facts"] = {**SETTINGS, "num_workers": 1, "cpus": 4}
        script.whole_pass(1, [0.01 if rank == 2 else 0.0] * 40, 0.03)
        script.write()
    summary = merge.summarize(tmp_path, merge.ranks_in(tmp_path))
    found = of_run(summary)
    assert summary.wait_pct < 10 and found.state is InputState.BOUND and found.levers[0].kind == "slow_rank"
