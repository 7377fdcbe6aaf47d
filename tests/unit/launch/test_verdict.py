from __future__ import annotations

from tfhet.launch.verdict import LOG_LIMIT, Verdict


def test_the_cause_is_one_line_and_the_log_follows():
    verdict = Verdict.of(3, "train.py ended on a:\nexit code 3", ["Traceback", "  line", "ValueError: x"])
    assert verdict.headline == "train.py ended on a: exit code 3"
    assert verdict.log == ["Traceback", "  line", "ValueError: x"]
    assert Verdict(3, verdict.cause) == verdict  # what goes over the link


def test_a_verdict_without_a_log_is_its_headline():
    assert Verdict.of(0, "training is complete") == Verdict(0, "training is complete")
    assert Verdict.of(1, "x", ["", ""]).log == []


def test_the_end_of_a_long_log_is_kept():
    verdict = Verdict.of(1, "x", [f"line {i}" for i in range(2000)])
    assert verdict.log[-1] == "line 1999"
    assert len(verdict.cause) <= LOG_LIMIT + 2


def test_noise_stays_out_of_the_log():
    noise = "E0000 Unable to register cuDNN factory: Attempting to register"
    assert Verdict.of(1, "x", ["one", noise, "two"]).log == ["one", "two"]
