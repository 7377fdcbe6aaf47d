from __future__ import annotations

import pytest
import tensorflow as tf
from fake_clock import FakeClock
from own_wire import WIRE

from tfhet.errors import NotReady, UsageError
from tfhet.planes.tf_service.engine import whole_engine
from tfhet.planes.tf_service.transport import Transport

ENGINE = whole_engine()


class Interrupted(FakeClock):
    """A clock that calls a function in the third sleep."""

    def __init__(self, then) -> None:
        super().__init__()
        self.naps = 0
        self._then = then

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.naps += 1
        if self.naps == 3:
            self._then()


def test_unregistered_data_set_has_a_deadline(served):
    clock = FakeClock()
    with pytest.raises(NotReady, match="'nobody'"):
        Transport(register_deadline_s=2).wait_published(WIRE, served.dispatcher, "nobody", clock)
    assert 2 < clock.monotonic() < 2.1


def test_job_name_with_slash_is_refused():
    with pytest.raises(UsageError, match="team/job.epoch-0"):
        Transport().publish(WIRE, "nowhere:1", tf.data.Dataset.range(1), "team/job.epoch-0")


def test_wait_ends_at_the_registration(served):
    transport, data = Transport(), tf.data.Dataset.range(5)
    clock = Interrupted(lambda: transport.publish(WIRE, served.dispatcher, data, "late"))
    transport.wait_published(WIRE, served.dispatcher, "late", clock)
    assert clock.naps == 3
    found = transport.read(WIRE, served.dispatcher, "late", data.element_spec, "dynamic")
    assert sorted(found.as_numpy_iterator()) == list(range(5))


def test_first_registration_decides(served):
    transport = Transport()
    for data in (tf.data.Dataset.range(5), tf.data.Dataset.range(5).map(abs)):
        transport.publish(WIRE, served.dispatcher, data, "twice")
    with pytest.raises(tf.errors.InvalidArgumentError):
        transport.publish(WIRE, served.dispatcher, tf.data.Dataset.range(5).batch(2), "twice")


def test_sharding_dynamic_and_off(served):
    transport, data = Transport(), tf.data.Dataset.range(6)
    for sharding, times in (("dynamic", 1), ("off", served.workers)):
        transport.publish(WIRE, served.dispatcher, data, f"six-{sharding}")
        found = transport.read(WIRE, served.dispatcher, f"six-{sharding}", data.element_spec, sharding)
        assert sorted(found.as_numpy_iterator()) == sorted(list(range(6)) * times)
