"""Datasets and arrays of this process as sources: forms of items, and those that are refused."""

from __future__ import annotations

import contextlib
import io
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from tfhet.errors import UsageError
from tfhet.source import ArraySource, ArraySpec, MapStyle

IDS = np.arange(2)
GREY, COLOUR = Image.new("L", (5, 4), 7), Image.new("RGB", (5, 4), (7, 7, 7))


def png() -> bytes:
    with io.BytesIO() as file:
        COLOUR.save(file, "png")
        return file.getvalue()


def test_pil_images_become_rgb():
    found = MapStyle([{"img": GREY, "fine_label": 3}, {"img": COLOUR, "fine_label": 4}], "img", "fine_label").load(IDS)
    assert found["image"].shape == (2, 4, 5, 3) and np.all(found["image"] == 7)
    assert found["label"].tolist() == [3, 4]


@pytest.mark.parametrize("image", [png(), {"bytes": png(), "path": None}])
def test_contents_of_files_stay_as_they_are(image):
    source = MapStyle([(image, 1), (image, np.int32(2))])
    assert source.load(IDS)["image"] == [png()] * 2
    assert source.spec == {"image": ArraySpec((None,), "string"), "label": ArraySpec((None,), "int64")}


def test_specs_are_those_of_the_first_item():
    source = MapStyle([(np.zeros((4, 5, 1), np.float32), np.zeros(10, np.float32))] * 2)
    assert source.spec == {"image": ArraySpec((None, 4, 5, 1), "float32"), "label": ArraySpec((None, 10), "float32")}
    assert source.load(IDS)["label"].shape == (2, 10)


@pytest.mark.parametrize(
    ("item", "named"),
    [
        (3, "item 0 of list is no"),
        ((png(), 1, 2), "item 0 of list is no"),
        ({"img": GREY, "label": 1}, "keys img, label"),
        ((np.zeros((4, 5), np.uint8), 1), r"uint8 \[4, 5\]"),
        ((np.zeros((4, 5, 3)), 1), "float64"),
        (("x.jpg", 1), "is str"),
        ((GREY, "cat"), "labels are numbers"),
    ],
)
def test_items_that_do_not_fit_are_refused(item, named):
    with pytest.raises(UsageError, match=named):
        _ = MapStyle([item]).spec


@pytest.mark.parametrize("other", [Image.new("RGB", (6, 4)), png()])
def test_images_of_different_forms_are_refused_with_advice(other):
    with pytest.raises(UsageError, match=r"item 1 of list.*decode\(\)"):
        MapStyle([(COLOUR, 1), (other, 2)]).load(IDS)


@pytest.mark.parametrize("dataset", [[], iter([1]), {1, 2}])
def test_other_datasets_are_refused(dataset):
    with pytest.raises(UsageError, match="__getitem__"):
        MapStyle(dataset)


class Counting:
    """Counts the threads that read at the same time."""

    def __init__(self) -> None:
        self.reading, self.most, self.both = 0, 0, threading.Barrier(2)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        self.reading += 1
        self.most = max(self.most, self.reading)
        with contextlib.suppress(threading.BrokenBarrierError):
            self.both.wait(0.2)
        self.reading -= 1
        return COLOUR, index


@pytest.mark.parametrize("concurrent", [False, True])
def test_datasets_are_read_by_one_thread_unless_they_can_by_more(concurrent):
    dataset = Counting()
    source = MapStyle(dataset, concurrent=concurrent)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(source.load, [IDS[:1], IDS[1:]]))
    assert dataset.most == (2 if concurrent else 1)


def test_sources_can_be_pickled():
    for source in (MapStyle([(COLOUR, 1)]), ArraySource(np.zeros((1, 2, 2, 3), np.uint8), [1])):
        copy = pickle.loads(pickle.dumps(source))
        assert copy.fingerprint() == source.fingerprint() and copy.load(IDS[:1])["label"].tolist() == [1]


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (np.zeros((2, 4, 5), np.uint8), [1, 2]),
        (np.zeros((2, 4, 5, 3)), [1, 2]),
        (np.zeros((2, 4, 5, 3), np.uint8), [1]),
        (np.zeros((2, 4, 5, 3), np.uint8), ["a", "b"]),
        (np.zeros((0, 4, 5, 3), np.uint8), []),
    ],
)
def test_arrays_that_do_not_fit_are_refused(images, labels):
    with pytest.raises(UsageError):
        ArraySource(images, labels)
