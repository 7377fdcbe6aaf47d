from __future__ import annotations

from dataclasses import fields

import pytest

from tfhet.arguments import truth, underscored
from tfhet.errors import UsageError
from tfhet.trainer.settings import Settings


def test_nothing_said_is_the_defaults():
    assert Settings.parse([]) == Settings()


def test_every_field_is_an_argument():
    argv = [word for item in fields(Settings) for word in (f"--{item.name}", str(getattr(Settings(), item.name)))]
    assert Settings.parse(argv) == Settings()


def test_dashes_and_underscores_in_names_are_the_same():
    expected = Settings(batch_size=7, steps_per_epoch=3, learning_rate=0.5)
    assert Settings.parse(["--batch-size", "7", "--steps_per-epoch=3", "--learning_rate", "0.5"]) == expected


def test_values_keep_their_dashes():
    argv = ["--data", "my-channel", "--chain=random_zoom(0.1)", "--cut", "-1", "--validation=a--b"]
    assert Settings.parse(argv) == Settings(data="my-channel", chain="random_zoom(0.1)", cut=-1, validation="a--b")
    assert underscored(["a-b", "--x-y=p-q", "-v-w"]) == ["a-b", "--x_y=p-q", "-v-w"]


@pytest.mark.parametrize("word", ["True", "true", "1", "yes", "TRUE", ""])
def test_words_that_mean_yes(word):
    assert truth(word) is True
    assert Settings.parse(["--audit", word]).audit is True


@pytest.mark.parametrize("word", ["False", "false", "0", "no"])
def test_words_that_mean_no(word):
    assert Settings.parse(["--resume", word, f"--audit={word}"]) == Settings(resume=False, audit=False)


def test_arguments_of_others_are_left_alone():
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
        ["--precision", "float8"],
        ["--compression", "zip"],
        ["--on_bad_record", "ask"],
    ],
)
def test_a_wrong_value_is_named(argv):
    with pytest.raises(UsageError) as refused:
        Settings.parse(argv)
    assert argv[0].replace("-", "_") in str(refused.value).replace("-", "_")
