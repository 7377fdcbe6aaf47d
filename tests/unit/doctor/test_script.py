from __future__ import annotations

import pytest

from tfhet.doctor import Status
from tfhet.doctor.script import distribute, guarded, look, parse, sampled
from tfhet.errors import UsageError


def calls(text: str):
    return {call.last: call for call in parse(text, "train.py").calls}


def test_calls_have_imported_names():
    text = "import horovod.tensorflow.keras as hvd\nfrom tfhet import distribute as share\nimport tensorflow as tf\n"
    found = parse(f"{text}hvd.init(); share(ds); tf.data.Dataset.range(3).batch(2)", "train.py")
    assert [call.name for call in found.calls] == [
        "horovod.tensorflow.keras.init",
        "tfhet.distribute",
        "tensorflow.data.Dataset.range().batch",
        "tensorflow.data.Dataset.range",
    ]
    assert found.imports_from("horovod") and not found.imports_from("horo")


def test_calls_under_a_rank_test_depend_on_it():
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
def test_calls_in_mapped_functions_are_found(text, inside):
    assert calls(text)["layer"].is_mapped is inside


def test_keywords_of_a_call_are_kept():
    fit = calls("model.fit(ds, epochs=2, **others)")["fit"]
    assert fit.keywords == {"epochs", "**"} and fit.arguments == 1


def test_unreadable_script(tmp_path):
    assert "line 1" in parse("def (", "train.py").error
    assert parse("x = '\0'", "train.py").error
    with pytest.raises(UsageError, match=r"nothing\.py"):
        look(tmp_path / "nothing.py")


def test_feed_script_needs_a_main_guard():
    text = "import tfhet.torch\nloader = tfhet.torch.loader(make, batch_size=3)\n"
    safe = text.replace("loader =", "if __name__ == '__main__':\n    loader =")
    answers = [guarded(parse(each, "train.py")) for each in (text, safe)]
    assert [answer and answer.status for answer in answers] == [Status.LIMITED, Status.OK]
    assert guarded(parse("import tfhet\ntfhet.distribute(ds)", "train.py")) is None


def test_pytorch_script_has_no_dataset():
    assert distribute(parse("import torch", "train.py")) is None
    assert distribute(parse("import torch\nimport tensorflow as tf", "train.py")) is not None
    assert distribute(parse("import keras", "train.py")) is not None


DDP = "import torch\nfrom torch.utils.data import DataLoader\ntorch.distributed.init_process_group()\n"


@pytest.mark.parametrize(
    ("line", "rank_share", "group"),
    [
        ("loader = DataLoader(data)", Status.LIMITED, Status.LIMITED),
        ("loader = DataLoader(data, sampler=parts)", Status.OK, Status.LIMITED),
        ("loader = DataLoader(data, **options)", Status.OK, Status.LIMITED),
        ("import tfhet.torch\nloader = tfhet.torch.loader(make)", Status.OK, Status.OK),
    ],
)
def test_ranks_that_read_the_same_are_found(line, rank_share, group):
    facts = parse(DDP + line, "train.py")
    answers = sampled(facts), distribute(facts)
    assert [answer and answer.status for answer in answers] == [rank_share, group]
    assert sampled(parse("import torch\ntorch.utils.data.DataLoader(data)", "train.py")) is None


def test_script_is_not_run(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("raise SystemExit('it ran')")
    assert look(path).named("SystemExit")
