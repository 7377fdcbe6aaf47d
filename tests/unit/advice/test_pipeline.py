"""advice/pipeline.py: each rule finds what it should, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tfhet.advice import of_pipeline, pipeline as rules
from tfhet.profile import NATIVE, Cost, Profile, Stored


def profile(*parts: dict[str, Any]) -> Profile:
    """Each part: name, `us`, and other fields of a Cost."""
    total, costs = 0.0, []
    for part in parts:
        total += part["us"]
        rest = {name: value for name, value in part.items() if name != "us"}
        costs.append(Cost(cumulative_us=(total, total, total), **rest))
    return Profile("test", tuple(costs))


SOURCE = {"name": "source", "us": 2.0, "bytes_per_example": 3000, "examples": 32}


SINGLE = {**SOURCE, "examples": 1}
BATCH = {"name": "batch", "us": 1.0, "kind": "Batch", "examples": 32}
MAPS = [{"name": f"map {op}", "us": 30.0, "kind": "ParallelMap", "ops": (op,)} for op in ("ReverseV2", "AdjustHue")]
DECODE = {"name": "1 Map load", "us": 300.0, "ops": ("DecodeJpeg",)}
CROP = {"name": "2 Map crop", "us": 50.0, "ops": ("CropAndResize",)}
OF_NATIVE = {"kind": NATIVE, "examples": 32, "dtype": "uint8"}
READ = {**OF_NATIVE, "name": "read", "us": 5.0, "bytes_per_example": 900, "dtype": "string"}
NATIVE_DECODE = {**OF_NATIVE, "name": "decode(); resize()", "us": 40.0, "bytes_per_example": 3000}
NORMALIZE = {**OF_NATIVE, "name": "normalize()", "us": 8.0, "bytes_per_example": 12000, "dtype": "float32"}


@pytest.mark.parametrize(
    ("rule", "parts", "kind", "saves_us", "named"),
    [
        (
            rules.python_inside,
            [SOURCE, {"name": "map noise", "us": 8.0, "ops": ("PyFunc", "Add")}],
            *("python_inside", 8.0, ["'map noise'", "8.0 us of 10.0"]),
        ),
        (
            rules.single_images,
            [SINGLE, *MAPS, BATCH],
            *("single_images", 2 * rules.CALL_US * 31 / 32, ["2 maps", "60.0 us of 63.0", "random_flip, random_hue"]),
        ),
        (
            rules.single_images,
            [SINGLE, {"name": "map", "us": 30.0, "kind": "Map"}, BATCH],
            *("single_images", rules.CALL_US * 31 / 32, ["1 map"]),
        ),
        (
            rules.wide_wire,
            [SOURCE, {"name": "rescale()", "us": 1.5, "bytes_per_example": 12000, "examples": 32}],
            *("wide_wire", 0.0, ["'source', 3000 B", "12000 B", "4.0 times", "'rescale()'", "1.5 us"]),
        ),
        (
            rules.wide_wire,
            [{**READ, "us": 50.0}, NATIVE_DECODE, NORMALIZE],
            *("wide_wire", 0.0, ["end the pipeline after 'decode(); resize()', 3000 B", "on the accelerator", "4.0"]),
        ),
        (
            rules.dominant_part,
            [READ, NATIVE_DECODE, NORMALIZE],
            *("dominant_part", 20.0, ["'decode(); resize()'", "decode(reduced=True)"]),
        ),
        (
            rules.dominant_part,
            [{**READ, "us": 90.0}, NATIVE_DECODE],
            *("dominant_source", 45.0, ["'read'", "store smaller images"]),
        ),
        (
            rules.whole_then_crop,
            [SOURCE, DECODE, CROP],
            "whole_then_crop",
            100.0,
            ["'1 Map load'", "300.0 us of 352.0"],
        ),
        (
            rules.sequential_maps,
            [SOURCE, {"name": "map", "us": 50.0, "parallel": False}],
            *("sequential_map", 0.0, ["20000 examples per second"]),
        ),
        (
            rules.dominant_part,
            [{**SOURCE, "us": 30.0}, {"name": "stage", "us": 10.0}],
            *("dominant_source", 15.0, ["'source'", "75%", "30.0 us of 40.0"]),
        ),
        (
            rules.dominant_part,
            [SOURCE, {"name": "blur", "us": 18.0, "ops": ("DepthwiseConv2dNative",)}],
            *("dominant_part", 9.0, ["'blur'", "90%", "gaussian_blur"]),
        ),
    ],
)
def test_rule_finds_and_estimates(rule, parts, kind, saves_us, named):
    (found,) = rule(profile(*parts))
    assert found.kind == kind and found.saves_us == pytest.approx(saves_us)
    assert all(part in found.clause for part in named), found.clause


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        (rules.python_inside, [SOURCE, {"name": "map", "us": 8.0, "ops": ("Add",)}]),
        (rules.single_images, [SOURCE, {"name": "map", "us": 30.0, "kind": "Map", "examples": 32}]),
        (rules.wide_wire, [SOURCE]),
        (rules.wide_wire, [{**READ, "us": 90.0}, {**NATIVE_DECODE, "us": 9.0}]),  # batches are not of files
        (  # the data group exists for this work
            rules.wide_wire,
            [{**SOURCE, "us": 100.0}, {"name": "decode()", "us": 500.0, "bytes_per_example": 150000, "examples": 32}],
        ),
        (rules.whole_then_crop, [SOURCE, DECODE]),
        (rules.whole_then_crop, [SOURCE, {"name": "decode(); random_resized_crop()", "us": 300.0}]),
        (rules.sequential_maps, [SOURCE, {"name": "map", "us": 50.0, "parallel": True}]),
        (rules.dominant_part, [SOURCE]),
    ],
)
def test_rule_finds_nothing(rule, parts):
    assert not list(rule(profile(*parts)))


def test_best_three_findings_are_returned():
    bad = {"us": 40.0, "ops": ("PyFunc",), "parallel": False, "kind": "Map", "bytes_per_example": 9000, "examples": 1}
    found = of_pipeline(
        profile(SINGLE, {**bad, "name": "a"}, {**bad, "name": "b"}, {**BATCH, "bytes_per_example": 9000})
    )
    savings = [finding.saves_us for finding in found]
    assert len(found) == 3 and savings == sorted(savings, reverse=True)


def test_stored_images_have_a_price():
    decoding = profile(READ, NATIVE_DECODE, NORMALIZE)
    assert list(rules.stored_images(decoding)) == []
    found = replace(decoding, stored=Stored(64, 38.0, 12.0, 1000, 5500))
    (finding,) = rules.stored_images(found)
    assert (finding.kind, finding.saves_us) == (rules.STORED, 26.0)
    for part in ("12.0 us", "38.0", "5,500 B", "1,000 B", "5.5 times", "64 images", "--store yuv420"):
        assert part in finding.clause
    assert list(rules.stored_images(replace(found, stored=Stored(64, 38.0, 36.0, 1000, 5500)))) == []
