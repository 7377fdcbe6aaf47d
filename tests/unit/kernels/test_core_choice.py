"""Filters, painting, partners, choices and policies of the compiled core, with parameters that the caller sets."""

from __future__ import annotations

import numpy as np
import pytest

from tfhet import kernels
from tfhet.errors import UsageError

SHARES = "shares=[" + "0.25 " * 4096 + "]"


def images(dtype: str = "uint8", height: int = 9, width: int = 8, channels: int = 3) -> np.ndarray:
    values = np.random.default_rng(height).integers(0, 256, (16, height, width, channels))
    values[3], values[5] = 77, values[5] // 3 + 40
    return np.uint8(values) if dtype == "uint8" else np.float32(values / 255.0)


def core(stages: str) -> kernels.Chain:
    return kernels.Chain(f"(single stages=[{stages}])")


def run(stages: str, given: np.ndarray, some: np.ndarray) -> np.ndarray:
    return core(stages).run(some, given=np.ascontiguousarray(given, np.float64))


def test_partner_is_the_next_of_its_branch():
    some = images()
    choice = np.arange(16) % 3  # mixup, cutmix of the whole image, unchanged
    given = np.zeros((16, 7))
    given[:, 0], given[:, 1], given[:, 3], given[:, 5] = choice, 1.0, 9, 8
    branches = f"(mixup {SHARES} word='1') (cutmix {SHARES} word='2') (none)"
    made = run(f"(one_of branches=[{branches}] shares=[0.3 0.3 0.4])", given, some)
    for branch in (0, 1):
        places = np.flatnonzero(choice == branch)
        np.testing.assert_array_equal(made[places], some[np.roll(places, -1)])
    np.testing.assert_array_equal(made[choice == 2], some[choice == 2])


@pytest.mark.parametrize("choice", [-1, 2, 0.999 - 1, 2**40, np.nan, np.inf])
def test_choice_out_of_range_is_refused(choice):
    with pytest.raises(UsageError, match="choice is from 0 to 1"):
        run("(one_of branches=[(none) (dilate size=3)] shares=[0.5 0.5])", np.full((16, 1), choice), images())


@pytest.mark.parametrize("operation", [-1, 14, np.nan, 1e300])
def test_operation_out_of_range_is_refused(operation):
    with pytest.raises(UsageError, match="operation is from 0 to 13"):
        run("(trivialaugment fill_value=0)", np.column_stack([np.full(16, operation), np.ones(16)]), images())


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e300, -1e300, 2.0**31, -1.0])
@pytest.mark.parametrize(
    "stage",
    [
        "(cutout size=3 value=0)",
        "(random_erasing probability=1 scale=[0.1 0.2] ratio=[0.5 2] value=0)",
        f"(mixup {SHARES})",
        f"(cutmix {SHARES})",
    ],
    ids=lambda text: text[1:7],
)
def test_any_given_number_is_safe(stage, number):
    some = images()
    assert run(stage, np.full((16, core(stage).slots), number), some).shape == some.shape


@pytest.mark.parametrize("strength", [np.nan, np.inf, -np.inf, 1e300, -1e300])
def test_any_strength_is_safe(strength):
    given = np.full((16, 2), strength)
    given[:, 0] = np.arange(16) % 14
    assert run("(trivialaugment fill_value=0)", given, images()).dtype == np.uint8


def test_branches_of_different_sizes_are_refused():
    with pytest.raises(UsageError, match="stage one_of: its stages differ"):
        run("(one_of branches=[(none) (grayscale channels=1)] shares=[0.5 0.5])", np.zeros((16, 1)), images())


def test_small_images_and_channels_are_refused():
    for stage, size in [("(sharpen amount=2)", (1, 5, 3)), ("(trivialaugment fill_value=0)", (5, 5, 2))]:
        with pytest.raises(UsageError, match="needs images of"):
            run(stage, np.zeros((16, core(stage).slots)), images("uint8", *size))


def test_layers_of_a_policy_follow_each_other():
    some, rng = images("uint8", 20, 30), np.random.default_rng(1)
    given = np.column_stack([rng.integers(0, 14, (16, 3)), rng.uniform(0.1, 0.9, (16, 3))])
    single = some
    for layer in range(3):
        single = run("(randaugment num_layers=1 magnitude=9 fill_value=0)", given[:, [layer, 3 + layer]], single)
    whole = run("(randaugment num_layers=3 magnitude=9 fill_value=0)", given, some)
    np.testing.assert_array_equal(whole, single)
    as_float = run("(randaugment num_layers=3 magnitude=9 fill_value=0)", given, np.float32(some / 255.0))
    np.testing.assert_array_equal(as_float, np.float32(whole) * np.float32(1 / 255))


def test_one_hot_leaves_images_unchanged():
    np.testing.assert_array_equal(run("(one_hot)", np.zeros((16, 0)), images()), images())
    with pytest.raises(UsageError, match="no stage of the chain decodes"):
        core("(one_hot)").run([b"file"])


def test_prefix_of_a_branch_names_its_parameters():
    branches = "(none) (cutout size=3 value=0 word='7' prefix='mine')"
    chain = core(f"(probability salt=0 branches=[{branches}] shares=[0.5 0.5])")
    assert [parameter.name for parameter in chain.parameters] == ["choice", "mine:1/centre_y", "mine:1/centre_x"]
