"""Rules about versions of packages that do not go together. Facts: installed version by distribution."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfhet.doctor.rule import Rule, RuleAnswer, Subject, limited, ok, wrong

DISTRIBUTIONS = (
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-gpu",
    "tf-nightly",
    "keras",
    "horovod",
    "tensorflow-addons",
    "numpy",
    "protobuf",
    "setuptools",
    "tensorboard",
    "nvidia-cudnn-cu11",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
)
Versions = Mapping[str, str]


def number(version: str) -> tuple[int, ...]:
    """2.15.1rc0 -> (2, 15, 1): as far as it is numbers between dots."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _both(versions: Versions, *names: str) -> str:
    """`tensorflow 2.15.1, keras 2.15.0`; "" where one is not installed."""
    return ", ".join(f"{name} {versions[name]}" for name in names) if all(name in versions for name in names) else ""


def keras(versions: Versions) -> RuleAnswer | None:
    pair = _both(versions, "tensorflow", "keras")
    if not pair:
        return None
    if number(versions["tensorflow"]) < (2, 16) and number(versions["keras"]) >= (3,):
        return limited(pair, f"pip install 'keras=={'.'.join(versions['tensorflow'].split('.')[:2])}.*'")
    if number(versions["tensorflow"]) >= (2, 16) and number(versions["keras"]) < (3,):
        return limited(pair, "pip install 'keras>=3'")
    return ok(pair)


def horovod(versions: Versions) -> RuleAnswer | None:
    pair = _both(versions, "tensorflow", "horovod")
    if not pair:
        return None
    if number(versions["tensorflow"]) >= (2, 16) and number(versions["horovod"]) <= (0, 28, 1):
        return wrong(pair, "pip install tensorflow==2.15.1, and build Horovod again; or train on one rank")
    return ok(pair)


def addons(versions: Versions) -> RuleAnswer | None:
    pair = _both(versions, "tensorflow", "tensorflow-addons")
    if not pair:
        return None
    if number(versions["tensorflow"]) >= (2, 16):
        return limited(pair, "pip uninstall tensorflow-addons, and leave backend='addons' away")
    return ok(pair)


def numpy(versions: Versions) -> RuleAnswer | None:
    pair = _both(versions, "tensorflow", "numpy")
    if not pair:
        return None
    if number(versions["numpy"]) >= (2,) and number(versions["tensorflow"]) < (2, 18):
        return wrong(pair, "pip install 'numpy<2'")
    return ok(pair)


def protobuf(versions: Versions) -> RuleAnswer | None:
    pair = _both(versions, "tensorflow", "protobuf")
    if not pair:
        return None
    if number(versions["protobuf"]) >= (5,) and number(versions["tensorflow"]) < (2, 18):
        return limited(pair, "pip install 'protobuf>=4.25,<5'")
    if number(versions["protobuf"]) < (4,):
        return limited(pair, "pip install 'protobuf>=4.25,<5': messages are faster in version 4")
    return ok(pair)


def setuptools(versions: Versions) -> RuleAnswer | None:
    pair = _both(versions, "tensorboard", "setuptools")
    if not pair:
        return None
    if number(versions["setuptools"]) >= (82,) and number(versions["tensorboard"]) < (2, 21):
        return limited(pair, "pip install 'setuptools<82'")
    return ok(pair)


def one_tensorflow(versions: Versions) -> RuleAnswer | None:
    there = [name for name in ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly") if name in versions]
    if len(there) > 1:
        return limited(", ".join(there), f"pip uninstall {' '.join(there)}, then install one of them")
    return ok(there[0]) if there else None


def cuda(versions: Versions) -> RuleAnswer | None:
    """The rule is given the number of GPUs as the version of `gpus`."""
    there = [name for name in versions if name.startswith("nvidia-cudnn")]
    if there and versions.get("gpus", "0") == "0":
        return limited(f"{', '.join(there)} and no GPU", "on data hosts: pip install tensorflow without [and-cuda]")
    return ok(", ".join(there)) if there else None


VERSIONS = Subject(
    "versions",
    (
        Rule("TensorFlow and Keras", keras, "tf.keras is the installed Keras", "tensorflow/tensorflow#62825"),
        Rule("TensorFlow and Horovod", horovod, "several ranks", "horovod/horovod#4290"),
        Rule("TensorFlow and Addons", addons, "the backend addons; it knows Keras 2 only", "tensorflow/addons#2870"),
        Rule("TensorFlow and NumPy", numpy, "it was built for NumPy 1", "tensorflow/tensorflow#102743"),
        Rule("TensorFlow and protobuf", protobuf, "graphs travel as protobuf messages"),
        Rule(
            "TensorBoard and setuptools", setuptools, "TensorBoard imports pkg_resources", "tensorflow/tensorboard#7107"
        ),
        Rule("one TensorFlow", one_tensorflow, "they hold the same files: which one runs is a matter of chance"),
        Rule("CUDA without GPU", cuda, "gigabytes in an image that data hosts download first"),
    ),
)
