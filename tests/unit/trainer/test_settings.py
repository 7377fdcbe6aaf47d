from __future__ import annotations

import re
from dataclasses import fields

import pytest

from tfhet.arguments import truth, underscored
from tfhet.cluster import HostPaths
from tfhet.errors import UsageError
from tfhet.trainer.settings import Settings


def test_every_field_is_an_argument_with_its_default():
    argv = [word for item in fields(Settings) for word in (f"--{item.name}", str(getattr(Settings(), item.name)))]
    assert Settings.parse(argv) == Settings.parse([]) == Settings()


def test_names_may_have_dashes_and_values_keep_theirs():
    expected = Settings(batch_size=7, steps_per_epoch=3, learning_rate=0.5, data="my-channel", cut=-1)
    argv = ["--batch-size", "7", "--steps_per-epoch=3", "--learning_rate", "0.5", "--data", "my-channel", "--cut", "-1"]
    assert Settings.parse(argv) == expected
    assert underscored(["a-b", "--x-y=p-q", "-v-w"]) == ["a-b", "--x_y=p-q", "-v-w"]


@pytest.mark.parametrize(
    ("word", "value"),
    [*((word, True) for word in ("True", "1", "yes", "TRUE", "")), *((word, False) for word in ("false", "0", "no"))],
)
def test_words_mean_yes_or_no(word, value):
    assert truth(word) is value
    assert Settings.parse(["--audit", word]).audit is value


def test_unknown_arguments_are_ignored():
    argv = ["--tensorboard-dir", "/tmp/x", "stray", "--model", "small_cnn", "--mod", "other", "-q"]
    assert Settings.parse(argv) == Settings(model="small_cnn")


@pytest.mark.parametrize(
    "argv",
    [
        ["--epochs", "three"],
        ["--epochs"],
        ["--epochs", "2.5"],
        ["--epochs", "0"],
        ["--audit", "perhaps"],
        ["--batch_size", "0"],
        ["--steps_per_epoch", "-1"],
        ["--accumulate", "0"],
        ["--log-every", "0"],
        ["--keep_checkpoints", "0"],
        ["--step_ms", "nan"],
        ["--step_ms", "inf"],
        ["--learning_rate", "-inf"],
        ["--precision", "float8"],
        ["--compression", "zip"],
        ["--on_bad_record", "ask"],
    ],
)
def test_a_wrong_value_is_named(argv):
    with pytest.raises(UsageError) as refused:
        Settings.parse(argv)
    assert argv[0].replace("-", "_") in str(refused.value).replace("-", "_")


def test_rate_grows_over_the_warm_up():
    settings = Settings(learning_rate=0.1, warmup_epochs=4.0)
    rates = [settings.learning_rate_at(epoch, 8) for epoch in (0, 1, 2, 4, 90)]
    assert rates == pytest.approx([0.1, 0.275, 0.45, 0.8, 0.8])


def test_one_rank_needs_no_warm_up():
    assert {Settings(learning_rate=0.1).learning_rate_at(epoch / 4, 1) for epoch in range(20)} == {0.1}


@pytest.mark.parametrize("epochs", [0, -1.0])
def test_no_warm_up_gives_the_full_rate(epochs):
    assert Settings(learning_rate=0.1, warmup_epochs=epochs).learning_rate_at(0, 4) == pytest.approx(0.4)


def test_channel_is_checked_by_its_names(tmp_path):
    paths, channel = HostPaths(tmp_path, {}), tmp_path / "input" / "data" / "training"
    assert Settings(data="synthetic:8:2").channel(paths) is None
    for name in ("", ".a.tfrecord", "notes.txt"):
        with pytest.raises(UsageError, match=re.escape(str(channel))):
            Settings().channel(paths)
        channel.mkdir(parents=True, exist_ok=True)
        (channel / (name or "x")).touch()
    (channel / "a.tfrecord").touch()
    assert Settings().channel(paths) == channel
