"""`tfhet.torch.stages`: tensors equal to the arrays of a compiled chain, in any layout and in DataLoader's workers."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

from tfhet import stages
from tfhet.errors import UsageError

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

pytestmark = pytest.mark.torch

CHAIN = "decode(); random_resized_crop(24, 20); random_flip(); normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))"
IMAGES = "random_flip(); color_jitter(); resize(9, 11)"


def file(seed: int) -> bytes:
    made = io.BytesIO()
    coarse = Image.fromarray(np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8))
    coarse.resize((60 + seed, 50)).save(made, "JPEG")
    return made.getvalue()


FILES = [file(seed) for seed in range(12)]


class Files(torch.utils.data.Dataset):
    """Images of files by `transform`, or files if it is None."""

    def __init__(self, transform=None):
        self.transform = transform

    def __len__(self):
        return len(FILES)

    def __getitem__(self, index):
        return (FILES[index] if self.transform is None else self.transform(FILES[index], id=index)), index


class Collate:
    def __init__(self, transform):
        self.transform = transform

    def __call__(self, samples):
        contents, indices = zip(*samples, strict=True)
        return self.transform(contents, ids=indices), torch.tensor(indices)


def expected(epoch: int = 0, chain: str = CHAIN) -> torch.Tensor:
    made = stages.compile(chain)(FILES, ids=np.arange(len(FILES)), seed=7, epoch=epoch)
    return torch.from_numpy(made).permute(0, 3, 1, 2)


def transform_of(chain: str = CHAIN, **options):
    import tfhet.torch

    return tfhet.torch.stages(chain, seed=7, **options)


@pytest.mark.parametrize("channels_last", [False, True])
def test_results_equal_those_of_numpy(channels_last):
    transform = transform_of(channels_last=channels_last, epoch=4)
    batch = transform(FILES, ids=range(12))
    assert batch.shape == (12, 3, 24, 20)
    assert batch.dtype == torch.float32
    assert batch.is_contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
    assert torch.equal(batch, expected(4))
    for index in (0, 5):
        assert torch.equal(transform(FILES[index], id=index), expected(4)[index])
    assert torch.equal(transform(FILES, ids=torch.arange(12), epoch=2), expected(2))
    assert torch.equal(transform(FILES, ids=np.arange(12), epoch=np.full(12, 3)), expected(3))


@pytest.mark.parametrize("channels", [1, 3])
def test_every_form_of_an_image_gives_the_same(channels):
    rng = np.random.default_rng(0)
    arrays = rng.integers(0, 256, (4, 16, 12, channels), np.uint8)
    transform, ids = transform_of(IMAGES), [3, 8, 1, 5]
    planes = torch.from_numpy(arrays).permute(0, 3, 1, 2)
    first = transform(arrays, ids=ids)
    assert first.shape == (4, channels, 9, 11)
    pictures = [Image.fromarray(array if channels == 3 else array[:, :, 0]) for array in arrays]
    for batch in (planes, planes.contiguous(), list(planes), list(arrays), pictures, tuple(pictures)):
        assert torch.equal(transform(batch, ids=ids), first)
    for one in (planes[2], planes[2].contiguous(), arrays[2], pictures[2]):
        assert torch.equal(transform(one, id=1), first[2])
    floats = transform_of("random_flip()")(planes.float(), ids=ids)
    assert floats.dtype == torch.float32


def test_files_may_be_tensors_and_arrays():
    transform = transform_of()
    tensors = [torch.frombuffer(bytearray(content), dtype=torch.uint8) for content in FILES]
    assert torch.equal(transform(tensors, ids=range(12)), expected())
    assert torch.equal(transform(np.array(FILES, object), ids=range(12)), expected())
    assert torch.equal(transform(tensors[3], id=3), expected()[3])
    assert torch.equal(transform(bytearray(FILES[3]), id=3), expected()[3])


def test_images_of_different_sizes_become_one_batch():
    images = [Image.open(io.BytesIO(content)) for content in FILES]
    images = [image.convert("RGB") for image in images]
    transform = transform_of("resize(24, 20); random_flip()")
    batch = transform(images, ids=range(12))
    for index in (0, 11):
        assert torch.equal(batch[index], transform(images[index], id=index))
    with pytest.raises(UsageError, match="50 x 60 and 50 x 61.*add a resize"):
        transform_of("random_flip()")(images, ids=range(12))


def test_channels_last_needs_no_copy():
    array = np.zeros((2, 8, 8, 3), np.uint8)
    out = transform_of("invert()", channels_last=True)(array)
    assert out.permute(0, 2, 3, 1).is_contiguous()


def test_labels_are_tensors():
    import tfhet.torch

    transform = tfhet.torch.stages("one_hot(4); mixup(0.5)", seed=1)
    images, labels = torch.rand(5, 3, 8, 8), torch.tensor([0, 3, 1, 2, 0])
    made, mixed = transform(images, ids=range(5), labels=labels)
    assert made.shape == images.shape
    assert mixed.shape == (5, 4)
    assert torch.allclose(mixed.sum(dim=1), torch.ones(5))
    image, label = tfhet.torch.stages("one_hot(4)")(images[0], id=0, labels=3)
    assert label.tolist() == [0, 0, 0, 1]
    assert torch.equal(image, images[0])
    with pytest.raises(UsageError, match="mixup mixes.*collate_fn"):
        transform(images[0], id=0, labels=1)


def test_transform_can_be_pickled():
    transform = transform_of(channels_last=True)
    transform.set_epoch(3)
    again = pickle.loads(pickle.dumps(transform))
    assert again.epoch == 3
    assert torch.equal(again(FILES, ids=range(12)), expected(3))
    again.set_epoch(1)
    assert transform.epoch == 3


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_workers_of_a_loader_follow_the_epoch(start, channels_last):
    transform = transform_of(channels_last=channels_last)
    options = {"batch_size": 4, "num_workers": 2, "multiprocessing_context": start, "persistent_workers": True}
    for loader in (
        torch.utils.data.DataLoader(Files(transform), **options),
        torch.utils.data.DataLoader(Files(), collate_fn=Collate(transform), **options),
    ):
        for epoch in (0, 2, 1):
            transform.set_epoch(epoch)
            batches = [images for images, _ in loader]
            assert torch.equal(torch.cat(batches), expected(epoch))
        if loader.collate_fn.__class__ is Collate and channels_last:
            assert batches[0].is_contiguous(memory_format=torch.channels_last)


def test_chains_and_stages_are_accepted():
    import tfhet.torch

    chain = stages.compile(CHAIN)
    for each in (chain, chain.stages, CHAIN):
        assert torch.equal(tfhet.torch.stages(each, seed=7, threads=2)(FILES, ids=range(12)), expected())


# fmt: off
@pytest.mark.parametrize(
    ("images", "options", "message"),
    [
        (FILES[0], {}, "pass id="),
        (FILES, {}, "pass ids="),
        (FILES[0], {"ids": [0]}, "one image: pass id="),
        (FILES, {"id": 0}, "a batch of 12: pass ids="),
        (FILES, {"ids": [0, 1]}, r"int64 \[12\]"),
        (b"no image", {"id": 41}, "image with id 41: "),
        ([*FILES[:2], np.zeros((8, 8, 3), np.uint8)], {"ids": [0, 1, 2]}, "2 files and 1 images"),
        (torch.zeros(3, 8, 8, dtype=torch.float64), {"id": 0}, r"float64.*\.float\(\)"),
        (torch.zeros(8, 8), {"id": 0}, r"Tensor \[8, 8\]: pass the bytes"),
        (torch.zeros(3, 8, 8, device="meta"), {"id": 0}, "device meta.*on the CPU"),
        (np.zeros((8, 8, 3), np.int64), {"id": 0}, "int64.*astype"),
        ([np.zeros((8, 8, 3), np.uint8), np.zeros((8, 8, 1), np.uint8)], {"ids": [0, 1]}, "1 channels and uint8"),
        ([FILES[0], "x.jpg"], {"ids": [0, 1]}, "image 1 of the list is 'x.jpg'"),
        (Image.new("RGBA", (8, 8)), {"id": 0}, r'mode RGBA.*convert\("RGB"\)'),
    ],
)
# fmt: on
def test_unusable_input_is_refused(images, options, message):
    with pytest.raises(UsageError, match=message):
        transform_of()(images, **options)


def test_float_images_are_from_0_to_1():
    image = torch.rand(3, 8, 8)
    made = transform_of("invert()")(image)
    assert torch.allclose(made, 1.0 - image)
    with pytest.raises(UsageError, match="invert: needs float32 images from 0 to 1"):
        transform_of("invert()", float_range=None)(image)


def test_unknown_stages_are_refused():
    with pytest.raises(UsageError, match="random_flop"):
        transform_of("random_flop()")
    with pytest.raises(UsageError, match="batch.*flow"):
        transform_of("batch(3)")


class TestDropInTransform:
    """`tfhet.torch.from_torchvision` in the place of a transform."""

    @staticmethod
    def made(*transforms):
        import tfhet.torch

        v2 = pytest.importorskip("torchvision.transforms.v2")
        parts = [getattr(v2, name)(*arguments) for name, *arguments in transforms]
        return tfhet.torch.from_torchvision(v2.Compose([*parts, v2.ToTensor()]))

    def test_draws_follow_the_generator_of_pytorch(self):
        transform = self.made(("RandomResizedCrop", (24, 20)), ("RandomHorizontalFlip",))
        torch.manual_seed(3)
        first, second = transform(FILES[0]), transform(FILES[0])
        assert not torch.equal(first, second)
        torch.manual_seed(3)
        assert torch.equal(transform(FILES[0]), first)
        assert torch.equal(pickle.loads(pickle.dumps(transform))(FILES[0]), second)

    def test_files_equal_their_images(self):
        transform = self.made(("Resize", (30, 40)), ("CenterCrop", 24))
        image = Image.open(io.BytesIO(FILES[1]))
        of_file, of_image = transform(FILES[1]), transform(image)
        assert of_file.dtype == torch.float32
        assert of_file.shape == (3, 24, 24)
        assert torch.allclose(of_file, of_image, atol=1.01 / 255)

    def test_other_files_are_read_by_pillow(self):
        transform, image, content = self.made(("Resize", (30, 40))), Image.open(io.BytesIO(FILES[1])), io.BytesIO()
        image.save(content, "TIFF")
        assert torch.equal(transform(content.getvalue()), transform(image))
        with pytest.raises(OSError):
            transform(b"no image")

    def test_transform_without_stages_is_refused(self):
        with pytest.raises(UsageError, match="have no equal stages"):
            self.made(("Lambda", str))
