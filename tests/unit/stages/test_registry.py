from __future__ import annotations

import contextlib
import importlib.metadata
import sys
import types
from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from tfhet import stages
from tfhet.errors import UsageError
from tfhet.stages import registry


@pytest.fixture
def table(monkeypatch):
    """A registry that the test may change, with no plugins loaded."""
    monkeypatch.setattr(registry, "_table", dict(registry._table))
    monkeypatch.setattr(registry, "_plugins_loaded", False)


def plug_in(monkeypatch, **members: object) -> None:
    """Makes each member an entry point of the name, all in one importable module."""
    module = types.ModuleType("somebodys_stages")
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, "somebodys_stages", module)
    entries = [importlib.metadata.EntryPoint(name, f"somebodys_stages:{name}", registry.GROUP) for name in members]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: entries if group == registry.GROUP else [])


def test_text_gives_fields_by_name_or_order():
    read = stages.parse(
        "dilate(5); gaussian_blur(size=3, sigma=2)\n random_flip(False, True);rescale; rescale(1/127.5);"
        " random_erasing(scale=[0.1, 0.2]); normalize([0.5], 0.25)"
    )
    assert read == (
        stages.Dilate(5),
        stages.GaussianBlur(3, 2.0),
        stages.RandomFlip(horizontal=False, vertical=True),
        stages.Rescale(),
        stages.Rescale(1 / 127.5),
        stages.RandomErasing(scale=(0.1, 0.2)),
        stages.Normalize((0.5,), (0.25,)),
    )
    assert hash(stages.Normalize([0.5], 1)) == hash(stages.Normalize((0.5,), (1.0,)))


def test_text_names_fields_that_are_not_defaults():
    chain = (stages.Dilate(), stages.GaussianBlur(sigma=1.5, padding="SYMMETRIC"), stages.Rescale(1 / 127.5, -1))
    assert stages.text(chain) == (
        "dilate(); gaussian_blur(sigma=1.5, padding='SYMMETRIC'); rescale(scale=0.00784313725490196, offset=-1.0)"
    )
    assert stages.parse(stages.text(())) == ()


# fmt: off
CHANGED = (
    "affine(10.0, scale=2.0, fill_mode='constant')", "cast('uint8')", "center_crop(224, 192)", "cutout(5, 2.0)",
    "normalize((0.4, 0.5, 0.6), (0.1, 0.2, 0.3))", "pad(4, 4, 4, 4, mode='reflect')", "pad(height=32, width=32)",
    "probability(gaussian_blur(5, 1.0), 0.25)", "randaugment(3, magnitude=5, fill_value=7.0)",
    "random_affine(30.0, shear=0.0)", "random_crop(32, 32, padding=4)", "random_erasing(0.2, (0.1, 0.2), (0.5, 2.0))",
    "random_resized_crop(160, 128, scale_low=0.25, ratio_low=0.5)", "random_translation(0.2, 0.0, fill_mode='wrap')",
    "resize(32, 32, 'area')", "resized_center_crop(160, 128, 182, antialias=True)", "trivialaugment(9.0)",
)
# fmt: on


def test_every_kind_of_field_reads_back():
    chain = stages.parse("; ".join(CHANGED))
    assert stages.parse(stages.text(chain)) == chain
    for stage in chain:
        assert stage != type(stage)(*([stage.stage] if stage.name == "probability" else [])), stage


@given(st.floats(1e-6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 1))
def test_numbers_read_back_exactly(scale, offset, chance):
    held = stages.OneOf((stages.Probability(stages.Rescale(scale, offset), chance), stages.Rescale()), (scale, 1.0))
    assert stages.parse(stages.text((held,))) == (held,)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(UsageError):
        stages.parse(text)


@pytest.mark.parametrize("name", sorted(stages.CHAINS))
def test_named_chain_fits_rgb_images(name):
    chain = stages.parse(f" {name} ")
    assert chain == stages.chain(name)
    from_files = chain[0] == stages.parse("decode()")[0]
    spec = stages.ImageSpec(32, 32, 3, "uint8", 0.0, 255.0)
    if from_files:
        spec = stages.ImageSpec(None, None, 3, "encoded", 0.0, 255.0)
    for stage in chain:
        stage.admit(spec)
        spec = stage.spec(spec)
    assert (spec.channels, spec.dtype) == (3, "float32")
    if from_files:
        assert (spec.height, spec.width) == (224, 224)
        assert -2.2 < spec.low < spec.high < 2.7  # the mean taken away, in standard deviations
    else:
        assert (spec.height, spec.width, spec.low, spec.high) == (32, 32, 0.0, 1.0)


def test_aws_chain_is_the_published_one():
    assert stages.chain("aws-cifar") == (
        stages.Dilate(size=3),
        stages.GaussianBlur(size=11, sigma=0.8),
        stages.Rescale(scale=1 / 255),
        stages.RandomFlip(horizontal=True, vertical=False),
        stages.RandomRotation(factor=0.1),
        stages.RandomZoom(factor=0.1),
    )


def test_unknown_names_are_refused_with_known_ones():
    with pytest.raises(UsageError, match="'dilated'.*dilate, .*gaussian_blur"):
        stages.get("dilated")
    with pytest.raises(UsageError, match="'imagenet'.*aws-cifar, digits, .*none"):
        stages.chain("imagenet")


def test_decorated_class_is_known_by_name(table):
    @stages.register("swirl")
    class Swirl(stages.Stage):
        strength: float = 1.0

    assert stages.parse("swirl(0.5)") == (Swirl(0.5),)
    assert stages.text((Swirl(0.5),)) == "swirl(strength=0.5)"
    assert hash(Swirl(0.5)) == hash(Swirl(0.5)) != hash(Swirl())


def test_decorated_dataclass_stays_unchanged(table):
    @stages.register("swirl")
    @dataclass(frozen=True, repr=False)
    class Swirl(stages.Stage):
        strength: float = 1.0

    assert stages.parse("swirl(0.5)") == (Swirl(0.5),)
    assert "strength" not in repr(Swirl())


def test_missing_argument_is_named(table):
    @stages.register("crop")
    class Crop(stages.Stage):
        edge: int

    with pytest.raises(UsageError, match="stage crop: .*'edge'"):
        stages.parse("crop()")
    assert stages.text((Crop(4),)) == "crop(edge=4)"


def test_taken_name_is_refused_with_its_owner(table):
    with pytest.raises(UsageError, match=r"'dilate' is taken by tfhet\.stages\.filters\.Dilate"):
        stages.register("dilate")(type("Mine", (stages.Stage,), {}))
    with pytest.raises(UsageError, match="not an identifier"):
        stages.register("di-late")


def test_unregistered_stage_has_no_text():
    with pytest.raises(UsageError, match="not in the registry"):
        stages.text((type("Unlisted", (stages.Stage,), {})(),))


def test_plugin_is_loaded_at_first_use(table, monkeypatch):
    plug_in(monkeypatch, swirl=dataclass(frozen=True)(type("Swirl", (stages.Stage,), {})))
    assert "swirl" not in registry._table
    assert stages.get("swirl").name == "swirl"
    assert "swirl" in stages.names()


def test_bad_plugins_do_not_hide_good_ones(table, monkeypatch, caplog):
    good = dataclass(frozen=True)(type("Swirl", (stages.Stage,), {}))
    thief = dataclass(frozen=True)(type("Thief", (stages.Stage,), {}))
    plug_in(monkeypatch, dilate=thief, no_stage=int, swirl=good)
    monkeypatch.delattr(sys.modules["somebodys_stages"], "no_stage")
    stages.names()
    assert [record.args[1].split(" = ")[0] for record in caplog.records] == ["dilate", "no_stage"]
    assert "no_stage = somebodys_stages:no_stage: AttributeError" in caplog.text
    assert stages.get("swirl") is good
    assert stages.get("dilate") is stages.Dilate


def test_plugin_that_is_no_stage_is_logged(table, monkeypatch, caplog):
    plug_in(monkeypatch, no_stage=int)
    stages.names()
    assert "somebodys_stages:no_stage: UsageError: int" in caplog.text
