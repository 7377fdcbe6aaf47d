"""Callbacks of Keras 3: equal weights on all ranks, and learning rates that depend on the number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.horovod.collectives import Min, allreduce, rank, size
from tfhet.horovod.keras_version import native
from tfhet.horovod.variables import broadcast_variables


class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):
    """Gives all ranks the weights and the optimizer's state of one rank.

    It does so before the first batch if the model is built on all ranks, and else after the first batch, which builds
    it. Random states of layers stay different.

    Args:
        root_rank: The rank with the values.
        device: Device of the operation.
        local_variables: A variable, or several, that each rank keeps.
    """

    def __init__(self, root_rank: int = 0, device: str = "", local_variables: Any = None):
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self._done: set[Any] = set()
        several = isinstance(local_variables, Iterable) and not isinstance(
            local_variables, tf.Variable | tf.keras.Variable
        )
        for each in (local_variables if several else [local_variables]) if local_variables is not None else ():
            self.register_local_var(each)
        self._has_ended_a_batch = False

    def register_local_var(self, var: Any) -> None:
        """Makes each rank keep its value of a variable."""
        self._done.add(native(var).ref())

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        self._has_ended_a_batch = False
        if allreduce(int(self.model.built), op=Min, name="tfhet.built"):
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if not self._has_ended_a_batch:
            self._has_ended_a_batch = True
            self._broadcast()

    def _broadcast(self) -> None:
        optimizer = self.model.optimizer
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        variables = [native(each) for each in (*self.model.weights, *optimizer.variables)]
        new = [each for each in variables if each.ref() not in self._done]
        self._done.update(each.ref() for each in new)
        with tf.device(self.device):
            broadcast_variables(new, self.root_rank)


class LearningRateScheduleCallback(tf.keras.callbacks.Callback):
    """Sets the learning rate to `initial_lr * multiplier(epoch)` from `start_epoch` until before `end_epoch`.

    Args:
        initial_lr: The learning rate that is multiplied.
        multiplier: A function of the epoch, or a number whose power by the epochs since `start_epoch` is the factor.
        start_epoch: The first epoch.
        end_epoch: The epoch after the last one; None: no end.
        staircase: Whether to set it at the begin of each epoch, or of each batch: `multiplier` then gets fractions.
        momentum_correction: Whether the momentum follows the learning rate, for optimizers with momentum
            (https://arxiv.org/abs/1706.02677).
        steps_per_epoch: Batches of an epoch; only needed without `staircase`, if Keras does not know them.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ):
        super().__init__()
        if initial_lr is None:
            raise UsageError(f"{type(self).__name__} needs initial_lr, the learning rate that it multiplies")
        self.initial_lr = initial_lr
        self.start_epoch, self.end_epoch = start_epoch, end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0
        if callable(multiplier):
            self.multiplier: Callable[[float], float] = multiplier
        else:
            self.multiplier = lambda epoch: multiplier ** (epoch - start_epoch)

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self.params.get("steps")
            if not self.steps_per_epoch:
                raise UsageError(
                    f"Keras does not know how many batches an epoch has: pass steps_per_epoch to {type(self).__name__} "
                    "or to model.fit"
                )

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        if self.current_epoch < self.start_epoch or (
            self.end_epoch is not None and self.current_epoch >= self.end_epoch
        ):
            return
        if self.staircase and batch == 0:
            self._set_learning_rate(self.current_epoch)
        elif not self.staircase:
            assert self.steps_per_epoch
            self._set_learning_rate(self.current_epoch + batch / self.steps_per_epoch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            logs["lr"] = float(self._optimizer.learning_rate)

    @property
    def _optimizer(self) -> Any:
        return getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)

    def _set_learning_rate(self, epoch: float) -> None:
        optimizer = self._optimizer
        old, new = float(optimizer.learning_rate), self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = new
        has_momentum = bool(getattr(optimizer, "momentum", None)) and optimizer.built
        if self.momentum_correction and has_momentum and old and new != old:
            # The velocities contain the learning rate of their steps.
            for velocity in getattr(optimizer, "momentums", None) or optimizer._momentums:
                if velocity is not None:
                    velocity.assign(velocity * (new / old))


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Increases the learning rate from `initial_lr / hvd.size()` to `initial_lr` (https://arxiv.org/abs/1706.02677).

    Args:
        initial_lr: The learning rate after the warm-up.
        warmup_epochs: Epochs of the warm-up.
        momentum_correction: See `LearningRateScheduleCallback`.
        steps_per_epoch: See `LearningRateScheduleCallback`.
        verbose: 1: rank 0 prints the learning rate after the warm-up.
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ):
        def multiplier(epoch: float) -> float:
            assert self.steps_per_epoch
            at_end = epoch + 1 / self.steps_per_epoch  # so that the last batch of the warm-up has initial_lr
            return (at_end * (size() - 1) / warmup_epochs + 1) / size()

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self.end_epoch is not None and epoch == self.end_epoch - 1 and self.verbose > 0 and rank() == 0:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {logs and logs['lr']:g}.")
