"""Optimizers of Keras 3 that reduce their gradients over the ranks, and the compilation of models with them."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.horovod.reduction import Reduction

_numbers = itertools.count()
_Base: Any = tf.keras.optimizers.Optimizer if TYPE_CHECKING else object


class Distributed(_Base):
    """First base class of a distributed optimizer; its second one is the class of the optimizer."""

    reduction: Reduction
    prefix: str

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Any] | None = None) -> None:
        """Reduces the gradients, and applies the result as the optimizer does in one process."""
        variables = None if trainable_variables is None else list(trainable_variables)
        known = self._trainable_variables if variables is None else variables
        super().apply(self.reduction.reduce(grads, known, self.prefix), variables)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "loss_scale_factor" and value is None and "loss_scale_factor" in vars(self):
            # LossScaleOptimizer sets it, and would reduce on the ranks with finite gradients only: a deadlock.
            raise UsageError(
                "a LossScaleOptimizer cannot contain a distributed optimizer: write "
                "hvd.DistributedOptimizer(LossScaleOptimizer(optimizer)), or leave the loss scale to model.compile"
            )
        super().__setattr__(name, value)


def distribute_optimizer(optimizer: Any, reduction: Reduction, prefix: str | None = None) -> Any:
    """Gives an optimizer a class that reduces, with the name of its own class: models with it are saved as before.

    Args:
        optimizer: An optimizer of Keras 3.
        reduction: How it reduces.
        prefix: Prefix of the operations' names, the same on every rank.

    Returns:
        The optimizer. Raises UsageError if it reduces in another way already.
    """
    _prepare_compile()
    if isinstance(optimizer, Distributed):
        if optimizer.reduction != reduction:
            raise UsageError(
                "the optimizer is distributed already, with other arguments: call DistributedOptimizer once"
            )
        return optimizer
    if isinstance(getattr(optimizer, "inner_optimizer", None), Distributed):
        raise UsageError("the LossScaleOptimizer contains a distributed optimizer: distribute the outer one only")
    base = type(optimizer)
    names = {name: getattr(base, name) for name in ("__module__", "__qualname__", "__doc__")}
    facts = {"reduction": reduction, "prefix": prefix or f"tfhet.optimizer.{next(_numbers)}"}
    optimizer.__class__ = type(base.__name__, (Distributed, base), {**names, **facts})
    return optimizer


def _with_loss_scale(optimizer: Distributed) -> Any:
    """Returns the optimizer in a LossScaleOptimizer that reduces first: a step is skipped on all ranks or on none."""
    reduction, prefix = optimizer.reduction, optimizer.prefix
    optimizer.__class__ = type(optimizer).__bases__[1]
    scaled = tf.keras.mixed_precision.LossScaleOptimizer(optimizer, name="loss_scale_optimizer")
    return distribute_optimizer(scaled, reduction, prefix)


@functools.cache
def _prepare_compile() -> None:
    """Makes `Model.compile` of Keras 3 compile models with distributed optimizers so that ranks train together."""
    trainer = next(each for each in tf.keras.Model.__mro__ if "compile" in vars(each))
    original = trainer.compile
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = kwargs["optimizer"] if "optimizer" in kwargs else next(iter(args), None)
        if not isinstance(found, Distributed):
            return original(self, *args, **kwargs)
        kwargs.pop("experimental_run_tf_function", None)  # all scripts for Horovod pass it; Keras 3 does not know it
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        is_scaled = isinstance(found, tf.keras.mixed_precision.LossScaleOptimizer)
        if found.reduction.is_needed:
            if given["jit_compile"] not in ("auto", False, None):
                raise UsageError("XLA cannot compile Horovod's operations: call model.compile without jit_compile=True")
            given["jit_compile"] = False
        if given["auto_scale_loss"] and self.dtype_policy.name == "mixed_float16" and not is_scaled:
            given["optimizer"] = _with_loss_scale(found)
        return original(*bound.args, **bound.kwargs)

    trainer.compile = compile
