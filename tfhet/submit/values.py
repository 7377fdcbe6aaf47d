"""The values of a job file: our limits, and SageMaker's, which its client does not check: patterns and lengths of
CreateTrainingJob and
CreateHyperParameterTuningJob in botocore's service model (1.44.8)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from tfhet.schema import matching, whole

Value = Annotated[str | int | float | bool, Meta(description="a single value: text, a number, true or false")]
"""A hyperparameter, of the type that YAML gives it."""
VALUE_CHARACTERS = 2500
"""Maximum length of a hyperparameter, as JSON."""
TUNED_CHARACTERS = 256
"""The same for a value that a tuning job chooses."""
_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_SAGEMAKER_NAME = (r"[a-zA-Z0-9](-*[a-zA-Z0-9])*", "letters, digits and '-' between them")
TrainingJobName = Annotated[str, matching(*_SAGEMAKER_NAME, 63)]
TuningJobName = Annotated[str, matching(*_SAGEMAKER_NAME, 32)]
JobName = Annotated[str, matching(*_SAGEMAKER_NAME, 63 - 16)]  # the time needs 16
Image = Annotated[
    str, matching(r"[^\s:/]\S*", "an image, like 123456789012.dkr.ecr.us-east-1.amazonaws.com/tfhet:1", 255)
]
_ROLE = "the ARN of a role, like arn:aws:iam::123456789012:role/training"
Role = Annotated[str, matching(r"arn:aws[a-z-]*:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@/-]+", _ROLE, 2048)]
S3 = Annotated[str, matching(rf"s3://{_BUCKET}(/[^\s]*)?", "an S3 URI, like s3://bucket/prefix", 900)]
Channel = Annotated[str, matching(r"[A-Za-z0-9._-]+", "a name of letters, digits, '.', '_' and '-'", 64)]
Parameter = Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_.-]*", "a name of letters, digits, '_', '.' and '-'", 256)]
Variable = Annotated[str, matching(r"[a-zA-Z_][a-zA-Z0-9_]*", "a name of letters, digits and '_'", 512)]
VariableValue = Annotated[str, matching(r"[^\0]*", "text", 512)]
_TAG = r"(?!aws:)[\w .:/=+@-]+", "letters, digits, blanks and _.:/=+-@, and not begin with aws:", 128
Tag = Annotated[str, matching(*_TAG)]
TagValue = Annotated[str, matching(r"[\w .:/=+@-]*", "letters, digits, blanks and _.:/=+-@", 256)]
Script = Annotated[str, matching(r"(?!/)(?!.*\.\.)[A-Za-z0-9._+/-]+\.py", "a Python file below the code directory")]
Directory = Annotated[str, matching(r"[^\0\n]+", "a directory")]
AbsolutePath = Annotated[str, matching(r"/[^\0\n]+", "an absolute path", 4096)]
Subnet = Annotated[str, matching(r"subnet-[0-9a-zA-Z]+", "a subnet, like subnet-0a1b2c3d", 32)]
Subnets = Annotated[tuple[Subnet, ...], Meta(min_length=1, max_length=16, description="1 to 16 subnets")]
SecurityGroup = Annotated[str, matching(r"sg-[0-9a-zA-Z]+", "a security group, like sg-0a1b2c3d", 32)]
_TO_5 = Meta(min_length=1, max_length=5, description="1 to 5 security groups")
SecurityGroups = Annotated[tuple[SecurityGroup, ...], _TO_5]
FileSystemId = Annotated[str, matching(r"fs-[0-9a-f]{8,18}", "the id of a file system, like fs-0123456789abcdef0")]
KmsKey = Annotated[str, matching(r"[a-zA-Z0-9:/_-]+", "a KMS key's id or ARN", 2048)]
_INTERVALS = Meta(description="one of 100, 200, 500, 1000, 5000, 60000")
Interval = Annotated[Literal[100, 200, 500, 1000, 5000, 60_000], _INTERVALS]
Truth = Annotated[bool, Meta(description="true or false")]
Seconds = Annotated[int, whole(1, 2_419_200, "a whole number of seconds")]
Chain = Annotated[str, matching(r"[^\0\n]+", "a chain's name, or stages", 2000)]
_TOPIC = "the ARN of an SNS topic, like arn:aws:sns:us-east-1:123456789012:alarms"
Topic = Annotated[str, matching(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}", _TOPIC, 400)]
