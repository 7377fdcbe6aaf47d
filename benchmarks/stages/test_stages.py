"""bench/stages.py and bench/example.py: what the suite compares does the same work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import peers
from benchmarks.peers.job import ANTIALIAS, AS_WRITTEN, COMPOSED, LINEAR, Job
from benchmarks.peers.place import Place
from benchmarks.stages import peer_cases as rivals
from tfhet.bench import Case, Measurement, Sample, chain, run, stages
from tfhet.bench.chain import figures_of
from tfhet.bench.chain_form import Form, forms, shaped
from tfhet.errors import TfhetError, UsageError
from tfhet.events import Event
from tfhet.record import Record

tf = pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")

from tfhet import stages as stage_room  # noqa: E402
from tfhet.bench import plain as example  # noqa: E402
from tfhet.bench import records  # noqa: E402
from tfhet.placement import Pipeline  # noqa: E402
from tfhet.source import TFRecordSource  # noqa: E402

EXAMPLES = 37
SHAPE = (32, 32, 3)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> TFRecordSource:
    folder = tmp_path_factory.mktemp("records")
    return records.repeated_digits(folder, EXAMPLES, tmp_path_factory.mktemp("cache"))


def written(digits: TFRecordSource, chain: str, batch_size: int = 16) -> tuple[np.ndarray, np.ndarray]:
    made = example.dataset(digits.files, SHAPE, stage_room.parse(chain), batch_size)
    images, labels = zip(*made.as_numpy_iterator(), strict=True)
    return np.concatenate(images), np.concatenate(labels)


def test_the_records_are_exactly_as_many_as_asked_for_also_beyond_the_set(tmp_path: Path) -> None:
    source = records.repeated_digits(tmp_path, 1500, tmp_path / "cache")
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
    plain, plain_labels = written(digits, "dilate(3); gaussian_blur(11, 0.8); rescale(1/255)")
    assert images.shape == (EXAMPLES, *SHAPE) and images.dtype == np.float32
    assert images.min() >= 0.0 and images.max() <= 1.0
    assert (labels == plain_labels).all()
    assert sum(not np.array_equal(a, b) for a, b in zip(images, plain, strict=True)) > EXAMPLES * 0.9


def test_a_flip_alone_gives_each_image_or_its_mirror(digits: TFRecordSource) -> None:
    images, _ = written(digits, "random_flip()")
    plain, _ = written(digits, "")
    flipped = 0
    for image, before in zip(images, plain, strict=True):
        mirrored = np.array_equal(image, before[:, ::-1])
        assert mirrored or np.array_equal(image, before)
        flipped += mirrored
    assert 0 < flipped < EXAMPLES


def test_a_stage_that_the_example_does_not_know_is_named() -> None:
    class Foreign:
        name = "solarize"

    with pytest.raises(UsageError, match="no step like 'solarize'; it knows dilate"):
        example.dataset([], SHAPE, [Foreign()], 1)  # type: ignore[list-item]


def taken(name: str, cpu_s: float) -> Measurement:
    return Measurement(name, "image", 1, (), (Sample(1.0, cpu_s), Sample(1.0, cpu_s)))


def entry(name: str, chain: str, way: str, dtype: str) -> rivals.Entry:
    peer, job = peers.get(name), Job(chain, way, dtype, (), 1, 1)
    case = f"{name} {way}" if way in (AS_WRITTEN, COMPOSED) else f"{name} {way} {dtype}"
    return rivals.Entry(peer, job, Case(case, print))


def test_the_figures_of_a_small_chain_carry_the_names_that_were_agreed() -> None:
    names = {"example": 40.0, "tfhet": 1.0, "decode": 0.5, "dilate alone": 0.1}
    names |= {"opencv as-written": 3.0, "opencv composed": 1.5}
    entries = [entry("opencv", "aws-cifar", way, "float32") for way in (AS_WRITTEN, COMPOSED)]
    measured = {name: taken(name, cpu_s) for name, cpu_s in names.items()}
    figures = figures_of("aws-cifar", measured, entries=entries, alone={"dilate": "dilate alone"}, cores=2)
    prefix = "stages.aws-cifar."
    assert [name.removeprefix(prefix) for name in figures] == [
        "vs_example",
        "vs_opencv",
        "vs_best_peer",
        "us_per_image",
        "examples_per_s_core",
        "example_us_per_image",
        "opencv.as-written.us_per_image",
        "opencv.as-written.examples_per_s_core",
        "opencv.as-written.ratio",
        "opencv.composed.us_per_image",
        "opencv.composed.examples_per_s_core",
        "opencv.composed.ratio",
        "decode_us",
        "dilate_us",
    ]
    assert figures[f"{prefix}vs_example"].value == pytest.approx(40.0)
    assert figures[f"{prefix}vs_example"].against == "the example as written"
    assert figures[f"{prefix}vs_opencv"].value == pytest.approx(1.5)
    assert figures[f"{prefix}vs_opencv"].against == "OpenCV, composed"
    assert figures[f"{prefix}examples_per_s_core"].value == pytest.approx(0.5)


def test_a_peer_is_compared_only_with_what_resizes_and_ends_as_it_does() -> None:
    forms = tuple(Form(way, dtype) for way in (LINEAR, ANTIALIAS) for dtype in ("uint8", "float32"))
    times = dict(zip(forms, (1.0, 2.0, 4.0, 8.0), strict=True))
    measured = {f"tfhet {form.words}": taken(f"tfhet {form.words}", times[form]) for form in forms}
    measured |= {"crop decode": taken("crop decode", 0.8), "decode": taken("decode", 0.1)}
    entries = [
        entry("opencv", "imagenet-train", LINEAR, "float32"),
        entry("pillow", "imagenet-train", ANTIALIAS, "uint8"),
    ]
    measured |= {"opencv linear float32": taken("", 6.0), "pillow antialias uint8": taken("", 8.0)}
    figures = figures_of("imagenet-train", measured, forms=forms, entries=entries)
    prefix = "stages.imagenet-train."
    assert figures[f"{prefix}vs_opencv"].value == pytest.approx(3.0)
    assert figures[f"{prefix}vs_pillow"].value == pytest.approx(2.0)
    assert figures[f"{prefix}vs_best_peer"].value == pytest.approx(2.0)
    assert figures[f"{prefix}vs_best_peer"].against == "Pillow, torchvision's steps, antialias uint8"
    assert figures[f"{prefix}over_crop_decode"].value == pytest.approx(1.25)
    assert figures[f"{prefix}linear.float32.us_per_image"].unit == "us"
    assert figures[f"{prefix}crop_decode_us"].value == pytest.approx(0.8e6)


def test_a_chain_on_photos_is_measured_in_four_forms_and_each_is_what_it_says(tmp_path: Path) -> None:
    pipeline = Pipeline(records.photos(3, cache=tmp_path), "imagenet-train", 2)
    assert forms(pipeline) == tuple(Form(w, d) for w in (LINEAR, ANTIALIAS) for d in ("uint8", "float32"))
    levels = shaped(pipeline, Form(ANTIALIAS, "uint8"))
    assert [stage.name for stage in levels.stages] == ["decode", "random_resized_crop", "random_flip"]
    assert [getattr(stage, "antialias", None) for stage in levels.stages] == [None, True, None]
    assert shaped(pipeline, Form(LINEAR, "float32")).output.dtype == "float32"


def test_peers_get_the_same_images_as_files(tmp_path: Path, digits: TFRecordSource) -> None:
    source = records.photos(3, cache=tmp_path)
    (tmp_path / "files").mkdir()
    files = records.as_files(source, tmp_path / "files")
    contents = {Path(file).read_bytes() for file in files}
    assert len(contents) == 3 and all(content.startswith(b"\xff\xd8") for content in contents)
    (array,) = records.as_files(digits, tmp_path)
    assert np.load(array).shape == (EXAMPLES, *SHAPE)


def test_a_missing_peer_is_named_in_the_record_and_below_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Event] = []
    monkeypatch.setattr(Place, "missing", lambda self: "ModuleNotFoundError: No module named 'cv2'")
    task = rivals.Task("aws-cifar", (), 1, 1, 1)
    with rivals.started(task, heard.append) as found:
        assert found.entries == [] and found.missing == {"opencv": "ModuleNotFoundError: No module named 'cv2'"}
    assert [(event.name, event.fields["peer"]) for event in heard] == [("peer.missing", "opencv")]
    record = Record.of("stages.x", {}, details={"peers_missing": found.missing})
    assert stages.SUITE.notes is not None
    assert stages.SUITE.notes(record) == [
        "missing: peer opencv: ModuleNotFoundError: No module named 'cv2'",
        "tfhet bench stages --peers install installs what a package index has",
    ]


def test_a_peer_that_fails_while_it_prepares_is_left_out_and_named(tmp_path: Path) -> None:
    task = rivals.Task("imagenet-train", (str(tmp_path / "x.jpg"),), 1, 1, 1, option="pillow")
    with rivals.started(task, lambda event: None) as found:
        assert [entry.key for entry in found.entries] == ["pillow.antialias.uint8", "pillow.antialias.float32"]
        with pytest.raises(TfhetError, match="x.jpg"):
            found.entries[0].case.run(found.entries[0].case.begin(found.entries[0].case.prepare()))


def test_peers_are_chosen_by_name() -> None:
    assert rivals.wanted("none") == ()
    assert rivals.wanted("") == rivals.wanted("install") == peers.names()
    assert rivals.wanted("dali, opencv") == ("dali", "opencv")
    with pytest.raises(UsageError, match="unknown peer 'x'"):
        rivals.wanted("x")


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
    assert record.details["peers"] == record.details["peers_missing"] == {}


def test_the_suite_measures_a_chain_on_photos_beside_a_peer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("PIL")
    monkeypatch.setattr(chain, "ALONE_IMAGES", {True: 1, False: 1})
    path, plot = tmp_path / "stages.json", tmp_path / "stages.svg"
    options = ["--chain", "imagenet-eval", "--repeats", "1", "--warmup", "0", "--examples", "3", "--batch_size", "2"]
    options += ["--peers", "pillow", "--threads", "1", "--cache", str(tmp_path)]
    code = run(["stages", *options, "--json", str(path), "--plot", str(plot)])
    assert code == 0, capsys.readouterr().err
    record = Record.read(path)
    assert {"stages.imagenet-eval.vs_best_peer", "stages.imagenet-eval.vs_pillow"} <= set(record.figures)
    assert record.figures["stages.imagenet-eval.pillow.antialias.uint8.us_per_image"].value > 0.0
    assert set(record.details["peers"]["pillow"]) == {"PIL"}
    assert "pillow antialias float32" in plot.read_text() or plot.stat().st_size > 1000


def test_an_unknown_chain_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stages", "--chain", "nope"]) == 2
    assert "aws-cifar" in capsys.readouterr().err
