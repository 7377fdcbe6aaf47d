"""PyTorch's DataLoader: its requests and deliveries, the settings of each loader, and the stacks of its workers."""

from __future__ import annotations

import functools
import os
import sys
import threading
from typing import Any

from tfhet.watching.inside.recorder import Pass, Recorder, failed, noted, now
from tfhet.watching.inside.stacks import sample_requests, start_in_worker

SETTINGS = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "batch_size", "timeout")


def on_loader(module: Any) -> None:
    """Notes the passes over DataLoaders. The objects stay as they are: only their methods are replaced."""
    base, loader = module._BaseDataLoaderIter, module.DataLoader
    iterate, request = loader.__iter__, base.__next__

    @functools.wraps(iterate)
    def __iter__(self: Any) -> Any:
        began_s = now()
        found = iterate(self)
        try:
            found._tfhet_pass = (self, now() - began_s)
        except Exception as error:
            failed("DataLoader.__iter__", error)
        return found

    @functools.wraps(request)
    def __next__(self: Any) -> Any:
        since_s = 0.0
        begun = self.__dict__.get("_tfhet_pass")
        if type(begun) is tuple:
            since_s = begun[1]
        return noted(lambda: request(self), lambda recorder: _pass(recorder, self), since_s)

    loader.__iter__, base.__next__ = __iter__, __next__


def _pass(recorder: Recorder, iterator: Any) -> Pass:
    begun = iterator.__dict__.get("_tfhet_pass")
    if isinstance(begun, Pass):
        return begun
    loader = begun[0] if begun else None
    facts = settings(loader) if loader is not None else {}
    iterator._tfhet_pass = begun = Pass(recorder, recorder.reader("DataLoader", facts), "")
    if not facts.get("num_workers"):
        sample_requests(recorder)
    return begun


def settings(loader: Any) -> dict[str, Any]:
    """The settings of a loader, and of the process, that decide how fast it is."""
    torch: Any = sys.modules["torch"]
    facts = {name: getattr(loader, name, None) for name in SETTINGS}
    dataset = getattr(loader, "dataset", None)
    try:
        facts["length"] = len(dataset)  # type: ignore[arg-type]
    except Exception:  # an iterable data set has none
        facts["length"] = None
    cv2: Any = sys.modules.get("cv2")
    return {
        **facts,
        "dataset": type(dataset).__name__,
        "is_iterable": isinstance(dataset, torch.utils.data.IterableDataset),
        "sampler": type(getattr(loader, "sampler", None)).__name__,
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "opencv_threads": cv2.getNumThreads() if cv2 is not None else None,
        "has_gpu": "torch.cuda" in sys.modules and torch.cuda.is_available(),
    }


def _training_state() -> tuple[bool, int]:
    torch: Any = sys.modules["torch"]
    recorder = Recorder.here()
    grad = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    return grad, recorder.optimizer_steps if recorder else 0


def on_optimizer(module: Any) -> None:
    """Counts the steps of all optimizers."""

    def count(*_: Any) -> None:
        recorder = Recorder.here()
        if recorder is not None:
            recorder.optimizer_steps += 1
            recorder.optimizer_thread = threading.get_ident()

    count._torchdynamo_disable = True  # type: ignore[attr-defined]  # torch.compile calls it, and does not trace it
    module.register_optimizer_step_post_hook(count)
    Recorder.training_state = staticmethod(_training_state)


def on_worker(module: Any) -> None:
    """Samples the stacks of workers, which record nothing else. The function keeps its name: `spawn` pickles it."""
    loop = module._worker_loop

    @functools.wraps(loop)
    def _worker_loop(*args: Any, **kwargs: Any) -> Any:
        Recorder.is_worker = True
        sampler = start_in_worker()
        try:
            return loop(*args, **kwargs)
        finally:
            if sampler is not None:
                sampler.close()

    module._worker_loop = _worker_loop
