"""The kinds of single values of a job file: our limits, and SageMaker's, which its client does not check: patterns and
lengths of CreateTrainingJob in botocore's service model (1.44.5)."""

from __future__ import annotations

import json
import math

import yaml

from tfhet.yaml_file import Node, each, listed, matching, named, one_of, whole

Value = str | int | float | bool
VALUE_CHARACTERS = 2500
"""Maximum length of a hyperparameter, as JSON."""
_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_SAGEMAKER_NAME = (r"[a-zA-Z0-9](-*[a-zA-Z0-9])*", "letters, digits and '-' between them")
TRAINING_JOB_NAME = matching(*_SAGEMAKER_NAME, 63)
JOB_NAME = matching(*_SAGEMAKER_NAME, 63 - 16)  # the time needs 16
IMAGE = matching(r"[^\s:/]\S*", "an image, like 123456789012.dkr.ecr.us-east-1.amazonaws.com/tfhet:1", 255)
_ROLE = "the ARN of a role, like arn:aws:iam::123456789012:role/training"
ROLE = matching(r"arn:aws[a-z-]*:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@/-]+", _ROLE, 2048)
S3 = matching(rf"s3://{_BUCKET}(/[^\s]*)?", "an S3 URI, like s3://bucket/prefix", 900)
GROUP = matching(r"[A-Za-z0-9][A-Za-z0-9._-]*", "a name of letters, digits, '.', '_' and '-'", 64)
CHANNEL = matching(r"[A-Za-z0-9._-]+", "a name of letters, digits, '.', '_' and '-'", 64)
_PARAMETER = matching(r"[A-Za-z_][A-Za-z0-9_.-]*", "a name of letters, digits, '_', '.' and '-'", 256)
ENVIRONMENT = each(
    matching(r"[a-zA-Z_][a-zA-Z0-9_]*", "a name of letters, digits and '_'", 512), matching(r"[^\0]*", "text", 512)
)
TAGS = each(
    matching(r"(?!aws:)[\w .:/=+@-]+", "letters, digits, blanks and _.:/=+-@, and not begin with aws:", 128),
    matching(r"[\w .:/=+@-]*", "letters, digits, blanks and _.:/=+-@", 256),
)
SCRIPT = matching(r"(?!/)(?!.*\.\.)[A-Za-z0-9._+/-]+\.py", "a Python file below the code directory")
DIRECTORY = matching(r"[^\0\n]+", "a directory")
ABSOLUTE = matching(r"/[^\0\n]+", "an absolute path", 4096)
_SUBNETS, _SECURITY_GROUPS = "subnets, like subnet-0a1b2c3d", "security groups, like sg-0a1b2c3d"
SUBNETS = listed(matching(r"subnet-[0-9a-zA-Z]+", _SUBNETS, 32), f"1 to 16 {_SUBNETS}", 16)
SECURITY_GROUPS = listed(matching(r"sg-[0-9a-zA-Z]+", _SECURITY_GROUPS, 32), f"1 to 5 {_SECURITY_GROUPS}", 5)
FILE_SYSTEM = matching(r"fs-[0-9a-f]{8,18}", "the id of a file system, like fs-0123456789abcdef0")
KEY = matching(r"[a-zA-Z0-9:/_-]+", "a KMS key's id or ARN", 2048)
INTERVAL = named({str(interval): interval for interval in (100, 200, 500, 1000, 5000, 60_000)})
TRUTH = named({"true": True, "false": False}, "true or false")
COUNT = whole(0, 1000)
RANKS = whole(1, 256)
SECONDS = whole(1, 2_419_200, "a whole number of seconds")
KEEP_ALIVE = whole(0, 21_600, "a whole number of seconds")
VOLUME = whole(1, 16_384, "a whole number of GiB")
ATTEMPTS = whole(1, 30)

PIPELINE = {
    "chain": matching(r"[^\0\n]+", "a chain's name, or stages", 2000),
    "cut": whole(-1, 1000),
    "batch_size": whole(1, 1_000_000),
    "shuffle": whole(0, 100_000_000),
    "compression": one_of(("none", "snappy")),
    "data_host_workers": whole(0, 256),
    "dnn_host_workers": whole(0, 256),
    "reserve_cpus": whole(-1, 1000),
}


def pipeline(node: Node) -> dict[str, Value]:
    """Returns arguments of the launcher and the built-in trainer that say how batches are made."""
    return node.values(PIPELINE)


def plain(node: Node) -> Value:
    """Returns a hyperparameter's value, of the type that YAML gives it. Raises UsageError for what cannot be sent."""
    at = node.at
    kind = at.tag.rpartition(":")[2]
    if not isinstance(at, yaml.ScalarNode) or kind == "null":
        raise node.refused("a single value: text, a number, true or false")
    value: Value = str(at.value)
    if kind in ("int", "float", "bool"):
        value = yaml.SafeLoader("").construct_object(at)
    if isinstance(value, float) and not math.isfinite(value):
        raise node.refused("a finite number")
    characters = len(json.dumps(value))
    if characters > VALUE_CHARACTERS or "\0" in str(value):
        raise node.refused(f"at most {VALUE_CHARACTERS} characters as JSON, without NUL; it has {characters}")
    return value


PARAMETERS = each(_PARAMETER, plain)
