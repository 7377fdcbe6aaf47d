"""plan/memory.py, measured_memory.py: memory that a run used is a limit of every cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import plans
import pytest

from tfhet import planes
from tfhet.__main__ import main
from tfhet.advice import of_plan, sentences
from tfhet.plan import Amount, ClusterShape, Layout, MemoryNeed, Space, Where, make_plan
from tfhet.plan.measured_memory import memory_of
from tfhet.plan.measured_run import MeasuredRun
from tfhet.plan.memory import MARGIN
from tfhet.profile import Cost, Profile
from tfhet.record import HostUsage, RunFolder, RunSummary, Spread, Timeline, UsageSample
from tfhet.units import GIB

SMALL = replace(plans.GPU, memory_bytes=16 * GIB, gpu_memory_bytes=16 * GIB)
LARGE = replace(plans.BIGGER, memory_bytes=64 * GIB, gpu_memory_bytes=24 * GIB)
DATA = replace(plans.CPU, memory_bytes=32 * GIB)
MIXED = ClusterShape(SMALL, 1, DATA, 1)
GROUPS = {
    "data_group": {"hosts": ["algo-1", "algo-2"], "instance_type": "ml.c5.xlarge", "role": "data", "ranks_per_host": 0},
    "dnn_group": {"hosts": ["algo-3"], "instance_type": "ml.p3.8xlarge", "role": "dnn", "ranks_per_host": 2},
}


def amount(size_gib: float) -> Amount:
    return Amount.stated(size_gib * GIB)


def plan(need: MemoryNeed, today=SMALL, data=(), **more):
    space = Space([SMALL, LARGE], list(data), [1], 3)
    workload = replace(plans.workload(**more), memory=need)
    return make_plan(workload, ClusterShape(today), space, plans.USD.get, planes.get("tf_service"))


def misfits(need: MemoryNeed, cluster: ClusterShape, layout: Layout | None = None) -> list[str]:
    return [
        f"{each.host} {each.kind} {each.needs.needed / GIB:.4g}" for each in need.misfits(cluster, layout or Layout())
    ]


def test_a_cluster_with_too_little_memory_is_named_with_the_reason():
    found = plan(MemoryNeed(Amount.measured(42 * GIB)), step_ms=50.0)
    assert str(found.candidates[found.chosen].cluster) == "1*ml.gpu.large"
    said = " ".join(sentences(of_plan(found)))
    assert "1*ml.gpu.small would cost 0.0556 USD per million examples, but ml.gpu.small has 16 GiB of memory" in said
    assert "needs 48.3 GiB (42 GiB measured) there" in said
    small = next(each for each in found.to_json()["candidates"] if each["cluster"]["text"] == "1*ml.gpu.small")
    assert not small["fits"] and small["misfits"][0]["has"] == 16 * GIB


def test_without_a_cluster_that_fits_there_is_no_choice():
    found = plan(MemoryNeed(amount(100)))
    assert found.chosen is None
    assert "No cluster has enough memory" in sentences(of_plan(found))[-1]


def test_memory_scales_with_ranks_and_servers():
    four = replace(LARGE, gpus=4)
    need = MemoryNeed(amount(20), data_host=amount(20), servers=1, is_on_dnn=False, data_hosts=2)
    assert misfits(need, ClusterShape(four), Layout(Where.DATA)) == ["ml.gpu.large memory 80"]
    assert misfits(need, ClusterShape(LARGE)) == []  # 20 and the 40 of two data hosts
    assert misfits(need, ClusterShape(SMALL)) == ["ml.gpu.small memory 60"]
    mixed = ClusterShape(LARGE, 1, DATA, 1)
    assert misfits(need, mixed, Layout(Where.DATA, -1, 2)) == ["ml.cpu.large memory 40"]
    assert misfits(need, mixed, Layout(Where.EVERYWHERE, -1, 4)) == [
        "ml.gpu.large memory 100",
        "ml.cpu.large memory 80",
    ]


def test_gpu_and_shared_memory_are_limits():
    assert misfits(MemoryNeed(gpu=amount(20)), ClusterShape(SMALL)) == ["ml.gpu.small GPU memory 20"]
    assert misfits(MemoryNeed(gpu=amount(20)), ClusterShape(LARGE)) == []
    assert misfits(MemoryNeed(shared=amount(9)), ClusterShape(SMALL)) == ["ml.gpu.small shared memory 9"]
    assert misfits(MemoryNeed(amount(1e6), gpu=amount(1e6)), ClusterShape(plans.GPU)) == []  # of unknown memory


def test_disk_is_a_limit_of_each_host():
    own = replace(SMALL, instance_store_bytes=100 * GIB)
    need = MemoryNeed(disk=amount(120))
    assert misfits(need, ClusterShape(own)) == ["ml.gpu.small instance store 120"]
    assert misfits(need, ClusterShape(replace(own, instance_store_bytes=120 * GIB))) == []
    assert misfits(need, MIXED) == []  # EBS volumes are as large as needed
    assert misfits(replace(need, disk=amount(16_385)), ClusterShape(SMALL)) != []
    assert misfits(replace(need, data_host_disk=amount(10), volume_bytes=30 * GIB), ClusterShape(own, 1, DATA, 1)) == [
        "ml.gpu.small instance store 120"
    ]
    volumes = replace(need, volume_bytes=30 * GIB)
    assert misfits(volumes, ClusterShape(own, 1, DATA, 1)) == [
        "ml.gpu.small instance store 120",
        "ml.cpu.large EBS volume (limits: volume_gib) 120",
    ]


def test_recorded_size_of_shm_replaces_the_assumption():
    need = MemoryNeed(shared=amount(9))
    assert misfits(need, ClusterShape(SMALL)) == ["ml.gpu.small shared memory 9"]
    assert misfits(replace(need, shm_part=0.75), ClusterShape(SMALL)) == []


def test_the_memory_of_the_run_is_enough_for_the_run():
    assert Amount.measured(15.0, 16.0).needed == 16.0
    assert Amount.measured(10.0, 16.0).needed == pytest.approx(MARGIN * 10.0)
    assert Amount.measured(20.0, 16.0).needed == 20.0


@pytest.fixture
def run_of(tmp_path: Path):
    def build(*usage: UsageSample, **fields: object) -> MeasuredRun:
        folder = RunFolder(tmp_path / "run").create()
        steps = {"step_ms": Spread.of([100.0] * 21), "wait_ms": Spread.of([1.0] * 21), "batch_size": 64}
        folder.write_summary(RunSummary(**{**steps, "ranks": 2, "cluster": GROUPS, **fields}))  # type: ignore[arg-type]
        if usage:
            Timeline.of(usage).write(folder.timeline_path)
        costs = (Cost("map", (1.0, 1.1), bytes_per_example=1000, dtype="uint8", examples=32, kind="Map"),)
        Profile("dataset", costs).record().write(folder.profile_path)
        return MeasuredRun.read(folder.path)

    return build


def use(
    host: str,
    size_gib: float,
    counted: str = "cgroup",
    shared_gib: float | None = 0.0,
    gpus=(),
    disk_gib: float | None = None,
) -> UsageSample:
    shared = None if shared_gib is None else shared_gib * GIB
    gpus_bytes = tuple(each * GIB for each in gpus)
    disk = None if disk_gib is None else disk_gib * GIB
    busy = tuple(50.0 for _ in gpus)
    machine = HostUsage(1.0, 4, counted, size_gib * GIB, 0, 0, busy, gpus_bytes, shared, disk)
    return UsageSample(host, 1.0, 1.0, host, {}, machine)


TODAY = ClusterShape(replace(LARGE, gpus=2), 1, DATA, 2)


def test_a_launched_run_has_the_memory_of_each_kind_of_host(run_of):
    usage = use("algo-1", 10), use("algo-2", 12), use("algo-3", 30, shared_gib=4, gpus=(8, 9)), use("algo-3", 20)
    need = memory_of(run_of(*usage, mode="heterogeneous"), TODAY)
    assert need.rank.used == 15 * GIB
    assert need.shared.used == 2 * GIB
    assert need.gpu.used == 9 * GIB
    assert need.data_host.used == 12 * GIB
    assert (need.data_hosts, need.is_on_dnn) == (2, False)


def test_launched_run_has_disk_and_shm(run_of):
    usage = use("algo-1", 10, disk_gib=100), use("algo-3", 30, shared_gib=4, disk_gib=40)
    machine = {"memory_bytes": 64 * GIB, "shm_bytes": 48 * GIB}
    need = memory_of(run_of(*usage, machine=machine), TODAY)
    assert (need.disk.needed, need.data_host_disk.needed, need.shm_part) == (40 * GIB, 100 * GIB, 0.75)
    simulated = memory_of(run_of(*usage, machine=machine, status="Completed"), TODAY)
    assert (simulated.disk, simulated.shm_part) == (None, 0.5)


def test_memory_that_was_not_measured_is_not_known(run_of):
    assert memory_of(run_of(), TODAY).rank is None
    assert memory_of(run_of(use("algo-3", 30, shared_gib=None)), TODAY).rank is None  # with the file cache
    shared_machine = run_of(use("algo-3", 30, counted="machine"), status="Completed")
    assert memory_of(shared_machine, TODAY).rank is None


def test_a_watched_run_has_the_memory_of_its_processes(run_of):
    watched = {
        "memory_pss_peak_bytes": 42 * GIB,
        "memory_loaders_peak_bytes": 30 * GIB,
        "memory_rss_peak_bytes": 99 * GIB,
    }
    watched |= {"gpus_memory_peak_bytes": [3 * GIB, 0], "memory_shared_peak_bytes": 6 * GIB}
    need = memory_of(run_of(watched=watched), TODAY)
    assert (need.rank.used, need.data_host.used, need.gpu.used) == (24 * GIB, 30 * GIB, 3 * GIB)
    assert need.shared.used == 3 * GIB
    assert memory_of(run_of(watched={"memory_rss_peak_bytes": 8 * GIB}), TODAY).rank.used == 4 * GIB


@pytest.fixture
def planned(run_of, capsys):
    def build(*options: str, **fields: object) -> tuple[int, str]:
        folder = run_of(**fields).folder
        code = main(["plan", "--run", str(folder.path), "--cluster", "ml.g4dn.xlarge", "--max_hosts", "3", *options])
        said = capsys.readouterr()
        return code, " ".join((said.out + said.err).split())

    return build


WATCHED = {
    "cluster": {"script": {"hosts": ["here"], "role": "dnn", "ranks_per_host": 1}},
    "watched": {"memory_pss_peak_bytes": 42 * GIB},
    "ranks": 1,
    "machine": {"memory_bytes": 128 * GIB, "cores_usable": 16},
}


def test_a_job_of_42_gib_is_planned_on_no_host_with_16(planned):
    code, said = planned(**WATCHED)
    assert code == 0
    assert (
        "1*ml.g4dn.xlarge would cost" in said
        and "ml.g4dn.xlarge has 16 GiB of memory, and the job needs 48.3 GiB" in said
    )
    assert "take 1*ml.g4dn.4xlarge" in said  # 64 GiB
    assert "memory of data hosts, GPUs (--gpu_memory_gb) is not known" in said


def test_options_win_over_measured_memory(planned):
    assert "ay with 1*ml.g4dn.xlarge" in planned("--memory_gb", "10", **WATCHED)[1]
    code, said = planned("--memory_gb", "10", "--gpu_memory_gb", "20", **WATCHED)
    assert code == 1 and "No cluster has enough GPU memory" in said


def test_unknown_memory_is_said_to_be_unknown(planned):
    code, said = planned(**{**WATCHED, "watched": {"reader": "DataLoader"}})
    assert code == 0
    assert "memory of dnn hosts (--memory_gb), data hosts, GPUs (--gpu_memory_gb) is not known" in said


JOB = """\
name: a
image: 1.dkr/tfhet
role: arn:aws:iam::123456789012:role/training
output: s3://my-bucket/b
code: {directory: ., script: launcher.py}
limits: {max_run_s: 60, volume_gib: 200}
instances: {type: ml.p3.2xlarge, count: 1}
"""
SMALL_JOB = {**WATCHED, "watched": {"memory_pss_peak_bytes": GIB}}


def test_too_small_disks_are_named_with_figures(planned):
    code, said = planned("--disk_gb", "300", **SMALL_JOB)
    assert code == 0
    assert "ml.g4dn.xlarge has 116.4 GiB of instance store, and the job needs 279.4 GiB there" in said
    assert "take 1*ml.g4dn.8xlarge" in said  # 900 GB
    assert "disk of each dnn host 279.4 GiB" in said and "`limits: volume_gib` of 280 or more" in said
    assert "disk is not known" in planned(**SMALL_JOB)[1]


def test_too_small_volumes_are_named_with_their_figures(planned, tmp_path):
    ebs = ["--cluster", "ml.p3.2xlarge", "--disk_gb", "300"]
    code, said = planned(*ebs, "--volume_gib", "100", **SMALL_JOB)
    assert code == 1
    assert "ml.p3.2xlarge has 100 GiB of EBS volume (limits: volume_gib), and the job needs 279.4 GiB there" in said
    assert "No cluster has enough EBS volume (limits: volume_gib): state a larger --volume_gib" in said
    job = tmp_path / "job.yaml"
    job.write_text(JOB)
    code, said = planned(*ebs, "--write", str(job), **SMALL_JOB)
    assert code == 1 and "ml.p3.2xlarge has 200 GiB of EBS volume" in said


def test_copied_channels_of_the_job_file_need_disk(planned, tmp_path):
    (tmp_path / "train").mkdir()
    with (tmp_path / "train" / "images.tar").open("wb") as file:
        file.truncate(300 * 10**9)  # sparse
    job = tmp_path / "job.yaml"
    job.write_text(JOB.replace("200", "100") + 'channels: {training: {uri: "s3://my-bucket/train", local: train}}\n')
    words = ["--cluster", "ml.p3.2xlarge", "--write", str(job)]
    code, said = planned(*words, **SMALL_JOB)
    assert code == 1
    assert "has 100 GiB of EBS volume (limits: volume_gib), and the job needs 279.4 GiB there" in said
    assert "(mode File), as large as their local directories" in said
    job.write_text(job.read_text().replace("local: train", "local: train, mode: FastFile"))
    assert planned(*words, **SMALL_JOB)[0] == 0
