"""Samples of the weights that PyTorch's optimizers train, taken before a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.optim import optimizer as optimizers

from tfhet.steps.weights import Sample, WeightChecks, chosen, positions

_DEVICES = ("cpu", "cuda", "mps")
_PARTS = ("device_mesh", "ds_id", "_is_flat_param", "_fsdp_flattened", "_is_sharded", "expert_parallel_group")
"""Attributes of parameters of which each rank holds a part: DTensor, DeepSpeed, FSDP, and others."""


def install(checks: WeightChecks) -> None:
    """Samples the weights in all optimizers from now on."""
    register = getattr(optimizers, "register_optimizer_step_pre_hook", None)
    if register is None:  # before PyTorch 2.0
        return

    def before_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if _is_compiling():
            return
        # Now rather than after the step: a script may average the weights after it.
        if not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
            checks.look(optimizer, "torch", lambda: _sample(optimizer))
        checks.count(optimizer)

    register(before_step)


def _sample(optimizer: torch.optim.Optimizer) -> Sample | None:
    every = [one for group in optimizer.param_groups for one in group["params"]]
    if any(map(_is_part, every)):
        return None
    trained = [one for one in every if one.requires_grad and one.is_floating_point()]
    shapes = [tuple(one.shape) for one in trained]
    with torch.no_grad():
        parts = [_elements(trained[index]) for index in chosen(shapes)]
        by_device = {part.device for part in parts}
        found = torch.stack(parts if len(by_device) == 1 else [part.cpu() for part in parts]).cpu() if parts else None
    values = np.zeros([0, 0], np.float32) if found is None else found.numpy()
    return Sample(shapes, values, is_maybe_part=torch.distributed.is_available() and torch.distributed.is_initialized())


def _elements(parameter: Any) -> Any:
    """Returns the sampled elements, float32, without a copy of a parameter that is not contiguous."""
    index: Sequence[Any] = np.unravel_index(positions(parameter.numel()), tuple(parameter.shape) or (1,))
    tensor = parameter.detach() if parameter.dim() else parameter.detach()[None]
    return tensor[tuple(torch.from_numpy(each).to(tensor.device) for each in index)].float()


def _is_part(parameter: Any) -> bool:
    return (
        not parameter.numel()
        or parameter.device.type not in _DEVICES
        or any(hasattr(parameter, name) for name in _PARTS)
        or bool(getattr(parameter, "tensor_model_parallel", False))
        or not getattr(parameter, "allreduce", True)
    )


def _is_compiling() -> bool:
    compiler = getattr(torch, "compiler", None)
    return bool(compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling())
