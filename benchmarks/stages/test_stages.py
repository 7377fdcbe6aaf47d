"""What the suite adds to `tfhet bench stages`: forms, and peers beside the same chain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import peers
from benchmarks.peers.job import ANTIALIAS, AS_WRITTEN, COMPOSED, LINEAR, REDUCED, Job
from benchmarks.peers.place import Place
from benchmarks.stages import forms as shapes, peer_cases
from benchmarks.stages.forms import Form, forms, shaped
from benchmarks.stages.suite import SUITE, as_files, figures_of
from tfhet.bench import Case, Measurement, Sample, chain, run_suite
from tfhet.errors import TfhetError, UsageError
from tfhet.events import Event
from tfhet.record import Record

pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")

from tfhet.placement import Pipeline
from tfhet.source import TFRecordSource, digits as digit_data, photos as photo_data

EXAMPLES = 37
SHAPE = (32, 32, 3)


def course(name: str, cores: int = 1, pipeline: Pipeline | None = None) -> chain.Course:
    return chain.Course(name, pipeline, 1, None, cores)  # type: ignore[arg-type]


def figures(
    of: chain.Course, forms: tuple[Form, ...], measured: dict[str, Measurement], entries: list[peer_cases.Entry], *steps
):
    own = shapes.figures_of(of, forms, measured, {step: Case(f"{step} alone", print) for step in steps})
    return figures_of(of, forms, measured, entries, own)


def taken(name: str, cpu_s: float) -> Measurement:
    return Measurement(name, "image", 1, (), (Sample(1.0, cpu_s), Sample(1.0, cpu_s)))


def entry(name: str, chain: str, way: str, dtype: str) -> peer_cases.Entry:
    peer, job = peers.get(name), Job(chain, way, dtype, (), 1, 1)
    case = f"{name} {way}" if way in (AS_WRITTEN, COMPOSED) else f"{name} {way} {dtype}"
    return peer_cases.Entry(peer, job, Case(case, print))


def test_the_figures_of_a_small_chain_carry_the_names_that_were_agreed() -> None:
    names = {"example": 40.0, "tfhet": 1.0, "tfhet in memory": 0.75, "decode": 0.5, "dilate alone": 0.1}
    names |= {shapes.UNFUSED: 1.5, shapes.STOCK: 6.0}
    names |= {"opencv as-written": 3.0, "opencv composed": 1.5}
    entries = [entry("opencv", "aws-cifar", way, "float32") for way in (AS_WRITTEN, COMPOSED)]
    measured = {name: taken(name, cpu_s) for name, cpu_s in names.items()}
    found = figures(course("aws-cifar", cores=2), (Form(),), measured, entries, "dilate")
    prefix = "stages.aws-cifar."
    assert {name.removeprefix(prefix) for name in found} == {
        "vs_example",
        "by_batching",
        "by_compiling",
        "by_fusing",
        "vs_opencv",
        "vs_best_peer",
        "us_per_image",
        "in_memory_us_per_image",
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
    }
    assert found[f"{prefix}vs_example"].value == pytest.approx(40.0)
    assert found[f"{prefix}vs_example"].against == "the example as written"
    # Together they are the ratio of the example to the chain in memory.
    parts = [found[f"{prefix}by_{what}"].value for what in ("batching", "compiling", "fusing")]
    assert parts == pytest.approx([40 / 6, 6 / 1.5, 1.5 / 0.75])
    assert found[f"{prefix}vs_opencv"].value == pytest.approx(2.0)  # peers get images in memory, too
    assert found[f"{prefix}vs_opencv"].against == "OpenCV, composed"
    assert found[f"{prefix}examples_per_s_core"].value == pytest.approx(0.5)
    # OpenCV's calls for small images run on one thread, whose core is all that they take.
    assert found[f"{prefix}opencv.composed.examples_per_s_core"].value == pytest.approx(1.0)


def test_a_peer_is_compared_only_with_what_resizes_and_ends_as_it_does() -> None:
    every = tuple(Form(way, dtype) for way in (LINEAR, ANTIALIAS) for dtype in ("uint8", "float32"))
    times = dict(zip(every, (1.0, 2.0, 4.0, 8.0), strict=True))
    measured = {f"tfhet {form.words}": taken(f"tfhet {form.words}", times[form]) for form in every}
    measured |= {"crop decode": taken("crop decode", 0.8), "decode": taken("decode", 0.1)}
    entries = [
        entry("opencv", "imagenet-train", LINEAR, "float32"),
        entry("pillow", "imagenet-train", ANTIALIAS, "uint8"),
    ]
    measured |= {"opencv linear float32": taken("", 6.0), "pillow antialias uint8": taken("", 8.0)}
    found = figures(course("imagenet-train"), every, measured, entries)
    prefix = "stages.imagenet-train."
    assert found[f"{prefix}vs_opencv"].value == pytest.approx(3.0)
    assert found[f"{prefix}vs_pillow"].value == pytest.approx(2.0)
    assert found[f"{prefix}vs_best_peer"].value == pytest.approx(2.0)
    assert found[f"{prefix}vs_best_peer"].against == "Pillow, torchvision's steps, antialias uint8"
    assert found[f"{prefix}over_crop_decode"].value == pytest.approx(1.25)
    assert found[f"{prefix}linear.float32.us_per_image"].unit == "us"
    assert found[f"{prefix}crop_decode_us"].value == pytest.approx(0.8e6)


def test_a_peer_that_makes_another_picture_has_a_figure_of_its_own() -> None:
    shape = (Form(LINEAR, "uint8"),)
    entries = [entry("turbojpeg", "imagenet-train", way, "uint8") for way in (LINEAR, REDUCED)]
    measured = {"tfhet linear uint8": taken("tfhet linear uint8", 2.0), "decode": taken("decode", 0.1)}
    measured |= {"turbojpeg linear uint8": taken("", 6.0), "turbojpeg reduced uint8": taken("", 3.0)}
    found = figures(course("imagenet-train"), shape, measured, entries)
    prefix = "stages.imagenet-train."
    assert found[f"{prefix}vs_turbojpeg"].value == found[f"{prefix}vs_best_peer"].value == pytest.approx(3.0)
    assert found[f"{prefix}vs_turbojpeg_reduced"].value == pytest.approx(1.5)
    assert found[f"{prefix}vs_turbojpeg_reduced"].against == "libjpeg-turbo with OpenCV, reduced uint8, another picture"
    assert found[f"{prefix}turbojpeg.reduced.uint8.us_per_image"].value == pytest.approx(3e6)


def test_a_chain_on_photos_is_measured_in_four_forms_and_each_is_what_it_says(tmp_path: Path) -> None:
    photos = TFRecordSource.from_directory(photo_data.photos(count=3, cache=tmp_path))
    pipeline = Pipeline(photos, "imagenet-train", 2)
    assert forms(pipeline) == tuple(Form(w, d) for w in (LINEAR, ANTIALIAS) for d in ("uint8", "float32"))
    levels = shaped(pipeline, Form(ANTIALIAS, "uint8"))
    assert [stage.name for stage in levels.stages] == ["decode", "random_resized_crop", "random_flip"]
    assert [getattr(stage, "antialias", None) for stage in levels.stages] == [None, True, None]
    assert shaped(pipeline, Form(LINEAR, "float32")).output.dtype == "float32"


def test_peers_get_the_same_images_as_files(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    photos = TFRecordSource.from_directory(photo_data.photos(count=3, cache=tmp_path))
    files = as_files(course("photos", pipeline=Pipeline(photos, "imagenet-train", 2)), tmp_path / "files")
    contents = {Path(file).read_bytes() for file in files}
    assert len(contents) == 3 and all(content.startswith(b"\xff\xd8") for content in contents)
    digits = digit_data.repeated(tmp_path, EXAMPLES, tmp_path)
    (array,) = as_files(course("digits", pipeline=Pipeline(digits, "digits", 2)), tmp_path)
    assert np.load(array).shape == (EXAMPLES, *SHAPE)


def test_a_missing_peer_is_named_in_the_record_and_below_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Event] = []
    monkeypatch.setattr(Place, "missing", lambda self: "ModuleNotFoundError: No module named 'cv2'")
    task = peer_cases.Task("aws-cifar", (), 1, 1, 1, option="opencv")
    with peer_cases.started(task, heard.append) as found:
        assert found.entries == [] and found.missing == {"opencv": "ModuleNotFoundError: No module named 'cv2'"}
    assert [(event.name, event.fields["case"]) for event in heard] == [("case.missing", "peer opencv")]
    record = Record.of("stages.x", {}, details={"peers_missing": found.missing})
    assert SUITE.notes(record) == [
        "missing: peer opencv: ModuleNotFoundError: No module named 'cv2'",
        "--peers install installs what a package index has",
    ]


def test_a_peer_that_fails_while_it_prepares_is_left_out_and_named(tmp_path: Path) -> None:
    task = peer_cases.Task("imagenet-train", (str(tmp_path / "x.jpg"),), 1, 1, 1, option="pillow")
    with peer_cases.started(task, lambda event: None) as found:
        assert [entry.key for entry in found.entries] == ["pillow.antialias.uint8", "pillow.antialias.float32"]
        with pytest.raises(TfhetError, match="x.jpg"):
            found.entries[0].case.run(found.entries[0].case.begin(found.entries[0].case.prepare()))


def test_peers_are_chosen_by_name() -> None:
    assert peer_cases.wanted("none") == ()
    assert peer_cases.wanted("") == peer_cases.wanted("install") == peers.names()
    assert peer_cases.wanted("dali, opencv") == ("dali", "opencv")
    with pytest.raises(UsageError, match="unknown peer 'x'"):
        peer_cases.wanted("x")


def test_the_suite_measures_a_chain_on_photos_beside_a_peer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("PIL")
    monkeypatch.setattr(chain, "ALONE_IMAGES", {True: 1, False: 1})
    path, plot = tmp_path / "stages.json", tmp_path / "stages.svg"
    options = ["--chain", "imagenet-eval", "--repeats", "1", "--warmup", "0", "--examples", "3", "--batch_size", "2"]
    options += ["--peers", "pillow", "--threads", "1", "--cache", str(tmp_path)]
    code = run_suite(SUITE, [*options, "--json", str(path), "--plot", str(plot)], "python -m benchmarks.stages")
    assert code == 0, capsys.readouterr().err
    record = Record.read(path)
    assert {"stages.imagenet-eval.vs_best_peer", "stages.imagenet-eval.vs_pillow"} <= set(record.figures)
    assert record.figures["stages.imagenet-eval.pillow.antialias.uint8.us_per_image"].value > 0.0
    assert record.figures["stages.imagenet-eval.fused_apart"].value < 1.01
    assert set(record.details["peers"]["pillow"]) == {"PIL"}
    assert "<!-- pillow antialias float32 -->" in plot.read_text()
