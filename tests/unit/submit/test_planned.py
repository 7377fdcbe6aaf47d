"""submit/job_file.py: a plan, written into a job file."""

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
    layout = {"data_host_workers": 2, "dnn_host_workers": 1, "cut": 3}
    document = {"candidates": [{"cluster": cluster, "layout": layout}]}
    return SimpleNamespace(chosen=chosen, to_json=lambda: document)


PIPELINE = {"cut": 3, "data_host_workers": 2, "dnn_host_workers": 1}


def test_plan_replaces_groups_and_pipeline_only():
    made = with_plan(TEXT, "job.yaml", plan())
    before, _, after = made.partition("groups:\n")
    assert before == TEXT[: TEXT.index("groups:")] and "# The bill.\nlimits: {max_run_s: 3600}\n" in after
    job = parse(made, "job.yaml")
    assert [(group.name, group.instance_type, group.count) for group in (job.data, job.dnn)] == [
        ("readers", "ml.c5.18xlarge", 2),
        ("trainers", "ml.p4d.24xlarge", 1),
    ]
    assert job.pipeline.items() >= PIPELINE.items() and job.parameters["data_group"] == "readers"
    assert with_plan(made, "job.yaml", plan()) == made


def test_plan_without_data_hosts_removes_their_group():
    made = with_plan(TEXT + "pipeline: {chain: 'crop(28), flip', cut: 1}", "job.yaml", plan(data_hosts=0))
    job = parse(made, "job.yaml")
    assert list(job.groups) == ["trainers"]
    assert job.pipeline == {"chain": "crop(28), flip", "cut": 3, "dnn_host_workers": 1}


@pytest.mark.parametrize("data_hosts", [0, 2])
def test_job_without_groups_gets_them_for_data_hosts(data_hosts):
    cut = TEXT.index("groups:"), TEXT.index("# The bill.")
    text = TEXT[: cut[0]] + "instances: {type: ml.g5.xlarge, count: 1}\n" + TEXT[cut[1] :]
    job = parse(with_plan(text, "job.yaml", plan(data_hosts)), "job.yaml")
    assert job.grouped == bool(data_hosts)
    assert job.dnn.instance_type == "ml.p4d.24xlarge"
    assert list(job.groups) == (["data_group", "dnn_group"] if data_hosts else ["homogeneousCluster"])


def test_unusable_plans_are_refused():
    text = TEXT + 'channels: {training: {uri: "s3://my-bucket/x", groups: [readers, trainers]}}\n'
    with pytest.raises(UsageError, match=":11: channels: training: groups"):
        with_plan(text, "job.yaml", plan(data_hosts=0))
    with pytest.raises(UsageError, match=r"job\.yaml"):
        with_plan(TEXT, "job.yaml", plan(chosen=None))


def test_settings_of_other_planes_are_launcher_arguments():
    text = TEXT.replace("groups:\n", "hyperparameters: {train_script: train.py}\ngroups:\n")
    ray = plan()
    ray.plane, (candidate,) = planes.get("ray"), ray.to_json()["candidates"]
    candidate["layout"] = {"data_host_cpus": -1, "dnn_host_cpus": 0, "cut": 2}
    job = parse(with_plan(text, "job.yaml", ray), "job.yaml")
    given = {"data_plane": "ray", "data_host_cpus": -1, "dnn_host_cpus": 0}
    assert job.hyperparameters == {"train_script": "train.py", **given} and job.pipeline == {}
    assert job.data.instance_type == "ml.c5.18xlarge"


def test_own_script_gets_no_trainer_arguments():
    text = TEXT.replace("groups:\n", "hyperparameters: {train_script: train.py}\ngroups:\n")
    made = parse(with_plan(text, "job.yaml", plan()), "job.yaml").pipeline
    assert made == {"data_host_workers": 2, "dnn_host_workers": 1}


def test_group_of_a_strategy_stays():
    text = TEXT.replace("groups:\n", "hyperparameters: {strategy: parameter_server}\ngroups:\n")
    text = text.replace("    count: 1\n", "    count: 2\n")
    text = text.replace("# The bill.", "  ps_group: {type: ml.c5.xlarge, count: 1}\n# The bill.")
    made = with_plan(text, "job.yaml", plan())
    assert "  ps_group: {type: ml.c5.xlarge, count: 1, role: ps}\n" in made
    assert [group.role for group in parse(made, "job.yaml").groups.values()] == ["data", "dnn", "ps"]
