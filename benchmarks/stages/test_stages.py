"""The figures of the suite, and peers that fail."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.job_scripts import plain
from benchmarks.peers import process
from benchmarks.peers.peer import ANTIALIAS, LINEAR, Job
from benchmarks.peers.process import MODULES, PeerProcess, peer_named
from benchmarks.stages import forms as shapes, peer_cases
from benchmarks.stages.forms import Form, forms, shaped
from benchmarks.stages.peer_cases import Entry
from benchmarks.stages.suite import SUITE, as_files, figures_of
from tfhet.bench import Case, Measurement, Sample, chain, measure
from tfhet.cli.bench import run_suite
from tfhet.errors import TfhetError
from tfhet.events import Event
from tfhet.record import Record

pytest.importorskip("tensorflow")
pytest.importorskip("sklearn")

from tfhet.pipeline import Pipeline
from tfhet.source import TFRecordSource, digits as digit_data, photos as photo_data
from tfhet.stages import compile, parse

BROKEN = """
import os
from benchmarks.peers.peer import Peer

passes = []

def build(job):
    {build}
    def run():
        passes.append(0)
        {run}
        return iter([b"abc"])
    return run

PEER = Peer("broken", "Broken", ({module!r},), ("/nowhere/package",), {{{chain!r}: ("",)}}, build)
"""
FAILURES = {
    "missing": {"module": "no_such_module"},
    "raising at start": {"build": "raise ValueError(job.chain)"},
    "raising in a pass": {"run": "raise ValueError(job.chain)"},
    "without images": {"run": "return iter(())"},
    "dead": {"run": "os._exit(3)"},
    "dead in a later round": {"run": "len(passes) < 3 or os._exit(3)"},
}


@pytest.fixture
def break_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """`break_peer(kind, chain)`: adds the peer `broken`, which runs the chain and fails in that way."""

    def add(kind: str, chain: str) -> None:
        module = f"broken_{kind}_{chain}".translate(str.maketrans(" -", "__"))
        text = BROKEN.format(**{"build": "", "run": "", "module": "json", "chain": chain, **FAILURES[kind]})
        (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setitem(process.MODULES, "broken", module)

    return add


def course(name: str, pipeline: Pipeline | None = None) -> chain.Course:
    return chain.Course(name, pipeline, 1, None, 1)  # type: ignore[arg-type]


def taken(cpu_s: float) -> Measurement:
    return Measurement("", "image", 1, (), (Sample(1.0, cpu_s), Sample(1.0, cpu_s)))


def entry(name: str, form: Form) -> Entry:
    return Entry(peer_named(name), form, Case(f"{name} {form.words}".strip(), print))


def test_figures_of_a_chain_on_small_images() -> None:
    cpu_s = {"example": 40.0, "tfhet": 1.0, shapes.IN_MEMORY: 0.75, "decode": 0.5, "dilate alone": 0.1}
    cpu_s |= {"opencv": 3.0, "tf-batched": 1.5}
    entries = [entry("opencv", Form()), entry("tf-batched", Form())]
    measured = {name: taken(value) for name, value in cpu_s.items()}
    found = figures_of(course("aws-cifar"), (Form(),), measured, entries, {"dilate": Case("dilate alone", print)})
    assert {name.removeprefix("stages.aws-cifar."): figure.value for name, figure in found.items()} == {
        "vs_example": pytest.approx(40.0),
        "vs_opencv": pytest.approx(4.0),  # both in memory
        "vs_tf-batched": pytest.approx(2.0),
        "vs_best_peer": pytest.approx(2.0),
        "example_us_per_image": pytest.approx(40e6),
        "in_memory_us_per_image": pytest.approx(0.75e6),
        "us_per_image": pytest.approx(1e6),
        "opencv.us_per_image": pytest.approx(3e6),
        "tf-batched.us_per_image": pytest.approx(1.5e6),
        "decode_us": pytest.approx(0.5e6),
        "dilate_us": pytest.approx(0.1e6),
    }


def test_peer_is_compared_with_its_own_form() -> None:
    every = tuple(Form(way, dtype) for way in (LINEAR, ANTIALIAS) for dtype in ("uint8", "float32"))
    measured = {form.case: taken(cpu_s) for form, cpu_s in zip(every, (1.0, 2.0, 4.0, 8.0), strict=True)}
    measured |= {"decode": taken(0.1), "opencv linear float32": taken(6.0), "dali antialias uint8": taken(8.0)}
    entries = [entry("opencv", Form(LINEAR, "float32")), entry("dali", Form(ANTIALIAS, "uint8"))]
    found = figures_of(course("imagenet-train"), every, measured, entries, {})
    values = {name: found[f"stages.imagenet-train.vs_{name}"].value for name in ("opencv", "dali", "best_peer")}
    assert values == {"opencv": pytest.approx(3.0), "dali": pytest.approx(2.0), "best_peer": pytest.approx(2.0)}
    assert found["stages.imagenet-train.vs_best_peer"].against == "DALI on the CPU, antialias uint8"


def test_tfhet_outside_tensorflow_has_its_own_ratios() -> None:
    form = Form(LINEAR, "uint8")
    cpu_s = {form.case: 2.0, "decode": 0.1, "tfhet numpy linear uint8": 1.0, "tf-image linear uint8": 3.0}
    cpu_s |= {"opencv linear uint8": 4.0, "turboloader linear uint8": 2.5}
    entries = [entry(name, form) for name in ("numpy", "tf-image", "opencv", "turboloader")]
    entries[0] = replace(entries[0], case=Case("tfhet numpy linear uint8", print))
    measured = {name: taken(value) for name, value in cpu_s.items()}
    found = figures_of(course("imagenet-train"), (form,), measured, entries, {})
    assert {name: round(figure.value, 6) for name, figure in found.items() if "vs_" in name} == {
        "stages.imagenet-train.vs_tf-image": 1.5,
        "stages.imagenet-train.vs_opencv": 2.0,
        "stages.imagenet-train.vs_turboloader": 1.25,
        "stages.imagenet-train.vs_best_peer": 1.5,
        "stages.imagenet-train.numpy_vs_tf-image": 3.0,
        "stages.imagenet-train.numpy_vs_opencv": 4.0,
        "stages.imagenet-train.numpy_vs_turboloader": 2.5,
        "stages.imagenet-train.numpy_vs_best_peer": 4.0,  # outside TensorFlow, with the same image
    }
    assert "another image" in str(found["stages.imagenet-train.vs_turboloader"].against)
    assert found["stages.imagenet-train.numpy.linear.uint8.us_per_image"].value == pytest.approx(1e6)


@pytest.mark.parametrize("name", [name for name in MODULES if peer_named(name).is_tfhet])
@pytest.mark.parametrize("chain_name", ["imagenet-train", "aws-cifar"])
def test_tfhet_outside_tensorflow_makes_images_of_the_form(name: str, chain_name: str, tmp_path: Path) -> None:
    if chain_name == "aws-cifar":
        source = digit_data.repeated(tmp_path, 5, tmp_path)
    else:
        source = TFRecordSource.from_directory(photo_data.photos(count=5, cache=tmp_path))
    pipeline = Pipeline(source, chain_name, 2)
    files = as_files(course(chain_name, pipeline), tmp_path)
    images = np.load(files[0]) if chain_name == "aws-cifar" else [Path(file).read_bytes() for file in files]
    peer = PeerProcess(peer_named(name))
    with contextlib.closing(peer):
        for form in forms(pipeline):
            try:
                job = peer.prepare(Job(chain_name, form.way, form.dtype, files, 2, 2))
            except TfhetError as error:
                if "ModuleNotFoundError" not in str(error):
                    raise
                pytest.skip(str(error))
            expected = compile(shaped(pipeline, form).stages)(images, ids=np.arange(5))
            assert np.array_equal(peer.images(job), expected), form


def test_example_is_left_out_without_addons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain.importlib.util, "find_spec", lambda name: None)
    assert "Addons" in plain.missing(parse("dilate(3); gaussian_blur(11, 0.8)"))
    assert plain.missing(parse("dilate(3); random_flip()")) == ""


def test_notes_name_what_is_missing_and_other_images() -> None:
    details = {"peers_missing": {"example": "no Addons"}, "peers_other_image": {"turboloader": "reduced"}}
    notes = list(SUITE.notes(Record.of("stages.x", {}, details=details, command=())))
    assert notes == [
        "another image: peer turboloader: reduced; it is not counted in best_peer",
        "missing: example: no Addons",
    ]


def test_chain_on_photos_has_four_forms(tmp_path: Path) -> None:
    photos = TFRecordSource.from_directory(photo_data.photos(count=3, cache=tmp_path))
    pipeline = Pipeline(photos, "imagenet-train", 2)
    assert forms(pipeline) == tuple(Form(w, d) for w in (LINEAR, ANTIALIAS) for d in ("uint8", "float32"))
    levels = shaped(pipeline, Form(ANTIALIAS, "uint8"))
    resizing = [(stage.name, getattr(stage, "antialias", None)) for stage in levels.stages]
    assert resizing == [("decode", None), ("random_resized_crop", True), ("random_flip", None)]
    assert shaped(pipeline, Form(LINEAR, "float32")).output.dtype == "float32"


def test_peers_get_same_images_as_files(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    photos = TFRecordSource.from_directory(photo_data.photos(count=3, cache=tmp_path))
    files = as_files(course("photos", Pipeline(photos, "imagenet-train", 2)), tmp_path / "files")
    contents = {Path(file).read_bytes() for file in files}
    assert len(contents) == 3 and all(content.startswith(b"\xff\xd8") for content in contents)
    digits = digit_data.repeated(tmp_path, 5, tmp_path)
    (array,) = as_files(course("digits", Pipeline(digits, "digits", 2)), tmp_path)
    assert np.load(array).shape == (5, 32, 32, 3)


@pytest.mark.parametrize("kind", FAILURES)
def test_failing_peer_is_named_and_left_out(kind: str, tmp_path: Path, break_peer: Callable[[str, str], None]) -> None:
    break_peer(kind, "chain")
    events: list[Event] = []
    job, where = Job("chain", "", "float32", (), 1, 1), {"can_install": kind == "missing", "cache": tmp_path}
    with peer_cases.started(["broken"], job, 3, events.append, **where) as found:
        cases = [Case("ours", lambda _: sum(range(1000))), *(entry.case for entry in found.entries)]
        assert (len(cases) == 2) == (kind == "dead in a later round")
        assert len(measure(cases, repeats=3, warmup=0)["ours"].samples) == 3
        assert list(found.missing) == ["broken"] and found.entries == []
    assert [(event.name, event.fields["case"]) for event in events] == [("case.missing", "peer broken")]


def test_suite_measures_chain_and_names_missing_peer(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    break_peer: Callable[[str, str], None],
) -> None:
    monkeypatch.setattr(chain, "ALONE_IMAGES", {True: 1, False: 1})
    break_peer("missing", "imagenet-eval")
    options = ["--chain", "imagenet-eval", "--repeats", "1", "--warmup", "0", "--examples", "3", "--batch_size", "2"]
    options += ["--peers", "tf-image,broken", "--threads", "1", "--cache", str(tmp_path)]
    code = run_suite(SUITE, [*options, "--json", str(tmp_path / "record.json")], "python -m benchmarks.stages")
    printed = capsys.readouterr()
    assert code == 0, printed.err
    record = Record.read(tmp_path / "record.json")
    assert {"vs_best_peer", "vs_tf-image", "numpy_vs_tf-image", "numpy.linear.uint8.us_per_image"} <= {
        name.removeprefix("stages.imagenet-eval.") for name in record.figures
    }
    assert set(record.details["peers"]) == {"numpy", "tf-image"} and set(record.details["peers_missing"]) == {"broken"}
    assert "peer broken" in printed.out
