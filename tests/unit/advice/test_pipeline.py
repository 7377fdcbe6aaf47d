"""advice/pipeline.py: every rule speaks where it should, with measured numbers, and is silent elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from tfhet.advice import of_pipeline, pipeline as rules
from tfhet.profile import Cost, Profile


def profile(*parts: dict[str, Any]) -> Profile:
    """Each part: name, us, and what else a Cost has."""
    total, costs = 0.0, []
    for part in parts:
        total += part.pop("us")
        costs.append(Cost(cumulative_us=(total, total, total), **part))
    return Profile("test", tuple(costs))


SOURCE = {"name": "source", "us": 2.0, "bytes_per_example": 3000, "examples": 32}


def test_python_inside_is_named_with_its_cost():
    (found,) = rules.python_inside(profile({**SOURCE}, {"name": "map noise", "us": 8.0, "ops": ("PyFunc", "Add")}))
    assert "'map noise' calls Python for every element (8.0 us of 10.0)" in found.clause
    assert found.saves_us == pytest.approx(8.0)
    assert not list(rules.python_inside(profile({**SOURCE}, {"name": "map", "us": 8.0, "ops": ("Add",)})))


def test_maps_before_the_batch_are_counted_and_the_stages_named():
    single = {**SOURCE, "examples": 1}
    maps = [{"name": f"map {op}", "us": 30.0, "kind": "ParallelMap", "ops": (op,)} for op in ("ReverseV2", "AdjustHue")]
    batch = {"name": "batch", "us": 1.0, "kind": "Batch", "examples": 32}
    (found,) = rules.single_images(profile(single, *maps, batch))
    assert found.clause.startswith("2 maps on single elements (60.0 us of 63.0): batch first and map over 32")
    assert "tfhet has random_flip, random_hue" in found.clause
    assert found.saves_us == pytest.approx(2 * rules.CALL_US * 31 / 32)
    batched = {"name": "map", "us": 30.0, "kind": "Map", "examples": 32}
    assert not list(rules.single_images(profile({**SOURCE}, batched)))


def test_wide_examples_at_the_end_are_told_with_the_place_before():
    (found,) = rules.wide_wire(
        profile({**SOURCE}, {"name": "rescale()", "us": 1.5, "bytes_per_example": 12000, "examples": 32})
    )
    assert "send examples after 'source', 3000 B each, not at the end (12000 B): 4.0 times fewer" in found.clause
    assert "'rescale()' on the trainer (1.5 us" in found.clause
    assert not list(rules.wide_wire(profile({**SOURCE})))


def test_few_bytes_are_not_worth_the_work_that_the_data_group_is_there_for():
    decode = {"name": "decode()", "us": 500.0, "bytes_per_example": 150000, "examples": 32}
    seen = profile({**SOURCE, "us": 100.0}, decode)
    assert not list(rules.wide_wire(seen))


def test_whole_images_that_are_cropped_are_told():
    decode = {"name": "1 Map load", "us": 300.0, "ops": ("DecodeJpeg",)}
    crop = {"name": "2 Map crop", "us": 50.0, "ops": ("CropAndResize",)}
    (found,) = rules.whole_then_crop(profile({**SOURCE}, {**decode}, {**crop}))
    assert "'1 Map load' decodes whole images (300.0 us of 352.0)" in found.clause
    assert found.saves_us == pytest.approx(100.0)
    assert not list(rules.whole_then_crop(profile({**SOURCE}, {**decode})))
    assert not list(
        rules.whole_then_crop(profile({**SOURCE}, {"name": "decode(); random_resized_crop()", "us": 300.0}))
    )


def test_a_map_on_one_thread_is_told_with_the_rate_that_it_allows():
    (found,) = rules.sequential_maps(profile({**SOURCE}, {"name": "map", "us": 50.0, "parallel": False}))
    assert "at most 20000 examples per second" in found.clause and found.saves_us == 0
    assert not list(rules.sequential_maps(profile({**SOURCE}, {"name": "map", "us": 50.0, "parallel": True})))


def test_reading_or_a_part_that_is_most_of_the_cost_is_told():
    (found,) = rules.dominant_part(profile({**SOURCE, "us": 30.0}, {"name": "stage", "us": 10.0}))
    assert "'source' is 75% of the cost (30.0 of 40.0 us" in found.clause and found.saves_us == pytest.approx(15.0)
    dominated = profile({**SOURCE}, {"name": "blur", "us": 18.0, "ops": ("DepthwiseConv2dNative",)})
    (found,) = rules.dominant_part(dominated)
    assert "'blur' is 90% of the cost" in found.clause and "tfhet's gaussian_blur" in found.clause


def test_the_best_three_are_given_best_first():
    bad = {"us": 40.0, "ops": ("PyFunc",), "parallel": False, "kind": "Map", "bytes_per_example": 9000, "examples": 1}
    source = {**SOURCE, "examples": 1}
    batch = {"name": "batch", "us": 1.0, "bytes_per_example": 9000, "examples": 32}
    found = of_pipeline(profile(source, {**bad, "name": "a"}, {**bad, "name": "b"}, batch))
    assert len(found) == 3
    assert [advice.saves_us for advice in found] == sorted((advice.saves_us for advice in found), reverse=True)


def test_only_one_map_before_the_batch_is_one_and_stages_that_do_not_exist_are_left_out():
    single = {**SOURCE, "examples": 1}
    batch = {"name": "batch", "us": 1.0, "kind": "Batch", "examples": 32}
    (found,) = rules.single_images(profile(single, {"name": "map", "us": 30.0, "kind": "Map"}, batch))
    assert found.clause.startswith("1 map on single") and "tfhet has" not in found.clause
