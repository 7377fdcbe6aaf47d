"""The figures and targets of the suite, loaders that fail, and the images of the installed loaders."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.loader import runs, suite
from benchmarks.loader.loaders import LOADERS
from benchmarks.loader.runs import Run
from benchmarks.peers.peer import ANTIALIAS, LINEAR, Job
from tfhet import stages
from tfhet.errors import TfhetError, UsageError
from tfhet.events import ignore
from tfhet.record import Record

Image = pytest.importorskip("PIL.Image")


def taken(rate: float, memory: float, first_s: float = 1.0) -> list[Run]:
    """A warm-up round with the memory, and two measured rounds."""
    return [Run(0.0, 9.0, 9.0, memory, 20.0, {}), *2 * [Run(rate, first_s, 0.75, None, None, {})]]


def record(found: dict[str, Sequence[Run]]) -> Record:
    details = {"runs": found, "workers": dict.fromkeys(found, 2), "other_image": {"turboloader": "why"}}
    return Record("loader", suite.figures_of(found, LINEAR), {**details, "missing": {"dali": "no package"}})


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Two photos of one size, whose crop is the whole image, flipped."""
    files = [tmp_path / "photos" / f"class{label}" / "photo.jpg" for label in range(2)]
    for label, file in enumerate(files):
        file.parent.mkdir(parents=True)
        draw = np.random.default_rng(label)
        coarse = Image.fromarray(draw.integers(0, 256, (12, 16, 3), np.uint8))
        noisy = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC)) + draw.normal(0.0, 6.0, (375, 500, 3))
        Image.fromarray(np.clip(np.rint(noisy), 0, 255).astype(np.uint8)).save(file, quality=92)
    still = {"scale": (1.0, 1.0), "ratio": (4 / 3, 4 / 3), "flip": 1.0}
    return Job("imagenet-train", LINEAR, "uint8", tuple(map(str, files)), 2, 1, **still)


def test_best_peer_makes_same_image_and_kind() -> None:
    found = {"tfhet": taken(900.0, 50.0), "tfhet-torch": taken(800.0, 90.0), "dataloader": taken(200.0, 300.0)}
    found |= {"dali": taken(600.0, 400.0), "turboloader": taken(800.0, 90.0)}
    figures = suite.figures_of(found, LINEAR)
    assert figures["loader.vs_best_peer"].value == pytest.approx(1.5)
    assert figures["loader.tfhet-torch_vs_dataloader"].value == pytest.approx(4.0)
    assert "another image" in str(figures["loader.tfhet_vs_turboloader"].against)
    assert figures["loader.dataloader.peak_mib"].value == 300.0
    assert figures["loader.dataloader.first_batch_s"].value == 1.0  # without the warm-up round


@pytest.mark.parametrize(
    ("ours", "is_met"),
    [
        (taken(500.0, 90.0), [True, True, True, True]),
        (taken(300.0, 90.0), [False, True, True, True]),
        (taken(500.0, 110.0), [True, True, False, True]),
        (taken(500.0, 90.0, 1.5), [True, True, True, False]),
    ],
)
def test_targets_are_met_or_missed(ours: list[Run], is_met: list[bool]) -> None:
    found = {"tfhet": ours, "tfhet-torch": ours, "dataloader": taken(200.0, 300.0)}
    assert [each for _, each in suite.targets(record(found))] == [*is_met, is_met[-1]]
    assert suite.SUITE.is_kept(record(found)) == all(is_met)
    assert not suite.SUITE.is_kept(record({"tfhet-torch": ours, "dataloader": ours}))  # tfhet itself is missing


def test_table_names_other_images_and_missing_loaders() -> None:
    found = {"tfhet": taken(900.0, 50.0), "turboloader": taken(800.0, 90.0)}
    rows = suite.rows(record(found))
    assert [row["loader"] for row in rows] == ["tfhet, NumPy arrays", "TurboLoader *"]
    assert rows[1]["tfhet / it"] == pytest.approx(1.125)
    lines = suite.SUITE.lines(record(found))
    assert "* another image: turboloader: why; it is never the best peer" in lines
    assert "missing: dali: no package" in lines


def test_unknown_peer_is_refused() -> None:
    assert [loader.name for loader in suite.wanted("none")] == ["tfhet", "tfhet-torch", "tfhet-dataset"]
    with pytest.raises(UsageError, match="dataloaders"):
        suite.wanted("dataloaders")


def test_failed_loader_is_missing(job: Job, tmp_path: Path) -> None:
    found = suite.Runs(job, 0.1, tmp_path, ignore)
    found.start(replace(LOADERS["dali"], imports=("no_such_module",)), can_install=False)
    assert found.once(replace(LOADERS["dali"], imports=("no_such_module",)), 0, 1) is None
    assert "No module named 'no_such_module'" in found.missing["dali"]


def test_memory_covers_child_processes() -> None:
    code = "import subprocess, sys; b = bytearray(2**25); b[::4096] = b'1' * 2**13; {}; print(flush=True); input()"
    child = code.format("0")
    parent = code.format(f"p = subprocess.Popen([sys.executable, '-c', {child!r}])")
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(2):
            process.stdout.readline()
        assert 2 * 2**25 < runs.memory_bytes(process.pid) < 2 * 2**25 + 2**26
        process.communicate(b"\n\n")


@pytest.mark.slow
@pytest.mark.parametrize("way", [LINEAR, ANTIALIAS])
@pytest.mark.parametrize("name", LOADERS)
def test_loader_makes_same_image(name: str, way: str, job: Job, tmp_path: Path) -> None:
    loader, made = LOADERS[name], tmp_path / "batch.npz"
    if loader.is_tfhet:
        pytest.skip("it draws its own crop")
    try:
        if loader.prepare is not None:
            runs.ask(loader, job, {"prepare": True})
        runs.ask(loader, replace(job, way=way), {"save": str(made)})
    except TfhetError as error:
        pytest.skip(str(error))
    batch = np.load(made)
    images = batch["images"] if batch["images"].shape[-1] == 3 else batch["images"].transpose(0, 2, 3, 1)
    resize = stages.compile(f"decode(); resize(224, 224, antialias={way == ANTIALIAS})")
    contents = [Path(job.files[label]).read_bytes() for label in batch["labels"]]
    apart = np.abs(images.astype(np.float32) - resize(contents)[:, :, ::-1].astype(np.float32))
    is_near = apart.mean() < 1.5 and np.percentile(apart, 99.0) < 4.0
    assert is_near == (way not in loader.other_image), (apart.mean(), np.percentile(apart, 99.0))
