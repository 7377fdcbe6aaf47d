"""doctor/examination.py: the checks of this machine together, and `tfhet doctor`."""

from __future__ import annotations

import json

import pytest

from tfhet.__main__ import main
from tfhet.container import kernel
from tfhet.container.kernel import LOSE, NAMESPACE, KernelFeature
from tfhet.doctor import Check, Examination, Status, examination
from tfhet.doctor.examination import simulation_checks
from tfhet.doctor.software import Loaded
from tfhet.report import text

pytestmark = pytest.mark.timeout(60)
FEATURE = KernelFeature("nft", False, "not installed", ("lose",), "apt-get install nftables")
GOOD = Loaded(horovod=frozenset({"gloo", "mpi"}))
SECTIONS = ("software", "versions", "machine", "simulation", "cluster", "script")


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """A machine on which all packages load and one feature of the kernel is missing."""
    monkeypatch.setattr(examination.software, "load", lambda env: GOOD)
    monkeypatch.setattr(examination.container, "probe", lambda directory: (FEATURE,))


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
def test_fatal_checks_decide(status, is_needed, is_sound):
    found = Examination((check(status, is_needed),))
    assert found.is_sound is is_sound
    assert ("a thing (2.0; get it)" in found.verdict) != is_sound


def test_list_explains_what_is_not_ok():
    found = Examination((check(Status.OK), check(Status.LIMITED)))
    bad = ["! a thing  limited: 2.0", "    work (owner/project#12)", "    get it"]
    assert text(found.listed()).splitlines()[:5] == ["software", "✓ a thing  2.0", *bad]
    assert text(found.listed(brief=True)).splitlines()[:4] == ["software", *bad]
    marks = [line[0] for line in text(found.listed(), encoding="ascii").splitlines()[1:3]]
    assert marks == ["+", "!"]


def test_list_folds_between_words():
    words = "one-two-three " * 12
    found = text(Examination((Check("software", "a thing", Status.WRONG, words, words, words),)).listed(width=40))
    assert max(map(len, found.splitlines())) <= 40
    assert found.count("one-two-three") == 12 * 5, "the verdict repeats two of them"


def test_command_writes_all_sections(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text("import tfhet\nds = tfhet.distribute(ds)\n")
    words = ["--cluster", "demo", "--script", str(script), "--json", str(tmp_path / "found.json"), "--brief"]
    assert main(["doctor", *words]) == 0
    out, err = capsys.readouterr()
    assert "apt-get install nftables" in out and "✓" not in out and "[doctor] 2 of 3" in err
    document = json.loads((tmp_path / "found.json").read_text())
    assert document["schema"] == 2 and document["is_sound"] is True
    assert {each["section"] for each in document["checks"]} == set(SECTIONS)
    (nft,) = (each for each in document["checks"] if each["name"] == "nft")
    values = {"status": "missing", "found": "not installed", "what_to_do": "apt-get install nftables"}
    assert nft.items() >= {**values, "section": "simulation", "is_needed": False, "issue": ""}.items()
    script.write_text("import horovod.tensorflow as hvd\n")
    assert main(["doctor", "--script", str(script)]) == 1
    assert "hvd.init (" in capsys.readouterr().out


def test_pipeline_is_judged_for_the_cluster(monkeypatch):
    asked = []
    missing = examination.pipeline.PipelineFacts(None, "no")
    monkeypatch.setattr(examination.pipeline, "look", lambda *words: asked.append(words) or missing)
    assert main(["doctor", "--cluster", "two-data-two-dnn", "--pipeline", "a.py:b", "--stages", "rescale()"]) == 1
    assert [words[:3] for words in asked] == [("a.py:b", "rescale()", 2)]
    assert main(["doctor", "--stages", "rescale()"]) == 2


@pytest.mark.parametrize(
    ("name", "there", "needed_for", "status"),
    [
        ("ip", True, (NAMESPACE,), Status.OK),
        ("nft", False, (LOSE,), Status.MISSING),
        ("memory limit", False, (), Status.LIMITED),
        ("overlay", None, (NAMESPACE,), Status.UNKNOWN),
    ],
)
def test_kernel_features_have_a_status(name, there, needed_for, status):
    (found,) = simulation_checks([KernelFeature(name, there, "seen", needed_for, "install it")])
    assert (found.status, found.found) == (status, "seen") and bool(found.what_to_do) == (status is not Status.OK)


def test_every_kernel_feature_has_a_purpose():
    made = list(simulation_checks(KernelFeature(each.name, True, "", each.needed_for, "") for each in kernel._PROBES))
    assert len(made) > 10 and all(each.why for each in made)
    assert not any(each.is_needed for each in made), "tfhet works without a simulator"
