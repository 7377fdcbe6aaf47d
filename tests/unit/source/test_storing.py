"""Image folders whose images are stored decoded or reduced: `tfhet convert --store`, `--max_side`."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from tfhet import kernels, stages
from tfhet.__main__ import main
from tfhet.errors import UsageError
from tfhet.pipeline import Pipeline, preparation
from tfhet.source import Encoded, FileList, Sidecar, Store, TFRecordSource, from_image_folder

SIZES = [(40, 60), (61, 33), (90, 120), (20, 20)]
KINDS = ("jpeg", "yuv420", "rgb")
CHAIN = "decode(); random_resized_crop(24, 20); random_flip(); normalize()"


def picture(rows: int, columns: int) -> Image.Image:
    grid = np.random.default_rng(rows).integers(0, 256, (rows // 20 + 2, columns // 20 + 2, 3))
    return Image.fromarray(grid.astype(np.uint8)).resize((columns, rows), Image.Resampling.BICUBIC)


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two classes of a PNG and of JPEGs of 4:2:0; Exif data turn one JPEG."""
    place = tmp_path / "images"
    for name in ("cat", "dog"):
        (place / name).mkdir(parents=True)
        for index, size in enumerate(SIZES):
            exif = Image.Exif()
            exif[0x0112] = 6 if index == 2 else 1
            picture(*size).save(place / name / f"{index}.jpg", exif=exif, quality=95)
        picture(30, 50).save(place / name / "4.png")
    return place


def stored(directory: Path) -> tuple[list[bytes], np.ndarray]:
    source = TFRecordSource.from_directory(directory)
    read = source.load(np.arange(source.example_count()))
    return list(read["image"]), read["label"]


def convert(folder: Path, directory: Path, *words: str) -> tuple[list[bytes], np.ndarray]:
    assert main(["convert", str(folder), str(directory), "--shards", "1", *words]) == 0
    return stored(directory)


def size_of(content: bytes) -> tuple[int, int]:
    if content.startswith(b"\x93TFI"):
        height, width = np.frombuffer(content[8:16], "<u4").tolist()
        return height, width
    return ImageOps.exif_transpose(Image.open(io.BytesIO(content))).size[::-1]


@pytest.mark.parametrize("kind", KINDS)
def test_stored_images_keep_order_and_labels(folder, tmp_path, kind):
    files, labels = convert(folder, tmp_path / "files")
    ours, same = convert(folder, tmp_path / "set", "--store", kind)
    np.testing.assert_array_equal(labels, same)
    assert [size_of(content) for content in ours] == [size_of(content) for content in files]
    if kind == "jpeg":
        assert ours == files
        return
    assert all(content.startswith(b"\x93TFI") for content in ours)
    ids = np.arange(len(files))
    images, expected = (stages.compile(CHAIN)(each, ids=ids) for each in (ours, files))
    is_exact = [content.startswith(b"\xff\xd8") and size_of(content) != (120, 90) for content in files]
    np.testing.assert_array_equal(images[is_exact], expected[is_exact])
    assert np.abs(images - expected).mean() < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_long_sides_are_reduced(folder, tmp_path, kind):
    files, labels = convert(folder, tmp_path / "files")
    ours, same = convert(folder, tmp_path / "set", "--store", kind, "--max_side", "50", "--accurate")
    np.testing.assert_array_equal(labels, same)
    expected = {(40, 60): (33, 50), (61, 33): (50, 27), (120, 90): (50, 38), (20, 20): (20, 20), (30, 50): (30, 50)}
    for content, file in zip(ours, files, strict=True):
        size = size_of(content)
        assert size == expected[size_of(file)]
        if size == size_of(file):
            assert (content == file) == (kind == "jpeg")
        (made,) = stages.compile(f"decode(accurate=True); resize{size}")([content])
        upright = ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB")
        theirs = np.asarray(upright.resize(size[::-1], Image.Resampling.BILINEAR))
        difference = np.abs(made.astype(int) - theirs)
        assert difference.max() <= 1 if kind == "rgb" else difference.mean() < 5
    if kind == "jpeg":
        reduced = next(Image.open(io.BytesIO(content)) for content in ours if size_of(content) == (33, 50))
        assert reduced.format == "JPEG" and reduced.layer[0][1:3] == (2, 2)
        assert not reduced.getexif()


def test_accurate_equals_pillow(folder, tmp_path):
    files, _ = convert(folder, tmp_path / "files")
    ours, _ = convert(folder, tmp_path / "set", "--store", "yuv420", "--accurate")
    for content, file in zip(ours, files, strict=True):
        if (size := size_of(file)) in SIZES:
            (made,) = stages.compile(f"decode(); resize{size}")([content])
            np.testing.assert_array_equal(made, np.asarray(Image.open(io.BytesIO(file))))


@pytest.mark.parametrize("kind", ["yuv420", "rgb"])
def test_pipelines_and_numpy_have_the_same_bytes(folder, tmp_path, kind):
    from_image_folder(folder, tmp_path / "set", 2, store=Store(kind))
    source = TFRecordSource.from_directory(tmp_path / "set")
    assert source.features["image"] == Encoded()
    ids = np.arange(5)
    records = source.load(ids)
    declared = Pipeline(source, CHAIN, seed=3)
    examples = tf.stack([record for _, record in source.read(tf.constant(0, tf.int64))])[: len(ids)]
    theirs = preparation(declared, 2)(tf.constant(ids), examples)["image"].numpy()
    ours = stages.compile(CHAIN)(records["image"], ids=ids, seed=3, epoch=2)
    assert theirs.tobytes() == ours.tobytes()


def test_lists_of_files_read_stored_images(folder, tmp_path):
    pairs = []
    for label, file in enumerate(sorted(folder.rglob("*.jpg"))):
        (tmp_path / f"{label}.tfi").write_bytes(kernels.store_image(file.read_bytes(), "yuv420"))
        pairs.append((tmp_path / f"{label}.tfi", label))
    read = FileList(pairs).load(np.arange(len(pairs)))
    files = [file.read_bytes() for file in sorted(folder.rglob("*.jpg"))]
    images, expected = (stages.compile(CHAIN)(each, ids=range(len(pairs))) for each in (read["image"], files))
    is_exact = [size_of(content) != (120, 90) for content in files]
    np.testing.assert_array_equal(images[is_exact], expected[is_exact])


def test_report_and_description_say_how(folder, tmp_path, capsys):
    convert(folder, tmp_path / "set", "--store", "yuv420", "--max_side", "100")
    lines = capsys.readouterr().err
    on_disk = sum(file.stat().st_size for file in (tmp_path / "set").glob("*.tfrecord"))
    files = sum(file.stat().st_size for file in folder.rglob("*.*g"))
    assert f"[convert] stored as yuv420: 0.0 MB on disk, {on_disk / files:.2f} times the 0.0 MB of the" in lines
    sidecar = Sidecar.read(tmp_path / "set")
    assert sidecar is not None
    assert {name: sidecar.details[name] for name in ("store", "max_side", "accurate")} == {
        "store": "yuv420",
        "max_side": 100,
        "accurate": False,
    }
    convert(folder, tmp_path / "files")
    assert "stored as" not in capsys.readouterr().err
    plain = Sidecar.read(tmp_path / "files")
    assert plain is not None and "store" not in plain.details


@pytest.mark.parametrize("kind", KINDS)
def test_broken_images_are_passed_over(folder, tmp_path, kind):
    (folder / "cat" / "cut.jpg").write_bytes((folder / "cat" / "0.jpg").read_bytes()[:700])
    lines: list[str] = []
    from_image_folder(folder, tmp_path / "set", 2, store=Store(kind, 50), report=lines.append)
    assert any("decoded: 1 (cat/cut.jpg)" in line for line in lines)


def test_wrong_ways_to_store_are_refused(folder, tmp_path):
    with pytest.raises(UsageError, match="jpeg, yuv420, rgb, not png"):
        Store("png")
    with pytest.raises(UsageError, match="at least 1 pixel, not 0"):
        Store("rgb", 0)
    with pytest.raises(UsageError, match="either a size"):
        from_image_folder(folder, tmp_path / "set", 1, (8, 8), store=Store("rgb"))


def test_command_needs_no_tensorflow(folder, tmp_path):
    without = "import sys; sys.modules['tensorflow'] = None; from tfhet.__main__ import main; sys.exit(main())"
    words = ["convert", folder, tmp_path / "set", "--shards", "2", "--store", "yuv420", "--max_side", "64"]
    subprocess.run([sys.executable, "-c", without, *map(str, words)], check=True, timeout=60)
    assert len(list((tmp_path / "set").glob("*.tfrecord"))) == 2


def test_help_describes_how_images_are_stored(capsys):
    with pytest.raises(SystemExit):
        main(["convert", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "--store {jpeg,yuv420,rgb}" in text and "--max_side N" in text and "1.5 or 3 bytes a pixel" in text
