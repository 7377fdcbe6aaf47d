"""The loaders that a trial compares: the script's own, and the same data with other settings and cheaper stages."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tfhet.watching.inside.torch_loader import settings
from tfhet.watching.inside.trial.datasets import (
    Found,
    are_apart,
    compare,
    find_transform,
    reads_files,
    time_of_example,
    with_transform,
)
from tfhet.watching.inside.trial.places import place_of

COMPUTES = 0.5
"""Share of an example's time without use of a CPU from which more workers than CPUs are tried."""
PER_CPU = 8
"""Maximum number of workers per CPU."""
TRANSLATED = "translated transform"


@dataclass
class Variant:
    """One loader of a trial."""

    name: str
    make: Callable[[], Any]
    """Returns the loader, which may be iterated over several times."""
    workers: int = 0
    changes: dict[str, Any] = field(default_factory=dict)
    """What the script must change: `num_workers`, `transform`, `read_file`, `pipeline`."""
    why_not: str = ""
    """Why the variant was not measured; "" if it was."""


@dataclass
class Proposals:
    """All loaders of a trial, the script's own first, and what is known of its data."""

    variants: list[Variant]
    facts: dict[str, Any]
    """Settings of the loader, and `places` of the calls that made loader, transform and dataset."""
    remarks: list[str]
    """Why something was not tried."""
    comparison: dict[str, Any] = field(default_factory=dict)
    """Of the transform with its translation: see `compare`."""

    def add(self, loader: Any, name: str, changes: dict[str, Any], dataset: Any = None) -> None:
        workers = changes.get("num_workers", loader.num_workers)
        self.variants.append(Variant(name, lambda: _changed(loader, workers, dataset), workers, changes))


def proposals(loader: Any) -> Proposals:
    """Returns the loaders to compare with the script's loader, an object of PyTorch's DataLoader."""
    facts, own = settings(loader), loader.num_workers
    found = Proposals([Variant("as it is", lambda: loader, own)], facts, [])
    facts["places"] = {"loader": place_of(loader)}
    more = _workers(loader, facts, found.remarks)
    if more is not None:
        found.add(loader, f"num_workers={more}", {"num_workers": more})
    transform = find_transform(loader.dataset)
    if transform is None:
        found.remarks.append("no transform of torchvision was found in the dataset, so none was translated")
        return found
    facts["places"] |= {"transform": place_of(transform.transform), "dataset": place_of(transform.dataset)}
    try:
        _add_translated(found, loader, transform, more)
    except ImportError as error:
        words = f"the transform was not translated, because the script's environment has no complete tfhet ({error})"
        found.remarks.append(f"{words}: pip install tfhet")
    except Exception as error:
        found.remarks.append(f"the transform was not translated: {error}")
    return found


def _add_translated(found: Proposals, loader: Any, transform: Found, workers: int | None) -> None:
    import tfhet.torch as own

    translated = own.from_torchvision(transform.transform)
    read_file = own.read_file if reads_files(transform.dataset) else None
    dataset = with_transform(loader.dataset, transform.transform, translated, read_file)
    notes = [str(note) for note in translated.translation.notes]
    if not found.facts["is_iterable"]:
        is_random = any(stage.random for stage in translated.translation.stages)
        found.comparison = compare(loader.dataset, dataset, is_random)
        if why := are_apart(found.comparison):
            found.remarks.append(f"the translated transform was not tried: {why}")
            return
    found.comparison |= {"stages": translated.translation.text, "notes": notes}
    changes = {"transform": True, "read_file": read_file is not None}
    found.add(loader, TRANSLATED, changes, dataset)
    if workers is not None:
        found.add(loader, f"{TRANSLATED}, num_workers={workers}", {**changes, "num_workers": workers}, dataset)
    if read_file is not None and transform.dataset is loader.dataset:
        _add_pipeline(found, loader, translated.translation.text)


def _add_pipeline(found: Proposals, loader: Any, chain: str) -> None:
    """Adds a declared pipeline in the place of dataset, transform and loader, if it yields the same batches."""
    data, sampler = sys.modules["torch.utils.data"], loader.sampler
    is_shuffled = type(sampler) is data.RandomSampler and not sampler.replacement and sampler._num_samples is None
    is_plain = type(loader) is data.DataLoader and loader.batch_size is not None and hasattr(loader.dataset, "samples")
    has_own_collate = loader.collate_fn is not data.default_collate
    has_targets = getattr(loader.dataset, "target_transform", None) is not None
    if not is_plain or has_own_collate or has_targets or not (is_shuffled or type(sampler) is data.SequentialSampler):
        found.remarks.append(
            "tfhet.torch.loader was not tried: the script has its own sampler, collate_fn, dataset or target_transform"
        )
        return
    import tfhet
    import tfhet.torch as own

    size, drop_last = loader.batch_size, loader.drop_last
    shuffle: dict[str, Any] = {"shuffle": True} if is_shuffled else {"shuffle_splits": False}
    source: Any = tfhet.FileList(loader.dataset.samples)
    pipeline = tfhet.Pipeline(source, chain, batch_size=size, drop_last=drop_last, **shuffle)
    batches = own.loader(pipeline)
    changes = {"pipeline": chain, "arguments": {**shuffle, "drop_last": drop_last}}
    found.variants.append(Variant("tfhet.torch.loader(pipeline)", lambda: batches, 0, changes))


def _workers(loader: Any, facts: dict[str, Any], remarks: list[str]) -> int | None:
    """Returns another number of workers to try; None if the script's number is as good as any."""
    workers, cpus = loader.num_workers, int(facts["cpus"] or 1)
    if facts["is_iterable"]:
        remarks.append(
            "another num_workers was not tried: each worker reads all of an IterableDataset that does not divide"
            " itself by torch.utils.data.get_worker_info()"
        )
        return None
    taken_s, cpu_s = time_of_example(loader.dataset)
    waits = taken_s > 0 and cpu_s < COMPUTES * taken_s
    most = min(PER_CPU * cpus, math.ceil(cpus * taken_s / max(cpu_s, 1e-6))) if waits else cpus
    return most if workers < most or workers > 2 * most else None


def _changed(loader: Any, workers: int, dataset: Any) -> Any:
    """Returns a copy of a loader with other workers, or with another dataset."""
    made = copy.copy(loader)
    changed: dict[str, Any] = {"num_workers": workers, "_iterator": None, "persistent_workers": workers > 0}
    changed["prefetch_factor"] = (loader.prefetch_factor or 2) if workers else None
    if not workers:
        changed["timeout"] = 0
    if dataset is not None:
        changed["dataset"] = dataset
    made.__dict__.update(changed)  # a DataLoader refuses assignments
    return made
