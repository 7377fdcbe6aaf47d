"""Job files that SageMaker or the launcher would refuse: the line and the field that are named."""

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

WRONG = [
    # what is replaced in the sound file, by what, and the line and the field that are named
    ("name: digits\n", "", "1: name"),
    ("name: digits", "name: digits\nname: digits", "2: the name 'name'"),
    ("name: digits", "nmae: digits", "1: the name 'nmae'"),
    ("name: digits", "name: my_digits", "1: name"),
    ("name: digits", f"name: {'d' * 48}", "1: name"),
    ("region: us-east-1", "region: Virginia", "2: region"),
    ("image: 1", "image: my image 1", "3: image"),
    ("role: arn:aws:iam::123456789012:role/training", "role: training", "4: role"),
    ("output: s3://my-bucket/jobs", "output: /tmp/jobs", "5: output"),
    ("script: launcher.py", "script: ../launcher.py", "6: code: script"),
    ("script: launcher.py", "script: other.py", "6: code: script"),
    ("directory: code", "directory: src", "6: code: directory"),
    ("train_script: train.py", "train_script: no.py", "8: hyperparameters: train_script"),
    ("train_script: train.py", "train script: x", "8: hyperparameters: train script"),
    ("train_script: train.py", "stages: [a, b]", "8: hyperparameters: stages"),
    ("train_script: train.py", "loss: .inf", "8: hyperparameters: loss"),
    ("train_script: train.py", f"text: {'x' * 2500}", "8: hyperparameters: text"),
    ("train_script: train.py", MANY[2:], "8: hyperparameters"),
    ("train_script: train.py", "sagemaker_program: x.py", "8: hyperparameters: sagemaker_program"),
    ("train_script: train.py", "tfhet_secret: open sesame to me", "8: hyperparameters: tfhet_secret"),
    ("train_script: train.py", "dnn-group: gpus", "8: hyperparameters: dnn-group"),
    ("train_script: train.py", "strategy: solo", "8: hyperparameters: strategy"),
    ("train_script: train.py", "strategy: nccl", "8: hyperparameters: strategy"),
    ("train_script: train.py", "strategy: parameter_server", "15: groups"),
    ("  dnn_group", "  ps_group: {type: ml.c5.18xlarge, count: 1}\n  dnn_group", "15: groups"),
    ("train_script: train.py", "cut: 2", "8: hyperparameters: cut"),
    ("train_script: train.py", "a-b: 2\n  a_b: 3", "9: hyperparameters: a_b"),
    ("train_script: train.py", "resume: false", "8: hyperparameters: resume"),
    ("train_script: train.py", "checkpoint_every_epochs: 0", "8: hyperparameters: checkpoint_every_epochs"),
    ("{cut: 3}", "{cut: middle}", "9: pipeline: cut"),
    ("{cut: 3}", "{ct: 3}", "9: pipeline: the name 'ct'"),
    ("NCCL_DEBUG: WARN", "NCCL-DEBUG: WARN", "10: environment: NCCL-DEBUG"),
    ("NCCL_DEBUG: WARN", f"TEXT: {'x' * 513}", "10: environment: TEXT"),
    ("NCCL_DEBUG: WARN", "TFHET_SECRET: open sesame to me", "10: environment: TFHET_SECRET"),
    ("{NCCL_DEBUG: WARN}", f"{{{', '.join(f'V{n}: 1' for n in range(100))}}}", "10: environment"),
    ("  training: {uri", "  tr aining: {uri", "12: channels: tr aining"),
    ('"s3://my-bucket/train"', '"https://my-bucket/train"', "12: channels: training: uri"),
    ('/train"}', '/train", mode: Fast}', "12: channels: training: mode"),
    ('/train"}', '/train", groups: [dnn_group]}', "13: channels: validation"),
    ('/train"}', '/train", groups: [gpus]}', "12: channels: training: groups"),
    ('/train"}', '/train", groups: []}', "12: channels: training: groups"),
    ("groups:\n", "instances: {type: ml.g5.xlarge, count: 1}\ngroups:\n", "14: instances"),
    ("groups:\n", "instances:\n", "15: instances: the name 'data_group'"),
    ("ml.c5.18xlarge", "ml.c5.nope", "15: groups: data_group: type"),
    ("count: 2", "count: many", "15: groups: data_group: count"),
    ("count: 2", "count: 0", "15: groups: data_group: count"),
    ("count: 2", "count: 2, ranks: 2", "15: groups: data_group: ranks"),
    ("count: 1}", "count: 1, ranks: 9}", "16: groups: dnn_group: ranks"),
    ("  dnn_group", "  trainers", "16: groups: trainers"),
    ("count: 2}", "count: 2, role: dnn}", "15: groups"),
    ("count: 1}", "count: 1, role: data}", "15: groups"),
    ("  dnn_group", SPARE_GROUPS, "15: groups"),
    ("  dnn_group", "  s: {type: ml.m5.large, count: 1, role: spare}\n  dnn_group", "16: groups: s: count"),
    ("{max_run_s: 3600}", "{}", "17: limits: max_run_s"),
    ("max_run_s: 3600", "max_run_s: 1h", "17: limits: max_run_s"),
    ("3600}", "3600, keep_alive_s: 21601}", "17: limits: keep_alive_s"),
    ("max_wait_s: 7200", "max_wait_s: 3599", "18: spot: max_wait_s"),
    ("spot: {max_wait_s: 7200}", "spot: {}", "18: spot: max_wait_s"),
    ("max_wait_s: 7200", "max_wait_s: 7200, attempts: 31", "18: spot: attempts"),
    ('{uri: "s3://my-bucket/train"}', "{mode: File}", "12: channels: training"),
    ('/train"}', '/train", efs: {id: fs-01234567, directory: /x}}', "12: channels: training"),
    (TRAINING, EFS.replace("fs-01234567", "fs-1"), "12: channels: training: efs: id"),
    (TRAINING, EFS.replace("/train", "train"), "12: channels: training: efs: directory"),
    (TRAINING, EFS.replace("ro}", "r}"), "12: channels: training: efs: access"),
    (TRAINING, EFS.replace(", directory: /train", ""), "12: channels: training: efs: directory"),
    (TRAINING, f"{EFS[:-1]}, mode: FastFile}}", "12: channels: training: mode"),
    (TRAINING, f"{EFS[:-1]}, groups: [dnn_group]}}", "12: channels: training: groups"),
    ("tags: {team: vision}", "keys: {volume: a b}", "21: keys: volume"),
    ("tags: {team: vision}", "keys: {volume: 1234abcd}", "21: keys: volume"),
    ("tags: {team: vision}", "keys: {disks: 1234abcd}", "21: keys: the name 'disks'"),
    ("tags: {team: vision}", "profiler: {interval_ms: 300}", "21: profiler: interval_ms"),
    ("tags: {team: vision}", "profiler: {disabled: true, interval_ms: 200}", "21: profiler: disabled"),
    ("[subnet-1]", "[vpc-1]", "20: vpc: subnets[0]"),
    ("[sg-1]", "[]", "20: vpc: security_groups"),
    ("[sg-1]", "[sg-1, sg-1]", "20: vpc: security_groups"),
    ("team: vision", "aws:team: vision", "21: tags: aws:team"),
    ("tags: {team: vision}", "tags: [team", ""),
    ("tags: {team: vision}", "encrypt_traffic: maybe", "21: encrypt_traffic"),
    ("tags: {team: vision}", "start: horovod", "21: start"),
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


def refused(folder: Path, text: str, where: str) -> None:
    """Asserts that a file is refused with the line and the field `where`."""
    with pytest.raises(UsageError) as caught:
        submitted(folder, text)
    path = str(folder / "job.yaml")
    assert all(mistake.startswith(path) for mistake in caught.value.mistakes)
    assert any(mistake.startswith(f"{path}:{where} ") for mistake in caught.value.mistakes), caught.value
    assert "open sesame" not in str(caught.value)


def test_the_file_that_is_made_wrong_is_sound(folder):
    assert submitted(folder, SOUND).request["TrainingJobName"].startswith("digits-")


@pytest.mark.parametrize(("old", "new", "where"), WRONG)
def test_a_wrong_file_is_refused_with_its_line_and_field(folder, old, new, where):
    assert SOUND.count(old) == 1
    refused(folder, SOUND.replace(old, new), where)


OBJECTIVE = "metric_name: val_accuracy, type: Maximize"
RANGES = "integer_parameter_ranges: {size: {min_value: 1, max_value: 4}}"
NUMBERS = "max_number_of_training_jobs: 4, max_parallel_training_jobs: 2"
TUNED = SOUND.replace('checkpoints: {uri: "s3://my-bucket/checkpoints"}\n', "").replace(
    TAGS, f"tuning: {{objective: {{{OBJECTIVE}}}, {NUMBERS}, {RANGES}}}"
)
CATEGORIES = "categorical_parameter_ranges: {size: [1, 2]}"
WRONG_TUNING = [
    (OBJECTIVE, "metric_name: f1, type: Maximize", "tuning: objective: metric_name"),
    (OBJECTIVE, "metric_name: loss, type: Smaller", "tuning: objective: type"),
    (OBJECTIVE, "metric_name: f1, type: Maximize, regex: 'f1=.*'", "tuning: objective"),
    (OBJECTIVE, "metric_name: f1, type: Maximize, regex: 'f1=('", "tuning: objective"),
    (OBJECTIVE, "metric_name: loss, type: Minimize, regex: 'loss (.*)'", "tuning: objective"),
    (NUMBERS, NUMBERS.replace("jobs: 4", "jobs: 5"), "tuning: max_number_of_training_jobs"),
    (NUMBERS, NUMBERS.replace("jobs: 2", "jobs: 5"), "tuning: max_parallel_training_jobs"),
    (NUMBERS, f"{NUMBERS}, strategy: Hyperband", "tuning: strategy"),
    (NUMBERS, f"{NUMBERS}, strategy: Grid", "tuning: strategy"),
    (f"{NUMBERS}, {RANGES}", f"{NUMBERS}, strategy: Grid, {CATEGORIES}", "tuning: max_number_of_training_jobs"),
    (RANGES, "training_job_early_stopping_type: Off", "tuning"),
    (RANGES, RANGES.replace("size", "train_script"), "tuning: integer_parameter_ranges: train_script"),
    (RANGES, RANGES.replace("size", "strategy"), "tuning: integer_parameter_ranges: strategy"),
    (RANGES, RANGES.replace("size", "cut"), "tuning: integer_parameter_ranges: cut"),
    (RANGES, RANGES.replace("size", "dnn-group"), "tuning: integer_parameter_ranges: dnn-group"),
    (RANGES, RANGES.replace("min_value: 1", "min_value: 4"), "tuning: integer_parameter_ranges: size"),
    (RANGES, RANGES.replace("max_value: 4", "max_value: four"), "tuning: integer_parameter_ranges: size: max_value"),
    (RANGES, f"{RANGES}, {CATEGORIES}", "tuning: categorical_parameter_ranges: size"),
    (RANGES, f"categorical_parameter_ranges: {{a: [{'x' * 255}]}}", "tuning: categorical_parameter_ranges: a"),
    (RANGES, "continuous_parameter_ranges: {a: {min_value: 0, max_value: .inf}}",
     "tuning: continuous_parameter_ranges: a: max_value"),
    (RANGES, "continuous_parameter_ranges: {a: {min_value: 0, max_value: 1, scaling_type: Logarithmic}}",
     "tuning: continuous_parameter_ranges: a"),
    (RANGES, "continuous_parameter_ranges: {a: {min_value: 0, max_value: 1, scaling_type: ReverseLogarithmic}}",
     "tuning: continuous_parameter_ranges: a"),
]  # fmt: skip
TOGETHER = [
    ('checkpoints: {uri: "s3://my-bucket/checkpoints"}', "checkpoints"),
    ("profiler: {interval_ms: 200}", "profiler"),
    (f"environment: {{{', '.join(f'V{n}: 1' for n in range(48))}}}", "environment"),
]


@pytest.mark.parametrize(("old", "new", "where"), WRONG_TUNING)
def test_wrong_tuning_is_refused_with_line_and_field(folder, old, new, where):
    assert submitted(folder, TUNED).request["HyperParameterTuningJobName"]
    assert TUNED.count(old) == 1
    refused(folder, TUNED.replace(old, new), f"20: {where}")


@pytest.mark.parametrize(("line", "where"), TOGETHER)
def test_tuning_jobs_lack_some_sections(folder, line, where):
    refused(folder, f"{TUNED.replace('environment: {NCCL_DEBUG: WARN}', '# none')}{line}\n", f"21: {where}")
    refused(folder, TUNED.replace("3600}", "3600, keep_alive_s: 60}"), "17: limits: keep_alive_s")


VPC = "vpc: {subnets: [subnet-1], security_groups: [sg-1]}\n"
MINE = SOUND.replace('checkpoints"}', 'checkpoints", directory: /opt/ml/mine}')


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (SOUND.replace(TRAINING, EFS).replace(VPC, ""), "12: channels: training: efs"),
        (MINE.replace("train_script: train.py", "epochs: 3"), "19: checkpoints: directory"),
        ("# nothing\n", "1: output"),
        (
            SOUND.replace("hyperparameters:\n  train_script: train.py", "hyperparameters: &a {x: *a}"),
            "7: hyperparameters: x",
        ),
    ],
    ids=["file system without a private network", "other checkpoints", "empty", "holds itself"],
)
def test_a_file_whose_parts_do_not_fit_is_refused(folder, text, where):
    refused(folder, text, where)


def test_a_file_system_and_checkpoints_of_ones_own_are_sent(folder):
    assert submitted(folder, SOUND.replace(TRAINING, EFS)).request["VpcConfig"]
    assert submitted(folder, MINE).request["CheckpointConfig"]["LocalPath"] == "/opt/ml/mine"


def test_code_that_would_not_start_is_refused(folder):
    (folder / "code" / "tfhet").mkdir()
    submitted(folder, SOUND)
    for name in ("tfhet-0.1.0-py3-none-any.whl", "setup.py"):
        (folder / "code" / name).write_text("")
        refused(folder, SOUND, "6: code: directory")
        (folder / "code" / name).unlink()


@pytest.mark.parametrize("name", ["a_b", "-a", "a" * 64, ""])
def test_a_name_that_sagemaker_would_refuse_is_refused(folder, name):
    submitted(folder, SOUND)
    with pytest.raises(UsageError, match="--name"):
        JobSubmission.of(read(folder / "job.yaml"), name)


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    wrong = (
        SOUND.replace("name: digits", "nmae: digits").replace("us-east-1\n", "Virginia\n").replace("script:", "scrypt:")
    )
    wrong = wrong.replace("count: 2", "count: many").replace("type: ml.p4d.24xlarge", "type: ml.none")
    (tmp_path / "job.yaml").write_text(wrong.replace("max_run_s: 3600", "max_run_s: 0").replace("cut: 3", "cut: -7"))
    with pytest.raises(UsageError) as raised:
        read(tmp_path / "job.yaml")
    found = [line.partition("job.yaml:")[2].partition(" must ")[0] for line in raised.value.mistakes]
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


def test_all_parts_that_do_not_fit_are_named_at_once(tmp_path: Path) -> None:
    wrong = SOUND.replace("max_wait_s: 7200", "max_wait_s: 60").replace("train.py", "train.py\n  resume: false")
    (tmp_path / "job.yaml").write_text(wrong.replace('my-bucket/validation"', 'my-bucket/validation", groups: [none]'))
    with pytest.raises(UsageError) as raised:
        read(tmp_path / "job.yaml")
    found = {line.partition("job.yaml:")[2].partition(": ")[2].partition(" must ")[0] for line in raised.value.mistakes}
    fields = {"channels: validation: groups", "channels: training", "hyperparameters: resume", "spot: max_wait_s"}
    assert found == fields
