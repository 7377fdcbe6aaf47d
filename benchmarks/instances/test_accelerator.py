"""How fast accelerators are taken to be."""

from __future__ import annotations

import pytest

from benchmarks.instances.accelerator import ACCELERATORS, accelerator
from tfhet.catalogue import shipped
from tfhet.errors import UsageError


def test_every_accelerator_of_a_type_with_one_gpu_is_known_and_says_its_source():
    kinds = {each.gpu_kind for each in shipped().instances.values() if each.gpus == 1}
    assert kinds == set(ACCELERATORS)
    assert all(each.kind == kind and each.source for kind, each in ACCELERATORS.items())


def test_one_accelerator_is_as_many_times_as_fast_as_another_as_its_memory_is():
    assert accelerator("A10G").times(accelerator("L4")) == 2.0
    assert accelerator("T4").times(accelerator("T4")) == 1.0


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(UsageError, match="unknown kind of accelerator 'T5'.*T4"):
        accelerator("T5")
