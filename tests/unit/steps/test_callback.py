from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tfhet


@pytest.mark.parametrize("frequency", [1, 2])
def test_metrics_of_one_rank_are_unchanged(frequency):
    x, y = np.arange(20.0).reshape(10, 2) / 20, np.arange(10) % 2
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1, activation="sigmoid")])
    model.compile("sgd", "binary_crossentropy", metrics=["accuracy", tf.keras.metrics.AUC(name="auc")])
    weights, histories = model.get_weights(), []
    averaged = tfhet.MetricAverageCallback()
    for callbacks in ([], [averaged]):
        model.set_weights(weights)
        options = {"validation_data": (x[:4], y[:4]), "validation_freq": frequency, "shuffle": False, "verbose": 0}
        histories.append(model.fit(x, y, batch_size=5, epochs=3, callbacks=callbacks, **options).history)
    assert histories[0].keys() == histories[1].keys()
    for name, values in histories[0].items():
        assert histories[1][name] == pytest.approx(values), name
    whole = model.evaluate(x, y, callbacks=[averaged], return_dict=True, verbose=0)
    assert averaged.evaluated == pytest.approx(whole)
