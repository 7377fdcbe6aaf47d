"""The compiled core: it equals the oracle for each stage and for fused chains, in any batch and in TensorFlow."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import oracle
import pytest
import tensorflow as tf
from oracle.filters import CUT_MARGIN
from oracle.resize import decoded_window
from PIL import Image

from tfhet import stages
from tfhet.errors import UsageError
from tfhet.pipeline import Pipeline, preparation
from tfhet.stages import ImageSpec, Program, Step
from tfhet.stages.program import segment

STAGES = """
    rescale(); rescale(2, -1); cast('uint8'); cast('float32'); normalize(); normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.1));
    invert(); solarize(); solarize(0); solarize(256); solarize(77); posterize(); posterize(1); posterize(8); gamma();
    gamma(0.4); gamma(2.2, 1.3); random_brightness(); random_brightness(1); random_contrast(); random_contrast(0, 3);
    autocontrast(); equalize(); gaussian_noise(); gaussian_noise(0.3); gaussian_noise(0);

    random_hue(); random_hue(0.5); random_saturation(); random_saturation(0, 4); grayscale(); grayscale(3);
    color_jitter(); color_jitter(0.4, 0.4, 0.4, 0.2); color_jitter(0, 0, 0.5); color_jitter(0, 0.9, 0);
    color_jitter(0, 0, 0, 0.5); color_jitter(2, 0, 0); color_jitter(0, 0.5, 0.5, 0.1);

    dilate(); dilate(4); erode(); erode(5); dilate(1); erode(100); gaussian_blur();
    gaussian_blur(4, 1.5, padding='CONSTANT'); gaussian_blur(13, 0.5, padding='SYMMETRIC'); sharpen(); sharpen(0);

    pad(); pad(1, 2, 3, 4); pad(1, 2, 3, 4, mode='edge'); pad(1, 2, 3, 4, mode='reflect');
    pad(30, 2, 3, 70, mode='reflect'); pad(1, 2, 3, 4, mode='symmetric'); pad(40, 2, 3, 80, mode='symmetric');
    pad(height=60, width=57, value=1); center_crop(); center_crop(5, 6); center_crop(6, 3); random_crop();
    random_crop(padding=4); random_crop(9, 6); random_crop(9, 6, 3, 'reflect'); random_crop(10, 8, 3, 'symmetric');
    random_crop(10, 7, 4, 'edge'); random_crop(11, 11, 5, value=1);

    random_flip(); random_flip(False, True); random_flip(vertical=True); random_shear();
    random_shear(0.7, 'constant', 1); random_translation(); random_translation(0.9, 0.3, 'wrap');
    random_translation(0.4, 0.9, 'nearest'); random_rotation(); random_rotation(1); random_zoom(); random_zoom(0.9);
    affine(); affine(30, 0.1, -0.2, 1.3, 0.25); affine(-100, 0.1, -0.2, 0.4, 1, 'wrap'); random_affine();
    random_affine(180, 0.5, 0.4, 0.3, 3, 0.5, 'constant', 1.0); random_affine(20, fill_mode='nearest');

    resize(20, 24); resize(7, 5); resize(40, 11, antialias=True); resize(8, 8, antialias=True);
    resize(9, 9, 'nearest'); resize(80, 70, 'nearest'); resize(9, 30, 'area'); resize(50, 5, 'area');
    resize(9, 60, 'bicubic'); resize(5, 6, 'bicubic'); resized_center_crop(5, 6, 7);
    resized_center_crop(20, 16, 24, True); random_resized_crop(10, 12); random_resized_crop(5, 7, antialias=True);
    random_resized_crop(30, 40, 0.9, 1.0, 3.0, 20.0); random_resized_crop(16, 16, 0.01, 0.05, 0.1, 10);

    cutout(); cutout(8, 1.0); cutout(300); random_erasing(); random_erasing(0.9);
    random_erasing(1.0, (0.5, 1.0), (0.05, 20.0)); one_hot(5); mixup(); mixup(3.0); cutmix(); cutmix(0.4);
    randaugment(); randaugment(1, 30); randaugment(4, 15, 1.0); trivialaugment();

    one_of(posterize(4), solarize(100), cutout(9), random_brightness(0.4)); probability(cutout(7), 0.4);
    one_of(gaussian_blur(5, 1.0), sharpen(), weights=(3, 1)); one_of(mixup(0.5), cutmix(), sharpen());
    one_of(one_of(mixup(), cutmix()), probability(mixup(), 0.7), weights=(1, 2));
    probability(random_rotation(0.1), 0.5); probability(randaugment(1), 0.7)
"""
LARGE = "resize(); resized_center_crop(); random_resized_crop()"
"""Stages whose results are of 224 x 224 by default."""
FUSED = """
    rescale() normalize((0.3, 0.4, 0.5), (0.2, 0.3, 0.1)); rescale() random_brightness(0.5) normalize();
    autocontrast() rescale() invert(); rescale() random_contrast() normalize(); random_brightness(0.3) rescale();
    rescale(2, -1) rescale(3, 4) rescale(0.5); normalize() rescale(2, 1); random_contrast(0, 3) cast() normalize();
    posterize(3) solarize(100) gamma(1.7) invert(); random_brightness(0.4) solarize(90) posterize(2);
    gamma(0.5) posterize(4) rescale() normalize((0.3,), (0.2,)); rescale() cast('uint8') rescale(1.0);
    random_flip() random_rotation() random_shear() random_translation() resize(8, 9);
    random_rotation(0.3) random_zoom(0.3); random_rotation(0.1) resize(6, 8) random_zoom(0.2) rescale();
    random_flip(vertical=True) random_affine(90, fill_mode='wrap'); affine(30, fill_mode='constant') random_flip();
    random_resized_crop(10, 12) random_flip(); resize(9, 7, antialias=True) random_flip();
    resized_center_crop(5, 6, 7) random_flip(); resize(9, 7, 'area') random_flip();
    random_crop(padding=4) random_flip() random_rotation() gamma(0.7) posterize(3) gaussian_noise() normalize();
    rescale() dilate() random_resized_crop(9, 9) random_flip() gaussian_blur(3, 1.0) random_zoom();
    mixup() random_flip() cutmix() random_hue(0.4) randaugment() random_erasing() rescale();
    grayscale() gamma(2) equalize() random_rotation() grayscale(3) random_saturation() normalize()
"""
"""Chains whose neighbours become one operation, in any order of kinds; spaces stand between the stages."""
WINDOWS = """
    decode() resize(12, 9); decode() resize(30, 20, antialias=True) random_flip();
    decode() resized_center_crop(20, 24, 30); decode() random_resized_crop(12, 16) random_flip();
    decode() random_resized_crop(16, 12, antialias=True) random_brightness() normalize(); decode(1) resize(9, 12);
    decode(upright=False) resized_center_crop(16, 16, 16) random_flip(); decode(accurate=True) resize(24, 24);
    decode(3, True, True) random_resized_crop(60, 50, 0.5, 1.0, antialias=True) random_flip() randaugment();
    decode(reduced=True) resize(12, 9); decode(reduced=True, accurate=True) resized_center_crop(5, 7, 8) random_flip();
    decode(1, reduced=True) random_resized_crop(6, 8, antialias=True) random_flip() normalize();
    decode(reduced=True, upright=False) random_resized_crop(4, 3) random_flip() random_brightness()
"""
"""Chains that begin with image files."""
FORMS = [
    ("uint8", 37, 51, 3),
    ("uint8", 32, 32, 1),
    ("float32", 13, 17, 3),
    ("float32", 20, 45, 1),
    ("uint8", 15, 14, 3),
    ("uint8", 21, 18, 4),
]
IDS = np.array([5, 999, -3, 2**40, *range(100, 112)])


def texts(table: str) -> list[str]:
    return [" ".join(text.split()) for text in table.split(";")]


def chain_of(text: str) -> str:
    """A chain of a table, whose stages are separated by `) `."""
    return text.replace(") ", "); ")


def images(dtype: str, height: int, width: int, channels: int) -> np.ndarray:
    """16 images of noise; two of them of one level, and of few levels."""
    values = np.random.default_rng(height).integers(0, 256, (16, height, width, channels))
    values[3], values[5] = 77, values[5] // 3 + 40
    return np.uint8(values) if dtype == "uint8" else np.float32(values / 255.0)


def spec_of(form: tuple) -> ImageSpec:
    return ImageSpec(*form[1:], form[0], 0.0, 255.0 if form[0] == "uint8" else 1.0)


def file(rows: int, columns: int, kind: str, grey: bool = False, orientation: int = 1, **how: object) -> bytes:
    grid = np.random.default_rng(rows * columns).integers(0, 256, (rows // 8 + 2, columns // 8 + 2, 3))
    image = Image.fromarray(grid.astype(np.uint8)).resize((columns, rows), Image.Resampling.BICUBIC)
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = io.BytesIO()
    settings = {"exif": exif} if orientation > 1 else {}
    (image.convert("L") if grey else image).save(content, kind, **settings, **how)
    return content.getvalue()


def files(jpegs: int = 0) -> list[bytes]:
    """16 files: JPEG of all orientations, samplings and sizes; PNG, BMP and GIF. jpegs: number of JPEGs instead."""
    if jpegs:
        return [*files()[:12], *files()[: jpegs - 12]]
    return [
        *(file(40 + 9 * turn, 61 - 3 * turn, "JPEG", orientation=turn, quality=90) for turn in range(1, 9)),
        *(file(33, 90, "JPEG", subsampling=each) for each in (0, 1)),
        file(300, 211, "JPEG", progressive=True),
        file(52, 52, "JPEG", grey=True),
        *(file(35, 47, "PNG", orientation=turn) for turn in (1, 6)),
        file(30, 41, "BMP"),
        file(31, 40, "GIF"),
    ]


def check(
    text: str, given: np.ndarray | list[bytes], spec: ImageSpec, seed: int = 7, epoch: int | np.ndarray = 3
) -> None:
    """Checks that the core's chain is its steps in turn, byte for byte, and that each step equals the oracle."""
    chain, ids = stages.compile(text), IDS[: len(given)]
    whole, _ = chain.program(spec).run(given, ids, seed, np.array(epoch))
    threaded, _ = chain.program(spec).run(given, ids, seed, np.array(epoch), threads=3)
    np.testing.assert_array_equal(threaded, whole)
    current = given
    for step in stages.fuse(stages.placed(chain.stages, spec), spec):
        drawn = []
        for placed, own in zip(step.stages, step.inputs, strict=True):
            keys = oracle.keys(seed, placed.stage.name, placed.declared, epoch, ids)
            drawn.append(oracle.parameters(placed.stage, keys, own))
        made, found = Program((segment([step]),)).run(current, ids, seed, np.array(epoch), wants_draws=True)
        check_parameters(step, current, drawn, [parameters for _, parameters in found])
        check_images(step, current, drawn, made)
        current = made
    np.testing.assert_array_equal(whole, current, strict=True)


def check_parameters(step: Step, given: object, expected: list, found: list) -> None:
    """All bits are equal: also exp and pow, which oracle and core round from double precision."""
    for placed, theirs, ours in zip(step.stages, expected, found, strict=True):
        if "areas" in theirs:  # the core has the box, which depends on the image's size
            sizes = [image.shape[:2] for image in oracle.apply(step.stages[0].stage, given)]
            theirs = {"box": np.int32(oracle.windows(placed.stage, theirs, sizes))}
        assert list(ours) == list(theirs)
        for name, value in theirs.items():
            np.testing.assert_array_equal(ours[name], value, strict=True)


def check_images(step: Step, given: np.ndarray | list[bytes], drawn: list, ours: np.ndarray) -> None:
    members = [placed.stage for placed in step.stages]
    if any(hasattr(stage, "antialias") for stage in members) and step.kind in ("window", "single"):
        check_resized(step, given, drawn, ours)
        return
    theirs = oracle.fused(step, given, drawn)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    differences = np.abs(np.float64(ours) - theirs)
    # Sums in another order, logarithms and waves differ in the last bits.
    bits = 2e-6 * max(1.0, np.abs(theirs).max(initial=0))
    # Levels are rounded or cut after that: also float32 images within a policy.
    one_level = 1.0 if ours.dtype == np.uint8 else 1.01 / 255 if "augment" in stages.text(members) else 0.0
    assert differences.max(initial=0) <= max(one_level, bits)
    if members[0].name == "gaussian_blur" and ours.dtype == np.uint8:
        # Levels are cut: beside edges between plain areas many values lie at a whole level, up to the last bits.
        exact = oracle.fused(step, np.float32(given), drawn) + CUT_MARGIN
        assert np.all((differences == 0) | (np.abs(exact - np.rint(exact)) < 6e-5))
        return
    assert np.sum(differences > bits) <= max(2, 5e-4 * differences.size)


def check_resized(step: Step, given: np.ndarray | list[bytes], drawn: list, ours: np.ndarray) -> None:
    """A level is the nearest one to the exact value, of which many lie halfway between two."""
    if step.stages[0].stage.name == "decode":
        decode, window = (placed.stage for placed in step.stages[:2])
        exact = decoded_window(decode, window, given, drawn[1], drawn[-1].get("flip_horizontal"))
    else:
        exact = oracle.fused(step, np.float32(given), drawn)
    assert ours.shape == exact.shape
    if ours.dtype == np.uint8:
        assert np.abs(ours - np.clip(exact, 0, 255)).max(initial=0) <= 0.5 + 1e-3
    else:
        assert np.abs(ours - exact).max(initial=0) <= 1e-5 * max(1.0, np.abs(exact).max(initial=0))


def fits(text: str, spec: ImageSpec) -> bool:
    try:
        stages.placed(stages.parse(chain_of(text)), spec)
    except UsageError:
        return False
    return True


@pytest.mark.parametrize("text", texts(STAGES))
def test_stage_equals_the_oracle(text):
    fitting = [form for form in FORMS if fits(text, spec_of(form))]
    assert {"uint8", "float32"} == {form[0] for form in fitting} and any(form[3] == 3 for form in fitting)
    for form in fitting:
        check(text, images(*form), spec_of(form))
    check(text, images(*fitting[0])[:0], spec_of(fitting[0]))


@pytest.mark.parametrize("text", ["gaussian_blur()", "gaussian_blur(5, 0.19)", "sharpen()", "resize(30, 40)"])
def test_plain_squares_equal_the_oracle(text):
    squares = images(*FORMS[0])[:, ::12, ::12].repeat(12, axis=1).repeat(12, axis=2)
    check(text, squares, ImageSpec.of(squares))


@pytest.mark.parametrize("text", texts(LARGE))
def test_large_result_equals_the_oracle(text):
    check(text, images(*FORMS[0]), spec_of(FORMS[0]))


def test_all_stages_of_images_are_in_the_table():
    found = {stage.name for text in [*texts(STAGES), *texts(LARGE)] for stage in stages.parse(text)} | {"decode"}
    own = [kind for kind in map(stages.get, stages.names()) if kind.__module__.startswith("tfhet.")]
    assert found == {kind.name for kind in own if not issubclass(kind, stages.Stream)}


@pytest.mark.parametrize("text", texts(FUSED))
def test_fused_chain_equals_the_oracle(text):
    fitting = [form for form in FORMS if fits(text, spec_of(form))]
    assert fitting
    for form in fitting:
        check(chain_of(text), images(*form), spec_of(form))


def test_all_kinds_of_steps_are_in_the_table():
    spec = spec_of(FORMS[0])
    steps = [
        step for text in texts(FUSED) for step in stages.fuse(stages.placed(stages.parse(chain_of(text)), spec), spec)
    ]
    assert {step.kind for step in steps} == {"single", "sampling", "straight", "table", "window"}


@pytest.mark.parametrize("text", texts(WINDOWS))
def test_files_equal_the_oracle(text):
    check(chain_of(text), files(16 if "decode(1" in text else 0), ImageSpec.of_files())


@pytest.mark.parametrize("name", stages.CHAINS)
def test_named_chain_equals_the_oracle(name):
    if stages.chain(name)[0].name == "decode":
        check(name, files(), ImageSpec.of_files())
    else:
        check(name, images("uint8", 32, 32, 3), spec_of(("uint8", 32, 32, 3)))


def random_chains(count: int) -> list[tuple[str, tuple | None]]:
    """Chains of 1 to 4 stages, each with the form of its images; None for files."""
    random, found = np.random.default_rng(52), []
    table = [text for text in texts(STAGES) if not any(partner in text for partner in ("mixup", "cutmix"))]
    windows = [text.split(") ")[:2] for text in texts(WINDOWS)[:6]]
    while len(found) < count:
        chosen = random.choice(table, random.integers(1, 5)).tolist()
        form = FORMS[random.integers(len(FORMS))]
        spec = spec_of(form)
        if random.random() < 0.25:
            form, spec = None, ImageSpec.of_files()
            chosen = [f"{part.rstrip(')')})" for part in windows[random.integers(len(windows))]] + chosen[1:]
        text = "; ".join(chosen)
        if fits(text, spec):
            found.append((text, form))
    return found


@pytest.mark.parametrize("part", range(10))
def test_image_is_the_same_in_any_batch(part):
    for text, form in random_chains(200)[part::10]:
        program = stages.compile(text).program(ImageSpec.of_files() if form is None else spec_of(form))
        given = files() if form is None else images(*form)

        def run(places: list[int], threads: int = 1, program=program, given=given) -> np.ndarray:
            some = [given[place] for place in places] if isinstance(given, list) else given[places]
            return program.run(some, IDS[places], 5, np.array(2), threads)[0]

        whole = run([*range(16)])
        for places, threads in (([*range(16)], 3), ([*range(5)], 1), ([*range(15, 4, -1)], 3), ([3], 1), ([11], 3)):
            np.testing.assert_array_equal(run(places, threads), whole[places], err_msg=text, strict=True)


@dataclass(frozen=True)
class Columns:
    """A source whose records are the examples themselves."""

    spec: Mapping[str, tf.TensorSpec]
    name: str = "columns"

    def parse(self, records: dict) -> dict:
        return dict(records)

    def fingerprint(self) -> str:
        return ""


PAIRS = [(seed, epoch) for seed in (0, 3, 2**31, 2**63) for epoch in (0, 1, 7, 1000, 2**40)]
"""Seeds and epochs; with 500 ids each they are 10,000 triples, and with 16 files each 320."""


@pytest.mark.parametrize("text", [*texts(STAGES), *texts(FUSED), *stages.CHAINS, *texts(WINDOWS)])
def test_tensorflow_has_the_same_bytes(text):
    members = stages.parse(chain_of(text))
    many = np.random.default_rng(2).integers(0, 256, (500, 10, 9, 3), np.uint8)
    if members[0].name == "decode":
        check_tensorflow(members, files(16 if "decode(1" in text else 0), PAIRS)
    else:
        check_tensorflow(members, many, PAIRS)
    if fits(text, ImageSpec.of(np.float32(many))):
        check_tensorflow(members, np.float32(many[:20]), PAIRS[:2])


def check_tensorflow(members: tuple[stages.Stage, ...], given: np.ndarray | list[bytes], pairs: list) -> None:
    random, chain = np.random.default_rng(1), stages.compile(members)
    records = {"image": tf.constant(given)}
    labels = None
    if any(stage.relabels for stage in members):
        is_number = any(isinstance(stage, stages.OneHot) for stage in members)
        labels = random.integers(0, 5, len(given)) if is_number else random.random((len(given), 4), np.float32)
        records["label"] = tf.constant(labels)
    source = Columns({name: tf.TensorSpec([None, *each.shape[1:]], each.dtype) for name, each in records.items()})
    for seed, epoch in pairs:
        ids = random.integers(-(2**62), 2**62, len(given))
        declared = Pipeline(source, members, seed=seed, record_parameters=True)
        theirs = preparation(declared, epoch)(tf.constant(ids), records)
        ours = chain(given, ids=ids, seed=seed, epoch=epoch, labels=labels)
        ours, changed = (ours, None) if labels is None else ours
        check_bytes(ours, theirs["image"])
        if changed is not None:
            check_bytes(changed, theirs["label"])
    for name, value in chain.parameters(given, ids=ids, seed=seed, epoch=epoch).items():
        check_bytes(value, theirs[name])


def check_bytes(ours: np.ndarray, theirs: tf.Tensor) -> None:
    theirs = theirs.numpy()
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert ours.tobytes() == theirs.tobytes()


def test_tensorflow_has_the_same_bytes_in_a_graph():
    spec = {"image": tf.TensorSpec([None], tf.string)}
    declared = Pipeline(Columns(spec), "randaugment-224", seed=5)
    prepare = tf.function(preparation(declared, 3), [tf.TensorSpec([None], tf.int64), spec], autograph=False)
    made = prepare(tf.constant(IDS), {"image": tf.constant(files())})["image"]
    np.testing.assert_array_equal(made, stages.compile("randaugment-224")(files(), ids=IDS, seed=5, epoch=3))


def test_each_image_may_have_its_own_epoch():
    check("random_crop(padding=2); random_flip(); random_hue()", images(*FORMS[0]), spec_of(FORMS[0]), 7, np.arange(16))
