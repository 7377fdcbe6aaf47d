"""The messages between a launcher and the script of its rank, over the channel between them."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tfhet.schema import Amount, Count, Message, MessageError, Text

if TYPE_CHECKING:
    import numpy as np


class Progress(Message, frozen=True):
    """The script makes progress. Totals since it began, over all of its steps; None if it does not count them."""

    steps: Count | None = None
    examples: Amount | None = None
    """Sum over all ranks."""
    step_s: Amount | None = None
    """Seconds of all steps."""
    wait_s: Amount | None = None
    """Part of `step_s` spent waiting for data."""


class Reading(Message, frozen=True):
    """The script reads a data set."""

    endless: bool
    """Whether the data set repeats for ever, so that a worker that is lost for good does not keep it from ending."""


class Standing(Message, frozen=True):
    """Where a script of one's own stands; each one replaces the one before."""

    steps: Count
    step_ms: Amount
    """Median of the measured steps."""
    wait_pct: Amount
    """Wait share of the measured steps."""
    delivered: Count = 0
    """Examples of the declared pipeline that `distribute` delivered; `Delivered` reports all of them."""
    unused: Count = 0
    """Examples among them that the script had not taken from what it made of the data set, such as its own prefetch."""


class Delivered(Message, frozen=True):
    """Examples of a declared pipeline that `distribute` delivered in a script of one's own since the last one."""

    epoch: Count
    """Pass over the data that they belong to."""
    ids: str
    """Their ids, as `packed`."""
    expected: Count | None
    """Examples in a whole pass."""
    over: Count
    """Number of passes from which this rank gets nothing any more, as far as that can be known."""


MOST_IDS = 2500
"""Maximum number of ids in a message: even ids without any order fit into the channel."""


def packed(ids: np.ndarray) -> str:
    """At most MOST_IDS int64 ids, sorted, as text: few bytes for neighbours."""
    import numpy as np

    steps = np.diff(np.sort(ids), prepend=0).astype("<i8")
    return base64.b64encode(zlib.compress(steps.tobytes(), 1)).decode("ascii")


def unpacked(text: str) -> np.ndarray:
    """The ids, int64 [n], ascending. Raises MessageError for another text."""
    import numpy as np

    try:
        content = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), 8 * MOST_IDS)
        steps = np.frombuffer(content, "<i8")
    except (ValueError, zlib.error) as error:
        raise MessageError(f"delivered: ids that are none: {error}") from error
    ids = np.cumsum(steps, dtype=np.int64)
    if ids.size and (ids.min() < 0 or steps.min() < 0):
        raise MessageError("delivered: ids that are below 0, or not ascending")
    return ids


class Contribution(Message, frozen=True):
    """This rank's part of a `Gathered`."""

    key: str
    value: Count


class Weights(Message, frozen=True):
    """A sample of the trainable weights of this rank, which are equal on all ranks if these train one model."""

    model: str
    """Name of the model or optimizer, the same on all ranks; it changes with the shapes of the weights."""
    remedy: Text
    """How such a script reduces its gradients."""
    epoch: Count
    """Pass over the training data."""
    step: Count
    """Number of steps that this rank has completed in this pass."""
    values: str
    """The elements, as `messages.sample.packed`."""
    is_maybe_part: bool = False
    """Whether the ranks may hold different parts of one model: they differ from the start then."""


class Metrics(Message, frozen=True):
    """A metric line for the launcher to print."""

    line: str
    """The exact MetricLine: a text, since a loss may be NaN, which JSON has not."""


class ServingHosts(Message, frozen=True):
    """The hosts that deliver data to the ranks from now on."""

    hosts: tuple[str, ...]
    is_complete: bool = True
    """Whether these hosts are ready: whether the data plane has heard of all of their workers."""


class Gathered(Message, frozen=True):
    """The values that all ranks contributed under a key."""

    key: str
    values: tuple[Count, ...]
    """By rank."""


class Key(Message, frozen=True):
    """The key of the job's data plane: the first message to a process that takes part in it."""

    key: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]

    def __repr__(self) -> str:
        return "Key()"  # logs must not show it


LeaderReport = Standing | Delivered | Contribution | Weights
"""What the leader receives of all ranks."""
Report = Progress | Reading | Metrics | LeaderReport
Order = ServingHosts | Gathered | Key
