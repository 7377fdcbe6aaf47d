"""Passes every frame between two network devices, in both directions, each a fixed time later.

The program prints "ready" when both devices are open. Each line on standard input is the delay from then on, in
microseconds, and printed back when it is in effect. The program ends when standard input ends, so also when its parent
dies. It imports the standard library only: it starts in milliseconds.

Frames keep their order in each direction. They carry their virtio-net header, so a frame of up to 64 KiB that the
kernel has not cut into segments stays as it is. A frame is lost if the buffer, or the device's queue, is full.
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import socket
import sys
import time  # noqa: TID251  no module of tfhet is imported here

SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23  # linux/if_packet.h
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
ETH_P_ALL = 3
FRAME_BYTES = 10 + (64 << 10) + 256
"""Longest frame, with its virtio-net header."""
BUFFER_BYTES = 128 << 20
"""Size of the buffer of each direction: 1 s at 1 Gbit/s."""
SOCKET_BYTES = 64 << 20
"""Frames that may wait in the kernel while this process does not run."""
BATCH = 64
"""Frames of one direction before the other one has its turn."""


class Direction:
    """Frames on their way from one device to the other, in their order."""

    def __init__(self, source: socket.socket, target: socket.socket):
        self.source, self._target = source, target
        self._frames: collections.deque[tuple[float, bytes]] = collections.deque()
        self._size = 0

    def receive(self, delay_s: float) -> None:
        """Stores the frames that have arrived, to be sent `delay_s` from now."""
        for _ in range(BATCH):
            try:
                frame = self.source.recv(FRAME_BYTES)
            except BlockingIOError:
                return
            except OSError:  # a frame that the header cannot describe, or a device that is down
                continue
            if self._size + len(frame) <= BUFFER_BYTES:
                due_s = time.monotonic() + delay_s
                self._frames.append((max(due_s, self._frames[-1][0]) if self._frames else due_s, frame))
                self._size += len(frame)

    def send(self) -> None:
        """Sends the frames that are due."""
        for _ in range(BATCH):
            if not self._frames or self._frames[0][0] > time.monotonic():
                return
            _, frame = self._frames.popleft()
            self._size -= len(frame)
            with contextlib.suppress(OSError):
                self._target.send(frame)

    @property
    def due_s(self) -> float:
        return self._frames[0][0] if self._frames else float("inf")


def opened(device: str) -> socket.socket:
    """A packet socket of a device, which receives nothing yet."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    for option in (PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING):
        made.setsockopt(SOL_PACKET, option, 1)
    for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):
        made.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
    made.bind((device, 0))
    return made


def main(devices: list[str]) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, -15)  # a network does not wait until the hosts leave it a CPU
    near, far = map(opened, devices)
    directions = Direction(near, far), Direction(far, near)
    print("ready", flush=True)
    delay_s, text = -1.0, b""
    while True:
        wait_s = min(direction.due_s for direction in directions) - time.monotonic()
        readable: list[int | socket.socket] = [0, near, far]
        ready, _, _ = select.select(readable, [], [], max(0.0, wait_s) if wait_s < 3600 else None)
        if 0 in ready:
            text += (data := os.read(0, 64))
            if not data:
                return
            *lines, text = text.split(b"\n")
            for line in lines:
                if delay_s < 0:
                    for device, sock in zip(devices, (near, far), strict=True):
                        sock.bind((device, ETH_P_ALL))
                delay_s = int(line) / 1e6
                print(int(line), flush=True)
        for direction in directions:
            if direction.source in ready:
                direction.receive(delay_s)
            direction.send()


if __name__ == "__main__":
    main(sys.argv[1:])
