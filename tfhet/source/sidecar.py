"""`tfhet.json`, which lies beside the TFRecord files that tfhet writes and says what they hold."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.source.feature import Feature, from_json

SCHEMA = 1


@dataclass(frozen=True)
class Sidecar:
    """What a directory of TFRecord files holds."""

    features: Mapping[str, Feature]
    """By their name in the Example."""
    files: Mapping[str, int]
    """Examples by file name."""
    classes: tuple[str, ...] = ()
    """The name of each label, when labels are classes."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Where it came from: seed, shards, origin. JSON values."""

    NAME: ClassVar[str] = "tfhet.json"

    @classmethod
    def read(cls, directory: str | os.PathLike[str]) -> Sidecar | None:
        """None when the directory has none. Raises UsageError when it cannot be understood."""
        path = os.path.join(os.fspath(directory), cls.NAME)
        if not tf.io.gfile.exists(path):
            return None
        with tf.io.gfile.GFile(path) as stream:
            text = stream.read()
        try:
            document = json.loads(text)
            if document["schema"] != SCHEMA:
                raise UsageError(f"schema {document['schema']} is not {SCHEMA}")
            return cls(
                features={name: from_json(value) for name, value in document["features"].items()},
                files={name: int(count) for name, count in document["files"].items()},
                classes=tuple(document.get("classes", ())),
                details=document.get("details", {}),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"cannot understand {path}: {error!r}"
            raise UsageError(f"{what}; give the features yourself, or convert again") from None

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
