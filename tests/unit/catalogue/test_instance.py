"""The table of instance types."""

from __future__ import annotations

import pytest

from tfhet.catalogue import Instance, default, shipped
from tfhet.errors import UsageError

pytestmark = pytest.mark.usefixtures("no_files_of_a_user")


def test_a_type_has_its_published_figures():
    assert default().instance("ml.p3.8xlarge") == Instance(
        "ml.p3.8xlarge", 32, 244, gpus=4, gpu_kind="V100", gpu_memory_gib=16, network_gbit_per_s=10
    )
    assert default().instance("ml.c5.xlarge") == Instance(
        "ml.c5.xlarge", 4, 8, network_gbit_per_s=1.25, network_burst_gbit_per_s=10
    )


def test_the_prefix_may_be_left_out():
    assert default().instance("p4d.24xlarge") is default().instance("ml.p4d.24xlarge")


@pytest.mark.parametrize("name", shipped().instances)
def test_a_row_is_whole_and_within_reason(name):
    row = shipped().instance(name)
    assert name.startswith("ml.") and row.name == name
    assert row.vcpus in range(2, 257) and 1.9 <= row.memory_gib / row.vcpus <= 15.9
    assert (row.gpus > 0) == (row.gpu_kind is not None) == (row.gpu_memory_gib is not None)
    assert row.network_gbit_per_s is None or row.network_gbit_per_s > 0
    if row.network_burst_gbit_per_s is not None:
        assert row.network_gbit_per_s is not None and row.network_burst_gbit_per_s > row.network_gbit_per_s


def test_a_larger_size_of_a_family_has_no_less_of_anything():
    families: dict[str, list[Instance]] = {}
    for name, row in shipped().instances.items():
        families.setdefault(name.split(".")[1], []).append(row)
    for rows in families.values():
        ordered = sorted(rows, key=lambda row: row.vcpus)
        for small, large in zip(ordered, ordered[1:], strict=False):
            assert large.memory_gib > small.memory_gib
            if small.gpus == large.gpus and small.network_gbit_per_s and large.network_gbit_per_s:
                assert large.network_gbit_per_s >= small.network_gbit_per_s


@pytest.mark.parametrize(
    ("name", "listed"),
    [("ml.c5.3xlarge", "ml.c5.xlarge"), ("ml.p3.48xlarge", "ml.p3.2xlarge"), ("ml.cc5.xlarge", "ml.c5.xlarge")],
)
def test_an_unknown_type_is_answered_with_names_like_it(name, listed):
    with pytest.raises(UsageError, match=f"unknown instance type '{name}'; known: .*{listed}") as caught:
        default().instance(name)
    assert len(str(caught.value)) < 300


def test_a_name_like_none_is_answered_with_all():
    with pytest.raises(UsageError, match=r"ml\.p5\.48xlarge"):
        default().instance("zzz")


def test_all_names_are_sagemakers():
    botocore = pytest.importorskip("botocore.session", reason="botocore is not installed")
    service = botocore.get_session().get_service_model("sagemaker")
    assert set(shipped().instances) <= set(service.shape_for("TrainingInstanceType").enum)
