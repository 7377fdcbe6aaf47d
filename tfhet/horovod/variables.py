"""Variables that get the values of one rank."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import horovod.tensorflow as hvd

from tfhet.horovod.collectives import global_process_set
from tfhet.horovod.keras_version import native


def broadcast_variables(
    variables: Iterable[Any], root_rank: int = 0, process_set: Any = global_process_set, inplace: bool = False
) -> Any:
    """Sets variables to the values of one rank. All ranks of the process set must call it.

    Args:
        variables: Variables of Keras or TensorFlow, with the same order, shapes and dtypes on every rank.
        root_rank: The rank with the values.
        process_set: The ranks that take part.
        inplace: Whether Horovod writes into the variables' memory.

    Returns:
        In a graph of TensorFlow 1, the operation; else None.
    """
    found = [native(variable) for variable in variables]
    return hvd.broadcast_variables(found, root_rank, process_set=process_set, inplace=inplace)
