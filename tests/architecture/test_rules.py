"""Each rule of the house finds the breach that it is for, and nothing in a source without one."""

from __future__ import annotations

import house
import pytest


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("tfhet/record/run.py", "from tfhet.launch import Launcher"),
        ("tfhet/record/run.py", "import tfhet.plan.plan as p"),
        ("tfhet/record/run.py", "from tfhet import errors, trainer"),
        ("tfhet/record/run.py", "def late():\n    from tfhet.plan import Plan"),
        ("tfhet/record/run.py", "from ..plan import Plan"),
        ("tfhet/record/run.py", "from .. import plan"),
        ("tfhet/record/run.py", "import importlib\nimportlib.import_module('tfhet.plan')"),
        ("tfhet/record/run.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tfhet.plan import Plan"),
        ("tfhet/record/run.py", "import tfhet"),
        ("tfhet/record/run.py", "from tfhet import distribute"),
        ("tfhet/errors.py", "from tfhet.units import parse_bytes"),
        ("tfhet/bench/cli.py", "import tfhet.doctor"),
        ("tfhet/bench/cli.py", "from benchmarks.launch import suite"),
        ("tfhet/plan/words.py", "from tfhet.catalogue.command import add"),
        ("tfhet/plan/words.py", "from tfhet import __main__"),
    ],
)
def test_an_import_from_a_room_below_is_found(path, source):
    assert len(house.room_order(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "tfhet/launch/launcher.py",
            "from tfhet.record import RunFolder\nfrom tfhet import errors, clock, __version__",
        ),
        ("tfhet/launch/launcher.py", "from .ring import Ring\nfrom tfhet.strategies.horovod import Ring"),
        ("tfhet/__main__.py", "import tfhet.doctor"),
        ("tfhet/plan/command.py", "def run():\n    from tfhet.report import show"),
        ("tfhet/__main__.py", "from tfhet.plan.command import add"),
        ("tfhet/__init__.py", "def distribute():\n    from tfhet.planes.tf_service import distribute"),
        ("tfhet/record/run.py", "import json, tfhetics"),
    ],
)
def test_an_import_from_a_room_above_is_fine(path, source):
    assert house.room_order(path, source) == []


def test_an_unknown_room_is_found_be_it_a_folder_or_a_module():
    assert house.known_room("tfhet/attic/old.py", "")
    assert house.known_room("tfhet/attic.py", "")
    assert not house.known_room("tfhet/stages/blur.py", "")
    assert not house.known_room("tfhet/__init__.py", "")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("tfhet/plan/plan.py", "import tensorflow as tf"),
        ("tfhet/plan/plan.py", "def late():\n    import tensorflow as tf"),
        ("tfhet/plan/plan.py", "from tensorflow.keras import layers"),
        ("tfhet/plan/plan.py", "import json, keras"),
        ("tfhet/plan/plan.py", "__import__('tensorflow.data')"),
        ("tfhet/bench/stages.py", "import tensorflow as tf"),
        ("tfhet/bench/stages.py", "class Suite:\n    import tensorflow as tf"),
        ("tfhet/__init__.py", "import tensorflow"),
    ],
)
def test_tensorflow_in_a_room_without_it_is_found(path, source):
    assert len(house.tensorflow_place(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("tfhet/stages/blur.py", "import tensorflow as tf"),
        ("tfhet/bench/stages.py", "def case():\n    import tensorflow as tf"),
        ("tfhet/plan/plan.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tensorflow as tf"),
        ("tfhet/plan/plan.py", "import tensorflow_free"),
    ],
)
def test_tensorflow_where_it_belongs_is_fine(path, source):
    assert house.tensorflow_place(path, source) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("tfhet/trainer/solo.py", "import horovod.tensorflow as hvd"),
        ("tfhet/launch/launcher.py", "def ranks():\n    from horovod.runner import run"),
        ("tfhet/trainer/model.py", "import tensorflow_addons as tfa"),
        ("tfhet/strategies/job.py", "def ranks():\n    import torch.distributed as dist"),
        ("tfhet/bench/stages.py", "def case():\n    import tensorflow_addons as tfa"),
        ("tfhet/launch/launcher.py", "from sagemaker_training import environment"),
        ("tfhet/plan/plan.py", "import boto3"),
        ("tfhet/control/lease.py", "import time"),
        ("tfhet/control/lease.py", "from time import monotonic"),
    ],
)
def test_a_package_outside_its_place_is_found(path, source):
    assert len(house.package_place(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("tfhet/strategies/horovod/collective.py", "import horovod.tensorflow as hvd"),
        ("tfhet/strategies/horovod/rendezvous.py", "from horovod.runner import run"),
        ("tfhet/strategies/torch/collective.py", "def join():\n    import torch.distributed as dist"),
        ("tfhet/stages/addons.py", "import tensorflow_addons as tfa"),
        ("tfhet/cluster/toolkit.py", "from sagemaker_training import environment"),
        ("tfhet/aws.py", "import boto3"),
        ("tfhet/clock.py", "import time"),
        ("tfhet/control/lease.py", "import timeit, datetime"),
    ],
)
def test_a_package_in_its_place_is_fine(path, source):
    assert house.package_place(path, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.environ['A']",
        "import os\nos.getenv('A')",
        "import os as system\nsystem.environ.get('A')",
        "from os import environ",
        "from os import path, getenv",
    ],
)
def test_reading_the_environment_elsewhere_is_found(source):
    assert len(house.environment_read("tfhet/launch/launcher.py", source)) == 1
    assert not house.environment_read("tfhet/cluster/environment.py", source)


def test_a_mapping_called_environ_is_not_the_environment():
    assert not house.environment_read("tfhet/launch/launcher.py", "import os\nhost.environ['A']\nos.path\nenviron = {}")


@pytest.mark.parametrize(
    "call", ["datetime.now()", "datetime.datetime.utcnow()", "date.today()", "dt.datetime.now(dt.UTC)"]
)
def test_reading_the_time_of_day_is_found(call):
    assert len(house.clock_read("tfhet/record/run.py", f"x = {call}")) == 1


def test_turning_a_given_time_into_a_date_is_fine():
    assert not house.clock_read("tfhet/record/run.py", "datetime.fromtimestamp(clock.wall())\nclock.now()")


def test_a_module_without_docstring_is_found():
    assert house.has_docstring("tfhet/a.py", "x = 1\n")
    assert house.has_docstring("tfhet/a.py", "")
    assert not house.has_docstring("tfhet/a.py", '"""What it is."""\n')


def test_a_long_module_is_found():
    assert house.module_length("tfhet/a.py", "\n" * (house.MODULE_LINES + 1))
    assert not house.module_length("tfhet/a.py", "\n" * house.MODULE_LINES)


def test_modules_that_are_long_in_the_middle_are_found_whatever_the_package_files_are():
    long, short = "\n" * (house.MEDIAN_LINES + 1), "\n"
    assert house.median_length(
        {"a.py": long, "b.py": long, "c.py": short, "__init__.py": short, "d/__init__.py": short}
    )
    assert not house.median_length({"a.py": long, "b.py": short, "c.py": short})


@pytest.mark.parametrize(
    "path",
    ["tfhet/utils.py", "tfhet/common/a.py", "tests/unit/core/test_a.py", "tests/unit/test_helpers.py", "docs/misc.md"],
)
def test_a_name_that_says_nothing_is_found(path):
    assert len(house.telling_name(path)) == 1


def test_a_setup_py_is_found_wherever_it_is():
    assert house.telling_name("setup.py")
    assert house.telling_name("scripts/setup.py")
    assert not house.telling_name("scripts/setup")
    assert not house.telling_name("tfhet/record/baseline.py")


def test_the_address_of_a_package_index_is_found():
    address = "https:/" + "/host.example/root/simple"
    assert house.registry_address("a.toml", f"x\nindex = {address}") == ["a.toml:2: names a package index"]
    assert not house.registry_address("a.md", "https:/" + "/host.example/a is simple, a/simple thing")


def test_dead_links_are_found_and_live_ones_are_not():
    files = {"docs/run.md": "# How to run\n## It's `one` run\n```\n# not a heading\n```\n", "docs": "", "plot.png": ""}
    text = """[a](run.md) [b](run.md#its-one-run) [c](../plot.png "plot") [d](https://host.example/x) [e](#top)
`[f](no.md)`
# Top
[g](gone.md) [h](run.md#not-a-heading) ![i](../gone.png) [j](#bottom)
```
[k](gone.md)
```
"""
    breaches = house.dead_links(
        "docs/index.md", text, lambda path: text if path == "docs/index.md" else files.get(path)
    )
    assert [breach.split("links to ")[1].split(",")[0] for breach in breaches] == [
        "gone.md",
        "run.md#not-a-heading",
        "../gone.png",
        "#bottom",
    ]


def test_headings_of_one_name_get_numbered_anchors():
    assert house.heading_anchors("# A b\n# A b\n") == {"a-b", "a-b-1"}


def test_the_words_that_the_glossary_replaces_are_found_outside_of_code():
    glossary = "| word | meaning |\n|---|---|\n| rank | one `process` |\n\n| not | but |\n|---|---|\n"
    words = house.words_to_replace(glossary + "| `told`, `head node` | asked |\n| `e.g.` | for example |\n")
    assert words == {"told": "asked", "head node": "asked", "e.g.": "for example"}
    text = "A\n```\ntold\n```\n`told` [a](told.md) <!-- told\n --> untold told-off\nTold, e.g. by a head node.\n"
    assert house.replaced_words("a.md", text, words) == [
        "a.md:7: 'Told'; the glossary says: asked",
        "a.md:7: 'e.g.'; the glossary says: for example",
        "a.md:7: 'head node'; the glossary says: asked",
    ]


def test_the_commands_in_a_text_are_found():
    text = "Run `scripts/demo`, ./scripts/test --all, or `.ci/run`. scripts/launcher.py, but not my/scripts/other."
    assert house.named_scripts(text) == [".ci/run", "scripts/demo", "scripts/launcher.py", "scripts/test"]


def test_without_git_the_files_are_found_by_walking(tmp_path):
    for name in ("a.py", "b/c.md", ".venv/d.py", "tfhet.egg-info/e", ".mypy_cache/f"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert house.files_of(tmp_path) == ["a.py", "b/c.md"]


@pytest.mark.parametrize(
    "source",
    [
        'import re\nA = re.compile(r"the job ended with exit code (\\d+)")',
        'import re\ndef f(x):\n    return re.search("delivers data", x)',
        'import re\nA = re.compile(r"\\[tfhet\\] epoch=")',
        'import re\nA = re.compile(r"first\\s+batch")',
        'def f(x):\n    return "starting it again" in x',
        'def f(x):\n    return x.startswith("not a member")',
        'def f(x):\n    return x.partition(" could not be made: ")[2]',
    ],
)
def test_a_program_that_reads_a_sentence_is_found(source):
    assert len(house.sentence_read("tfhet/report/live.py", source)) == 1
    assert house.sentence_read("tfhet/messages/log_line.py", source) == []


@pytest.mark.parametrize(
    "source",
    [
        'import re\nA = re.compile(r"[a-z]+-\\d+ *= *")',
        'def f(x):\n    return x.startswith("rank-") or "steps" in x or x in ("told to stop", "other")',
        'import re\nA = re.compile("Horovod has been shut down|HorovodInternalError")',
    ],
)
def test_a_program_that_reads_a_word_or_another_programs_text_is_fine(source):
    assert house.sentence_read("tfhet/report/live.py", source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import tensorflow as tf",
        "def start_workers():\n    pass",
        '"""Starts the dispatcher."""',
        "x = 1  # as mpirun has it",
        'NAME = "HOROVOD_RANK"',
        "a = tf_data",
        "# one of MPI's",
        "NCCL = GLOO = 1",
    ],
)
def test_a_word_of_a_plane_or_a_strategy_in_a_room_that_knows_none_is_found(source):
    assert len(house.neutral("tfhet/launch/leader.py", source)) == 1
    assert house.neutral("tfhet/planes/tf_service/fleet.py", source) == []


def test_what_only_looks_like_such_a_word_is_fine():
    assert house.neutral("tfhet/launch/leader.py", "import simplify\nimported = plan = strategy = 1\n# network") == []


FACES = {
    "tfhet/errors.py": "",
    "tfhet/plan/__init__.py": "from tfhet.plan.plan import Plan",
    "tfhet/plan/plan.py": "from tfhet.plan.words import said",
    "tfhet/plan/words.py": "",
    "tfhet/plan/command.py": "",
}


@pytest.mark.parametrize(
    "source",
    [
        "from tfhet.plan.plan import Plan",
        "from tfhet.plan import words",
        "import tfhet.plan.plan",
        "def late():\n    from tfhet.plan.words import said",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tfhet.plan.plan import Plan",
    ],
)
def test_an_import_past_the_face_of_another_room_is_found(source):
    assert len(house.past_the_face("tfhet/report/page.py", source, FACES)) == 1
    assert house.past_the_face("tfhet/plan/page.py", source, FACES) == []


@pytest.mark.parametrize(
    "source",
    [
        "from tfhet.plan import Plan",
        "import tfhet.plan",
        "from tfhet.errors import UsageError",
        "from tfhet import plan",
    ],
)
def test_an_import_of_a_face_is_fine(source):
    assert house.past_the_face("tfhet/report/page.py", source, FACES) == []
    assert house.past_the_face("tfhet/__main__.py", "from tfhet.plan.command import add", FACES) == []


def test_a_module_that_a_face_lists_is_a_name_of_the_face():
    faces = {**FACES, "tfhet/plan/__init__.py": "from tfhet.plan import words"}
    assert house.past_the_face("tfhet/report/page.py", "from tfhet.plan import words", faces) == []
    assert house.past_the_face("tfhet/report/page.py", "from tfhet.plan.words import said", faces)
    assert house.past_the_face("tfhet/report/page.py", "from tfhet.plan import plan", faces)


def test_a_folder_in_a_room_has_a_face_of_its_own():
    faces = {**FACES, "tfhet/plan/tenant/__init__.py": "", "tfhet/plan/tenant/inside.py": ""}
    assert house.past_the_face("tfhet/report/page.py", "from tfhet.plan.tenant import Tenant", faces) == []
    assert house.past_the_face("tfhet/report/page.py", "from tfhet.plan.tenant.inside import Tenant", faces)


@pytest.mark.parametrize(
    "back",
    [
        "from tfhet.plan.plan import Plan",
        "from tfhet.plan import Plan",
        "def late():\n    from tfhet.plan.plan import Plan",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tfhet.plan.plan import Plan",
    ],
)
def test_modules_that_import_each_other_are_found(back):
    assert house.import_cycles(FACES) == []
    ((*circle,),) = house.import_cycles({**FACES, "tfhet/plan/words.py": back})
    assert {"tfhet.plan.plan", "tfhet.plan.words"} <= set(circle)


def test_class_names_of_several_rooms_are_found():
    texts = {
        "tfhet/plan/a.py": "class Verdict:\n    class Inside: ...",
        "tfhet/plan/b.py": "class Verdict: ...",
        "tfhet/launch/a.py": "class Verdict: ...\nclass _Own: ...\nclass Inside: ...",
        "tfhet/report/a.py": "class _Own: ...\ndef one():\n    class Plan: ...",
    }
    assert house.classes_in_several_rooms(texts) == {"Verdict": ["launch", "plan"]}


def test_modules_that_the_map_does_not_name_in_their_room_are_found():
    rooms = "  plan/  what\n    ask.py  it;  in/: of_it.py\n  units.py  units\n"
    house_map = f"see lost.py\n## The rooms\n{rooms}\n## Then\nlost.py"
    named = ("plan/ask.py", "plan/in/of_it.py", "units.py", "plan/__init__.py", "plan/command.py", "stages/blur.py")
    assert [breach for path in named for breach in house.off_the_map(f"tfhet/{path}", house_map)] == []
    for path in ("plan/lost.py", "plan/it.py", "report/ask.py", "lost.py"):
        assert house.off_the_map(f"tfhet/{path}", house_map), path
