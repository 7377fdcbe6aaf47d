from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet import kernels, stages
from tfhet.errors import DataError, UsageError
from tfhet.pipeline import BatchMaker, Pipeline
from tfhet.source import ArraySpec, Encoded, Fixed, Raw, Scalar, TFRecordSource, encoding, write_tfrecords
from tfhet.source.feature import Native, from_json

RNG = np.random.default_rng(8)
VALUES = [
    (Raw((4, 5, 3)), RNG.integers(0, 256, (3, 4, 5, 3)).astype(np.uint8)),
    (Raw([6], "float32"), RNG.normal(size=(3, 6)).astype(np.float32)),
    (Raw((), "int16"), np.array([-5, 0, 300], np.int16)),
    (Scalar(), np.array([3, -1, 2**40])),
    (Scalar("float32"), np.array([0.5, -2, 1e9], np.float32)),
    (Scalar("int32"), np.array([3, -1, 7], np.int32)),
    (Scalar("string"), np.array([b"a", b"", b"\xff"], object)),
    (Fixed((2, 2)), RNG.normal(size=(3, 2, 2)).astype(np.float32)),
    (Fixed([3], "bool"), np.array([[True, False, True]] * 3)),
    (Raw((2,), "bfloat16"), np.array([[1.5, -2.0]] * 3, np.float32)),
    (Scalar("bfloat16"), np.array([0.5, -2, 1024], np.float32)),
]


def through_an_example(feature, values) -> tf.Tensor:
    records = [encoding.example({"it": feature.encode(value)}) for value in values]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def parse(batch):
        return feature.decode(tf.io.parse_example(batch, {"it": feature.stored()})["it"])

    assert feature.spec.tensor.is_compatible_with(parse(tf.constant(records)))
    assert parse.get_concrete_function().structured_outputs.shape.as_list() == list(feature.spec.shape)
    return parse(tf.constant(records))


@pytest.mark.parametrize(("feature", "values"), VALUES, ids=lambda value: repr(value)[:40])
def test_values_are_read_as_written(feature, values):
    back = through_an_example(feature, values)
    assert back.dtype.name == feature.dtype
    assert (back.numpy() == values).all()


@pytest.mark.parametrize(
    "feature", [*(feature for feature, _ in VALUES), Encoded(), Encoded(8, 9, 1)], ids=lambda feature: repr(feature)
)
def test_feature_reads_back_from_json(feature):
    import json

    assert from_json(json.loads(json.dumps(feature.as_json()))) == feature


@pytest.mark.parametrize(
    "encode", [tf.io.encode_png, tf.io.encode_jpeg, lambda image: tf.io.encode_jpeg(image, quality=100)]
)
def test_encoded_images_equal_tensorflow(encode):
    images = [RNG.integers(0, 256, (12, 10, 3)).astype(np.uint8) for _ in range(3)]
    contents = [encode(image).numpy() for image in images]
    back = through_an_example(Encoded(12, 10), contents)
    expected = np.stack([tf.io.decode_image(content, channels=3).numpy() for content in contents])
    assert (back.numpy() == expected).all()


def test_encoded_images_get_the_stated_size():
    ramp = np.repeat(np.repeat(np.linspace(0, 255, 40).astype(np.uint8)[:, None, None], 30, 1), 3, 2)
    contents = [
        tf.io.encode_png(ramp).numpy(),
        tf.io.encode_jpeg(ramp[::2, ::2], quality=100).numpy(),
        tf.io.encode_png(ramp[..., :1]).numpy(),  # grey becomes RGB
    ]
    back = through_an_example(Encoded(20, 15), contents).numpy()
    assert back.shape == (3, 20, 15, 3)
    for image in back:
        assert np.abs(np.int32(image) - np.linspace(0, 255, 20)[:, None, None]).max() < 10


def test_encoded_images_without_a_size_stay_bytes():
    contents = [tf.io.encode_png(np.zeros((rows, 6, 3), np.uint8)).numpy() for rows in (3, 8)]
    assert through_an_example(Encoded(), contents).numpy().tolist() == contents
    assert Encoded().spec == ArraySpec((None,), "string")


def test_half_a_size_is_refused():
    with pytest.raises(UsageError, match="224, None"):
        Encoded(224)


def test_features_of_tensorflow_are_read():
    example = tf.train.Example()
    example.features.feature["it"].int64_list.value.extend([4, 5, 6])
    record = example.SerializeToString()
    for feature in (tf.io.FixedLenFeature([3], tf.int64), tf.io.VarLenFeature(tf.int64), tf.io.RaggedFeature(tf.int64)):
        native = Native(feature)
        back = native.decode(tf.io.parse_example(tf.constant([record]), {"it": native.stored()})["it"])
        assert native.spec.is_compatible_with(back)
        flat = back if isinstance(back, tf.Tensor) else back.values
        assert tf.reshape(flat, [-1]).numpy().tolist() == [4, 5, 6]
        with pytest.raises(UsageError, match="Raw, Scalar, Fixed"):
            native.encode([4, 5, 6])


def test_raw_bytes_of_another_length_fail():
    raw = Raw((4, 4, 3))
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        raw.decode(tf.constant([bytes(96)]))


@pytest.mark.parametrize(
    ("feature", "value", "complaint"),
    [
        (Raw((4, 4, 3)), np.zeros((4, 4), np.uint8), r"\(4, 4\) .* \(4, 4, 3\)"),
        (Raw((2,)), np.array([0.5, 1.0]), "float64 .* uint8"),
        (Raw((2,)), np.array([0, 256]), "int64 .* uint8"),
        (Raw((1,)), np.array([256], np.uint16), "uint16 .* uint8"),
        (Raw((1,), "int8"), np.array([200]), "int64 .* int8"),
        (Raw((1,), "float32"), np.array([2**24 + 1]), "float32"),
        (Scalar("int32"), 2**40, "int32"),
        (Scalar(), np.uint64(2**63), "uint64"),
        (Fixed((1,), "float16"), np.array([7e4]), "float16"),
        (Fixed((1,), "bool"), np.array([2]), "bool"),
        (Scalar("float64"), 0.1, "float32"),
        (Scalar(), 1.5, "int64"),
        (Scalar(), "7", "int64"),
        (Scalar(), b"7", "int64"),
        (Encoded(), np.zeros(3), "ndarray"),
    ],
)
def test_value_that_does_not_fit_is_refused(feature, value, complaint):
    with pytest.raises(UsageError, match=complaint):
        feature.encode(value)


@pytest.mark.parametrize(("dtype", "value"), [("uint8", 256), ("int32", -(2**40)), ("bool", 2), ("float16", 7e4)])
def test_stored_value_outside_the_dtype_is_an_error(dtype, value):
    with pytest.raises(tf.errors.InvalidArgumentError, match=dtype):
        Scalar(dtype).decode(tf.constant([0, value], tf.float32 if dtype == "float16" else tf.int64))


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"kind": "video"},
        {"kind": "raw", "size": 3},
        {"kind": "raw", "shape": [4, "5"]},
        {"kind": "raw", "shape": [-4]},
        {"kind": "raw", "shape": [4], "dtype": "no such"},
        {"kind": "encoded", "height": "8", "width": 8},
    ],
)
def test_unknown_json_form_is_refused(document):
    with pytest.raises(UsageError, match="raw, scalar, fixed, encoded"):
        from_json(document)


@pytest.mark.parametrize("kind", ["png", "yuv420", "rgb"])
@pytest.mark.parametrize("size", [(12, 10), (6, 9)])
def test_stored_images_get_the_stated_size(kind, size, tmp_path):
    """TensorFlow and the native reader decode image files and TFI alike."""
    files = [tf.io.encode_png(RNG.integers(0, 256, (12, 10, 3)).astype(np.uint8)).numpy() for _ in range(4)]
    files = files if kind == "png" else [kernels.store_image(file, kind) for file in files]
    write_tfrecords(tmp_path / "data", ({"image": file} for file in files), 1, {"image": Encoded()})
    source = TFRecordSource.from_directory(tmp_path / "data", size=size)
    expected = stages.compile(f"decode(); resize({size[0]}, {size[1]}, antialias=True)")(files)
    assert source.can_load()
    found = source.load(np.arange(4))["image"]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(source.features["image"].decode(tf.constant(files)), expected)
    ((_, record),) = source.read(tf.constant(0, tf.int64)).take(1)
    np.testing.assert_array_equal(source.parse(record[None])["image"], expected[:1])


def test_broken_image_with_a_size_is_named(tmp_path):
    write_tfrecords(tmp_path / "data", [{"image": b"no image"}], 1, {"image": Encoded()})
    source = TFRecordSource.from_directory(tmp_path / "data", size=(4, 4))
    with pytest.raises(UsageError):
        source.load(np.arange(1))
    with pytest.raises(DataError, match="tfrecord"):
        BatchMaker(Pipeline(source, "random_flip()")).make(np.arange(1), 0)
