"""Scripts that `multi_worker` and `parameter_server` refuse: `fit` of Keras 3."""

from __future__ import annotations

import contextlib

import pytest

from tfhet import strategies
from tfhet.errors import UsageError
from tfhet.strategies.tensorflow import multi_worker, parameter_server
from tfhet.strategies.tensorflow.keras_fit import is_keras_3

FIT = "s = tf.distribute.MultiWorkerMirroredStrategy()\nmodel.compile('sgd')\nmodel.fit(ds)\n"
CREATOR = "def dataset_fn(context): ...\nmodel.fit(tf.keras.utils.experimental.DatasetCreator(dataset_fn), epochs=2)\n"
LOOP = "s = tf.distribute.MultiWorkerMirroredStrategy()\nscaler.fit(x)\ns.run(step)\n"


@pytest.mark.parametrize(
    ("text", "keras", "size", "env", "is_refused"),
    [
        (FIT, "3.15.1", 2, {}, True),
        (FIT, "3.15.1", 2, {"TF_USE_LEGACY_KERAS": "0"}, True),
        (FIT, "3.15.1", 1, {}, False),
        (FIT, "2.15.0", 2, {}, False),
        (FIT, "3.15.1", 2, {"TF_USE_LEGACY_KERAS": "1"}, False),
        (f"os.environ['TF_USE_LEGACY_KERAS'] = '1'\n{FIT}", "3.15.1", 2, {}, False),
        (f"import tf_keras\n{FIT}", "3.15.1", 2, {}, False),
        (LOOP, "3.15.1", 2, {}, False),
        (f"import re\nre.compile('a')\n{LOOP}", "3.15.1", 2, {}, False),
        (f"model.compile('sgd')\n{LOOP}", "3.15.1", 2, {}, False),
        (FIT.replace("model.fit(ds)", "built.fit(ds, epochs=2)"), "3.15.1", 2, {}, True),
        (FIT.replace("MultiWorkerMirrored", "Mirrored"), "3.15.1", 2, {}, False),
        (f"{FIT}def broken(:", "3.15.1", 2, {}, False),
    ],
)
def test_fit_of_keras_3_is_refused(text, keras, size, env, is_refused, tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text(text)
    monkeypatch.setattr(multi_worker, "versions", lambda packages: {"keras": keras})
    check = strategies.get("multi_worker").check_script
    if not is_refused:
        check(str(script), size, env)
        return
    with pytest.raises(UsageError) as refused:
        check(str(script), size, env)
    message = str(refused.value)
    assert f"{script}, line 3" in message and "TF_USE_LEGACY_KERAS" in message and "horovod" in message


@pytest.mark.parametrize(
    ("text", "keras", "is_refused"),
    [(CREATOR, "3.15.1", True), (CREATOR, "2.15.0", False), (f"import tf_keras\n{CREATOR}", "3.15.1", False)],
)
def test_fit_of_keras_3_with_parameter_servers_is_refused(text, keras, is_refused, tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text(text)
    monkeypatch.setattr(parameter_server, "versions", lambda packages: {"keras": keras})
    with pytest.raises(UsageError, match="line 2.*TF_USE_LEGACY_KERAS") if is_refused else contextlib.nullcontext():
        strategies.get("parameter_server").check_script(str(script), 2, {})


def test_unknown_version_counts_as_keras_2():
    assert not is_keras_3({}, {}) and not is_keras_3({"keras": "nightly"}, {})
