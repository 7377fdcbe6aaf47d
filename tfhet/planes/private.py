"""All private API of TensorFlow that the planes use (TensorFlow 2.15.1 and 2.21).

Each function says why the public API is not enough, and imports TensorFlow when it is called.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
import warnings
from pathlib import Path
from typing import Any

SERVERS = "tensorflow.python.data.experimental.service._pywrap_server_lib"
CONFIGS = "tensorflow.core.protobuf.service_config_pb2"


def auto_shard(data: Any, ranks: int, rank: Any) -> Any:
    """Returns the share of one rank, which may be a tensor, by the data set's auto-shard policy.

    The public API has this for strategies only."""
    from tensorflow.python.data.experimental.ops import distribute

    return distribute._AutoShardDataset(data, ranks, rank)


def servers() -> tuple[Any, Any]:
    """Returns TensorFlow's extension module with the servers of tf.data service, and the messages that configure them.
    The public servers have no fields for some intervals."""
    return importlib.import_module(SERVERS), importlib.import_module(CONFIGS)


def servers_without_python() -> tuple[Any, Any] | None:
    """As `servers`, without importing TensorFlow's Python, which takes 2 s of CPU; None if TensorFlow is not installed.
    After an error TensorFlow is half-imported: restart the process."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or not spec.submodule_search_locations:
        return None
    root = Path(spec.submodule_search_locations[0])
    parts = SERVERS.split(".")[:-1]
    for depth in range(1, len(parts) + 1):  # packages whose __init__ never runs
        package = types.ModuleType(".".join(parts[:depth]))
        package.__path__ = [str(root.joinpath(*parts[1:depth]))]
        sys.modules[package.__name__] = package
    return servers()


def read_registered(sharding: Any, target: str, dataset_id: str, element_spec: Any, **options: Any) -> Any:
    """Returns the data set registered under an id. The public `from_dataset_id` has no `task_refresh_interval_hint_ms`
    and no `data_transfer_protocol`."""
    from tensorflow.python.data.experimental.ops import data_service_ops

    return data_service_ops._from_dataset_id(sharding, target, dataset_id, element_spec, **options)


def registered_metadata(dataset_id: str, dispatcher: str, protocol: str) -> Any:
    """Returns the dispatcher's description of a data set. Raises RuntimeError or tf.errors.OpError."""
    library, _ = servers()
    with warnings.catch_warnings():  # of protobuf 4, caused by TensorFlow 2.15
        warnings.simplefilter("ignore")
        return library.TF_DATA_GetDataServiceMetadataByID(dataset_id, dispatcher, protocol)
