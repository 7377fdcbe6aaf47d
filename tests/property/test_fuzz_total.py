"""How much the fuzz tests run all together. Each checks itself that it runs the number of its subject."""

from __future__ import annotations

import re
from pathlib import Path

from rubbish import SUBJECTS, TIMES, WANTED


def test_the_fuzz_tests_run_as_many_inputs_as_promised() -> None:
    assert sum(SUBJECTS.values()) * TIMES >= WANTED


def test_every_subject_has_a_test() -> None:
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_fuzz_*.py")]
    assert sorted(re.findall(r'@fuzz\(\s*"(.+?)"', "".join(texts))) == sorted(SUBJECTS)
