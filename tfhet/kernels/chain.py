"""A chain of stages as the core runs it, on NumPy arrays and image files."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tfhet.errors import UsageError
from tfhet.kernels.contents import Contents
from tfhet.kernels.interface import Status, address
from tfhet.kernels.loader import library

Images: TypeAlias = "np.ndarray | Sequence[bytes]"
"""uint8 or float32 [batch, height, width, channels], or image files as `Contents` or bytes objects."""
_TYPES = {np.dtype("uint8"): 0, np.dtype("float32"): 1}
"""Numbers of dtypes in the C interface."""
_DTYPES = tuple(_TYPES)
_FILE = 2
_KINDS: Mapping[str, type] = {"f": np.float32, "i": np.int32, "b": np.bool_, "u": np.uint64}


class _Form(ctypes.Structure):
    _fields_ = (
        *(("type", ctypes.c_int32), ("reserved", ctypes.c_int32)),
        *(("height", ctypes.c_int64), ("width", ctypes.c_int64), ("channels", ctypes.c_int64)),
    )


class _Batch(ctypes.Structure):
    _fields_ = (
        *(("form", _Form), ("size", ctypes.c_int64)),
        *((name, ctypes.c_void_p) for name in ("images", "files", "lengths", "ids", "epochs", "salts", "keys")),
        *((name, ctypes.c_void_p) for name in ("given", "drawn", "result")),
        *(("result_bytes", ctypes.c_int64), ("salts_count", ctypes.c_int64)),
        *(("one_epoch", ctypes.c_int32), ("threads", ctypes.c_int32)),
    )


class Parameter(NamedTuple):
    """A random parameter of a chain."""

    stage: str
    salt: int
    """Number of the stage among those that draw."""
    name: str
    dtype: type
    begin: int
    """First of its slots within an example."""
    end: int
    is_vector: bool


class Draws(NamedTuple):
    """What the random numbers of a batch derive from."""

    ids: np.ndarray
    """int64 [batch]."""
    epochs: np.ndarray
    """int64 [batch], or [1] for all examples."""
    salts: np.ndarray
    """uint64, one for each stage that draws."""


class Chain:
    """A chain of stages. Several threads may run one at the same time; Python's lock is not held meanwhile."""

    def __init__(self, text: str) -> None:
        """text: as `config.h` describes it. Raises UsageError for stages that the core does not have."""
        self._core = library()
        self._chain = ctypes.c_void_p()
        status = Status()
        if self._core.tfhet_chain_new(text.encode(), ctypes.byref(self._chain), ctypes.byref(status)):
            status.refuse()
        self.text = text
        self.slots: int = self._core.tfhet_chain_slots(self._chain)
        self.parameters = _parameters(self._core.tfhet_chain_parameters(self._chain).decode())
        self._outputs: dict[tuple, tuple[tuple[int, ...], Any, int]] = {}

    def __del__(self) -> None:
        if chain := getattr(self, "_chain", None):
            self._core.tfhet_chain_free(chain)

    def __reduce__(self) -> tuple:
        return Chain, (self.text,)

    def times(self) -> tuple[np.ndarray, int]:
        """Returns the nanoseconds of CPU time of each step, int64 [steps], in the images that were timed so far, and
        the number of these images: one of sixteen images of a batch, and at least one."""
        step_ns = np.zeros(self._core.tfhet_chain_steps(self._chain), np.int64)
        return step_ns, self._core.tfhet_chain_times(self._chain, address(step_ns))

    def output(self, type: int, shape: tuple[int, ...]) -> tuple[tuple[int, ...], Any, int]:
        """Returns shape, dtype and bytes of a result for images of a type and shape; of files the shape is ()."""
        key = (type, shape)
        if key not in self._outputs:
            status, made = Status(), _Form()
            given = _Form(type, 0, *(shape or (0, 0, 0)))
            if self._core.tfhet_chain_output(self._chain, *map(ctypes.byref, (given, made, status))):
                status.refuse()
            if made.type == _FILE:
                raise UsageError("no stage of the chain decodes the image files: put decode() first")
            result = (made.height, made.width, made.channels), _DTYPES[made.type]
            self._outputs[key] = (*result, int(np.prod(result[0])) * result[1].itemsize)
        return self._outputs[key]

    def run(
        self,
        images: Images,
        draws: Draws | None = None,
        given: np.ndarray | None = None,
        drawn: np.ndarray | None = None,
        out: np.ndarray | None = None,
        threads: int = 1,
    ) -> np.ndarray:
        """Runs the stages on a batch.

        Args:
            images: uint8 or float32 [batch, height, width, channels], or image files.
            draws: What random numbers derive from; None for a chain without random stages.
            given: Float64 [batch, slots], parameters in place of drawn ones.
            drawn: Float64 [batch, slots] that receives the parameters.
            out: Array that receives the result; a new one if None.
            threads: Number of threads that work on the batch.

        Returns:
            uint8 or float32 [batch, height, width, channels].

        Raises:
            UsageError: Images, files or parameters do not fit.
        """
        type, shape = _form(images)
        made, dtype, item_bytes = self.output(type, shape)
        size = len(images)
        if out is None:
            out = np.empty((size, *made), dtype)
        elif isinstance(images, np.ndarray) and np.may_share_memory(out, images):
            images = images.copy()  # a stage that mixes images reads one after the result of another is written
        flags = out.flags
        if out.shape != (size, *made) or out.dtype != dtype or not (flags.c_contiguous and flags.writeable):
            wanted = f"{dtype} {(size, *made)}, contiguous and writable"
            raise UsageError(f"out is {wanted}; not {out.dtype} {out.shape}")
        batch, kept = self._batch(images, type, shape, draws)
        if given is not None:
            batch.given = self._slots(given, size)
        if drawn is not None:
            batch.drawn = self._slots(drawn, size)
        batch.result, batch.result_bytes, batch.threads = address(out), size * item_bytes, threads
        self._call(batch)
        del kept
        return out

    def draw(self, images: Images, draws: Draws) -> np.ndarray:
        """Returns the parameters of a batch, float64 [batch, slots], without changing its images. See `run`."""
        batch, kept = self._batch(images, *_form(images), draws)
        drawn = np.zeros((len(images), self.slots))
        batch.drawn = address(drawn)
        self._call(batch)
        del kept
        return drawn

    def draw_keys(self, keys: np.ndarray, dtype: str, shape: tuple[int, int, int]) -> np.ndarray:
        """Returns the parameters of a chain of one stage for keys, uint64 [batch], and images [height, width, channels]
        of a dtype: float64 [batch, slots]."""
        batch = _Batch()
        keys = np.ascontiguousarray(keys, np.uint64)
        batch.form, batch.size, batch.keys = _Form(_TYPES[np.dtype(dtype)], 0, *shape), len(keys), address(keys)
        drawn = np.zeros((len(keys), self.slots))
        batch.drawn = address(drawn)
        self._call(batch)
        return drawn

    def _batch(
        self, images: Images, type: int, shape: tuple[int, ...], draws: Draws | None
    ) -> tuple[_Batch, list[Any]]:
        """Returns a call's arguments, and what must live until it returns."""
        batch, kept = _Batch(), list[Any]()
        size = batch.size = len(images)
        if isinstance(images, np.ndarray):
            batch.form = _Form(type, 0, *shape)
            kept.append(images if images.flags.c_contiguous else np.ascontiguousarray(images))
            batch.images = address(kept[0])
        else:
            batch.form.type = type
            files = Contents.of(images)
            kept.append(files)
            batch.files, batch.lengths = address(files.addresses), address(files.lengths)
        if draws is not None:
            ids, epochs, salts = (np.ascontiguousarray(array) for array in draws)
            if [array.dtype.char for array in (ids, epochs, salts)] != ["l", "l", "L"]:
                raise UsageError("ids and epochs are int64, salts are uint64")
            if len(ids) != size or len(epochs) not in (1, size):
                raise UsageError(f"{len(ids)} ids and {len(epochs)} epochs for {size} images")
            kept += (ids, epochs, salts)
            batch.ids, batch.epochs, batch.salts = address(ids), address(epochs), address(salts)
            batch.salts_count, batch.one_epoch = len(salts), len(epochs) == 1
        return batch, kept

    def _slots(self, values: np.ndarray, size: int) -> int:
        if values.shape != (size, self.slots) or values.dtype != np.float64 or not values.flags.c_contiguous:
            raise UsageError(
                f"parameters are float64 {(size, self.slots)}, contiguous; not {values.dtype} {values.shape}"
            )
        return address(values)

    def _call(self, batch: _Batch) -> None:
        status = Status()
        if self._core.tfhet_chain_run(self._chain, ctypes.byref(batch), ctypes.byref(status)):
            status.refuse()

    def slots_of(self, parameters: Mapping[str, Any], size: int) -> np.ndarray:
        """Returns the parameters of a chain of one stage, by name, as float64 [size, slots]."""
        slots = np.zeros((size, self.slots))
        for each in self.parameters:
            values = np.asarray(parameters[each.name])
            part: Any = values.astype(each.dtype).reshape(size, each.end - each.begin)
            slots[:, each.begin : each.end] = part.view(np.float64) if each.dtype is np.uint64 else part
        return slots

    def named(self, drawn: np.ndarray) -> dict[tuple[int, str], np.ndarray]:
        """Returns drawn values, float64 [batch, slots], as arrays by (salt, name): [batch] or [batch, k]."""
        found = {}
        for parameter in self.parameters:
            part: Any = drawn[:, parameter.begin : parameter.end]
            part = part.view(np.uint64) if parameter.dtype is np.uint64 else part.astype(parameter.dtype)
            found[parameter.salt, parameter.name] = part if parameter.is_vector else part[:, 0]
        return found


def _form(images: Images) -> tuple[int, tuple[int, ...]]:
    """Returns type and shape of one image. Raises UsageError for arrays that are not images."""
    if not isinstance(images, np.ndarray):
        return _FILE, ()
    type, shape = _TYPES.get(images.dtype), images.shape[1:]
    if type is None or len(shape) != 3:
        wanted = "uint8 or float32 [batch, height, width, channels]"
        raise UsageError(f"images are {wanted}, not {images.dtype} {list(images.shape)}")
    return type, shape


def _parameters(text: str) -> tuple[Parameter, ...]:
    found, begin = [], 0
    for line in text.splitlines():
        stage, salt, name, kind, count, is_vector = line.split(" ")
        found.append(Parameter(stage, int(salt), name, _KINDS[kind], begin, begin + int(count), is_vector == "1"))
        begin += int(count)
    return tuple(found)
