"""Job files that SageMaker or the launcher would refuse: each mistake is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.submit import JobSubmission, read

SOUND = """\
name: digits
region: us-east-1
image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/tfhet:0.1
role: arn:aws:iam::123456789012:role/training
output: s3://my-bucket/jobs
code: {directory: code, script: launcher.py}
hyperparameters:
  train_script: train.py
pipeline: {cut: 3}
environment: {NCCL_DEBUG: WARN}
channels:
  training: {uri: "s3://my-bucket/train"}
  validation: {uri: "s3://my-bucket/validation"}
groups:
  data_group: {type: ml.c5.18xlarge, count: 2}
  dnn_group: {type: ml.p4d.24xlarge, count: 1}
limits: {max_run_s: 3600}
spot: {max_wait_s: 7200}
checkpoints: {uri: "s3://my-bucket/checkpoints"}
vpc: {subnets: [subnet-1], security_groups: [sg-1]}
tags: {team: vision}
"""
TRAINING, TAGS, SCRIPT = '{uri: "s3://my-bucket/train"}', "tags: {team: vision}", "train_script: train.py"
EFS = "{efs: {id: fs-01234567, directory: /train, access: ro}}"
MANY = "\n".join(f"  p{number}: 1" for number in range(90))
SPARE_GROUPS = "".join(f"  s{n}: {{type: ml.m5.large, count: 0, role: spare}}\n" for n in range(4)) + "  dnn_group"

WRONG = [  # replaced text, replacement, line and name of the mistake
    ("name: digits\n", "", 1, "name"),
    ("name: digits", "name: digits\nname: digits", 2, "'name'"),
    ("name: digits", "nmae: digits", 1, "'nmae'"),
    ("name: digits", "name: my_digits", 1, "name"),
    ("name: digits", f"name: {'d' * 48}", 1, "name"),
    ("region: us-east-1", "region: Virginia", 2, "region"),
    ("image: 1", "image: my image 1", 3, "image"),
    ("role: arn:aws:iam::123456789012:role/training", "role: training", 4, "role"),
    ("output: s3://my-bucket/jobs", "output: /tmp/jobs", 5, "output"),
    ("script: launcher.py", "script: ../launcher.py", 6, "code: script"),
    ("script: launcher.py", "script: other.py", 6, "code: script"),
    ("directory: code", "directory: src", 6, "code: directory"),
    (SCRIPT, "train_script: no.py", 8, "hyperparameters: train_script"),
    (SCRIPT, "train script: x", 8, "hyperparameters: train script"),
    (SCRIPT, "stages: [a, b]", 8, "hyperparameters: stages"),
    (SCRIPT, "loss: .inf", 8, "hyperparameters: loss"),
    (SCRIPT, f"text: {'x' * 2501}", 8, "hyperparameters: text"),
    (SCRIPT, MANY[2:], 8, "hyperparameters"),
    (SCRIPT, "sagemaker_program: x.py", 8, "hyperparameters: sagemaker_program"),
    (SCRIPT, "tfhet_secret: open sesame to me", 8, "hyperparameters: tfhet_secret"),
    (SCRIPT, "dnn-group: gpus", 8, "hyperparameters: dnn-group"),
    (SCRIPT, "strategy: solo", 8, "hyperparameters: strategy"),
    (SCRIPT, "strategy: nccl", 8, "hyperparameters: strategy"),
    (SCRIPT, "strategy: parameter_server", 15, "groups"),
    ("  dnn_group", "  ps_group: {type: ml.c5.18xlarge, count: 1}\n  dnn_group", 15, "groups"),
    (SCRIPT, "cut: 2", 8, "hyperparameters: cut"),
    (SCRIPT, "a-b: 2\n  a_b: 3", 9, "hyperparameters: a_b"),
    (SCRIPT, "resume: false", 8, "hyperparameters: resume"),
    (SCRIPT, "checkpoint_every_epochs: 0", 8, "hyperparameters: checkpoint_every_epochs"),
    ("{cut: 3}", "{cut: middle}", 9, "pipeline: cut"),
    ("{cut: 3}", "{ct: 3}", 9, "'ct'"),
    ("NCCL_DEBUG: WARN", "NCCL-DEBUG: WARN", 10, "environment: NCCL-DEBUG"),
    ("NCCL_DEBUG: WARN", f"TEXT: {'x' * 513}", 10, "environment: TEXT"),
    ("NCCL_DEBUG: WARN", "TFHET_SECRET: open sesame to me", 10, "environment: TFHET_SECRET"),
    ("{NCCL_DEBUG: WARN}", f"{{{', '.join(f'V{n}: 1' for n in range(100))}}}", 10, "environment"),
    ("  training: {uri", "  tr aining: {uri", 12, "channels: tr aining"),
    ('"s3://my-bucket/train"', '"https://my-bucket/train"', 12, "channels: training: uri"),
    ('/train"}', '/train", mode: Fast}', 12, "channels: training: mode"),
    ('/train"}', '/train", groups: [dnn_group]}', 13, "channels: validation"),
    ('/train"}', '/train", groups: [gpus]}', 12, "channels: training: groups"),
    ('/train"}', '/train", groups: []}', 12, "channels: training: groups"),
    ("groups:\n", "instances: {type: ml.g5.xlarge, count: 1}\ngroups:\n", 14, "instances"),
    ("groups:\n", "instances:\n", 15, "'data_group'"),
    ("ml.c5.18xlarge", "ml.c5.nope", 15, "groups: data_group: type"),
    ("count: 2", "count: many", 15, "groups: data_group: count"),
    ("count: 2", "count: 0", 15, "groups: data_group: count"),
    ("count: 2", "count: 2, ranks: 2", 15, "groups: data_group: ranks"),
    ("count: 1}", "count: 1, ranks: 9}", 16, "groups: dnn_group: ranks"),
    ("  dnn_group", "  trainers", 16, "groups: trainers"),
    ("count: 2}", "count: 2, role: dnn}", 15, "groups"),
    ("count: 1}", "count: 1, role: data}", 15, "groups"),
    ("  dnn_group", SPARE_GROUPS, 15, "groups"),
    ("  dnn_group", "  s: {type: ml.m5.large, count: 1, role: spare}\n  dnn_group", 16, "groups: s: count"),
    ("{max_run_s: 3600}", "{}", 17, "limits: max_run_s"),
    ("max_run_s: 3600", "max_run_s: 1h", 17, "limits: max_run_s"),
    ("3600}", "3600, keep_alive_s: 21601}", 17, "limits: keep_alive_s"),
    ("max_wait_s: 7200", "max_wait_s: 3599", 18, "spot: max_wait_s"),
    ("spot: {max_wait_s: 7200}", "spot: {}", 18, "spot: max_wait_s"),
    ("max_wait_s: 7200", "max_wait_s: 7200, attempts: 31", 18, "spot: attempts"),
    (TRAINING, "{mode: File}", 12, "channels: training"),
    ('/train"}', '/train", efs: {id: fs-01234567, directory: /x}}', 12, "channels: training"),
    (TRAINING, "{efs: {id: fs-1, directory: /train, access: ro}}", 12, "channels: training: efs: id"),
    (TRAINING, "{efs: {id: fs-01234567, directory: train, access: ro}}", 12, "channels: training: efs: directory"),
    (TRAINING, "{efs: {id: fs-01234567, directory: /train, access: r}}", 12, "channels: training: efs: access"),
    (TRAINING, "{efs: {id: fs-01234567, access: ro}}", 12, "channels: training: efs: directory"),
    (
        TRAINING,
        "{efs: {id: fs-01234567, directory: /train, access: ro}, mode: FastFile}",
        12,
        "channels: training: mode",
    ),
    (
        TRAINING,
        "{efs: {id: fs-01234567, directory: /train, access: ro}, groups: [dnn_group]}",
        12,
        "channels: training: groups",
    ),
    (TAGS, "keys: {volume: a b}", 21, "keys: volume"),
    (TAGS, "keys: {volume: 1234abcd}", 21, "keys: volume"),
    (TAGS, "keys: {disks: 1234abcd}", 21, "'disks'"),
    (TAGS, "profiler: {interval_ms: 300}", 21, "profiler: interval_ms"),
    (TAGS, "profiler: {disabled: true, interval_ms: 200}", 21, "profiler: disabled"),
    ("[subnet-1]", "[vpc-1]", 20, "vpc: subnets"),
    ("[sg-1]", "[]", 20, "vpc: security_groups"),
    ("[sg-1]", "[sg-1, sg-1]", 20, "vpc: security_groups"),
    ("team: vision", "aws:team: vision", 21, "tags: aws:team"),
    (TAGS, "tags: [team", 22, ""),
    (TAGS, "encrypt_traffic: maybe", 21, "encrypt_traffic"),
    (TAGS, "start: horovod", 21, "start"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    for name in ("launcher.py", "train.py"):
        (tmp_path / "code" / name).write_text("")
    return tmp_path


def submitted(folder: Path, text: str) -> JobSubmission:
    file = folder / "job.yaml"
    file.write_text(text)
    return JobSubmission.of(read(file))


def test_original_file_is_sound(folder):
    assert submitted(folder, SOUND).request["TrainingJobName"].startswith("digits-")


def refused(folder: Path, text: str, line: int, named: str) -> None:
    with pytest.raises(UsageError) as raised:
        submitted(folder, text)
    found = [mistake.removeprefix(f"{folder / 'job.yaml'}:") for mistake in raised.value.mistakes]
    assert any(each.startswith(f"{line}: ") and named in each for each in found) or not named, found
    assert "open sesame" not in str(raised.value), "a secret is not repeated"


@pytest.mark.parametrize(("old", "new", "line", "named"), WRONG)
def test_mistake_is_named_with_its_line(folder, old, new, line, named):
    assert SOUND.count(old) == 1
    refused(folder, SOUND.replace(old, new), line, named)


def test_file_system_needs_a_private_network(folder):
    mounted = SOUND.replace(TRAINING, EFS)
    assert submitted(folder, mounted).request["VpcConfig"]
    vpc = "vpc: {subnets: [subnet-1], security_groups: [sg-1]}\n"
    refused(folder, mounted.replace(vpc, ""), 12, "channels: training: efs")


def test_built_in_trainer_needs_its_checkpoint_directory(folder):
    own = SOUND.replace('checkpoints"}', 'checkpoints", directory: /opt/ml/mine}')
    assert submitted(folder, own).request["CheckpointConfig"]["LocalPath"] == "/opt/ml/mine"
    refused(folder, own.replace(SCRIPT, "epochs: 3"), 19, "checkpoints: directory")


@pytest.mark.parametrize("files", [["setup.py"], ["tfhet/__init__.py", "tfhet-0.1.0-py3-none-any.whl"]])
def test_misleading_files_in_code_are_refused(folder, files):
    for name in files:
        submitted(folder, SOUND)
        (folder / "code" / name).parent.mkdir(exist_ok=True)
        (folder / "code" / name).write_text("")
    refused(folder, SOUND, 6, "code: directory")


def test_empty_and_recursive_files_are_refused(folder):
    with pytest.raises(UsageError, match=r"job\.yaml"):
        submitted(folder, "# nothing\n")
    recursive = SOUND.replace("hyperparameters:\n  train_script: train.py", "hyperparameters: &a {x: *a}")
    refused(folder, recursive, 7, "hyperparameters: x")


@pytest.mark.parametrize("name", ["a_b", "-a", "a" * 64, ""])
def test_invalid_job_name_is_refused(folder, name):
    submitted(folder, SOUND)
    with pytest.raises(UsageError, match="--name"):
        JobSubmission.of(read(folder / "job.yaml"), name)


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    wrong = (
        SOUND.replace("name: digits", "nmae: digits").replace("us-east-1\n", "Virginia\n").replace("script:", "scrypt:")
    )
    wrong = wrong.replace("count: 2", "count: many").replace("type: ml.p4d.24xlarge", "type: ml.none")
    (tmp_path / "job.yaml").write_text(wrong.replace("max_run_s: 3600", "max_run_s: 0").replace("cut: 3", "cut: -7"))
    with pytest.raises(UsageError) as raised:
        read(tmp_path / "job.yaml")
    first, *lines = str(raised.value).splitlines()
    assert first == f"{len(raised.value.mistakes)} mistakes:"
    found = [line.partition("job.yaml:")[2].partition(" must be ")[0] for line in lines]
    assert found == [
        "1: the name 'nmae'",
        "1: name",
        "2: region",
        "6: code: the name 'scrypt'",
        "6: code: script",
        "9: pipeline: cut",
        "15: groups: data_group: count",
        "16: groups: dnn_group: type",
        "17: limits: max_run_s",
    ]


def test_all_conflicts_are_reported_at_once(tmp_path: Path) -> None:
    wrong = SOUND.replace("max_wait_s: 7200", "max_wait_s: 60").replace("train.py", "train.py\n  resume: false")
    (tmp_path / "job.yaml").write_text(wrong.replace('my-bucket/validation"', 'my-bucket/validation", groups: [none]'))
    with pytest.raises(UsageError) as raised:
        read(tmp_path / "job.yaml")
    found = sorted(line.partition("job.yaml:")[2].partition(" must ")[0] for line in raised.value.mistakes)
    channels = ["13: channels: training", "14: channels: validation: groups"]
    assert found == [*channels, "19: spot: max_wait_s", "9: hyperparameters: resume"]
