"""bench/stages.py, chain.py and plain.py: what the suite compares does the same work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfhet.bench import chain, run
from tfhet.bench.chain import ANTIALIAS, LINEAR, Form, forms, shaped
from tfhet.errors import UsageError
from tfhet.record import Record

tf = pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")

from tfhet import stages as stage_room  # noqa: E402
from tfhet.bench import plain  # noqa: E402
from tfhet.placement import Pipeline  # noqa: E402
from tfhet.source import TFRecordSource  # noqa: E402
from tfhet.source import digits as digit_data  # noqa: E402
from tfhet.source import photos as photo_data  # noqa: E402

EXAMPLES = 37
SHAPE = (32, 32, 3)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> TFRecordSource:
    folder = tmp_path_factory.mktemp("records")
    return digit_data.repeated(folder, EXAMPLES, tmp_path_factory.mktemp("cache"))


def written(digits: TFRecordSource, chain: str, batch_size: int = 16) -> tuple[np.ndarray, np.ndarray]:
    made = plain.dataset(digits.files, SHAPE, stage_room.parse(chain), batch_size)
    images, labels = zip(*made.as_numpy_iterator(), strict=True)
    return np.concatenate(images), np.concatenate(labels)


def test_the_records_are_exactly_as_many_as_asked_for_also_beyond_the_set(tmp_path: Path) -> None:
    source = digit_data.repeated(tmp_path, 1500, tmp_path / "cache")
    source.check()
    assert source.example_count() == 1500


def test_without_random_stages_the_example_and_tfhet_make_the_same_images(digits: TFRecordSource) -> None:
    pytest.importorskip("tensorflow_addons")
    chain = "dilate(3); gaussian_blur(11, 0.8)"
    batches = list(Pipeline(digits, chain, 16).dataset().as_numpy_iterator())
    in_file_order = np.argsort(np.concatenate([batch["id"] for batch in batches]))
    ours = np.concatenate([batch["image"] for batch in batches])[in_file_order]
    theirs, labels = written(digits, chain)
    raw, _ = written(digits, "")
    assert ours.dtype == theirs.dtype == np.uint8
    assert (np.concatenate([batch["label"] for batch in batches])[in_file_order] == labels).all()
    apart = np.abs(ours.astype(int) - theirs)
    # The blur keeps a plain area's level where the addon's rounding loses one: see stages/gaussian_blur.py.
    assert apart.max() <= 1 and (apart > 0).mean() < 0.002
    assert (raw != theirs).mean() > 0.3


def test_the_example_really_augments_each_image_in_its_own_way(digits: TFRecordSource) -> None:
    pytest.importorskip("tensorflow_addons")
    images, labels = written(digits, "aws-cifar")
    unturned, plain_labels = written(digits, "dilate(3); gaussian_blur(11, 0.8); rescale(1/255)")
    assert images.shape == (EXAMPLES, *SHAPE) and images.dtype == np.float32
    assert images.min() >= 0.0 and images.max() <= 1.0
    assert (labels == plain_labels).all()
    assert sum(not np.array_equal(a, b) for a, b in zip(images, unturned, strict=True)) > EXAMPLES * 0.9


def test_a_flip_alone_gives_each_image_or_its_mirror(digits: TFRecordSource) -> None:
    images, _ = written(digits, "random_flip()")
    unturned, _ = written(digits, "")
    flipped = 0
    for image, before in zip(images, unturned, strict=True):
        mirrored = np.array_equal(image, before[:, ::-1])
        assert mirrored or np.array_equal(image, before)
        flipped += mirrored
    assert 0 < flipped < EXAMPLES


def test_a_stage_that_the_example_does_not_know_is_named() -> None:
    class Foreign:
        name = "solarize"

    with pytest.raises(UsageError, match="no step like 'solarize'; it knows dilate"):
        plain.dataset([], SHAPE, [Foreign()], 1)  # type: ignore[list-item]


def test_a_chain_on_photos_is_measured_in_four_forms_and_each_is_what_it_says(tmp_path: Path) -> None:
    photos = TFRecordSource.from_directory(photo_data.photos(count=3, cache=tmp_path))
    pipeline = Pipeline(photos, "imagenet-train", 2)
    assert forms(pipeline) == tuple(Form(w, d) for w in (LINEAR, ANTIALIAS) for d in ("uint8", "float32"))
    levels = shaped(pipeline, Form(ANTIALIAS, "uint8"))
    assert [stage.name for stage in levels.stages] == ["decode", "random_resized_crop", "random_flip"]
    assert [getattr(stage, "antialias", None) for stage in levels.stages] == [None, True, None]
    assert shaped(pipeline, Form(LINEAR, "float32")).output.dtype == "float32"


def test_the_suite_runs_small_and_leaves_its_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "ALONE_IMAGES", {True: 1, False: 1})
    monkeypatch.setattr(chain, "PASSES", 2)
    path = tmp_path / "stages.json"
    options = ["--chain", "digits", "--repeats", "2", "--examples", str(EXAMPLES), "--batch-size", "16"]
    code = run(["stages", *options, "--threads", "1", "--cache", str(tmp_path), "--json", str(path)])
    assert code == 0, capsys.readouterr().err
    record = Record.read(path)
    assert record.figures["stages.digits.vs_example"].n == 2
    assert any(name.endswith("random_zoom_us") for name in record.figures)
    assert len(record.details["cases"]["tfhet"]["samples"]) == 2
    assert len(record.details["cases"]["tfhet"]["warmup"]) == 1
    assert record.details["explained"][0].startswith("source: ")


def test_an_unknown_chain_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stages", "--chain", "nope"]) == 2
    assert "aws-cifar" in capsys.readouterr().err


def test_a_chain_that_is_written_out_is_measured_beside_plain_tensorflow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "ALONE_IMAGES", {True: 1, False: 1})
    path = tmp_path / "stages.json"
    photos = "decode(); random_resized_crop(8, 8); random_flip(); normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))"
    options = ["--chain", photos, "--repeats", "1", "--warmup", "0", "--examples", "3", "--batch_size", "2"]
    assert run(["stages", *options, "--cache", str(tmp_path), "--json", str(path)]) == 0, capsys.readouterr().err
    figures = Record.read(path).figures
    assert {"stages.chain.vs_example", "stages.chain.linear.float32.us_per_image"} <= figures.keys()
