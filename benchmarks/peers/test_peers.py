"""Each installed library makes the same image as tfhet of the same part of a photo."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import packages, turboloader
from benchmarks.peers.opencv import box
from benchmarks.peers.peer import ANTIALIAS, LINEAR, MEAN, STD, Job
from benchmarks.peers.process import MODULES, PeerProcess, peer_named
from tfhet import stages
from tfhet.errors import TfhetError

tf = pytest.importorskip("tensorflow")

HEIGHT, WIDTH = 375, 500
COUNT = 5
PEERS = [name for name in MODULES if not peer_named(name).is_tfhet]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Photos of one size: a crop of their whole area in their own ratio is the whole image."""
    folder, draw = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for index in range(COUNT):
        coarse = draw.uniform(0.0, 255.0, (1, 12, 16, 3)).astype(np.float32)
        smooth = tf.image.resize(coarse, [HEIGHT, WIDTH], "bicubic")[0] + draw.normal(0.0, 4.0, (HEIGHT, WIDTH, 3))
        image = tf.saturate_cast(tf.round(smooth), tf.uint8)
        (folder / f"{index}.jpg").write_bytes(tf.io.encode_jpeg(image, quality=92).numpy())
    return tuple(str(path) for path in sorted(folder.iterdir()))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    path = tmp_path_factory.mktemp("small") / "images.npy"
    np.save(path, np.random.default_rng(1).integers(0, 256, (COUNT, 32, 32, 3), np.uint8))
    return (str(path),)


@contextlib.contextmanager
def running(name: str, job: Job) -> Iterator[PeerProcess]:
    """The process of a peer; skips the test if it is not installed."""
    process = PeerProcess(peer_named(name))
    with contextlib.closing(process):
        try:
            process.prepare(job)
        except TfhetError as error:
            if "ModuleNotFoundError" not in str(error):
                raise
            pytest.skip(str(error))
        yield process


def ours(files: tuple[str, ...], chain: str, way: str) -> np.ndarray:
    """tfhet's image of the whole photo, flipped, or of its centre, uint8."""
    antialias = way == ANTIALIAS
    contents = [Path(file).read_bytes() for file in files]
    if chain == "imagenet-eval":
        return stages.compile(f"decode(); resized_center_crop(224, 224, 256, antialias={antialias})")(contents)
    return stages.compile(f"decode(); resize(224, 224, antialias={antialias})")(contents)[:, :, ::-1]


def ours_small(small: tuple[str, ...]) -> np.ndarray:
    """tfhet's dilated, blurred and flipped images, float32."""
    chain = stages.compile("dilate(3); gaussian_blur(11, 0.8); rescale()")
    return chain(np.load(small[0]))[:, :, ::-1]


def fixed(chain: str, way: str, dtype: str, files: tuple[str, ...]) -> Job:
    """A job without randomness: the whole image, flipped, and nothing else changed."""
    ratio = WIDTH / HEIGHT
    still = {"jitter": 0.0, "turns": 0.0, "zoom": 0.0}
    return Job(chain, way, dtype, files, 2, 1, scale=(1.0, 1.0), ratio=(ratio, ratio), flip=1.0, **still)


def levels_apart(theirs: np.ndarray, wanted: np.ndarray, chain: str) -> np.ndarray:
    """Grey levels between a peer's images and tfhet's."""
    if chain == "aws-cifar":
        return np.abs(theirs - wanted) * 255.0
    levels = (theirs * STD + MEAN) * 255.0 if theirs.dtype == np.float32 else theirs.astype(np.float32)
    return np.abs(levels - wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "chain"), [(name, chain) for name in PEERS for chain in peer_named(name).does])
def test_peer_makes_same_images(name: str, chain: str, files: tuple[str, ...], small: tuple[str, ...]) -> None:
    given = small if chain == "aws-cifar" else files
    ways = peer_named(name).does[chain]
    with running(name, fixed(chain, ways[0], "float32", given)) as process:
        for way in ways:
            for dtype in ("uint8", "float32") if way else ("float32",):
                still = process.images(process.prepare(fixed(chain, way, dtype, given)))
                drawn = process.images(process.prepare(Job(chain, way, dtype, given, 2, 2)))
                changed = (np.abs(drawn - np.float32(still)).mean(axis=(1, 2, 3)) > 0.01).sum()
                assert drawn.dtype == still.dtype == dtype and drawn.shape == still.shape
                assert changed == 0 if chain == "imagenet-eval" else changed >= COUNT - 1
                if chain == "randaugment-224":
                    continue
                wanted = ours_small(small) if chain == "aws-cifar" else ours(files, chain, way).astype(np.float32)
                assert still.shape == wanted.shape
                apart = levels_apart(still, wanted, chain)
                # tf.image cuts the centre at a whole pixel: up to half a pixel apart, at some levels per pixel.
                shifted = name == "tf-image" and chain == "imagenet-eval"
                is_near = apart.mean() < (2.5 if shifted else 1.5)
                is_near &= np.percentile(apart, 99.0) < (10.0 if shifted else 4.0)
                if peer_named(name).other_image:  # softer, but the same part
                    assert not is_near and apart.mean() < 5.0, (way, dtype)
                else:
                    assert is_near, (way, dtype)


@pytest.mark.parametrize("name", [name for name in MODULES if peer_named(name).is_tfhet])
def test_tfhet_in_peer_process_is_this_checkout_without_tensorflow(name: str, small: tuple[str, ...]) -> None:
    with running(name, Job("aws-cifar", "", "float32", small, 2, 1)):  # skips where PyTorch is missing
        pass
    code = f"""
import sys
from benchmarks.peers.peer import Job
from benchmarks.peers.process import peer_named
job = Job("aws-cifar", "", "float32", {small!r}, 2, 1)
assert sum(map(len, peer_named({name!r}).build(job)())) == {COUNT} and "tensorflow" not in sys.modules
print(sys.modules["tfhet"].__file__)"""
    where = packages.environment_of(peer_named(name))
    done = subprocess.run([sys.executable, "-c", code], env=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(packages.CHECKOUT)


@pytest.mark.parametrize(("sides", "expected"), [((375, 500), (235, 313)), ((224, 900), (224, 900)), ((9, 9), (9, 9))])
def test_turboloader_scale_covers_the_result(sides: tuple[int, int], expected: tuple[int, int]) -> None:
    assert turboloader.scaled(sides, 224) == expected


def test_random_crop_has_requested_area_and_ratio() -> None:
    job, draw = Job("imagenet-train", LINEAR, "uint8", (), 1, 1), random.Random(0)
    shares = []
    for _ in range(500):
        top, left, rows, columns = box(job, draw, 100, 140)
        assert 0 <= top <= 100 - rows and 0 <= left <= 140 - columns
        assert 0.70 < columns / rows < 1.42
        shares.append(rows * columns / 14000)
    assert 0.07 < min(shares) < 0.12 and 0.9 < max(shares) <= 1.0
    assert box(job, draw, 1000, 10) == (493, 0, 13, 10)


def test_error_does_not_end_the_process(files: tuple[str, ...]) -> None:
    job = fixed("imagenet-eval", LINEAR, "uint8", files)
    with running("tf-image", job) as process:
        number = process.prepare(replace(job, files=("nowhere.jpg",)))
        process.begin(number)
        with pytest.raises(TfhetError, match="nowhere.jpg"):
            process.run(number, 1)
        process.begin(0)
        process.run(0, COUNT)
        assert set(process.versions) == {"tensorflow"}


def test_packages_have_folder_per_version(tmp_path: Path) -> None:
    peer = peer_named("opencv")
    folder = packages.folder_of(peer, tmp_path)
    assert packages.folder_of(replace(peer, requires=("other==1",)), tmp_path) != folder
    assert packages.folder_of(replace(peer, name="other"), tmp_path) == folder
    assert str(folder) not in packages.environment_of(peer, tmp_path)["PYTHONPATH"]
    folder.mkdir(parents=True)
    assert packages.environment_of(peer, tmp_path)["PYTHONPATH"].startswith(str(folder))


def test_failed_installation_leaves_nothing(tmp_path: Path) -> None:
    peer = replace(peer_named("opencv"), requires=(f"{tmp_path}/nothing-here",))
    with pytest.raises(TfhetError, match="nothing-here"):
        packages.install(peer, tmp_path)
    assert list((tmp_path / "peers").iterdir()) == []
