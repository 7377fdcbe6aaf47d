from __future__ import annotations

import pytest

from tfhet.errors import UsageError
from tfhet.simulate import Fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kill:worker@data-1:after=3s", Fault("kill", "worker", "data-1", after_s=3.0)),
        ("kill:dispatcher:from=steps", Fault("kill", "dispatcher")),
        ("kill:worker:every=5:after=0.5", Fault("kill", "worker", after_s=0.5, every_s=5.0)),
        ("kill:rank=1:from=scripts:after=2", Fault("kill", "script", rank=1, after_s=2.0, since="scripts")),
        ("kill:host@data-1:from=end", Fault("kill", "host", "data-1", since="end")),
        ("hang:host@algo-3:for=4", Fault("hang", "host", "algo-3", for_s=4.0)),
        ("late-join:host@data-1:after=20s", Fault("late-join", "", "data-1", after_s=20.0)),
        ("stranger:dnn-1:every=5", Fault("stranger", "", "dnn-1", every_s=5.0)),
        ("oom:worker@data-1:after=2", Fault("oom", "worker", "data-1", after_s=2.0)),
        ("partition:data-1:after=2:for=3", Fault("partition", "", "data-1", after_s=2.0, for_s=3.0)),
        ("partition-out:data_group", Fault("partition-out", "", "data_group")),
        ("slow-disk:algo-2:every=9:for=3", Fault("slow-disk", "", "algo-2", every_s=9.0, for_s=3.0)),
        ("loss=0.5%:data-1:for=2", Fault("loss", "", "data-1", for_s=2.0, amount=0.005)),
        ("delay=50ms:dnn_group:after=1", Fault("delay", "", "dnn_group", after_s=1.0, amount=0.05)),
        ("rate=100mbit:algo-2", Fault("rate", "", "algo-2", amount=1e8)),
        ("slow-write:algo-2:after=1:from=start", Fault("slow-write", "", "algo-2", after_s=1.0, since="start")),
        ("slow-dns=1500ms:data-1:for=20", Fault("slow-dns", "", "data-1", for_s=20.0, amount=1.5)),
        ("clock=+600s:dnn-1", Fault("clock", "", "dnn-1", amount=600.0)),
        ("clock=-12345678.5s:dnn-1:for=2", Fault("clock", "", "dnn-1", for_s=2.0, amount=-12345678.5)),
        ("second-job:data-1:after=1:every=3", Fault("second-job", "", "data-1", after_s=1.0, every_s=3.0)),
        ("half-checkpoint:dnn-1", Fault("half-checkpoint", "", "dnn-1")),
    ],
)
def test_fault_is_parsed_and_written(text: str, fault: Fault):
    assert Fault.parse(text) == fault
    assert Fault.parse(str(fault)) == fault


WRONG = """
kil:worker kill kill:wurker kill:host kill:rank=x kill=1%:worker
kill:worker:after kill:worker:after=-1 kill:worker:before=3 kill:worker:for=3 kill:worker:every=0 kill:worker:from=noon
partition: partition:data-1:every=9 stall:data-1:every=9 oom:launcher@data-1 oom:host@data-1
late-join:data-1:every=5 late-join:data-1:from=start half-checkpoint:dnn-1:after=5 second-job:data-1:for=5
loss:data-1 loss=1:data-1 loss=101%:data-1 delay=50:data-1 delay=20s:data-1 rate=0mbit:data-1
slow-dns=0s:data-1 slow-dns=-1s:data-1 full-disk=1:dnn-1
clock=600s:dnn-1 clock=+10min:dnn-1 clock=+0s:dnn-1 clock=+:dnn-1 clock:dnn-1
"""


@pytest.mark.parametrize("text", ["", *WRONG.split()])
def test_wrong_fault_is_refused(text: str):
    with pytest.raises(UsageError):
        Fault.parse(text)
