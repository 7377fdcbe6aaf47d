from __future__ import annotations

import importlib.metadata
import sys
import types
from dataclasses import dataclass

import pytest

from tfhet import stages
from tfhet.errors import UsageError
from tfhet.stages import registry

OWN = ("dilate", "gaussian_blur", "random_flip", "random_rotation", "random_zoom", "rescale")


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


def test_the_table_holds_the_stages_of_the_package():
    assert set(OWN) <= set(stages.names())
    assert stages.get("dilate") is stages.Dilate


def test_an_unknown_stage_is_refused_with_the_known_names():
    with pytest.raises(UsageError, match="unknown stage 'dilated'; known: .*dilate, .*gaussian_blur"):
        stages.get("dilated")


def test_stages_are_read_from_text_by_name_or_in_the_order_of_their_fields():
    read = stages.parse("dilate(5); gaussian_blur(size=3, sigma=2)\n random_flip(False, True);rescale")
    assert read == (
        stages.Dilate(5),
        stages.GaussianBlur(3, 2.0),
        stages.RandomFlip(horizontal=False, vertical=True),
        stages.Rescale(),
    )


def test_text_of_stages_names_what_differs_from_the_defaults_and_reads_back():
    chain = (stages.Dilate(), stages.GaussianBlur(sigma=1.5, padding="SYMMETRIC"), stages.Rescale(1 / 127.5, -1))
    assert stages.text(chain) == (
        "dilate(); gaussian_blur(sigma=1.5, padding='SYMMETRIC'); rescale(scale=0.00784313725490196, offset=-1.0)"
    )
    assert stages.parse(stages.text(chain)) == chain
    assert stages.parse(stages.text(())) == ()


def test_a_quotient_may_stand_for_its_value():
    assert stages.parse("rescale(1/255)") == (stages.Rescale(1 / 255),)


@pytest.mark.parametrize("name", sorted(stages.CHAINS))
def test_every_named_chain_reads_by_its_name_and_fits_rgb_images(name):
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


def test_the_aws_chain_is_that_of_the_published_example():
    assert stages.chain("aws-cifar") == (
        stages.Dilate(size=3),
        stages.GaussianBlur(size=11, sigma=0.8),
        stages.Rescale(scale=1 / 255),
        stages.RandomFlip(horizontal=True, vertical=False),
        stages.RandomRotation(factor=0.1),
        stages.RandomZoom(factor=0.1),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("emboss()", "unknown stage 'emboss'; known: .*dilate"),
        ("dilate(width=3)", "unknown argument of stage dilate 'width'; known: size"),
        ("dilate(**{'size': 3})", "unknown argument of stage dilate None"),
        ("dilate(3, size=3)", "size is given twice"),
        ("dilate(3, 4)", r"dilate takes 1 arguments \(size\), not 2"),
        ("dilate(size=n)", "stage dilate: 'n' is not a literal value"),
        ("dilate(size=open('/etc/passwd'))", "is not a literal value"),
        ("rescale(1/0)", "stage rescale: '1 / 0' is not a literal"),
        ("dilate(", "cannot read the stages 'dilate\\('"),
        ("aws-cifra", "'aws - cifra' .* neither a stage .* nor a chain .*aws-cifar"),
        ("import os", "'import os' .* neither a stage"),
        ("os.system('true')", "neither a stage"),
    ],
)
def test_text_that_cannot_be_read_is_refused_with_what_is_known(text, complaint):
    with pytest.raises(UsageError, match=complaint):
        stages.parse(text)


def test_an_unknown_chain_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="unknown chain 'imagenet'; known: aws-cifar, digits, .*none"):
        stages.chain("imagenet")


def test_a_decorated_class_is_known_by_its_name(table):
    @stages.register("swirl")
    class Swirl(stages.Stage):
        strength: float = 1.0

    assert stages.parse("swirl(0.5)") == (Swirl(0.5),)
    assert stages.text((Swirl(0.5),)) == "swirl(strength=0.5)"
    assert hash(Swirl(0.5)) == hash(Swirl(0.5)) != hash(Swirl())


def test_a_class_that_is_a_dataclass_stays_as_it_is(table):
    @stages.register("swirl")
    @dataclass(frozen=True, repr=False)
    class Swirl(stages.Stage):
        strength: float = 1.0

    assert stages.parse("swirl(0.5)") == (Swirl(0.5),)
    assert "strength" not in repr(Swirl())


def test_a_missing_argument_without_a_default_is_named(table):
    @stages.register("crop")
    class Crop(stages.Stage):
        edge: int

    with pytest.raises(UsageError, match="stage crop: .*'edge'"):
        stages.parse("crop()")
    assert stages.text((Crop(4),)) == "crop(edge=4)"


def test_a_name_that_is_taken_is_refused_with_its_owner(table):
    with pytest.raises(UsageError, match=r"'dilate' is taken by tfhet\.stages\.filters\.Dilate"):
        stages.register("dilate")(type("Mine", (stages.Stage,), {}))
    with pytest.raises(UsageError, match="not an identifier"):
        stages.register("di-late")


def test_a_stage_outside_the_registry_has_no_text():
    with pytest.raises(UsageError, match="not in the registry"):
        stages.text((type("Unlisted", (stages.Stage,), {})(),))


def test_a_plugin_is_loaded_when_its_name_is_first_asked_for(table, monkeypatch):
    plug_in(monkeypatch, swirl=dataclass(frozen=True)(type("Swirl", (stages.Stage,), {})))
    assert "swirl" not in registry._table
    assert stages.get("swirl").name == "swirl"
    assert "swirl" in stages.names()


def test_bad_plugins_are_logged_by_name_and_do_not_hide_the_good_ones(table, monkeypatch, caplog):
    good = dataclass(frozen=True)(type("Swirl", (stages.Stage,), {}))
    thief = dataclass(frozen=True)(type("Thief", (stages.Stage,), {}))
    plug_in(monkeypatch, dilate=thief, no_stage=int, swirl=good)
    monkeypatch.delattr(sys.modules["somebodys_stages"], "no_stage")
    stages.names()
    assert [record.args[1].split(" = ")[0] for record in caplog.records] == ["dilate", "no_stage"]
    assert "no_stage = somebodys_stages:no_stage: AttributeError" in caplog.text
    assert stages.get("swirl") is good
    assert stages.get("dilate") is stages.Dilate


def test_a_plugin_that_is_no_stage_is_logged_with_the_reason(table, monkeypatch, caplog):
    plug_in(monkeypatch, no_stage=int)
    stages.names()
    assert "somebodys_stages:no_stage: UsageError: int is not a subclass of tfhet.stages.Stage" in caplog.text
