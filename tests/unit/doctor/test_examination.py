from __future__ import annotations

import json

import pytest

from tfhet.__main__ import main
from tfhet.container.kernel import Feature
from tfhet.doctor import Check, Examination, Status, examination
from tfhet.doctor.software import Loaded

pytestmark = pytest.mark.timeout(60)
FEATURE = Feature("nft", False, "not installed", ("lose",), "apt-get install nftables")


@pytest.fixture
def here(monkeypatch):
    """What the parts of an examination find on this machine, without looking."""

    def put(loaded: Loaded) -> None:
        monkeypatch.setattr(examination.software, "load", lambda env: loaded)
        monkeypatch.setattr(examination.kernel, "probe", lambda directory: (FEATURE,))

    return put


def check(status: Status, is_needed: bool) -> Check:
    return Check("software", "a thing", status, "2.0", "work", "get it", is_needed)


@pytest.mark.parametrize(
    ("status", "is_needed", "is_sound"),
    [
        (Status.OK, True, True),
        (Status.MISSING, True, False),
        (Status.MISSING, False, True),
        (Status.LIMITED, True, True),
        (Status.UNKNOWN, True, True),
    ],
)
def test_it_is_sound_unless_what_is_always_needed_is_missing(status, is_needed, is_sound):
    found = Examination((check(status, is_needed),))
    assert found.is_sound is is_sound
    assert found.verdict == ("tfhet works here." if is_sound else "tfhet does not work here: a thing (2.0; get it)")


def test_the_command_prints_each_section_and_writes_what_it_printed(here, tmp_path, capsys):
    here(Loaded(horovod=frozenset({"gloo"})))
    assert main(["doctor", "--json", str(tmp_path / "found.json")]) == 0
    out = capsys.readouterr().out
    for word in ("software", "machine", "simulation", "tensorflow", "CPUs", "apt-get install nftables"):
        assert word in out
    assert out.splitlines()[-1] == "tfhet works here."
    document = json.loads((tmp_path / "found.json").read_text())
    assert document["schema"] == 1 and document["is_sound"] is True
    assert {each["section"] for each in document["checks"]} == {"software", "machine", "simulation"}
    (nft,) = (each for each in document["checks"] if each["name"] == "nft")
    assert nft == {
        "section": "simulation",
        "name": "nft",
        "status": "missing",
        "found": "not installed",
        "needed_for": "lost packets of hosts in namespaces",
        "what_to_do": "apt-get install nftables",
        "is_needed": False,
    }


def test_the_command_fails_where_tensorflow_does_not_load(here, capsys):
    here(Loaded(tensorflow_error="ImportError: no libcudart"))
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("tfhet does not work here: tensorflow (")


def test_the_guide_tells_every_status_and_section(repository):
    text = (repository / "docs" / "doctor.md").read_text()
    for status in Status:
        assert f"| `{status.value}` |" in text
    for section in ("software", "machine", "simulation"):
        assert f"| {section} |" in text
