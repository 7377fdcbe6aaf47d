"""trainer/emulated.py: a device that takes time."""

from __future__ import annotations

import pytest
from fake_clock import FakeClock

from tfhet.trainer.emulated import EmulatedDevice


def test_device_works_while_the_next_batch_loads() -> None:
    clock = FakeClock()
    device, begun, idle = EmulatedDevice(clock), [], []
    for input_s in (0.02, 0.02, 0.38):
        clock.sleep(input_s)
        device.begin(0.1)
        begun.append(clock.monotonic())
        idle.append(device.idle_s)
    # The second is handed over while the first goes on; the third comes when both have ended.
    assert begun == pytest.approx([0.02, 0.04, 0.42])
    assert idle == pytest.approx([0.02, 0.0, 0.2])
    device.finish()
    assert clock.monotonic() == pytest.approx(0.52)


def test_feeding_is_one_step_ahead() -> None:
    clock = FakeClock()
    device, begun = EmulatedDevice(clock), []
    for _ in range(4):
        device.begin(0.25)
        begun.append(clock.monotonic())
    assert begun == pytest.approx([0.0, 0.0, 0.25, 0.5])
    device.finish()
    device.finish()
    assert clock.monotonic() == pytest.approx(1.0)
