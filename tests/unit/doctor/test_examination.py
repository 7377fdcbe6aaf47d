from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tfhet.__main__ import main
from tfhet.container.kernel import KernelFeature
from tfhet.doctor import Check, Examination, Status, examination
from tfhet.doctor.software import Loaded
from tfhet.errors import UsageError
from tfhet.report import text

pytestmark = pytest.mark.timeout(60)
FEATURE = KernelFeature("nft", False, "not installed", ("lose",), "apt-get install nftables")
GOOD = Loaded(horovod=frozenset({"gloo", "mpi"}))
SECTIONS = ("software", "versions", "machine", "simulation", "cluster", "pipeline", "script")


@pytest.fixture
def here(monkeypatch):
    """Sets what the parts of an examination find on this machine, which is not looked at."""

    def put(loaded: Loaded) -> None:
        monkeypatch.setattr(examination.software, "load", lambda env: loaded)
        monkeypatch.setattr(examination.container, "probe", lambda directory: (FEATURE,))

    return put


def check(status: Status, is_needed: bool = False) -> Check:
    what = "" if status is Status.OK else "get it"
    return Check("software", "a thing", status, "2.0", "work", what, is_needed, "owner/project#12")


@pytest.mark.parametrize(
    ("status", "is_needed", "is_sound"),
    [
        (Status.OK, True, True),
        (Status.MISSING, True, False),
        (Status.MISSING, False, True),
        (Status.LIMITED, True, True),
        (Status.WRONG, False, False),
        (Status.UNKNOWN, True, True),
    ],
)
def test_it_is_sound_unless_something_will_fail(status, is_needed, is_sound):
    found = Examination((check(status, is_needed),))
    assert found.is_sound is is_sound
    could = int(status in (Status.LIMITED, Status.MISSING))
    sound = f"nothing was found that will fail; {could} of 1 could be better"
    assert found.verdict == (sound if is_sound else "will fail: a thing (2.0; get it)")


def test_what_is_not_ok_has_its_reason_and_a_line_to_type_and_brief_leaves_out_what_is():
    found = Examination((check(Status.OK), check(Status.LIMITED)))
    bad = ["! a thing  limited: 2.0", "    work (owner/project#12)", "    get it"]
    assert text(found.listed()).splitlines()[:5] == ["software", "✓ a thing  2.0", *bad]
    assert text(found.listed(brief=True)).splitlines()[:4] == ["software", *bad]


def test_a_list_has_no_line_that_is_wider_than_the_screen_and_no_word_in_two():
    words = "one-two-three " * 12
    found = Examination((Check("software", "a thing", Status.WRONG, words, words, words),))
    lines = text(found.listed(width=40)).splitlines()
    assert max(map(len, lines)) <= 40
    assert text(found.listed(width=40)).count("one-two-three") == 12 * 5, "found and what to do are in the verdict too"


def test_a_log_that_knows_ascii_only_has_other_marks():
    found = Examination((check(Status.OK), check(Status.WRONG)))
    lines = text(found.listed(), encoding="ascii").splitlines()
    assert lines[1] == "+ a thing  2.0" and lines[2].startswith("x a thing")


def test_the_parts_of_an_examination_are_counted(here, capsys):
    here(GOOD)
    assert main(["doctor", "--brief"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "[doctor] 0 of 3 parts: TensorFlow, Horovod and PyTorch",
        "[doctor] 1 of 3 parts: the machine",
        "[doctor] 2 of 3 parts: the simulation",
    ]


def test_the_command_prints_each_section_and_writes_what_it_printed(here, tmp_path, capsys):
    here(GOOD)
    script = tmp_path / "train.py"
    script.write_text("import tfhet\nds = tfhet.distribute(ds)\n")
    words = ["--cluster", "demo", "--script", str(script), "--json", str(tmp_path / "found.json")]
    assert main(["doctor", *words]) == 0
    out = capsys.readouterr().out
    for word in ("software", "machine", "simulation", "tensorflow", "CPUs", "apt-get install nftables"):
        assert word in out
    assert out.splitlines()[-1].startswith("nothing was found that will fail; ")
    document = json.loads((tmp_path / "found.json").read_text())
    assert document["schema"] == 2 and document["is_sound"] is True
    assert {each["section"] for each in document["checks"]} == set(SECTIONS) - {"pipeline"}
    (nft,) = (each for each in document["checks"] if each["name"] == "nft")
    assert nft == {
        "section": "simulation",
        "name": "nft",
        "status": "missing",
        "found": "not installed",
        "why": "lost packets of hosts in namespaces",
        "what_to_do": "apt-get install nftables",
        "is_needed": False,
        "issue": "",
    }


def test_brief_shows_what_is_not_ok_only(here, capsys):
    here(GOOD)
    assert main(["doctor", "--brief"]) == 0
    out = capsys.readouterr().out
    assert "nftables" in out and " ok " not in out


def test_the_command_fails_where_tensorflow_does_not_load(here, capsys):
    here(Loaded(tensorflow_error="ImportError: no libcudart"))
    assert main(["doctor"]) == 1
    assert "\nwill fail: tensorflow (" in capsys.readouterr().out


def test_the_command_fails_for_a_script_that_will(here, tmp_path, capsys):
    here(GOOD)
    script = tmp_path / "train.py"
    script.write_text("import horovod.tensorflow as hvd\nprint(hvd.rank())\n")
    assert main(["doctor", "--script", str(script)]) == 1
    assert "will fail: hvd.init (" in capsys.readouterr().out


def test_a_data_set_is_judged_for_the_workers_of_the_cluster(here, monkeypatch, capsys):
    here(GOOD)
    asked = []
    monkeypatch.setattr(
        examination.pipeline,
        "look",
        lambda *words: asked.append(words) or examination.pipeline.PipelineFacts(None, "no"),
    )
    assert main(["doctor", "--cluster", "two-data-two-dnn", "--pipeline", "a.py:b", "--stages", "rescale()"]) == 1
    assert [words[:3] for words in asked] == [("a.py:b", "rescale()", 2)]


def test_stages_without_a_pipeline_are_wrong_use():
    with pytest.raises(UsageError, match="--stages is for --pipeline"):
        from tfhet.cli import doctor as command

        command.run(examination_words(stages="rescale()"))


def examination_words(**given):
    import argparse

    usual = dict.fromkeys(("cluster", "pipeline", "stages", "script", "run_dir", "json", "brief"))
    return argparse.Namespace(**{**usual, **given})


def test_the_doctor_loads_no_tensorflow_itself():
    code = "import sys, tfhet.doctor.examination; print('tensorflow' in sys.modules, 'keras' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "False"]
