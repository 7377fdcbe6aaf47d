"""Generations of a dispatcher: whether it is still the one that knows what was read so far.

A dispatcher that has lost its memory would let a reader begin a data set anew that others have read a part of. So all
readers agree on a mark before they read, and who finds a dispatcher without it does not read from it.
"""

from __future__ import annotations

import tensorflow as tf

from tfhet.planes.tf_service.transport import Transport, is_registered


class Generation:
    """One job's marks at `dispatcher`, numbered from 1."""

    def __init__(self, dispatcher: str, job_id: str, transport: Transport):
        self.number = 0
        """Of the mark that counts; 0 before the first."""
        self._dispatcher = dispatcher
        self._job_id = job_id
        self._transport = transport

    def renew(self) -> None:
        """Makes the next mark. All readers do it, and none reads before all have: it takes them a barrier."""
        self.number += 1
        self._transport.publish(self._dispatcher, tf.data.Dataset.range(1), self._name)

    def stands(self) -> bool:
        """Whether the dispatcher has the mark. TensorFlow waits for one that is being started, without end, and the
        launcher that starts it ends the job when it cannot. Raises NotReady when it answers something else."""
        return is_registered(self._dispatcher, self._name)

    @property
    def _name(self) -> str:
        return f"{self._job_id}.generation-{self.number}"
