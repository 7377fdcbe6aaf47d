"""Hooks that run when a script imports a reader: before that they cost one look-up per import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from tfhet.watching.inside.recorder import Recorder, failed

HOOKS = {
    "torch.utils.data.dataloader": "torch_loader.on_loader",
    "torch.utils.data._utils.worker": "torch_loader.on_worker",
    "torch.optim.optimizer": "torch_loader.on_optimizer",
    "torch.cuda": "torch_device.on_cuda",
    "jax": "jax_device.on_jax",
    "accelerate.data_loader": "readers.on_accelerate",
    "datasets.arrow_dataset": "readers.on_datasets",
    "datasets.iterable_dataset": "readers.on_iterable_datasets",
    "ray.data.iterator": "readers.on_ray",
    "nvidia.dali.plugin.base_iterator": "readers.on_dali",
    "tfhet.planes.feed.loader": "readers.on_tfhet",
    "tensorflow.python.data.ops.dataset_ops": "tf_data.on_datasets",
    "keras.src.backend.tensorflow.trainer": "tf_data.on_keras",
    "keras.src.backend.jax.trainer": "tf_data.on_keras",
    "keras.src.backend.torch.trainer": "tf_data.on_keras",
    "keras.src.engine.training": "tf_data.on_keras",
    "tf_keras.src.engine.training": "tf_data.on_keras",
    "keras.src.optimizers.base_optimizer": "tf_data.on_optimizer",
    "keras.src.optimizers.optimizer": "tf_data.on_optimizer",
    "tf_keras.src.optimizers.optimizer": "tf_data.on_optimizer",
}
"""By the name of a module: the function that gets the module after its import."""
TRIAL_HOOKS = {
    "torch.utils.data.dataloader": "trial.controller.on_loader",
    "torch.optim.optimizer": "torch_loader.on_optimizer",
    "torchvision.transforms.transforms": "trial.places.on_compose",
    "torchvision.transforms.v2._container": "trial.places.on_compose",
    "torchvision.datasets.vision": "trial.places.on_dataset",
}
"""The hooks of `tfhet try`, in the place of HOOKS."""


class _Finder:
    """Finds modules by the other finders, and runs their hooks after them. hooks: as HOOKS."""

    def __init__(self, hooks: Mapping[str, str]) -> None:
        self.hooks = hooks

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self.hooks:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        try:
            loader: Any = spec.loader
            load: Callable[[Any], None] = loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                run(name, module, self.hooks)

            loader.exec_module = exec_module
        except Exception as error:
            failed(f"the import of {name}", error)
        return spec


def install(folder: str, hooks: Mapping[str, str] = HOOKS) -> None:
    """Records the readers of this process into `folder`, also those that are imported already."""
    Recorder.folder = folder
    if not any(type(each).__name__ == "_Finder" and type(each).__module__ == __name__ for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder(hooks))
    for name in hooks:
        module = sys.modules.get(name)
        if module is not None:
            run(name, module, hooks)


def run(name: str, module: Any, hooks: Mapping[str, str] = HOOKS) -> None:
    """Runs the hook of a module, once."""
    if getattr(module, "_tfhet_watched", False):
        return
    try:
        module._tfhet_watched = True
        where, _, function = hooks[name].rpartition(".")
        getattr(import_module(f"tfhet.watching.inside.{where}"), function)(module)
    except Exception as error:
        failed(f"the hooks of {name}", error)
