from __future__ import annotations

import pytest

from tfhet.errors import UsageError
from tfhet.simulate import Fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kill:worker@data-1:after=3s", Fault("kill", "worker", "data-1", after_s=3.0)),
        ("kill:dispatcher", Fault("kill", "dispatcher")),
        ("kill:worker:every=5:after=0.5", Fault("kill", "worker", after_s=0.5, every_s=5.0)),
        ("kill:rank=12", Fault("kill", "script", rank=12)),
        ("hang:host@algo-3:for=4", Fault("hang", "host", "algo-3", for_s=4.0)),
        ("sigterm:host@dnn-1", Fault("sigterm", "host", "dnn-1")),
        ("late-join:data-1:after=20s", Fault("late-join", "", "data-1", after_s=20.0)),
        ("late-join:host@data-1:after=20s", Fault("late-join", "", "data-1", after_s=20.0)),
        ("stranger:dnn-1:every=5", Fault("stranger", "", "dnn-1", every_s=5.0)),
        ("oom:worker@data-1:after=2", Fault("oom", "worker", "data-1", after_s=2.0)),
        ("oom:rank=1", Fault("oom", "script", rank=1)),
        ("partition:data-1:after=2:for=3", Fault("partition", "", "data-1", after_s=2.0, for_s=3.0)),
        ("partition:host@dnn-1", Fault("partition", "", "dnn-1")),
        ("slow-disk:algo-2:every=9:for=3", Fault("slow-disk", "", "algo-2", every_s=9.0, for_s=3.0)),
        ("partition:data_group:for=3", Fault("partition", "", "data_group", for_s=3.0)),
        ("loss=1%:data-1", Fault("loss", "", "data-1", amount=0.01)),
        ("loss=0.5%:data-1:for=2", Fault("loss", "", "data-1", for_s=2.0, amount=0.005)),
        ("delay=50ms:dnn_group:after=1", Fault("delay", "", "dnn_group", after_s=1.0, amount=0.05)),
        ("delay=1.5s:dnn-1", Fault("delay", "", "dnn-1", amount=1.5)),
        ("rate=100mbit:algo-2", Fault("rate", "", "algo-2", amount=1e8)),
        ("stall:host@dnn-1:for=8", Fault("stall", "", "dnn-1", for_s=8.0)),
        ("full-disk:dnn-1:every=9:for=3", Fault("full-disk", "", "dnn-1", every_s=9.0, for_s=3.0)),
        ("failing-write:dnn_group", Fault("failing-write", "", "dnn_group")),
        ("slow-write:algo-2:after=1:from=start", Fault("slow-write", "", "algo-2", after_s=1.0, since="start")),
        ("slow-dns=12s:data-1", Fault("slow-dns", "", "data-1", amount=12.0)),
        ("slow-dns=1500ms:data-1:for=20", Fault("slow-dns", "", "data-1", for_s=20.0, amount=1.5)),
        ("clock=+600s:dnn-1", Fault("clock", "", "dnn-1", amount=600.0)),
        ("clock=-12345678.5s:dnn-1:for=2", Fault("clock", "", "dnn-1", for_s=2.0, amount=-12345678.5)),
        ("partition-in:data-1:for=3", Fault("partition-in", "", "data-1", for_s=3.0)),
        ("partition-out:data_group", Fault("partition-out", "", "data_group")),
        ("second-job:data-1:after=1:every=3", Fault("second-job", "", "data-1", after_s=1.0, every_s=3.0)),
        ("same-base:dnn-1", Fault("same-base", "", "dnn-1")),
        ("half-checkpoint:dnn-1", Fault("half-checkpoint", "", "dnn-1")),
        ("kill:rank=1:from=scripts:after=2", Fault("kill", "script", rank=1, after_s=2.0, since="scripts")),
        ("kill:host@data-1:from=end", Fault("kill", "host", "data-1", since="end")),
        ("kill:dispatcher:from=steps", Fault("kill", "dispatcher")),
    ],
)
def test_a_fault_is_read_and_written(text: str, fault: Fault):
    assert Fault.parse(text) == fault
    assert Fault.parse(str(fault)) == fault


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kil:worker", "kill"),
        ("kill", "has no target"),
        ("kill:wurker", "worker"),
        ("kill:worker:after", "after=3s"),
        ("kill:worker:after=-1", "after=3s"),
        ("kill:worker:before=3", "after=3s"),
        ("kill:worker:for=3", "belongs to hang, partition, "),
        ("partition:", "which host"),
        ("partition:data-1:every=9", "give for= too"),
        ("slow-disk:data-1:every=9", "give for= too"),
        ("oom:launcher@data-1", "oom:rank=1"),
        ("oom:host@data-1", "oom:rank=1"),
        ("kill:worker:every=0", "more than 0"),
        ("late-join:data-1:every=5", "comes once"),
        ("kill:rank=x", "not a rank"),
        ("kill:host", "which host"),
        ("stranger:", "which host"),
        ("loss:data-1", "write like loss=1%:data-1"),
        ("loss=1:data-1", "write like loss=1%:data-1"),
        ("loss=101%:data-1", "no more than 100%"),
        ("delay=50:data-1", "write like delay=50ms:data-1"),
        ("rate=0mbit:data-1", "at least 10kbit"),
        ("delay=20s:data-1", "at most 10 s"),
        ("rate=100mbit", "has no target"),
        ("kill=1%:worker", "kill has no amount; only rate, delay, loss, "),
        ("delay=1s:data-1:every=9", "give for= too"),
        ("stall:data-1:every=9", "give for= too"),
        ("kill:worker:from=noon", "'noon'; known: end, scripts, start, steps"),
        ("late-join:data-1:from=start", "'from=start' is not after="),
        ("same-base:data-1:every=5", "comes once"),
        ("half-checkpoint:dnn-1:after=5", "a moment of its own"),
        ("second-job:data-1:for=5", "for= belongs to"),
        ("slow-dns:data-1", "write like slow-dns=12s:data-1"),
        ("slow-dns=0s:data-1", "more than 0 and at most 600 s"),
        ("slow-dns=-1s:data-1", "write like slow-dns=12s"),
        ("clock=600s:dnn-1", "write like clock=.600s:data-1"),
        ("clock=+10min:dnn-1", "write like clock=.600s:data-1"),
        ("clock=+0s:dnn-1", "jumps by more than 0"),
        ("clock=+:dnn-1", "write like clock=.600s:data-1"),
        ("clock:dnn-1", "write like clock=.600s:data-1"),
        ("full-disk=1:dnn-1", "full-disk has no amount"),
        ("partition-in:", "which host"),
        ("", "kill"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_would_do(text: str, words: str):
    with pytest.raises(UsageError, match=words):
        Fault.parse(text)
