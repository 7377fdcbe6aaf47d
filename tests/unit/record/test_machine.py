"""record/record.py, the machine: what measured."""

from __future__ import annotations

from pathlib import Path

from tfhet.record import json_value, machine, versions


def test_processor_and_gpus_are_read_from_proc(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Xeon 2.5 GHz\nflags\t\t: fpu avx avx2 sse\n")
    gpu = tmp_path / "driver/nvidia/gpus/0000:00:1e.0"
    gpu.mkdir(parents=True)
    (gpu / "information").write_text("Model: \t\t NVIDIA A100\nIRQ: 1\n")
    found = machine(tmp_path)
    assert found["cpu"] == "Xeon 2.5 GHz"
    assert found["cpu_features"] == ["avx", "avx2"]
    assert found["gpus"] == ["NVIDIA A100"]


def test_a_machine_without_proc_still_has_an_answer(tmp_path: Path) -> None:
    found = machine(tmp_path / "none")
    assert set(found) == {
        *(
            "cpu",
            "cpu_features",
            "cores",
            "cores_usable",
            "memory_bytes",
            "shm_bytes",
            "gpus",
            "kernel",
            "system",
            "python",
        )
    }
    assert json_value(found) == found
    assert found["cores_usable"] >= 1 and found["memory_bytes"] > 0


def test_versions_leave_out_what_is_not_installed() -> None:
    found = versions(("numpy", "no-such-distribution"))
    assert list(found) == ["numpy"]
