"""Servers of real processes that stop while a data set is open. TensorFlow 2.21's own order of shutdown may crash
(tensorflow/tensorflow#113163)."""

from __future__ import annotations

import asyncio
import os

import pytest
import tensorflow as tf
from event_loop import until
from own_wire import KEY, WIRE

from tfhet.cluster import free_ports
from tfhet.planes.tf_service import Fleet
from tfhet.planes.tf_service.transport import Transport
from tfhet.process import Child

LIVES = int(os.environ.get("TFHET_LIVES", "10"))
"""Number of starts and stops; 50 take some minutes."""
LIMIT_S = 120.0


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The exit codes of all children that are stopped."""
    found: list[int] = []
    stop = Child.stop

    async def recorded(child: Child, grace_s: float) -> int:
        found.append(await stop(child, LIMIT_S))
        return found[-1]

    monkeypatch.setattr(Child, "stop", recorded)
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_servers_that_stop_end_with_code_0(codes):
    async def life(number: int) -> None:
        ports = free_ports(2)
        dispatcher = f"127.0.0.1:{ports[0]}"
        fleet = Fleet("algo-1", "127.0.0.1", dict(os.environ), key=KEY, on_line=lambda line: None)
        try:
            await fleet.start_dispatcher(ports[0], LIMIT_S)
            await fleet.start_workers(ports[1:], dispatcher, LIMIT_S)
            if number % 5 == 0:  # the others stop before they have served
                await until(lambda: fleet.workers_registered == 1)
                assert await asyncio.to_thread(first_element, dispatcher) in range(1000)
        finally:
            await fleet.stop()

    for number in range(LIVES):
        asyncio.run(life(number))
        assert codes == [0, 0], f"in life {number}"
        codes.clear()


def first_element(dispatcher: str) -> int:
    """Reads one element; the workers still have the others when this returns."""
    transport, data = Transport(), tf.data.Dataset.range(1000).repeat()
    transport.publish(WIRE, dispatcher, data, "numbers")
    return int(next(iter(transport.read(WIRE, dispatcher, "numbers", data.element_spec, "dynamic"))))
