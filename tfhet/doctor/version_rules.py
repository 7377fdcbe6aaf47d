"""Rules about versions of packages that do not work together. Facts: installed version by distribution."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tfhet.doctor.rule import RuleAnswer, Subject, limited, ok, wrong

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
Number = tuple[int, ...]
Conflict = tuple[Callable[[str, str], RuleAnswer], str]
"""`limited` or `wrong`, and what to do."""
VERSIONS: Subject[Versions] = Subject("versions")


def number(version: str) -> Number:
    """2.15.1rc0 -> (2, 15, 1): the leading numbers between dots."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _pair(
    first: str, second: str, name: str, why: str, issue: str = ""
) -> Callable[[Callable[[Number, Number], Conflict | None]], None]:
    """Adds a rule about the versions of two distributions, where both are installed."""

    def add(conflict: Callable[[Number, Number], Conflict | None]) -> None:
        def look(versions: Versions) -> RuleAnswer:
            found = f"{first} {versions[first]}, {second} {versions[second]}"
            problem = conflict(number(versions[first]), number(versions[second]))
            return problem[0](found, problem[1]) if problem else ok(found)

        VERSIONS.rule(name, why, issue, when=lambda versions: first in versions and second in versions)(look)

    return add


@_pair("tensorflow", "keras", "TensorFlow and Keras", "tf.keras is the installed Keras", "tensorflow/tensorflow#62825")
def _keras(tensorflow: Number, keras: Number) -> Conflict | None:
    if tensorflow < (2, 16) and keras >= (3,):
        return limited, f"pip install 'keras=={'.'.join(map(str, tensorflow[:2]))}.*'"
    return (limited, "pip install 'keras>=3'") if tensorflow >= (2, 16) and keras < (3,) else None


@_pair("tensorflow", "horovod", "TensorFlow and Horovod", "Horovod connects several ranks", "horovod/horovod#4290")
def _horovod(tensorflow: Number, horovod: Number) -> Conflict | None:
    if tensorflow >= (2, 16) and horovod <= (0, 28, 1):
        return wrong, "pip install tensorflow==2.15.1, and build Horovod again; or train on one rank"
    return None


@_pair(
    "tensorflow",
    "tensorflow-addons",
    "TensorFlow and Addons",
    "the backend addons needs it; it knows Keras 2 only",
    "tensorflow/addons#2870",
)
def _addons(tensorflow: Number, addons: Number) -> Conflict | None:
    return (limited, "pip uninstall tensorflow-addons, and omit backend='addons'") if tensorflow >= (2, 16) else None


@_pair(
    "tensorflow",
    "numpy",
    "TensorFlow and NumPy",
    "TensorFlow before 2.18 was built for NumPy 1",
    "tensorflow/tensorflow#102743",
)
def _numpy(tensorflow: Number, numpy: Number) -> Conflict | None:
    return (wrong, "pip install 'numpy<2'") if numpy >= (2,) and tensorflow < (2, 18) else None


@_pair("tensorflow", "protobuf", "TensorFlow and protobuf", "graphs travel as protobuf messages")
def _protobuf(tensorflow: Number, protobuf: Number) -> Conflict | None:
    if protobuf >= (5,) and tensorflow < (2, 18):
        return limited, "pip install 'protobuf>=4.25,<5'"
    return (limited, "pip install 'protobuf>=4.25,<5': version 4 is faster") if protobuf < (4,) else None


@_pair(
    "tensorboard",
    "setuptools",
    "TensorBoard and setuptools",
    "TensorBoard imports pkg_resources",
    "tensorflow/tensorboard#7107",
)
def _setuptools(tensorboard: Number, setuptools: Number) -> Conflict | None:
    return (limited, "pip install 'setuptools<82'") if setuptools >= (82,) and tensorboard < (2, 21) else None


@VERSIONS.rule("one TensorFlow", "several hold the same files: which one runs is a matter of chance")
def one_tensorflow(versions: Versions) -> RuleAnswer | None:
    there = [name for name in ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly") if name in versions]
    if len(there) > 1:
        return limited(", ".join(there), f"pip uninstall {' '.join(there)}, then install one of them")
    return ok(there[0]) if there else None


@VERSIONS.rule("CUDA without GPU", "data hosts download gigabytes more with the image before they start")
def cuda(versions: Versions) -> RuleAnswer | None:
    """The facts hold the number of GPUs as the version of `gpus`."""
    there = [name for name in versions if name.startswith("nvidia-cudnn")]
    if there and versions.get("gpus", "0") == "0":
        return limited(f"{', '.join(there)} and no GPU", "on data hosts: pip install tensorflow without [and-cuda]")
    return ok(", ".join(there)) if there else None
