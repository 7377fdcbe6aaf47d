"""The file `tfhet.json`, which describes the TFRecord files in its directory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import tensorflow as tf

from tfhet.errors import UsageError, shown
from tfhet.source.feature import Feature, from_json

SCHEMA = 1


@dataclass(frozen=True)
class Sidecar:
    """Description of a directory of TFRecord files."""

    features: Mapping[str, Feature]
    """Features by their name in the Example."""
    files: Mapping[str, int]
    """Number of examples by file name."""
    classes: tuple[str, ...] = ()
    """The name of each label, when labels are classes."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Origin of the data: seed, shards, origin. JSON values."""

    NAME: ClassVar[str] = "tfhet.json"

    @classmethod
    def read(cls, directory: str | os.PathLike[str]) -> Sidecar | None:
        """Returns a directory's description, or None when it has none. Raises UsageError for one that is not valid."""
        path = os.path.join(os.fspath(directory), cls.NAME)
        if not tf.io.gfile.exists(path):
            return None
        try:
            with tf.io.gfile.GFile(path, "rb") as stream:
                document = json.loads(stream.read())
            if document["schema"] != SCHEMA:
                raise UsageError(f"schema {shown(document['schema'])} is not {SCHEMA}")
            features = {name: from_json(value) for name, value in document["features"].items()}
            for feature in features.values():
                feature.stored()
                feature.spec  # noqa: B018  # both find out whether shape and dtype are some
            return cls(
                features=features,
                files={name: _of(int, count, name) for name, count in document["files"].items()},
                classes=tuple(_of(str, name, "classes") for name in _of(list, document.get("classes", []), "classes")),
                details=_of(dict, document.get("details", {}), "details"),
            )
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            what = f"cannot understand {path}: {repr(error)[:300]}"
            raise UsageError(f"{what}; give the features yourself, or convert again") from None
        except tf.errors.OpError as error:
            raise UsageError(f"cannot read {path}: {error.message}") from None

    def write(self, directory: str | os.PathLike[str]) -> None:
        document = {
            "schema": SCHEMA,
            "features": {name: feature.as_json() for name, feature in self.features.items()},
            "files": dict(self.files),
            "classes": list(self.classes),
            "details": dict(self.details),
        }
        with open(os.path.join(os.fspath(directory), self.NAME), "w", encoding="utf-8") as stream:
            json.dump(document, stream, indent=1)
            stream.write("\n")


def _of(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, int) and value < 0):
        raise TypeError(f"{shown(where)}: {shown(value)} is not a {kind.__name__}")
    return value
