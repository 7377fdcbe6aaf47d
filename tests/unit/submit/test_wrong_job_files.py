"""Job files that SageMaker or the launcher would refuse: what is said of each, before anything is asked or sent."""

from __future__ import annotations

import re
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
TRAINING = '{uri: "s3://my-bucket/train"}'
EFS = "{efs: {id: fs-01234567, directory: /train, access: ro}}"
MANY = "\n".join(f"  p{number}: 1" for number in range(90))

WRONG = [
    # what is replaced in the sound file, by what, and what is said, with the line
    ("name: digits\n", "", ":1: name must be given"),
    ("name: digits", "name: digits\nname: digits", ":2: the name 'name' must be given once"),
    ("name: digits", "nmae: digits", ":1: the name 'nmae' must be one of name, image"),
    ("name: digits", "name: my_digits", ":1: name must be letters, digits and '-' between them"),
    ("name: digits", f"name: {'d' * 48}", "at most 47 characters"),
    ("region: us-east-1", "region: Virginia", ":2: region must be the name of a region"),
    ("image: 1", "image: my image 1", ":3: image must be an image"),
    ("role: arn:aws:iam::123456789012:role/training", "role: training", ":4: role must be the ARN of a role"),
    ("output: s3://my-bucket/jobs", "output: /tmp/jobs", ":5: output must be an S3 URI"),
    ("script: launcher.py", "script: ../launcher.py", ":6: code: script must be a Python file below"),
    ("script: launcher.py", "script: other.py", ":6: code: script must be a file in"),
    ("directory: code", "directory: src", ":6: code: directory must be a directory"),
    ("train_script: train.py", "train_script: no.py", ":8: hyperparameters: train_script must be a file in"),
    ("train_script: train.py", "train script: x", ":8: hyperparameters: train script must be called by a name"),
    ("train_script: train.py", "stages: [a, b]", ":8: hyperparameters: stages must be a single value"),
    ("train_script: train.py", "loss: .inf", ":8: hyperparameters: loss must be a finite number"),
    ("train_script: train.py", f"text: {'x' * 2500}", ":8: hyperparameters: text must be at most 2500 characters"),
    ("train_script: train.py", MANY[2:], "hyperparameters must be at most 88 with those of the pipeline; there are 91"),
    ("train_script: train.py", "sagemaker_program: x.py", ":8: hyperparameters: sagemaker_program must not begin with"),
    ("train_script: train.py", "tfhet_secret: open sesame to me", ":8: hyperparameters: tfhet_secret must be left out"),
    ("train_script: train.py", "dnn-group: gpus", ":8: hyperparameters: dnn-group must be left out: the groups say it"),
    ("train_script: train.py", "strategy: solo", ":8: hyperparameters: strategy does not fit the groups: the strategy"),
    ("train_script: train.py", "strategy: nccl", ":8: hyperparameters: strategy does not fit the groups: unknown"),
    ("train_script: train.py", "strategy: parameter_server", "groups must have ps_group, alone with its role"),
    (
        "  dnn_group",
        "  ps_group: {type: ml.c5.18xlarge, count: 1}\n  dnn_group",
        "groups must be without the role ps, of which horovod makes no use",
    ),
    ("train_script: train.py", "cut: 2", ":8: hyperparameters: cut must be left out: the pipeline says it"),
    ("train_script: train.py", "a-b: 2\n  a_b: 3", ":9: hyperparameters: a_b must be left out: it is the same as a-b"),
    ("train_script: train.py", "resume: false", ":8: hyperparameters: resume must be true with spot"),
    (
        "train_script: train.py",
        "checkpoint_every_epochs: 0",
        ":8: hyperparameters: checkpoint_every_epochs must be above",
    ),
    ("{cut: 3}", "{cut: middle}", ":9: pipeline: cut must be a whole number from -1 to 1000; it is 'middle'"),
    ("{cut: 3}", "{ct: 3}", ":9: pipeline: the name 'ct' must be one of chain, cut"),
    ("NCCL_DEBUG: WARN", "NCCL-DEBUG: WARN", ":10: environment: NCCL-DEBUG must be called by"),
    ("NCCL_DEBUG: WARN", f"TEXT: {'x' * 513}", ":10: environment: TEXT must be text, at most 512 characters"),
    ("NCCL_DEBUG: WARN", "TFHET_SECRET: open sesame to me", ":10: environment: TFHET_SECRET must be left out"),
    (
        "{NCCL_DEBUG: WARN}",
        f"{{{', '.join(f'V{n}: 1' for n in range(100))}}}",
        "must have at most 99 entries; it has 100",
    ),
    ("  training: {uri", "  tr aining: {uri", ":12: channels: tr aining must be called by"),
    ('"s3://my-bucket/train"', '"https://my-bucket/train"', ":12: channels: training: uri must be an S3 URI"),
    ('/train"}', '/train", mode: Fast}', ":12: channels: training: mode must be one of File, FastFile, Pipe"),
    ('/train"}', '/train", groups: [dnn_group]}', ":13: channels: validation must say its groups: training does"),
    ('/train"}', '/train", groups: [gpus]}', ":12: channels: training: groups must be groups of this job"),
    ('/train"}', '/train", groups: []}', ":12: channels: training: groups must be a list of groups"),
    (
        "groups:\n",
        "instances: {type: ml.g5.xlarge, count: 1}\ngroups:\n",
        ":14: instances must be left out where there are",
    ),
    ("groups:\n", "instances:\n", ":15: instances: the name 'data_group' must be one of type, count, ranks"),
    ("ml.c5.18xlarge", "ml.c5.nope", ":15: groups: data_group: type must be an instance type that the catalogue has"),
    ("count: 2", "count: many", ":15: groups: data_group: count must be a whole number from 0 to 1000"),
    ("count: 2", "count: 0", ":15: groups: data_group: count must be at least 1: without hosts"),
    ("count: 2", "count: 2, ranks: 2", ":15: groups: data_group: ranks must be left out: only the group that trains"),
    (
        "count: 1}",
        "count: 1, ranks: 9}",
        ":16: groups: dnn_group: ranks must be at most 8, one for each GPU of ml.p4d.24xlarge",
    ),
    ("  dnn_group", "  trainers", ":16: groups: trainers must be given a role (data, dnn, ps, spare)"),
    (
        "count: 2}",
        "count: 2, role: dnn}",
        ":15: groups must be exactly one with the role dnn; they are data_group, dnn_group",
    ),
    ("count: 1}", "count: 1, role: data}", "groups must be exactly one with the role dnn; there is none"),
    (
        "  dnn_group",
        "".join(f"  s{n}: {{type: ml.m5.large, count: 0, role: spare}}\n" for n in range(4)) + "  dnn_group",
        ":15: groups must be 1 to 5 groups, SageMaker's limit; there are 6",
    ),
    (
        "  dnn_group",
        "  s: {type: ml.m5.large, count: 1, role: spare}\n  dnn_group",
        ":16: groups: s: count must be 0: hosts of a spare group would do nothing",
    ),
    ("{max_run_s: 3600}", "{}", ":17: limits: max_run_s must be given"),
    ("max_run_s: 3600", "max_run_s: 1h", ":17: limits: max_run_s must be a whole number of seconds"),
    (
        "3600}",
        "3600, keep_alive_s: 21601}",
        ":17: limits: keep_alive_s must be a whole number of seconds from 0 to 21600",
    ),
    (
        "max_wait_s: 7200",
        "max_wait_s: 3599",
        ":18: spot: max_wait_s must be at least max_run_s, which it contains, 3600",
    ),
    ("spot: {max_wait_s: 7200}", "spot: {}", ":18: spot: max_wait_s must be given"),
    ("max_wait_s: 7200", "max_wait_s: 7200, attempts: 31", ":18: spot: attempts must be a whole number from 1 to 30"),
    (
        '{uri: "s3://my-bucket/train"}',
        "{mode: File}",
        ":12: channels: training must be given exactly one of uri, fsx, efs",
    ),
    (
        '/train"}',
        '/train", efs: {id: fs-01234567, directory: /x}}',
        ":12: channels: training must be given exactly one",
    ),
    (TRAINING, EFS.replace("fs-01234567", "fs-1"), ":12: channels: training: efs: id must be the id of a file system"),
    (TRAINING, EFS.replace("/train", "train"), ":12: channels: training: efs: directory must be an absolute path"),
    (TRAINING, EFS.replace("ro}", "r}"), ":12: channels: training: efs: access must be one of ro, rw"),
    (TRAINING, EFS.replace(", directory: /train", ""), ":12: channels: training: efs: directory must be given"),
    (TRAINING, f"{EFS[:-1]}, mode: FastFile}}", ":12: channels: training: mode must be File, or left out: a file"),
    (
        TRAINING,
        f"{EFS[:-1]}, groups: [dnn_group]}}",
        ":12: channels: training: groups must be left out: all groups see",
    ),
    ("tags: {team: vision}", "keys: {volume: a b}", ":21: keys: volume must be a KMS key's id or ARN"),
    (
        "tags: {team: vision}",
        "keys: {volume: 1234abcd}",
        ":21: keys: volume must be left out: ml.p4d.24xlarge has disks",
    ),
    ("tags: {team: vision}", "keys: {disks: 1234abcd}", ":21: keys: the name 'disks' must be one of output, volume"),
    ("tags: {team: vision}", "profiler: {interval_ms: 300}", ":21: profiler: interval_ms must be one of 100, 200"),
    (
        "tags: {team: vision}",
        "profiler: {disabled: true, interval_ms: 200}",
        ":21: profiler: disabled must be left out, or alone",
    ),
    ("[subnet-1]", "[vpc-1]", ":20: vpc: subnets must be subnets"),
    ("[sg-1]", "[]", ":20: vpc: security_groups must be a list of 1 to 5 security groups"),
    ("[sg-1]", "[sg-1, sg-1]", ":20: vpc: security_groups must be a list of 1 to 5"),
    ("team: vision", "aws:team: vision", ":21: tags: aws:team must be called by"),
    ("tags: {team: vision}", "tags: [team", "not YAML"),
    ("tags: {team: vision}", "encrypt_traffic: maybe", ":21: encrypt_traffic must be true or false"),
    ("tags: {team: vision}", "start: horovod", ":21: start must be one of mpi, alone"),
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


def test_the_file_that_is_made_wrong_is_sound(folder):
    assert submitted(folder, SOUND).request["TrainingJobName"].startswith("digits-")


@pytest.mark.parametrize(("old", "new", "said"), WRONG)
def test_a_wrong_file_is_refused_with_its_field_and_line(folder, old, new, said):
    assert SOUND.count(old) == 1
    with pytest.raises(UsageError, match=re.escape(said)) as refused:
        submitted(folder, SOUND.replace(old, new))
    assert all(mistake.startswith(str(folder / "job.yaml")) for mistake in refused.value.mistakes)
    assert "open sesame" not in str(refused.value)


def test_a_file_system_without_a_private_network_is_refused(folder):
    vpc = "vpc: {subnets: [subnet-1], security_groups: [sg-1]}\n"
    mounted = SOUND.replace(TRAINING, EFS)
    assert submitted(folder, mounted).request["VpcConfig"]
    with pytest.raises(UsageError, match=":12: channels: training: efs must have a vpc beside it"):
        submitted(folder, mounted.replace(vpc, ""))


def test_the_built_in_trainer_has_its_checkpoints_where_it_looks_for_them(folder):
    own = SOUND.replace('checkpoints"}', 'checkpoints", directory: /opt/ml/mine}')
    assert submitted(folder, own).request["CheckpointConfig"]["LocalPath"] == "/opt/ml/mine"
    with pytest.raises(UsageError, match="checkpoints: directory must be /opt/ml/checkpoints, where the built-in"):
        submitted(folder, own.replace("train_script: train.py", "epochs: 3"))


def test_a_setup_py_is_refused(folder):
    (folder / "code" / "setup.py").write_text("")
    with pytest.raises(UsageError, match=r":6: code: directory must not hold a setup\.py"):
        submitted(folder, SOUND)


def test_a_folder_that_would_hide_the_wheel_is_refused(folder):
    (folder / "code" / "tfhet").mkdir()
    submitted(folder, SOUND)
    (folder / "code" / "tfhet-0.1.0-py3-none-any.whl").write_text("")
    with pytest.raises(UsageError, match=":6: code: directory must not hold a folder tfhet"):
        submitted(folder, SOUND)


def test_an_empty_file_is_told_what_a_job_needs(folder):
    with pytest.raises(UsageError, match="is empty; it needs name, image, role, output, code, limits, and groups"):
        submitted(folder, "# nothing\n")


def test_a_file_that_holds_itself_ends(folder):
    with pytest.raises(UsageError, match=":7: hyperparameters: x must be a single value"):
        submitted(folder, SOUND.replace("hyperparameters:\n  train_script: train.py", "hyperparameters: &a {x: *a}"))


@pytest.mark.parametrize("name", ["a_b", "-a", "a" * 64, ""])
def test_a_name_of_the_users_that_sagemaker_would_refuse_is_refused(folder, name):
    submitted(folder, SOUND)
    with pytest.raises(UsageError, match="--name"):
        JobSubmission.of(read(folder / "job.yaml"), name)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
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


def test_all_parts_that_do_not_fit_together_are_told_at_once(tmp_path: Path) -> None:
    wrong = SOUND.replace("max_wait_s: 7200", "max_wait_s: 60").replace("train.py", "train.py\n  resume: false")
    (tmp_path / "job.yaml").write_text(wrong.replace('my-bucket/validation"', 'my-bucket/validation", groups: [none]'))
    with pytest.raises(UsageError) as raised:
        read(tmp_path / "job.yaml")
    told = "\n".join(raised.value.mistakes)
    assert len(raised.value.mistakes) == 4
    for part in (
        "validation: groups must be groups of",
        "training must say its groups",
        "max_wait_s",
        "resume must be true",
    ):
        assert part in told
