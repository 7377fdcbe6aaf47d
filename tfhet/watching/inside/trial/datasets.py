"""The transform of a dataset: where it is, the same dataset with another one, and the cost of both on its images."""

from __future__ import annotations

import copy
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tfhet.watching.inside.stacks import used_cpu_s

IMAGES = 64
"""Number of images for which two transforms are compared."""
LONGEST_S = 10.0
"""Seconds after which the comparison ends with the images that it has."""
APART = 0.25
"""Difference of two means, over the standard deviation, from which two transforms are no translations."""
_TRANSFORMS = "torchvision.transforms."
_INNER = ("dataset", "datasets")


class Found(NamedTuple):
    """A transform and the dataset that has it."""

    transform: Any
    dataset: Any


def find_transform(dataset: Any) -> Found | None:
    """Returns the first transform of torchvision in a dataset, or in the datasets within it."""
    for inner in _with_inner(dataset):
        for value in _attributes(inner).values():
            if type(value).__module__.startswith(_TRANSFORMS) and type(value).__name__ != "StandardTransform":
                return Found(value, inner)
    return None


def with_transform(dataset: Any, old: Any, new: Any, read_file: Any = None) -> Any:
    """Returns a copy of a dataset that shares its data, and has another transform.

    Args:
        dataset: The dataset. Datasets within it are copied, too.
        old: The transform to replace.
        new: Its replacement.
        read_file: Reads a file in the place of torchvision's default loader; None keeps the loader.
    """
    made = copy.copy(dataset)
    for name, value in _attributes(dataset).items():
        if value is old:
            made.__dict__[name] = new
        elif getattr(value, "transform", None) is old:  # torchvision's StandardTransform
            made.__dict__[name] = copy.copy(value)
            made.__dict__[name].transform = new
        elif name in _INNER and isinstance(value, (list, tuple)):
            made.__dict__[name] = [with_transform(each, old, new, read_file) for each in value]
        elif name in _INNER:
            made.__dict__[name] = with_transform(value, old, new, read_file)
    if read_file is not None and reads_files(dataset) and made.transform is new:
        made.__dict__["loader"] = read_file
    return made


def reads_files(dataset: Any) -> bool:
    """Whether a dataset is an ImageFolder or a DatasetFolder that reads images as PIL images."""
    folder = sys.modules.get("torchvision.datasets.folder")
    if folder is None or not isinstance(dataset, folder.DatasetFolder):
        return False
    is_own = type(dataset).__getitem__ is folder.DatasetFolder.__getitem__
    return is_own and dataset.loader in (folder.default_loader, folder.pil_loader)


def examples(dataset: Any) -> list[int]:
    """Returns indices of a dataset, evenly spaced."""
    return [*range(0, len(dataset), max(1, len(dataset) // IMAGES))][:IMAGES]


def time_of_example(dataset: Any) -> tuple[float, float]:
    """Returns the mean seconds of an example, and the seconds within them in which it ran or waited for a CPU."""
    thread, count = threading.get_ident(), 0
    began_s, cpu_s = time.perf_counter(), used_cpu_s(thread)
    for index in examples(dataset)[1::4] or [0]:
        dataset[index]
        count += 1
        if time.perf_counter() - began_s > LONGEST_S / 2:
            break
    taken_s, ended_s = time.perf_counter() - began_s, used_cpu_s(thread)
    if cpu_s is None or ended_s is None:
        return taken_s / count, taken_s / count
    return taken_s / count, (ended_s - cpu_s) / count


def compare(old: Any, new: Any, is_random: bool) -> dict[str, Any]:
    """Compares two datasets with the same images: milliseconds of CPU time of an example, and values of its image.

    Args:
        old: The dataset as it is.
        new: The dataset with another transform.
        is_random: Whether a transform draws random numbers, so that only the distributions can be compared.

    Returns:
        `images`, `old_ms`, `new_ms`; for each of both `mean` and `std` of all values; `difference`: mean and maximum
        of the absolute difference, None for random transforms and different shapes.
    """
    began_s, times = time.perf_counter(), [0.0, 0.0]
    sums, differences = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], list[tuple[float, float]]()
    count = 0
    for index in examples(old):
        images = []
        for at, dataset in enumerate((old, new)):
            cpu_s = time.process_time()
            example = dataset[index]
            times[at] += time.process_time() - cpu_s
            image = _first_tensor(example).double()
            images.append(image)
            for place, value in enumerate((image.numel(), image.sum(), (image * image).sum())):
                sums[at][place] += float(value)
        if not is_random and images[0].shape == images[1].shape:
            apart = (images[0] - images[1]).abs()
            differences.append((float(apart.mean()), float(apart.max())))
        count += 1
        if time.perf_counter() - began_s > LONGEST_S:
            break
    found: dict[str, Any] = {"images": count, "old_ms": 1e3 * times[0] / count, "new_ms": 1e3 * times[1] / count}
    means = [total / size for size, total, _ in sums]
    spreads = [max(0.0, squares / size - mean**2) ** 0.5 for (size, _, squares), mean in zip(sums, means, strict=True)]
    found |= {"mean": means, "std": spreads, "difference": None}
    if differences:
        found["difference"] = [sum(mean for mean, _ in differences) / count, max(most for _, most in differences)]
    return found


def are_apart(found: Mapping[str, Any]) -> str:
    """Returns how the images of a comparison differ so much that they cannot be translations; "" if they do not."""
    (mean, other_mean), (std, other_std) = found["mean"], found["std"]
    if abs(mean - other_mean) <= APART * max(std, other_std) and std <= 2 * other_std and other_std <= 2 * std:
        return ""
    return (
        f"its values are others: mean {mean:.3g} and {other_mean:.3g}, standard deviation {std:.3g} and {other_std:.3g}"
    )


class Forms:
    """Dtypes and shapes of the tensors in batches of the script's own loader."""

    def __init__(self) -> None:
        self._own: set[tuple[Any, ...]] = set()

    def difference(self, batch: Any, is_own: bool) -> str:
        """Returns how a batch differs from the script's own ones; "" if it does not. Of shapes that vary only the
        number of axes counts, as of texts."""
        form = tuple(_form(batch))
        if is_own:
            self._own.add(form)
            return ""
        own, found = (self._own, form) if len(self._own) == 1 else ({_axes(each) for each in self._own}, _axes(form))
        return "" if found in own else f"its batches are {form}, and the script's are {next(iter(self._own))}"


def _form(batch: Any, depth: int = 3) -> Iterator[tuple[Any, ...]]:
    """Yields dtype and shape of each tensor of a batch, without the number of its examples."""
    if hasattr(batch, "dtype") and hasattr(batch, "shape"):
        yield str(batch.dtype), *batch.shape[1:]
    elif depth and (isinstance(batch, (list, tuple)) or hasattr(batch, "values")):
        for each in batch.values() if hasattr(batch, "values") else batch:
            yield from _form(each, depth - 1)


def _axes(form: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((dtype, len(shape)) for dtype, *shape in form)


def _first_tensor(example: Any) -> Any:
    if hasattr(example, "numel"):
        return example
    values = example.values() if hasattr(example, "values") else example
    return next(each for each in values if hasattr(each, "numel"))


def _with_inner(dataset: Any, depth: int = 4) -> Iterator[Any]:
    yield dataset
    for name in _INNER if depth else ():
        value = _attributes(dataset).get(name)
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if each is not None:
                yield from _with_inner(each, depth - 1)


def _attributes(made: Any) -> dict[str, Any]:
    found = getattr(made, "__dict__", None)
    return dict(found) if isinstance(found, dict) else {}
