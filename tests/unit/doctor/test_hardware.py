from __future__ import annotations

from tfhet.doctor import Status
from tfhet.doctor.hardware import checks
from tfhet.record.machine import machine
from tfhet.units import GIB

PLENTY = {"cpu": "a CPU", "cores": 8, "cores_usable": 8, "memory_bytes": 32 * GIB, "gpus": []}


def found(usable_gpus: int = 0, **other):
    return {check.name: check for check in checks({**PLENTY, **other}, usable_gpus)}


def test_a_machine_without_gpus_is_well():
    made = found()
    assert {check.status for check in made.values()} == {Status.OK}
    assert made["CPUs"].found == "8, a CPU"
    assert made["memory"].found == "32.0 GiB"
    assert made["GPUs"].found == "none"


def test_what_this_process_may_not_use_is_a_limit():
    made = found(cores_usable=2, memory_bytes=2 * GIB)
    assert made["CPUs"].status is made["memory"].status is Status.LIMITED
    assert made["CPUs"].found == "2 of 8, a CPU"
    assert made["CPUs"].advice and made["memory"].advice


def test_gpus_that_tensorflow_does_not_see_are_a_limit():
    two = ["NVIDIA V100", "NVIDIA V100"]
    assert found(2, gpus=two)["GPUs"].status is Status.OK
    hidden = found(1, gpus=two)["GPUs"]
    assert hidden.status is Status.LIMITED
    assert hidden.found == "2, of which TensorFlow sees 1: NVIDIA V100"
    assert "CUDA_VISIBLE_DEVICES" in hidden.advice


def test_this_machine_can_be_looked_at():
    assert [check.name for check in checks(machine(), 0)] == ["CPUs", "memory", "GPUs"]
