from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tfhet import planes
from tfhet.errors import UsageError
from tfhet.submit import parse, with_plan

TEXT = """\
# Ours.
name: digits
image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/tfhet:0.1
role: arn:aws:iam::123456789012:role/training  # of the team
output: s3://my-bucket/jobs
code: {directory: code, script: launcher.py}
groups:
  readers: {type: ml.c5.xlarge, count: 1, role: data}
  trainers:
    type: ml.g5.xlarge
    count: 1
    role: dnn
# The bill.
limits: {max_run_s: 3600}
"""


def plan(data_hosts: int = 2, chosen: int | None = 0) -> Any:
    cluster = {
        "dnn": "ml.p4d.24xlarge",
        "dnn_hosts": 1,
        "data": "ml.c5.18xlarge" if data_hosts else None,
        "data_hosts": data_hosts,
        "text": f"1*ml.p4d.24xlarge+{data_hosts}*ml.c5.18xlarge",
    }
    layout = {"data_host_workers": 2, "dnn_host_workers": 1, "cut": 3, "compression": "none"}
    document = {"candidates": [{"cluster": cluster, "layout": layout}]}
    return SimpleNamespace(chosen=chosen, to_json=lambda: document)


def test_the_cluster_and_the_cut_of_the_plan_stand_in_the_file_and_the_rest_is_as_it_was():
    made = with_plan(TEXT, "job.yaml", plan())
    assert made == TEXT[: TEXT.index("groups:")] + (
        "groups:\n"
        "  readers: {type: ml.c5.18xlarge, count: 2, role: data}\n"
        "  trainers: {type: ml.p4d.24xlarge, count: 1, role: dnn}\n"
        "# The bill.\n"
        "limits: {max_run_s: 3600}\n"
        "pipeline:\n"
        "  cut: 3\n"
        "  data_host_workers: 2\n"
        "  dnn_host_workers: 1\n"
        "  compression: none\n"
    )
    assert parse(made, "job.yaml").parameters["data_group"] == "readers"


def test_written_again_it_is_the_same():
    once = with_plan(TEXT, "job.yaml", plan())
    assert with_plan(once, "job.yaml", plan()) == once


def test_a_plan_without_data_hosts_takes_their_group_out():
    made = with_plan(TEXT + "pipeline: {chain: 'crop(28), flip', cut: 1}", "job.yaml", plan(data_hosts=0))
    job = parse(made, "job.yaml")
    assert list(job.groups) == ["trainers"]
    assert job.pipeline == {"chain": "crop(28), flip", "cut": 3, "dnn_host_workers": 1, "compression": "none"}


@pytest.mark.parametrize("data_hosts", [0, 2])
def test_a_job_without_groups_gets_them_when_there_are_data_hosts(data_hosts):
    cut = TEXT.index("groups:"), TEXT.index("# The bill.")
    text = TEXT[: cut[0]] + "instances: {type: ml.g5.xlarge, count: 1}\n" + TEXT[cut[1] :]
    job = parse(with_plan(text, "job.yaml", plan(data_hosts)), "job.yaml")
    assert job.grouped == bool(data_hosts)
    assert job.dnn.instance_type == "ml.p4d.24xlarge"
    assert list(job.groups) == (["data_group", "dnn_group"] if data_hosts else ["homogeneousCluster"])


def test_a_file_that_would_be_wrong_with_the_plan_in_it_is_refused_and_says_where():
    text = TEXT + 'channels: {training: {uri: "s3://my-bucket/x", groups: [readers, trainers]}}\n'
    with pytest.raises(UsageError, match="job.yaml with the plan in it:11: channels: training: groups"):
        with_plan(text, "job.yaml", plan(data_hosts=0))


def test_a_plan_of_which_no_cluster_fits_is_not_written():
    with pytest.raises(UsageError, match="left as it is: no cluster of the plan keeps the limits"):
        with_plan(TEXT, "job.yaml", plan(chosen=None))


def test_a_plan_of_another_data_plane_is_refused_with_the_arguments_to_write():
    ray = plan()
    ray.plane, (candidate,) = planes.get("ray"), ray.to_json()["candidates"]
    candidate["layout"] = {"data_host_cpus": -1, "dnn_host_cpus": 0, "cut": 2, "compression": "none"}
    words = r"cluster 1\*ml.p4d.24xlarge\+2\*ml.c5.18xlarge .* arguments --data_host_cpus -1 --dnn_host_cpus 0"
    with pytest.raises(UsageError, match=words):
        with_plan(TEXT, "job.yaml", ray)


def test_a_script_of_ones_own_gets_no_arguments_of_the_built_in_trainer():
    text = TEXT.replace("groups:\n", "hyperparameters: {train_script: train.py}\ngroups:\n")
    assert parse(with_plan(text, "job.yaml", plan()), "job.yaml").pipeline == {
        "data_host_workers": 2,
        "dnn_host_workers": 1,
    }
    assert set(parse(with_plan(TEXT, "job.yaml", plan()), "job.yaml").pipeline) > {"cut", "compression"}


def test_a_group_that_a_strategy_needs_stays_as_it_is():
    text = TEXT.replace("groups:\n", "hyperparameters: {strategy: parameter_server}\ngroups:\n").replace(
        "    count: 1\n", "    count: 2\n"
    )
    text = text.replace("# The bill.", "  ps_group: {type: ml.c5.xlarge, count: 1}\n# The bill.")
    made = with_plan(text, "job.yaml", plan())
    assert "  ps_group: {type: ml.c5.xlarge, count: 1, role: ps}\n" in made
    assert [group.role for group in parse(made, "job.yaml").groups.values()] == ["data", "dnn", "ps"]
