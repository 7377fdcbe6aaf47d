"""What the base install must do alone: a plain pipeline, and training on one rank. Run by `scripts/test --base`."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import tfhet
from tfhet.errors import UsageError
from tfhet.trainer.__main__ import main

extras = [
    name for name in ("horovod", "tensorflow_addons", "sagemaker_training", "sklearn") if importlib.util.find_spec(name)
]
assert not extras, f"this is not the base install: {extras}"

pipeline = tfhet.Pipeline(tfhet.SyntheticSource(200, 8), "aws-cifar", batch_size=32)
seen = sum(len(batch["id"]) for batch in pipeline.dataset())
assert seen == 200, seen

try:
    stages = tfhet.stages.parse("gaussian_blur(backend='addons')")
    list(pipeline.with_stages(stages).dataset().take(1))
except UsageError as error:
    if "addons" not in str(error):
        raise
else:
    raise AssertionError("the Addons backend ran without Addons")

with tempfile.TemporaryDirectory(prefix="base-") as base:
    words = ["--data", "synthetic:200:8", "--chain", "digits", "--model", "small_cnn", "--epochs", "1"]
    assert main(words, {"SAGEMAKER_BASE_DIR": base}) == 0
    assert (Path(base) / "model" / "1" / "saved_model.pb").is_file()
print("base install: 1 passed, 0 failed")
