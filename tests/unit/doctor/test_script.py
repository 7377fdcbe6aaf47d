from __future__ import annotations

import pytest

from tfhet.doctor.script import distribute, guarded, look, parse
from tfhet.errors import UsageError


def calls(text: str):
    return {call.last: call for call in parse(text, "train.py").calls}


def test_a_call_has_the_name_of_what_was_imported():
    text = "import horovod.tensorflow.keras as hvd\nfrom tfhet import distribute as share\nimport tensorflow as tf\n"
    found = parse(f"{text}hvd.init(); share(ds); tf.data.Dataset.range(3).batch(2)", "train.py")
    assert [call.name for call in found.calls] == [
        "horovod.tensorflow.keras.init",
        "tfhet.distribute",
        "tensorflow.data.Dataset.range().batch",
        "tensorflow.data.Dataset.range",
    ]
    assert found.imports_from("horovod") and not found.imports_from("horo")


def test_what_stands_under_a_question_for_the_rank_depends_on_it():
    text = "if hvd.rank() == 0:\n    model.save('a')\nelse:\n    model.export('b')\nmodel.fit(ds)\n"
    assert calls(text)["save"].is_rank_dependent and calls(text)["export"].is_rank_dependent
    assert not calls(text)["fit"].is_rank_dependent
    assert calls("callbacks = [checkpoint()] if rank == 0 else []")["checkpoint"].is_rank_dependent


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("ds.map(lambda x: layer(x))", True),
        ("def one(x):\n    return layer(x)\nds = ds.map(one, num_parallel_calls=2)", True),
        ("made = layer(3)\nds.map(lambda x: made(x))", False),
        ("ds.map(made(layer(3)))", False),
    ],
)
def test_what_stands_in_a_mapped_function_is_inside(text, inside):
    assert calls(text)["layer"].is_mapped is inside


def test_keywords_of_a_call_are_kept_and_a_star_may_hide_others():
    fit = calls("model.fit(ds, epochs=2, **others)")["fit"]
    assert fit.keywords == {"epochs", "**"} and fit.arguments == 1


def test_what_python_cannot_read_is_a_fact_and_a_missing_file_wrong_use(tmp_path):
    assert "train.py, line 1" in parse("def (", "train.py").error
    assert parse("x = '\0'", "train.py").error
    with pytest.raises(UsageError, match="nothing.py: cannot be read"):
        look(tmp_path / "nothing.py")


def test_a_script_whose_function_a_feed_runs_asks_whether_it_is_imported():
    text = "import tfhet.torch\nloader = tfhet.torch.loader(make, batch_size=3)\n"
    found = guarded(parse(text, "train.py"))
    assert found is not None and "an import trains" in found.found
    guarded_text = text.replace("loader =", "if __name__ == '__main__':\n    loader =")
    found = guarded(parse(guarded_text, "train.py"))
    assert found is not None and "an import trains" not in found.found
    assert guarded(parse("import tfhet\ntfhet.distribute(ds)", "train.py")) is None


def test_a_script_of_pytorch_alone_has_no_data_set_to_distribute():
    assert distribute(parse("import torch", "train.py")) is None
    assert distribute(parse("import torch\nimport tensorflow as tf", "train.py")) is not None
    assert distribute(parse("import keras", "train.py")) is not None


def test_nothing_of_the_script_is_run(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("raise SystemExit('it ran')")
    assert look(path).named("SystemExit")
