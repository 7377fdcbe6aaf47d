"""`from_torchvision`: equal pixels for deterministic transforms, equal distributions for random transforms."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from tfhet import stages
from tfhet.errors import UsageError

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
from PIL import Image  # noqa: E402
from torch import nn  # noqa: E402
from torchvision import transforms as v1, tv_tensors  # noqa: E402
from torchvision.transforms import InterpolationMode, functional as F, v2  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:The transform `ToTensor")]

DRAWS = 2000
BILINEAR = InterpolationMode.BILINEAR
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BOTH = pytest.mark.parametrize("tv", [v1, v2], ids=["v1", "v2"])


def photo(height: int = 57, width: int = 83, seed: int = 1) -> np.ndarray:
    """A smooth image with some noise, uint8 [height, width, 3]."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 7, 3), np.uint8)).resize(
        (width, height), Image.Resampling.BICUBIC
    )
    return np.clip(np.asarray(coarse) + rng.normal(0, 8, (height, width, 3)), 0, 255).astype(np.uint8)


def of_torchvision(transform, image: np.ndarray) -> np.ndarray:
    """What a transform makes of a PIL image, as [height, width, channels]."""
    made = transform(Image.fromarray(image))
    made = made.numpy().transpose(1, 2, 0) if isinstance(made, torch.Tensor) else np.asarray(made)
    return made if made.ndim == 3 else made[:, :, np.newaxis]


def run(translation: stages.Translation, image: np.ndarray, ids: Sequence[int] = (0,)) -> np.ndarray:
    return translation.compile()(np.repeat(image[np.newaxis], len(ids), axis=0), ids=np.array(ids), seed=3)


def off(one: np.ndarray, other: np.ndarray) -> float:
    assert one.shape == other.shape
    return float(np.abs(one.astype(np.float64) - other).max())


def assert_same_distribution(one: Sequence[float], other: Sequence[float]) -> None:
    """Two-sample Kolmogorov-Smirnov test at 0.1 %."""
    one, other = np.sort(np.asarray(one, float)), np.sort(np.asarray(other, float))
    at = np.concatenate([one, other])
    parts = [np.searchsorted(each, at, side="right") / len(each) for each in (one, other)]
    assert np.abs(parts[0] - parts[1]).max() < 1.95 * np.sqrt(1 / len(one) + 1 / len(other))


def draws(translation: stages.Translation, image: np.ndarray) -> dict[str, np.ndarray]:
    """DRAWS random parameters, by their names without the stage."""
    images = np.repeat(image[np.newaxis], DRAWS, axis=0)
    found = translation.compile().parameters(images, ids=np.arange(DRAWS), seed=11)
    return {name.partition("/")[2]: value for name, value in found.items()}


def seeded() -> None:
    torch.manual_seed(5)
    random.seed(5)


# fmt: off
EQUAL = {
    "resize_down": (lambda tv: tv.Resize((31, 40)), 1),
    "resize_up": (lambda tv: tv.Resize((90, 121)), 1),
    "resize_nearest": (lambda tv: tv.Resize((31, 120), InterpolationMode.NEAREST), 0),
    "resize_known": (lambda tv: tv.Compose([tv.CenterCrop((57, 83)), tv.Resize(40)]), 1),
    "evaluation": (lambda tv: tv.Compose([tv.Resize(40), tv.CenterCrop(32)]), 1),
    "evaluation_sequential": (lambda tv: nn.Sequential(tv.Resize([40]), tv.CenterCrop([32, 30])), 1),
    "center_crop": (lambda tv: tv.CenterCrop((56, 81)), 0),
    "pad": (lambda tv: tv.Pad((1, 2, 3, 4), fill=7), 0),
    "pad_two": (lambda tv: tv.Pad([3, 5], padding_mode="symmetric"), 0),
    "pad_reflect": (lambda tv: tv.Pad(5, padding_mode="reflect"), 0),
    "pad_edge": (lambda tv: tv.Pad(2, padding_mode="edge"), 0),
    "grayscale": (lambda tv: tv.Grayscale(), 0),
    "grayscale_rgb": (lambda tv: tv.Grayscale(3), 0),
    "gaussian_blur": (lambda tv: tv.GaussianBlur(5, 1.3), 1),
    "invert": (lambda tv: tv.RandomInvert(1.0), 0),
    "posterize": (lambda tv: tv.RandomPosterize(3, 1.0), 0),
    "solarize": (lambda tv: tv.RandomSolarize(100, 1.0), 0),
    "solarize_fraction": (lambda tv: tv.RandomSolarize(99.5, 1.0), 0),
    "sharpness": (lambda tv: tv.RandomAdjustSharpness(2.0, 1.0), 1),
    "autocontrast": (lambda tv: tv.RandomAutocontrast(1.0), 1),
    "equalize": (lambda tv: tv.RandomEqualize(1.0), 0),
    "to_tensor": (lambda tv: tv.ToTensor(), 1e-6),
    "to_tensor_crop": (lambda tv: tv.Compose([tv.Resize(40), tv.ToTensor(), tv.CenterCrop(32)]), 1.01 / 255),
    "normalize": (lambda tv: tv.Compose([tv.ToTensor(), tv.Normalize(MEAN, STD)]), 1e-5),
    "normalize_image": (lambda tv: tv.Compose([tv.PILToTensor(), tv.ConvertImageDtype(torch.float32),
                                               tv.Normalize([0.5], [0.5])]), 1e-5),
    "no_change": (lambda tv: tv.Compose([tv.RandomHorizontalFlip(0.0), tv.RandomApply([tv.Grayscale(3)], 0.0),
                                         tv.ColorJitter(), tv.Pad(0)]), 0),
    "float_steps": (lambda tv: tv.Compose([tv.ToTensor(), tv.RandomInvert(1.0), tv.Normalize(MEAN, STD)]), 1e-5),
}
# fmt: on


@BOTH
@pytest.mark.parametrize("case", EQUAL)
def test_deterministic_transforms_have_equal_pixels(case, tv):
    make, most = EQUAL[case]
    transform, image = make(tv), photo()
    translation = stages.from_torchvision(transform)
    assert off(run(translation, image)[0], of_torchvision(transform, image)) <= most
    assert stages.parse(translation.text) == translation.stages


@pytest.mark.parametrize("size", [(57, 83), (83, 57), (64, 64), (41, 130)])
@pytest.mark.parametrize(("shorter", "crop"), [(40, 32), (48, (48, 33)), (100, 80)])
def test_evaluation_equals_at_every_size(size, shorter, crop):
    transform = v1.Compose([v1.Resize(shorter), v1.CenterCrop(crop)])
    translation = stages.from_torchvision(transform)
    assert [stage.name for stage in translation.stages] == ["resized_center_crop"]
    assert not translation.notes
    assert off(run(translation, photo(*size))[0], of_torchvision(transform, photo(*size))) <= 1


def test_dtypes_of_version_2():
    image = photo()
    for steps in (
        [
            v2.ToImage(),
            v2.ToDtype(torch.uint8, scale=True),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ],
        [v2.ToImage(), v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True), v2.ToPureTensor()],
        [v2.RGB(), v2.ToImage(), v2.Identity(), v2.ToDtype(torch.float32)],
        [v2.ToImage(), v2.ToPILImage(), v2.ToImage(), v2.RandomInvert(1.0)],
    ):
        transform = v2.Compose(steps)
        assert off(run(stages.from_torchvision(transform), image)[0], of_torchvision(transform, image)) <= 1e-5


def test_files_equal_those_of_the_default_loader(tmp_path):
    from torchvision.datasets.folder import default_loader

    exif = Image.Exif()
    exif[0x0112] = 6  # an orientation that default_loader ignores
    Image.fromarray(photo(120, 200)).save(tmp_path / "x.jpg", quality=92, exif=exif)
    transform = v1.Compose([v1.Resize(64), v1.CenterCrop(56)])
    expected = np.asarray(transform(default_loader(tmp_path / "x.jpg")))
    translation = stages.from_torchvision(transform, decode=True)
    assert off(translation.compile()([(tmp_path / "x.jpg").read_bytes()])[0], expected) <= 1


@pytest.mark.parametrize("degrees", [30, -75])
def test_rotation_by_one_angle_equals_inside(degrees):
    transform = v1.RandomRotation((degrees, degrees), BILINEAR, fill=9)
    image = photo(64, 64)
    translation = stages.from_torchvision(transform)
    difference = np.abs(run(translation, image)[0].astype(int) - of_torchvision(transform, image)).max(axis=2)
    assert (difference > 1).mean() < 0.06  # the edge of the rotated image, which is blended with the fill
    assert (difference[16:48, 16:48] <= 1).all()
    assert "blended" in translation.notes[0].reason


def test_random_affine_equals_for_its_draws():
    transform = v1.RandomAffine(25, (0.1, 0.2), (0.8, 1.2), 10, BILINEAR)
    image, translation = photo(64, 96), stages.from_torchvision(transform)
    ids = np.arange(12)
    made = run(translation, image, ids)
    drawn = translation.compile().parameters(np.repeat(image[np.newaxis], 12, axis=0), ids=ids, seed=3)
    angle, down, right, scale, shear = (
        drawn[f"random_affine:0/{n}"] for n in ("angle", "down", "right", "scale", "shear")
    )
    for at in range(12):
        matrix = F._get_inverse_affine_matrix(
            [48.0, 32.0],
            -np.degrees(angle[at]),  # clockwise
            [right[at] * 96, down[at] * 64],
            float(scale[at]),
            [float(np.degrees(np.arctan(shear[at]))), 0.0],
        )
        expected = Image.fromarray(image).transform((96, 64), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)
        assert (np.abs(made[at].astype(int) - np.asarray(expected)).max(axis=2) > 1).mean() < 0.06
    notes = " ".join(note.reason for note in translation.notes)
    assert all(word in notes for word in ("slope", "whole pixels", "blended"))


def test_random_affine_draws_alike():
    transform = v1.RandomAffine(25, (0.1, 0.2), (0.8, 1.2), 10, BILINEAR)
    found = draws(stages.from_torchvision(transform), photo(100, 100))
    seeded()
    drawn = [v1.RandomAffine.get_params([-25, 25], (0.1, 0.2), (0.8, 1.2), [-10, 10], [100, 100]) for _ in range(DRAWS)]
    assert_same_distribution(np.degrees(found["angle"]), [each[0] for each in drawn])
    assert_same_distribution(np.round(found["right"] * 100), [each[1][0] for each in drawn])
    assert_same_distribution(np.round(found["down"] * 100), [each[1][1] for each in drawn])
    assert_same_distribution(found["scale"], [each[2] for each in drawn])
    assert_same_distribution(np.degrees(np.arctan(found["shear"])), [each[3][0] for each in drawn])


@BOTH
def test_random_resized_crop_draws_alike(tv):
    transform = tv.RandomResizedCrop((24, 28), scale=(0.2, 0.9), ratio=(0.6, 1.9))
    image, translation = photo(), stages.from_torchvision(transform)
    found = draws(translation, image)["box"]
    seeded()
    drawn = np.array(
        [v1.RandomResizedCrop.get_params(Image.fromarray(image), (0.2, 0.9), (0.6, 1.9)) for _ in range(DRAWS)]
    )
    for number in range(4):
        assert_same_distribution(found[:, number], drawn[:, number])
    assert_same_distribution(found[:, 3] / found[:, 2], drawn[:, 3] / drawn[:, 2])
    made = run(translation, image, range(20))
    boxes = translation.compile().parameters(np.repeat(image[np.newaxis], 20, axis=0), ids=np.arange(20), seed=3)
    for at, box in enumerate(boxes["random_resized_crop:0/box"].tolist()):
        assert off(made[at], np.asarray(F.resized_crop(Image.fromarray(image), *box, [24, 28]))) <= 1
    assert not translation.notes


@BOTH
@pytest.mark.parametrize("padding", [None, 4, [4, 4], (1, 2, 3, 4), [2, 5]])
def test_random_crop_draws_alike(padding, tv):
    transform = tv.RandomCrop((20, 24), padding=padding, fill=3)
    image = photo(26, 26)
    # Pixels that tell their places, so that a result says which window it is.
    image[:, :, 0], image[:, :, 1] = np.arange(26)[:, np.newaxis] * 4 + 8, np.arange(26) * 4 + 8
    translation = stages.from_torchvision(transform)
    made = run(translation, image, range(DRAWS))[:, 10, 12, :2].astype(int)
    seeded()
    drawn = np.array([of_torchvision(transform, image)[10, 12, :2] for _ in range(DRAWS)]).astype(int)
    for axis in range(2):
        assert set(made[:, axis]) == set(drawn[:, axis])
        assert_same_distribution(made[:, axis], drawn[:, axis])
    assert not translation.notes


@BOTH
@pytest.mark.parametrize("p", [0.5, 0.3, 0.05])
@pytest.mark.parametrize("name", ["RandomHorizontalFlip", "RandomVerticalFlip"])
def test_flips_have_their_probability(name, p, tv):
    image = photo(8, 8)
    made = run(stages.from_torchvision(getattr(tv, name)(p)), image, range(DRAWS))
    flipped = (made == (image[:, ::-1] if "Horizontal" in name else image[::-1])).all(axis=(1, 2, 3))
    assert (flipped | (made == image).all(axis=(1, 2, 3))).all()
    assert abs(flipped.mean() - p) < 4 * np.sqrt(p * (1 - p) / DRAWS)


@BOTH
@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue"])
def test_color_jitter_of_one_kind_equals(name, tv):
    transform = tv.ColorJitter(**{name: 0.4})
    image, translation = photo(), stages.from_torchvision(transform)
    factors = draws(translation, image)[name]
    seeded()
    place = ("brightness", "contrast", "saturation", "hue").index(name)
    bounds: list = [None] * 4
    bounds[place] = [-0.4, 0.4] if name == "hue" else [0.6, 1.4]
    drawn = [v1.ColorJitter.get_params(*bounds)[1 + place] for _ in range(DRAWS)]
    assert_same_distribution(factors, drawn)
    made = run(translation, image, range(10))
    own = translation.compile().parameters(np.repeat(image[np.newaxis], 10, axis=0), ids=np.arange(10), seed=3)
    for at, factor in enumerate(own[f"color_jitter:0/{name}"].tolist()):
        expected = np.asarray(getattr(F, f"adjust_{name}")(Image.fromarray(image), factor))
        assert off(made[at], expected) <= (20 if name == "hue" else 1)
        assert np.abs(made[at].astype(int) - expected).mean() < 2.5
    assert [note.reason[:7] for note in translation.notes] == (["the hue"] if name == "hue" else [])


@BOTH
def test_random_order_of_color_jitter_is_noted(tv):
    translation = stages.from_torchvision(tv.Compose([tv.RandomVerticalFlip(), tv.ColorJitter(0.4, 0.3, (0.8, 1.2))]))
    jitter = translation.stages[1]
    assert [round(n, 9) for n in (jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue)] == [
        0.4,
        0.3,
        0.2,
        0,
    ]
    assert [(note.position, "order" in note.reason) for note in translation.notes] == [("1", True)]
    assert "differs: 1 ColorJitter" in str(translation)


@BOTH
@pytest.mark.parametrize(
    "make", [lambda tv: tv.RandomGrayscale(0.3), lambda tv: tv.RandomApply([tv.Grayscale(3)], 0.3)]
)
def test_applied_transforms_have_their_probability(make, tv):
    image = photo(8, 8)
    translation = stages.from_torchvision(make(tv))
    grey = (run(translation, image, range(DRAWS)) == of_torchvision(tv.Grayscale(3), image)).all(axis=(1, 2, 3))
    assert abs(grey.mean() - 0.3) < 4 * np.sqrt(0.21 / DRAWS)


@BOTH
@pytest.mark.parametrize(("p", "shares"), [(None, (1 / 3, 1 / 3, 1 / 3)), ([5, 3, 2], (0.5, 0.3, 0.2))])
def test_random_choice_has_its_shares(p, shares, tv):
    image = photo(8, 8)
    branches = [tv.RandomInvert(1.0), tv.RandomPosterize(1, 1.0), tv.RandomInvert(0.0)]
    translation = stages.from_torchvision(tv.RandomChoice(branches, p))
    made = run(translation, image, range(DRAWS))
    for branch, share in zip(branches, shares, strict=True):
        found = (made == of_torchvision(branch, image)).all(axis=(1, 2, 3)).mean()
        assert abs(found - share) < 4 * np.sqrt(share * (1 - share) / DRAWS)


@BOTH
def test_random_erasing_draws_alike(tv):
    transform = tv.RandomErasing(0.7, (0.05, 0.2), (0.5, 2.0), value=0)
    translation = stages.from_torchvision(tv.Compose([tv.CenterCrop((40, 50)), tv.ToTensor(), transform]))
    white = np.full((40, 50, 3), 255, np.uint8)
    made = run(translation, white, range(DRAWS))[..., 0] == 0
    seeded()
    drawn = np.stack([transform(torch.ones(3, 40, 50))[0].numpy() == 0 for _ in range(DRAWS)])
    for measure in (
        lambda holes: holes.any(axis=2).sum(axis=1),  # rows
        lambda holes: holes.any(axis=1).sum(axis=1),  # columns
        lambda holes: holes.any(axis=2).argmax(axis=1),  # the first row
        lambda holes: holes.any(axis=1).argmax(axis=1),
    ):
        assert_same_distribution(measure(made), measure(drawn))
    assert [note.position for note in translation.notes] == ["0"]  # of CenterCrop: the rectangles fit


@BOTH
@pytest.mark.parametrize("name", ["RandAugment", "TrivialAugmentWide"])
def test_policies_change_images_alike(name, tv):
    transform = getattr(tv, name)(interpolation=BILINEAR)
    image = photo(32, 32)
    translation = stages.from_torchvision(transform)
    made = run(translation, image, range(DRAWS)).astype(float)
    seeded()
    drawn = np.stack([of_torchvision(transform, image) for _ in range(DRAWS)]).astype(float)
    noise = np.random.default_rng(7).normal(0.0, 2.0, (2, DRAWS))  # many images have one mean, up to rounding
    for measure in (np.mean, np.std):
        one, other = (measure(images, axis=(1, 2, 3)) for images in (made, drawn))
        assert_same_distribution(one + noise[0], other + noise[1])
    assert len(translation.notes) == 1


def test_gaussian_noise_has_its_deviation():
    grey = np.full((64, 64, 3), 128, np.uint8)
    made = run(stages.from_torchvision(v2.GaussianNoise(sigma=0.1)), grey)[0].astype(float)
    assert abs(made.mean() - 128) < 1.0
    assert abs(made.std() - 25.5) < 0.8


class Own(nn.Module):
    def forward(self, image):
        return image


def lambdas(tv):
    return tv.Lambda(lambda image: image)


# fmt: off
UNTRANSLATABLE = {
    "Lambda": (lambdas, "Python function"),
    "own": (lambda tv: Own(), "Own is no transform of torchvision"),
    "resize_shorter": (lambda tv: tv.Compose([tv.Resize(40), tv.RandomCrop(32)]), "0 Resize.*keep their aspect"),
    "resize_last": (lambda tv: tv.Resize(40), "keep their aspect"),
    "resize_bicubic": (lambda tv: tv.Resize((9, 9), InterpolationMode.BICUBIC), "bicubic"),
    "resize_max": (lambda tv: tv.Resize(9, max_size=20), "max_size"),
    "large_crop": (lambda tv: tv.Compose([tv.Resize(40), tv.CenterCrop(50)]), "resized_center_crop.*shorter"),
    "larger_crop": (lambda tv: tv.Compose([tv.Resize((40, 40)), tv.CenterCrop(50)]), "larger than the images"),
    "pad_if_needed": (lambda tv: tv.RandomCrop(9, pad_if_needed=True), "pad_if_needed"),
    "fill_by_channel": (lambda tv: tv.Pad(3, fill=(1, 2, 3)), "fill differs by channel"),
    "crop_bicubic": (lambda tv: tv.RandomResizedCrop(9, interpolation=InterpolationMode.BICUBIC), "bicubic"),
    "flip": (lambda tv: tv.RandomHorizontalFlip(0.9), "p is 0.9"),
    "jitter": (lambda tv: tv.ColorJitter(brightness=(0.5, 1.2)), "brightness from 0.5 to 1.2"),
    "jitter_hue": (lambda tv: tv.ColorJitter(hue=(0.0, 0.2)), "hue from 0 to 0.2"),
    "blur_sigma": (lambda tv: tv.GaussianBlur(5), "sigma is drawn from 0.1 to 2"),
    "blur_kernel": (lambda tv: tv.GaussianBlur((5, 3), 1.0), "kernel"),
    "rotation_range": (lambda tv: tv.RandomRotation((0, 90)), "degrees from 0 to 90"),
    "rotation_expand": (lambda tv: tv.RandomRotation(9, expand=True), "expand"),
    "rotation_centre": (lambda tv: tv.RandomRotation(9, center=(0, 0)), "center"),
    "rotation_bicubic": (lambda tv: tv.RandomRotation(9, InterpolationMode.BICUBIC), "bicubic"),
    "affine_shear": (lambda tv: tv.RandomAffine(9, shear=(-5, 5, -5, 5)), "vertical shear"),
    "policy_bins": (lambda tv: tv.RandAugment(num_magnitude_bins=11), "num_magnitude_bins is 11"),
    "erasing": (lambda tv: tv.Compose([tv.ToTensor(), tv.RandomErasing(value="random")]), "1 RandomErasing.*noise"),
    "normalize": (lambda tv: tv.Normalize([0.5], [0.5]), "uint8 here"),
    "half": (lambda tv: tv.ConvertImageDtype(torch.float16), "float16"),
    "to_uint8": (lambda tv: tv.Compose([tv.ToTensor(), tv.ConvertImageDtype(torch.uint8)]), "become uint8"),
    "solarize": (lambda tv: tv.Compose([tv.ToTensor(), tv.RandomSolarize(0.5)]), "not a 255th"),
    "apply_two": (lambda tv: tv.RandomApply([tv.Grayscale(3), tv.RandomInvert(1.0)]), "2 stages together"),
    "apply_size": (lambda tv: tv.RandomApply([tv.Resize((9, 9))]), "change size or dtype"),
    "apply_lambda": (lambda tv: tv.RandomApply([tv.Grayscale(3), lambdas(tv)]), "0.1 Lambda.*Python function"),
    "choice_lambda": (lambda tv: tv.RandomChoice([tv.Grayscale(3), lambdas(tv)]), "0.1 Lambda.*Python function"),
    "RandomOrder": (lambda tv: tv.RandomOrder([tv.Grayscale(3)]), "fixed order"),
    "FiveCrop": (lambda tv: tv.FiveCrop(9), "five images"),
    "TenCrop": (lambda tv: tv.TenCrop(9), "ten images"),
    "AutoAugment": (lambda tv: tv.AutoAugment(), "no stage"),
    "AugMix": (lambda tv: tv.AugMix(), "no stage"),
    "RandomPerspective": (lambda tv: tv.RandomPerspective(), "no stage"),
    "ElasticTransform": (lambda tv: tv.ElasticTransform(), "no stage"),
    "LinearTransformation": (lambda tv: tv.LinearTransformation(torch.eye(3), torch.zeros(3)), "no stage"),
}
# fmt: on


@BOTH
@pytest.mark.parametrize("case", UNTRANSLATABLE)
def test_untranslatable_transforms_are_named(case, tv):
    make, pattern = UNTRANSLATABLE[case]
    with pytest.raises(UsageError, match=pattern):
        stages.from_torchvision(make(tv))


@pytest.mark.parametrize("name", ["MixUp", "CutMix"])
def test_mixing_is_untranslatable(name):
    with pytest.raises(UsageError, match=f"one_hot.*{name.lower()}"):
        stages.from_torchvision(getattr(v2, name)(num_classes=10))


def test_all_untranslatable_transforms_are_listed():
    nested = v1.Compose([v1.Lambda(abs), v1.RandomApply([v1.AutoAugment()])])
    transform = v1.Compose([v1.Grayscale(3), nested, v1.Resize(40), v1.ToTensor(), v1.Normalize([0.5], [0.5])])
    with pytest.raises(UsageError, match="3 of the transforms.*partial=True") as raised:
        stages.from_torchvision(transform)
    assert [mistake.split(" ")[0] for mistake in raised.value.mistakes] == ["1.0", "1.1.0", "2"]
    translation = stages.from_torchvision(transform, partial=True)
    assert [each.position for each in translation.untranslated] == ["1.0", "1.1.0", "2"]
    assert translation.text == "grayscale(channels=3); normalize()"
    assert str(translation).count("omitted: ") == 3


def test_nearest_rotation_is_noted():
    translation = stages.from_torchvision(v1.Compose([v1.RandomRotation(20), v1.RandAugment()]))
    assert [note.position for note in translation.notes] == ["0", "1"]
    assert all("nearest pixel" in note.reason for note in translation.notes)
