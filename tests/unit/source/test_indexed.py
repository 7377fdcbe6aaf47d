"""The contract of every source whose examples can be read in any order."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote, unquote, urlsplit

import emulators
import numpy as np
import pytest
from object_server import BUCKET, ObjectServer, environment
from PIL import Image
from test_tar import write_tar

import tfhet
from tfhet import extras
from tfhet.errors import DataError, UsageError
from tfhet.pipeline import BatchMaker, as_json, from_json
from tfhet.source import (
    ArraySource,
    Encoded,
    FileList,
    ImageFolder,
    IndexedSource,
    MapStyle,
    ParquetSource,
    Scalar,
    SyntheticSource,
    TarSource,
    TFRecordSource,
    example_id,
    object_store,
)
from tfhet.source.encoding import bytes_feature, example, int64_feature, write_record

SIZES = (7, 4)
"""Examples of each split."""
COUNT = sum(SIZES)
LABELS = [0] * 5 + [1] * 6


def contents(seed: int) -> list[bytes]:
    """PNG files of several sizes."""
    random, found = np.random.default_rng(seed), []
    for index in range(COUNT):
        with io.BytesIO() as file:
            Image.fromarray(random.integers(0, 256, (9 + index, 20 - index, 3), np.uint8)).save(file, "png")
            found.append(file.getvalue())
    return found


def arrays(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (COUNT, 8, 6, 3), np.uint8)


def parts(values: list) -> list[list]:
    return [values[: SIZES[0]], values[SIZES[0] :]]


def image_folder(folder: Path, seed: int) -> ImageFolder:
    for index, (image, label) in enumerate(zip(contents(seed), LABELS, strict=True)):
        path = folder / f"class {label}" / f"{index:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image)
    return ImageFolder(folder)


def file_list(folder: Path, seed: int) -> FileList:
    found = image_folder(folder, seed)
    return FileList(list(zip(found.paths, LABELS, strict=True)))


def tfrecords(folder: Path, seed: int) -> TFRecordSource:
    folder.mkdir(exist_ok=True)
    for split, (images, labels) in enumerate(zip(parts(contents(seed)), parts(LABELS), strict=True)):
        with open(folder / f"{split}.tfrecord", "wb") as file:
            for image, label in zip(images, labels, strict=True):
                features = {"image": bytes_feature([image]), "label": int64_feature(np.array([label]))}
                write_record(file, example(features))
    return TFRecordSource(folder, {"image": Encoded(), "label": Scalar()})


def tars(folder: Path, seed: int) -> TarSource:
    folder.mkdir(exist_ok=True)
    for split, (images, labels) in enumerate(zip(parts(contents(seed)), parts(LABELS), strict=True)):
        samples = enumerate(zip(images, labels, strict=True))
        files = [[(f"{at}.png", image), (f"{at}.cls", str(label).encode())] for at, (image, label) in samples]
        write_tar(folder / f"{split}.tar", sum(files, []))
    return TarSource(folder)


def parquet(folder: Path, seed: int) -> ParquetSource:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder.mkdir(exist_ok=True)
    for split, (images, labels) in enumerate(zip(parts(contents(seed)), parts(LABELS), strict=True)):
        table = pa.table({"image": images, "label": labels})
        pq.write_table(table, folder / f"{split}.parquet", row_group_size=3, compression="none")
    return ParquetSource(folder)


def of_bytes(folder: Path, seed: int) -> MapStyle:
    return MapStyle(list(zip(contents(seed), LABELS, strict=True)))


def of_images(folder: Path, seed: int) -> MapStyle:
    images = map(Image.fromarray, arrays(seed))
    return MapStyle([{"image": image, "label": label} for image, label in zip(images, LABELS, strict=True)])


def of_arrays(folder: Path, seed: int) -> ArraySource:
    return ArraySource(arrays(seed), LABELS)


def synthetic(folder: Path, seed: int) -> SyntheticSource:
    return SyntheticSource(COUNT, 2, (8, 6, 3), seed=seed)


@functools.cache
def server() -> ObjectServer:
    """Serves the files of this machine to this process, also as a bucket."""
    made = ObjectServer(Path("/"))
    threading.Thread(target=made.serve_forever, daemon=True).start()
    with mock.patch.dict(os.environ, environment(made.url)):
        for scheme in ("s3", "gs", "az"):
            object_store._store(f"{scheme}://{BUCKET}", os.getpid())
    return made


@functools.cache
def put_into(scheme: str) -> Callable[[str, bytes], Any]:
    """Returns the function that writes an object of a store to which the files are copied."""
    root = UPLOADED[scheme]
    with mock.patch.dict(os.environ, emulators.ENVIRONMENT):
        store = object_store._store(root, os.getpid())
    if scheme == "fake-gcs-server":
        emulators.make_gcs_bucket()
        return emulators.put_gcs
    if scheme == "azurite":
        emulators.make_container()
    return functools.partial(object_store.obstore.put, store)


def url_of(path: str | Path, scheme: str) -> str:
    absolute = os.path.abspath(path)
    if scheme in UPLOADED:
        for file in (file for file in [Path(path), *Path(path).rglob("*")] if file.is_file()):
            put_into(scheme)(os.path.abspath(file).lstrip("/"), file.read_bytes())
        return f"{UPLOADED[scheme]}{absolute}"
    return f"{server().url}{quote(absolute)}" if scheme == "http" else f"{scheme}://{BUCKET}{absolute}"


def remote(make: Callable[[Path, int], Any], scheme: str) -> Callable[[Path, int], Any]:
    """The same data as objects of a server, or of a store in memory."""

    def made(folder: Path, seed: int) -> Any:
        server()
        local = make(folder, seed)
        files = [url_of(file, scheme) for file in getattr(local, "tars", None) or getattr(local, "files", None) or []]
        place = files if scheme == "http" else url_of(folder, scheme)
        if isinstance(local, ImageFolder):
            return ImageFolder(place)
        if isinstance(local, FileList):
            return FileList([(url_of(path, scheme), label) for path, label in zip(local.paths, LABELS, strict=True)])
        return TFRecordSource(place, local.features) if isinstance(local, TFRecordSource) else type(local)(place)

    return made


def local_path(file: str) -> Path:
    """The file on this machine of a URL of `url_of`."""
    path = urlsplit(file).path
    return Path(unquote(path) if file.startswith("http") else path)


@dataclass(frozen=True)
class Kind:
    make: Callable[[Path, int], Any]
    """Writes the data of a seed into a folder and returns the source."""
    sizes: tuple[int, ...] = (COUNT,)
    images: Callable[[int], Any] = contents
    files: str = ""
    """Pattern of the files with data; "" for a source without files."""
    is_described: bool = True
    """Whether other hosts can make the source from JSON."""


KINDS = {
    "image folder": Kind(image_folder, files="*/*.png"),
    "file list": Kind(file_list, files="*/*.png"),
    "tfrecord": Kind(tfrecords, SIZES, files="*.tfrecord"),
    "tar": Kind(tars, SIZES, files="*.tar"),
    "parquet": Kind(parquet, SIZES, files="*.parquet"),
    "map-style of files": Kind(of_bytes, is_described=False),
    "map-style of images": Kind(of_images, images=arrays, is_described=False),
    "arrays": Kind(of_arrays, images=arrays, is_described=False),
    "synthetic": Kind(synthetic, (5, 6), images=lambda seed: None),
}
_STORES = {
    "s3": [*KINDS][:5],
    "gs": ["image folder", "tfrecord", "tar"],
    "az": ["image folder", "tar"],
    "http": [*KINDS][1:5],
    "memory": ["image folder", "tfrecord", "parquet"],
    "azurite": [*KINDS][:5] if emulators.AZURITE_URL else [],
    "fake-gcs-server": [*KINDS][:5] if emulators.GCS_URL else [],
}
UPLOADED = {"memory": "memory://", "azurite": f"az://{emulators.BUCKET}", "fake-gcs-server": f"gs://{emulators.BUCKET}"}
"""URL of each store to which the files are copied."""
REMOTE = {
    f"{name} of {scheme}": dataclasses.replace(KINDS[name], make=remote(KINDS[name].make, scheme))
    for scheme, names in _STORES.items()
    for name in names
    if extras.has("obstore")
}
LOCAL = tuple(KINDS)
KINDS |= REMOTE
with_files = pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.files])


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    cache = tmp_path_factory.mktemp("cache")
    for module in ("index_file", "unpacked"):
        monkeypatch.setattr(f"tfhet.source.{module}.cache_dir", lambda _: cache)


@pytest.fixture(params=KINDS)
def kind(request) -> Kind:
    return KINDS[request.param]


def ids_of(sizes: tuple[int, ...]) -> np.ndarray:
    return np.array([example_id(split, at) for split, size in enumerate(sizes) for at in range(size)], np.int64)


def assert_equal(found: dict[str, Any], images: Any, labels: list[int]) -> None:
    assert found["label"].dtype == np.int64 and found["label"].tolist() == labels
    if isinstance(found["image"], np.ndarray):
        np.testing.assert_array_equal(found["image"], images)
    else:
        assert list(found["image"]) == list(images)


def test_examples_load_in_any_order(kind, tmp_path):
    source = kind.make(tmp_path, 0)
    assert isinstance(source, IndexedSource) and source.can_load()
    source.check()
    assert tuple(source.sizes().tolist()) == source.split_sizes() == kind.sizes
    assert source.sizes().dtype == np.int64
    assert (source.split_count(), source.example_count(), source.damages()) == (len(kind.sizes), COUNT, ())
    ids, images, labels = ids_of(kind.sizes), kind.images(0), LABELS
    if images is None:  # made of the ids
        one_by_one = [source.load(ids[at : at + 1]) for at in range(COUNT)]
        images = [each["image"][0] for each in one_by_one]
        labels = [int(each["label"][0]) for each in one_by_one]
    assert_equal(source.load(ids), images, labels)
    order = np.random.default_rng(1).permutation(COUNT).tolist() + [3, 3]
    assert_equal(source.load(ids[order]), [images[at] for at in order], [labels[at] for at in order])
    spec = source.spec
    assert (spec["image"].dtype, spec["label"]) == (
        "string" if isinstance(images[0], bytes) else "uint8",
        tfhet.source.ArraySpec((None,), "int64"),
    )


def test_examples_have_places(kind, tmp_path):
    source, ids = kind.make(tmp_path, 0), ids_of(kind.sizes)
    places = source.places(ids[::-1])
    assert len(places) == COUNT
    if not kind.files:
        assert places == [("", 0)] * COUNT
        return
    assert sorted({local_path(file) for file, _ in places}) == sorted(tmp_path.glob(kind.files))
    for (file, at), image in zip(places, kind.images(0)[::-1], strict=True):
        assert image in local_path(file).read_bytes()[at:]


@pytest.mark.parametrize("id", [-1, COUNT, 5 << 32])
def test_ids_that_do_not_exist_are_refused(kind, tmp_path, id):
    source = kind.make(tmp_path, 0)
    if id == COUNT and isinstance(source, (TFRecordSource, SyntheticSource)):  # whose sizes may be unknown
        return
    with pytest.raises(UsageError, match=str(id)):
        source.places([id])


def test_fingerprint_is_of_the_data(tmp_path):
    """The same data in another folder and process has the same fingerprint."""
    code = f"""
import json, pathlib, sys
sys.path[:0] = [{os.path.dirname(__file__)!r}]
from test_indexed import KINDS
from tfhet.source import index_file
folder = pathlib.Path(sys.argv[1])
index_file.cache_dir = lambda _: folder
print(json.dumps({{name: kind.make(folder / name, 0).fingerprint() for name, kind in KINDS.items()}}))
"""
    (tmp_path / "there").mkdir()
    child = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "there")],
        cwd=Path(tfhet.__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    there = json.loads(child.stdout.splitlines()[-1])
    assert {name: kind.make(tmp_path / name, 0).fingerprint() for name, kind in KINDS.items()} == there
    for name, kind in KINDS.items():
        if "image folder" not in name and "file list" not in name:  # which have names only
            assert kind.make(tmp_path / f"other {name}", 1).fingerprint() != there[name]
    # A folder has the fingerprint of the list of its files, and objects have the fingerprint of local files.
    there.pop("file list of http", None)  # whose names are quoted
    assert len(set(there.values())) == len({there[name] for name in LOCAL}) >= len(LOCAL) - 1


def test_json_makes_an_equal_source(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = kind.make(Path("data"), 0)
    stages = "decode(); resize(8, 8)" if source.spec["image"].dtype == "string" else ""
    pipeline = tfhet.Pipeline(source, stages, batch_size=3, seed=4)
    if not kind.is_described:
        with pytest.raises(UsageError, match=r"TarSource.*tfhet\.batches\("):
            as_json(pipeline)
        return
    described, fingerprint = json.loads(json.dumps(as_json(pipeline))), pipeline.fingerprint()
    wanted = source.load(ids_of(kind.sizes))
    if not isinstance(source, (FileList, TFRecordSource)) or isinstance(source, ImageFolder):  # they keep paths
        monkeypatch.chdir("/")
    made = from_json(described)
    assert type(made.source) is type(source) and made.fingerprint() == fingerprint
    assert_equal(made.source.load(ids_of(kind.sizes)), wanted["image"], wanted["label"].tolist())


def test_threads_may_load_at_the_same_time(kind, tmp_path):
    source, ids = kind.make(tmp_path, 0), ids_of(kind.sizes)
    orders = [np.random.default_rng(seed).permutation(COUNT) for seed in range(24)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda order: source.load(ids[order]), orders))
    whole = source.load(ids)
    for order, each in zip(orders, found, strict=True):
        assert_equal(each, [whole["image"][at] for at in order], whole["label"][order].tolist())


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.images is contents])
def test_batches_equal_those_of_the_files(name, tmp_path):
    stages, places = "decode(); resize(12, 10); rescale()", np.random.default_rng(2).permutation(COUNT)
    source, files = KINDS[name].make(tmp_path / "a", 0), file_list(tmp_path / "b", 0)
    images, labels = BatchMaker(tfhet.Pipeline(source, stages)).make(places, 0).value
    wanted, wanted_labels = BatchMaker(tfhet.Pipeline(files, stages)).make(places, 0).value
    np.testing.assert_array_equal(images, wanted)
    np.testing.assert_array_equal(labels, wanted_labels)


def test_pipelines_deliver_every_example(kind, tmp_path):
    source = kind.make(tmp_path, 0)
    stages = "decode(); resize(8, 8)" if source.spec["image"].dtype == "string" else "random_flip()"
    found = list(tfhet.batches(tfhet.Pipeline(source, stages, batch_size=4, shuffle=True)))
    assert sum(len(labels) for _, labels in found) == COUNT
    wanted = source.load(ids_of(kind.sizes))["label"]
    np.testing.assert_array_equal(np.sort(np.concatenate([labels for _, labels in found])), np.sort(wanted))


@with_files
@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_error_of_a_damaged_file_has_its_name(name, damage, tmp_path):
    if name.endswith(tuple(UPLOADED)):
        return
    source = KINDS[name].make(tmp_path, 0)
    maker = BatchMaker(tfhet.Pipeline(source, "decode(); resize(8, 8)"))
    source.fingerprint()
    file = sorted(tmp_path.glob(KINDS[name].files))[-1]
    if damage == "missing":
        file.unlink()
    else:
        os.truncate(file, file.stat().st_size // 3)
    with pytest.raises(DataError, match=file.name) as caught:
        maker.make(np.arange(COUNT), 0)
    assert local_path(caught.value.path) == file
