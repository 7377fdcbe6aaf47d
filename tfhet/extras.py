"""Optional packages: the extra of tfhet that installs each of them, and the error if one is missing.

with extras.needed():
    import boto3
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import lazy_loader

from tfhet.errors import UsageError


class _Package(NamedTuple):
    title: str
    requirement: str
    """Argument of `pip install`."""


_TENSORFLOW = _Package("TensorFlow", "tfhet[tensorflow]")
_AWS = _Package("boto3", "tfhet[aws]")
_PACKAGES = {
    "tensorflow": _TENSORFLOW,
    "keras": _TENSORFLOW,
    "horovod": _Package("Horovod", "tfhet[horovod]"),
    "tensorflow_addons": _Package("TensorFlow Addons", "tfhet[addons]"),
    "torch": _Package("PyTorch", "tfhet[torch]"),
    "ray": _Package("Ray", "tfhet[ray]"),
    "pyarrow": _Package("PyArrow", "tfhet[parquet]"),
    "obstore": _Package("obstore", "tfhet[object_store]"),
    "boto3": _AWS,
    "botocore": _AWS,
    "sklearn": _Package("scikit-learn", "tfhet[demo]"),
    "tensorboard": _Package("TensorBoard", "tensorboard"),
    "cryptography": _Package("cryptography", "cryptography"),
}
"""By the name of the module."""


class MissingPackage(UsageError, ImportError):
    """An optional package is not installed. The message says how to install it."""

    def __init__(self, module: str, purpose: str = "", instead: str = ""):
        """purpose: the feature that needs the package, like `--data_plane ray`. instead: an alternative."""
        self.module, package = module, _PACKAGES[module]
        subject = f"{purpose} needs {package.title}, which" if purpose else package.title
        install = f"pip install '{package.requirement}'{f', or {instead}' if instead else ''}"
        super().__init__(f"{subject} is not installed: {install}")


@contextlib.contextmanager
def needed(purpose: str = "") -> Iterator[None]:
    """A block that imports optional packages. Raises MissingPackage if one of them is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        # A package that lacks a part of itself is installed, but broken: its own error says more.
        if module not in _PACKAGES or has(module):
            raise
        raise MissingPackage(module, purpose) from None


class _Deferred:
    def __init__(self, module: str):
        self._module = module

    def __getattr__(self, name: str) -> Any:
        with needed():
            return getattr(import_module(self._module), name)


def deferred(module: str) -> Any:
    """Returns an object with the names of an optional package, which is imported when the first of them is used."""
    return _Deferred(module)


def check(modules: Collection[str], purpose: str, instead: str = "") -> None:
    """Raises MissingPackage if one of the modules is not installed. It imports none of them."""
    for module in modules:
        if not has(module):
            raise MissingPackage(module, purpose, instead)


def has(module: str) -> bool:
    """Whether a module is installed, without importing it."""
    try:
        return find_spec(module) is not None
    except ValueError:  # a module without a specification, as tests put into sys.modules
        return True


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns `__getattr__`, `__dir__` and `__all__` of a package whose stub `__init__.pyi` lists its public names,
    which are imported on first use. The use of a name raises MissingPackage if an optional package is missing."""
    load, listed, names = lazy_loader.attach_stub(package, file)

    def loaded(name: str) -> Any:
        purpose = f"{package}.{name}"
        try:
            with needed(purpose):
                return load(name)
        except MissingPackage as error:  # of the package that defines the name
            raise MissingPackage(error.module, purpose) from None

    return loaded, listed, names


class _Module:
    """An optional package that is imported when one of its names is used."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        with needed():
            return getattr(import_module(self.__name__), name)


if TYPE_CHECKING:
    import tensorflow
else:
    tensorflow = _Module("tensorflow")
