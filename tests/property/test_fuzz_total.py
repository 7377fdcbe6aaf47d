"""How much the fuzz tests of this session ran. The name sorts behind theirs."""

from __future__ import annotations

import pytest
import rubbish


def test_the_fuzz_tests_ran_as_many_inputs_as_promised() -> None:
    left_out = rubbish.SUBJECTS.keys() - rubbish.RAN.keys()
    if left_out:
        pytest.skip(f"a selection of the tests: {len(left_out)} of the fuzz tests did not run")
    assert rubbish.RAN.total() >= rubbish.WANTED
