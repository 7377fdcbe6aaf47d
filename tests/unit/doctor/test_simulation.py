from __future__ import annotations

from tfhet.container import kernel
from tfhet.container.kernel import LOSE, NAMESPACE, KernelFeature
from tfhet.doctor import Status
from tfhet.doctor.examination import simulation_checks as checks


def found(name: str, there: bool | None, needed_for: tuple[str, ...] = (NAMESPACE,)):
    (check,) = checks([KernelFeature(name, there, "seen", needed_for, "install it")])
    return check


def test_what_is_there_is_ok_and_what_is_not_says_what_to_do():
    assert found("ip", True).status is Status.OK and not found("ip", True).what_to_do
    gone = found("nft", False, (LOSE,))
    assert (gone.status, gone.found, gone.what_to_do) == (Status.MISSING, "seen", "install it")
    assert gone.why == "lost packets of hosts in namespaces"


def test_what_a_simulation_can_do_without_is_a_limit():
    assert found("memory limit", False, ()).status is Status.LIMITED


def test_what_was_not_tried_says_that_root_would():
    check = found("overlay", None)
    assert check.status is Status.UNKNOWN
    assert check.what_to_do == "run tfhet doctor as root"


def test_every_feature_says_what_it_is_for():
    made = list(checks(KernelFeature(each.name, True, "", each.needed_for, "") for each in kernel._PROBES))
    assert len(made) > 10
    assert all(check.why for check in made)
    assert not any(check.is_needed for check in made), "tfhet works without a simulator"
