from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfhet.__main__ import main
from tfhet.errors import UsageError
from tfhet.source import Encoded, Sidecar, TFRecordSource, from_image_folder
from tfhet.source.image_file import pixels

COLOURS = {"blue": (0, 0, 250), "green": (0, 250, 0), "red": (250, 0, 0)}


@pytest.fixture
def folder(tmp_path):
    """Three classes of plain images: png and jpeg, of two sizes, one of them in a folder below."""
    place = tmp_path / "images"
    for name, colour in COLOURS.items():
        (place / name / "more").mkdir(parents=True)
        for index in range(3):
            image = np.full((20 + 10 * (index % 2), 24, 3), colour, np.uint8)
            encoded = tf.io.encode_png(image) if index else tf.io.encode_jpeg(image, quality=100)
            where = place / name / ("more" if index == 2 else ".")
            (where / f"{index}.{'png' if index else 'JPG'}").write_bytes(encoded.numpy())
    (place / "green" / "notes.txt").write_text("not an image")
    (place / "readme.md").write_text("not a class")
    return place


def read(directory, size=None) -> tuple[np.ndarray, np.ndarray]:
    source = TFRecordSource.from_directory(directory, size=size)
    source.check()
    parsed = [
        source.parse(tf.stack([record for _, record in source.read(tf.constant(split, tf.int64))]))
        for split in range(source.split_count())
    ]
    return tuple(np.concatenate([part[name].numpy() for part in parsed]) for name in ("image", "label"))


@pytest.mark.parametrize("size", [None, (16, 16)], ids=["encoded", "raw"])
def test_image_gets_the_label_of_its_folder(folder, tmp_path, size):
    counts: list[tuple[int, int]] = []
    target = from_image_folder(
        folder, tmp_path / "set", shards=2, size=size, progressed=lambda *done: counts.append(done)
    )
    assert (counts[0], counts[-1]) == ((0, 9), (9, 9))
    images, labels = read(target, size=None if size else (16, 16))
    assert images.shape == (9, 16, 16, 3)
    assert np.bincount(labels).tolist() == [3, 3, 3]
    colours = np.array([COLOURS[name] for name in sorted(COLOURS)])
    assert np.abs(images - colours[labels][:, None, None, :]).max() <= 8
    sidecar = Sidecar.read(target)
    assert sidecar is not None
    assert sidecar.classes == ("blue", "green", "red")


def test_encoded_images_are_stored_byte_for_byte(folder, tmp_path):
    target = from_image_folder(folder, tmp_path / "set", shards=1)
    stored = set()
    for record in tf.data.TFRecordDataset([str(file) for file in target.glob("*.tfrecord")]):
        stored.add(tf.train.Example.FromString(record.numpy()).features.feature["image"].bytes_list.value[0])
    assert stored == {file.read_bytes() for file in folder.rglob("*") if file.suffix in (".png", ".JPG")}


def test_seed_decides_the_order(folder, tmp_path):
    labels = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        labels[name] = read(from_image_folder(folder, tmp_path / name, 1, (8, 8), seed))[1].tolist()
    assert labels["a"] == labels["b"] != labels["c"]
    assert labels["a"] != sorted(labels["a"])


def test_folder_without_classes_or_images_is_refused(folder, tmp_path):
    with pytest.raises(UsageError, match="no image folder"):
        from_image_folder(tmp_path / "absent", tmp_path / "set", 1)
    with pytest.raises(UsageError, match="sub-folders"):
        from_image_folder(folder / "blue" / "more", tmp_path / "set", 1)
    (folder / "empty").mkdir()
    with pytest.raises(UsageError, match="class empty"):
        from_image_folder(folder, tmp_path / "set", 1)
    assert not (tmp_path / "set").exists()


def converted(*args, **options) -> list[str]:
    """The lines of the report."""
    lines: list[str] = []
    from_image_folder(*args, report=lines.append, **options)
    return lines


@pytest.mark.parametrize("size", [None, (8, 8)], ids=["encoded", "raw"])
def test_other_files_are_omitted_and_named(folder, tmp_path, size):
    (folder / "red" / "fake.jpg").write_bytes(b"hello")
    (folder / "red" / "broken.jpg").write_bytes((folder / "red" / "0.JPG").read_bytes()[:60])
    (folder / "red" / "._1.png").write_bytes(b"hello")
    (folder / "blue" / ".thumbnails").mkdir()
    (folder / "blue" / ".thumbnails" / "1.png").write_bytes((folder / "blue" / "1.png").read_bytes())
    (folder / ".git").mkdir()
    whole, *omitted = sorted(converted(folder, tmp_path / "set", 2, size))
    assert whole.endswith("blue 3, green 3, red 3")
    assert [line.rpartition(": ")[2] for line in omitted] == [
        "1 (red/broken.jpg)",
        "3 (.git, blue/.thumbnails/1.png, red/._1.png)",
        "1 (readme.md)",
        "2 (green/notes.txt, red/fake.jpg)",
    ]
    assert len(read(tmp_path / "set", size=None if size else (8, 8))[1]) == 9


def test_omitted_files_are_logged_and_long_lists_cut(folder, tmp_path, caplog):
    for index in range(7):
        (folder / "red" / f"note-{index}.txt").touch()
    from_image_folder(folder, tmp_path / "set", 2)
    (line,) = (line for line in caplog.messages if "GIF" in line)
    notes = ", ".join(f"red/note-{number}.txt" for number in range(4))
    assert line.endswith(f"8 (green/notes.txt, {notes} and 3 more)")


def test_linked_folders_are_read_once(folder, tmp_path):
    (folder / "blue").rename(tmp_path / "elsewhere")
    (folder / "blue").symlink_to(tmp_path / "elsewhere")
    (folder / "red" / "linked").symlink_to(folder / "green" / "more")
    (folder / "red" / "loop").symlink_to(folder / "red")
    (folder / "red" / "dangling.png").symlink_to(folder / "absent.png")
    lines = converted(folder, tmp_path / "set", 2)
    assert lines[0].endswith("10 images: blue 3, green 3, red 4")
    assert any("(red/loop)" in line for line in lines)
    assert any("(red/dangling.png)" in line for line in lines)


def test_pipes_are_not_waited_for(folder, tmp_path):
    os.mkfifo(folder / "red" / "pipe.png")
    assert any("(red/pipe.png)" in line for line in converted(folder, tmp_path / "set", 2))


def test_lost_bits_are_counted(folder, tmp_path):
    wide = tf.io.encode_png(np.full((8, 8, 3), 300, np.uint16)).numpy()
    (folder / "red" / "wide.png").write_bytes(wide)
    for size in (None, (8, 8)):
        assert converted(folder, tmp_path / str(size), 2, size)[-1].endswith("1 (red/wide.png)")


def test_images_without_a_reader_are_omitted(folder, tmp_path):
    """TensorFlow reads the palette's indices of such a BMP file as its pixels, and no PNG file without its end."""
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8))
    for mode in ("P", "L", "RGB"):
        picture.convert(mode).save(folder / "red" / f"{mode}.bmp")
    picture.save(folder / "red" / "cut.png")
    (folder / "red" / "cut.png").write_bytes((folder / "red" / "cut.png").read_bytes()[:-8])
    assert converted(folder, tmp_path / "set", 2)[-1].endswith("2 (red/P.bmp, red/cut.png)")


@pytest.mark.parametrize(
    ("kind", "modes"),
    [("JPEG", ["RGB", "L", "CMYK"]), ("PNG", ["RGB", "L", "P", "RGBA", "I;16"]), ("BMP", ["RGB", "L"]), ("GIF", ["P"])],
)
def test_raw_pixels_equal_those_of_reading(kind, modes):
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)).resize((56, 40))
    for orientation, mode in enumerate(modes * 3, start=1):
        exif, file = Image.Exif(), io.BytesIO()
        exif[0x0112] = min(orientation, 8)
        (picture.convert("L") if mode == "I;16" else picture).convert(mode).save(file, kind, exif=exif)
        for size in ((40, 56), (56, 40), (21, 30)):
            own = pixels(file.getvalue(), size).astype(int)
            expected = Encoded(*size, accurate=True).decode(tf.constant([file.getvalue()]))[0]
            assert np.abs(own - expected.numpy()).max() <= (2 if kind == "JPEG" else 1), (mode, orientation, size)


def test_bad_images_are_counted_if_all_are_bad(tmp_path):
    (tmp_path / "images" / "red").mkdir(parents=True)
    (tmp_path / "images" / "red" / "a.jfif").write_bytes(b"hello")
    lines: list[str] = []
    with pytest.raises(UsageError, match="no examples"):
        from_image_folder(tmp_path / "images", tmp_path / "set", 1, report=lines.append)
    assert any("(red/a.jfif)" in line for line in lines)


def test_shards_are_at_most_as_many_as_images(folder, tmp_path):
    assert len(list(from_image_folder(folder, tmp_path / "set", 64).glob("*.tfrecord"))) == 9


def test_names_that_are_not_utf8(folder, tmp_path):
    odd = os.fsdecode(b"\xff")
    (folder / "red" / f"{odd}.png").write_bytes((folder / "red" / "1.png").read_bytes())
    assert from_image_folder(folder, tmp_path / "set", 2, split=0.5).is_dir()
    with pytest.raises(UsageError, match="UTF-8"):
        from_image_folder(folder, tmp_path / odd, 2)
    (folder / "red").rename(folder / odd)
    with pytest.raises(UsageError, match="UTF-8"):
        from_image_folder(folder, tmp_path / "other", 2)


# A part for validation


@pytest.fixture
def many(tmp_path):
    """Two classes of 60 images, each of a brightness of its own; returns the folder, and adds images."""
    place = tmp_path / "many"

    def add(name: str, numbers: range) -> None:
        (place / name).mkdir(parents=True, exist_ok=True)
        for number in numbers:
            image = np.full((1, 1, 3), number, np.uint8)
            (place / name / f"{number}.png").write_bytes(tf.io.encode_png(image).numpy())

    for name in ("cat", "dog"):
        add(name, range(60))
    return place, add


def sides(directory) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """The label and the brightness of each image for training, and for validation."""
    read_back = (read(directory / side, size=(1, 1)) for side in ("training", "validation"))
    training, validation = ({*zip(labels, images[:, 0, 0, 0], strict=True)} for images, labels in read_back)
    return training, validation


def test_split_divides_each_class(many, tmp_path):
    lines = converted(many[0], tmp_path / "set", 4, split=0.25)
    training, validation = sides(tmp_path / "set")
    assert training | validation == {(label, number) for label in range(2) for number in range(60)}
    assert not training & validation
    counts = np.bincount([label for label, _ in sorted(validation)])
    assert (abs(counts - 15) <= 7).all(), counts
    assert [line.rpartition(": ")[2] for line in lines] == [
        f"cat {60 - counts[0]}, dog {60 - counts[1]}",
        f"cat {counts[0]}, dog {counts[1]}",
    ]


def test_images_keep_their_side_when_others_join(many, tmp_path):
    folder, add = many
    from_image_folder(folder, tmp_path / "set", 4, split=0.25)
    from_image_folder(folder, tmp_path / "other", 4, seed=1, split=0.25)
    add("cat", range(60, 90))
    add("ant", range(5))
    from_image_folder(folder, tmp_path / "larger", 4, split=0.25)
    (training, validation), (more, beside) = sides(tmp_path / "set"), sides(tmp_path / "larger")
    assert {(label + 1, number) for label, number in training} < more  # `ant` is 0 now
    assert {(label + 1, number) for label, number in validation} < beside
    assert sides(tmp_path / "other")[1] != validation


def test_both_sides_have_all_classes(tmp_path, many):
    folder, add = many
    add("rare", range(1))
    lines = converted(folder, tmp_path / "set", 40, split=0.1)
    for side in ("training", "validation"):
        sidecar = Sidecar.read(tmp_path / "set" / side)
        assert sidecar is not None
        assert sidecar.classes == ("cat", "dog", "rare")
        assert min(sidecar.files.values()) > 0
    assert f"{tmp_path / 'set' / 'validation'} has no image of rare" in lines


@pytest.mark.parametrize(
    ("split", "named"), [(1.0, "below 1, not 1"), (-0.1, "not -0.1"), (1e-9, "all images to .*training")]
)
def test_split_without_a_side_is_refused(folder, tmp_path, split, named):
    with pytest.raises(UsageError, match=named):
        from_image_folder(folder, tmp_path / "set", 1, split=split)
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ({"a/p.png": "pipe", "b/1.png": "image"}, "class a .*pipe"),
        ({"a/1.webp": "other", "b/1.png": "image"}, "class a .*not JPEG"),
        ({"train/a/1.png": "image", "val/a/1.png": "image"}, "splits.* train, val"),
        ({"1.png": "image"}, "no sub-folders"),
        (None, "is no folder"),
    ],
)
def test_unusual_trees_are_refused_with_their_reason(folder, tmp_path, entries, named):
    tree = tmp_path / "tree"
    for name, kind in (entries or {}).items():
        (path := tree / name).parent.mkdir(parents=True, exist_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        else:
            path.write_bytes((folder / "blue" / "1.png").read_bytes() if kind == "image" else b"RIFF")
    if entries is None:
        tree.write_text("a file")
    with pytest.raises(UsageError, match=named):
        from_image_folder(tree, tmp_path / "set", 1)


def test_counts_are_shown_if_all_images_are_bad(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / "tree" / name).mkdir(parents=True)
        (tmp_path / "tree" / name / "1.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    assert main(["convert", str(tmp_path / "tree"), str(tmp_path / "set")]) == 2
    assert "2 (a/1.png, b/1.png)" in capsys.readouterr().err
    assert not (tmp_path / "set").exists()


# The classes of other data


def test_classes_are_numbered_as_in_other_data(folder, tmp_path):
    names = ("black", "blue", "brown", "green", "red")
    lines = converted(folder, tmp_path / "set", 1, classes=names)
    images, labels = read(tmp_path / "set", size=(16, 16))
    colours = np.array([COLOURS.get(name, (1, 1, 1)) for name in names])
    assert np.abs(images - colours[labels][:, None, None, :]).max() <= 8
    assert Sidecar.classes_of(tmp_path / "set") == names
    assert f"{tmp_path / 'set'} has no image of black, brown" in lines


def test_class_missing_from_other_data_is_named(folder, tmp_path):
    with pytest.raises(UsageError, match="images .*: blue, red; .* green"):
        from_image_folder(folder, tmp_path / "set", 1, classes=("green",))


# The command


def test_command_reports_and_reuses_classes(folder, tmp_path, capsys):
    assert main(["convert", str(folder), str(tmp_path / "a"), "--shards", "2", "--split", "0.5"]) == 0
    said = capsys.readouterr()
    assert said.out == f"{tmp_path / 'a'}\n"
    assert f"[convert] {tmp_path / 'a' / 'validation'}: " in said.err
    assert "[convert] passed over, not JPEG, PNG, BMP or GIF: 1 (green/notes.txt)\n" in said.err
    shutil.rmtree(folder / "blue")
    asked = [
        "convert",
        str(folder),
        str(tmp_path / "b"),
        "--shards",
        "1",
        "--classes",
        str(tmp_path / "a" / "training"),
    ]
    assert main(asked) == 0
    assert Sidecar.classes_of(tmp_path / "b") == ("blue", "green", "red")
    assert sorted(read(tmp_path / "b", size=(8, 8))[1].tolist()) == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("options", [[], ["--size", "16", "16"]], ids=["encoded", "raw"])
def test_command_needs_no_tensorflow(folder, tmp_path, options):
    from_image_folder(folder, tmp_path / "other", 1, (16, 16))
    without = "import sys; sys.modules['tensorflow'] = None; from tfhet.__main__ import main; sys.exit(main())"
    words = ["convert", folder, tmp_path / "set", "--shards", "2", *options, "--classes", tmp_path / "other"]
    subprocess.run([sys.executable, "-c", without, *map(str, words)], check=True, timeout=60)
    images, labels = read(tmp_path / "set", size=None if options else (16, 16))
    colours = np.array([COLOURS[name] for name in sorted(COLOURS)])
    assert np.bincount(labels).tolist() == [3, 3, 3]
    assert np.abs(images - colours[labels][:, None, None, :]).max() <= 8


def test_command_needs_data_with_classes(folder, tmp_path, capsys):
    assert main(["convert", str(folder), str(tmp_path / "set"), "--classes", str(folder)]) == 2
    assert f"--classes {folder}: " in capsys.readouterr().err
