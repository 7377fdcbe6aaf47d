"""each library, where it is installed, makes the same picture as tfhet of the same part of an image."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import peers
from benchmarks.peers.job import ANTIALIAS, AS_WRITTEN, COMPOSED, LINEAR, MEAN, REDUCED, STD, Job
from benchmarks.peers.place import Place
from benchmarks.peers.process import PeerProcess
from tfhet.errors import TfhetError, UsageError

tf = pytest.importorskip("tensorflow")

from tfhet.stages import RandomResizedCrop, ResizedCenterCrop, decoding, parse  # noqa: E402

HEIGHT, WIDTH = 375, 500
COUNT = 5


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Photos of one size, so that a crop of all their area in their own ratio is the whole image."""
    return written(tmp_path_factory.mktemp("photos"), COUNT, HEIGHT, WIDTH)


def written(folder: Path, count: int, height: int, width: int) -> tuple[str, ...]:
    draw = np.random.default_rng(0)
    for index in range(count):
        coarse = draw.uniform(0.0, 255.0, (1, 12, 16, 3)).astype(np.float32)
        smooth = tf.image.resize(coarse, [height, width], "bicubic")[0] + draw.normal(0.0, 4.0, (height, width, 3))
        image = tf.saturate_cast(tf.round(smooth), tf.uint8)
        (folder / f"{index}.jpg").write_bytes(tf.io.encode_jpeg(image, quality=92).numpy())
    return tuple(str(path) for path in sorted(folder.iterdir()))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    path = tmp_path_factory.mktemp("small") / "images.npy"
    np.save(path, np.random.default_rng(1).integers(0, 256, (COUNT, 32, 32, 3), np.uint8))
    return (str(path),)


@contextlib.contextmanager
def running(name: str) -> Iterator[PeerProcess]:
    place = Place.of(peers.get(name))
    if (why := place.missing()) is not None:
        pytest.skip(f"peer {name} is not installed: {why}")
    process = PeerProcess(place)
    try:
        yield process
    finally:
        process.close()


def ours(
    files: tuple[str, ...], chain: str, way: str, count: int = COUNT, height: int = HEIGHT, width: int = WIDTH
) -> np.ndarray:
    """uint8: tfhet's picture of the whole image, mirrored, or of its middle."""
    antialias = way == ANTIALIAS
    if chain == "imagenet-eval":
        stage: ResizedCenterCrop | RandomResizedCrop = ResizedCenterCrop(224, 224, 256, antialias=antialias)
        windows = stage.windows({}, tf.constant([[height, width]] * count))
    else:
        stage = RandomResizedCrop(224, 224, antialias=antialias)
        windows = tf.constant([[0.0, 0.0, height, width]] * count)
    contents = tf.constant([Path(file).read_bytes() for file in files])
    flips = tf.fill([count], chain != "imagenet-eval")
    return decoding.decode_windows(contents, windows, flips, stage.scaling).numpy()


def whole(chain: str, way: str, dtype: str, files: tuple[str, ...]) -> Job:
    """A job without chance: the whole image, mirrored, nothing changed."""
    ratio = WIDTH / HEIGHT
    job = Job(chain, way, dtype, files, 2, 1, scale=(1.0, 1.0), ratio=(ratio, ratio), flip=1.0)
    return replace(job, jitter=0.0, turns=0.0, zoom=0.0)


def small_apart(process: PeerProcess, chain: str, way: str, small: tuple[str, ...]) -> np.ndarray:
    """Grey levels between the peer's dilated, blurred and mirrored images and tfhet's."""
    images = tf.constant(np.load(small[0]))
    for stage in parse("dilate(3); gaussian_blur(11, 0.8); rescale()"):
        images = stage.apply(images, {})
    theirs = process.images(process.prepare(whole(chain, way, "float32", small)))
    assert theirs.dtype == np.float32 and theirs.shape == images.shape
    return np.abs(theirs - images.numpy()[:, :, ::-1]) * 255.0


def photo_apart(process: PeerProcess, chain: str, way: str, dtype: str, files: tuple[str, ...]) -> np.ndarray:
    """Grey levels between the peer's pictures of the photos and tfhet's."""
    wanted = ours(files, chain, way).astype(np.float32)
    theirs = process.images(process.prepare(whole(chain, way, dtype, files)))
    assert theirs.dtype == dtype and theirs.shape == wanted.shape
    return np.abs((theirs * STD + MEAN) * 255.0 - wanted if dtype == "float32" else theirs - wanted)


def changed(process: PeerProcess, chain: str, way: str, files: tuple[str, ...], dtype: str) -> int:
    """How many images are not what they are without chance."""
    calm = process.images(process.prepare(whole(chain, way, dtype, files)))
    wild = process.images(process.prepare(Job(chain, way, dtype, files, 2, 2)))
    assert wild.shape == calm.shape and (dtype == "uint8" or (wild.min() > -2.2 and wild.max() < 2.7))
    least = 0.01 if dtype == "float32" else 0.6
    return sum(bool(np.abs(a - np.float32(b)).mean() > least) for a, b in zip(calm, wild, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", peers.names())
def test_a_peer_makes_the_pictures_that_tfhet_makes_and_draws_for_each_image(
    name: str, files: tuple[str, ...], small: tuple[str, ...]
) -> None:
    found = {}
    with running(name) as process:
        for chain, ways in peers.get(name).does.items():
            for way in ways:
                if chain == "aws-cifar":
                    apart = {"float32": small_apart(process, chain, way, small)}
                elif chain != "randaugment-224":
                    apart = {dtype: photo_apart(process, chain, way, dtype, files) for dtype in peers.get(name).dtypes}
                else:
                    apart = {}
                for dtype, levels in apart.items():
                    # Half a pixel beside it, of photographs that change by some levels a pixel; or coarser colours.
                    beside = name == "spdl" or way == REDUCED or (name == "tf-image" and chain == "imagenet-eval")
                    far = levels.mean() >= (2.5 if beside else 1.5) or np.percentile(levels, 99.0) > (
                        10.0 if beside else 4.0
                    )
                    if far:
                        found[chain, way, dtype] = f"{levels.mean():.2f} levels apart, {levels.max():.0f} at most"
                least = 0 if chain == "imagenet-eval" else COUNT - 1
                dtype = "float32" if "float32" in peers.get(name).dtypes else "uint8"
                count = changed(process, chain, way, small if chain == "aws-cifar" else files, dtype)
                if count < least or (least == 0 and count):
                    found[chain, way, "chance"] = f"{count} images changed"
    assert not found


@pytest.mark.slow
@pytest.mark.parametrize("chain", ["imagenet-train", "imagenet-eval"])
def test_reduced_decoding_of_large_photographs_averages_where_bilinear_resizing_skips(
    chain: str, tmp_path: Path
) -> None:
    height, width = 2 * HEIGHT + 150, 2 * WIDTH + 200
    files = written(tmp_path, 2, height, width)
    apart = {}
    with running("turbojpeg") as process:
        for way in (LINEAR, REDUCED):
            theirs = process.images(process.prepare(whole(chain, way, "uint8", files))).astype(np.float32)
            for other in (LINEAR, ANTIALIAS):
                apart[way, other] = np.abs(theirs - ours(files, chain, other, 2, height, width)).mean()
    assert apart[REDUCED, ANTIALIAS] < 0.8 * apart[REDUCED, LINEAR]
    assert apart[LINEAR, LINEAR] < 0.8 * apart[LINEAR, ANTIALIAS]


def test_a_random_crop_is_inside_its_image_and_has_the_area_and_the_ratio_asked_for() -> None:
    job, draw = Job("imagenet-train", LINEAR, "uint8", (), 1, 1), random.Random(0)
    shares = []
    for _ in range(500):
        top, left, rows, columns = job.box(draw, 100, 140)
        assert 0 <= top <= 100 - rows and 0 <= left <= 140 - columns
        assert 0.70 < columns / rows < 1.42
        shares.append(rows * columns / 14000)
    assert 0.07 < min(shares) < 0.12 and 0.9 < max(shares) <= 1.0
    assert job.box(draw, 1000, 10) == (493, 0, 13, 10)


def test_a_job_survives_the_way_to_its_process() -> None:
    job = Job("aws-cifar", COMPOSED, "float32", ("a.npy",), 256, 2, scale=(0.1, 0.2))
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job


def test_every_listed_peer_is_there_under_its_name_and_does_something() -> None:
    assert [peers.get(name).name for name in peers.names()] == list(peers.names())
    assert all(peers.get(name).does for name in peers.names())
    with pytest.raises(UsageError, match="known: albumentations, dali"):
        peers.get("imgaug")


def test_an_error_of_a_peer_is_told_and_does_not_end_its_process(files: tuple[str, ...]) -> None:
    with running("pillow") as process:
        broken = replace(whole("imagenet-eval", ANTIALIAS, "uint8", files), files=("nowhere.jpg",))
        number = process.prepare(broken)
        with pytest.raises(TfhetError, match="peer pillow: FileNotFoundError: .*nowhere.jpg"):
            process.run(process.begin(number))
        again = process.prepare(whole("imagenet-eval", ANTIALIAS, "uint8", files))
        assert process.run(process.begin(again)) == COUNT
        assert set(process.versions) == {"PIL"}


def test_a_process_that_ends_or_hangs_is_told(files: tuple[str, ...]) -> None:
    place = Place.of(peers.get("pillow"))
    process = PeerProcess(place)
    process._process.kill()
    with pytest.raises(TfhetError, match="peer pillow ended with exit code -9"):
        process.prepare(whole("imagenet-eval", ANTIALIAS, "uint8", files))
    process.close()
    slow = PeerProcess(place, answer_limit_s=0.001)
    with pytest.raises(TfhetError, match=r"no answer within 0\.001 s"):
        slow.prepare(whole("imagenet-eval", ANTIALIAS, "uint8", files))


def test_packages_of_other_versions_lie_in_another_folder(tmp_path: Path) -> None:
    peer = peers.get("opencv")
    place = Place.of(peer, tmp_path)
    assert place.folder.parent == tmp_path / "peers" and not place.installed
    assert Place.of(replace(peer, requires=("other==1",)), tmp_path).folder != place.folder
    place.folder.mkdir(parents=True)
    assert place.environment()["PYTHONPATH"].startswith(str(place.folder))
    assert place.install() == place.folder


def test_what_is_missing_is_said_in_the_words_of_the_import(tmp_path: Path) -> None:
    peer = replace(peers.get("opencv"), imports=("no_such_module",), does={"aws-cifar": (AS_WRITTEN,)})
    assert Place.of(peer, tmp_path).missing() == "ModuleNotFoundError: No module named 'no_such_module'"


def test_an_installation_that_fails_leaves_nothing(tmp_path: Path) -> None:
    peer = replace(peers.get("opencv"), requires=(f"{tmp_path}/nothing-here",))
    with pytest.raises(TfhetError, match="peer opencv: .* could not install it: .*nothing-here"):
        Place.of(peer, tmp_path).install()
    assert list((tmp_path / "peers").iterdir()) == []
