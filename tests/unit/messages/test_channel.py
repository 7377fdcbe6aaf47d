"""messages/channel.py: both ends, real processes between them."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from event_loop import in_event_loop

from tfhet.messages import CHANNEL_VARIABLE, Channel, ProcessChannel, inherited
from tfhet.messages.channel import MAX_BYTES
from tfhet.process import Child
from tfhet.schema import MessageError

pytestmark = pytest.mark.timeout(60)

BEGIN = """
import json, os, subprocess, sys, threading
from tfhet.messages import inherited
channel = inherited(os.environ)
"""


@dataclass
class Scene:
    """A channel, and what the child at its other end says."""

    channel: Channel
    messages: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def with_child(code: str, act: Callable[[Scene], Awaitable[None]] | None = None) -> Scene:
    """A child that runs `code`, to its end, while `act` runs."""

    async def run() -> Scene:
        scene = Scene(Channel(lambda message: scene.messages.append(message)))
        command = [sys.executable, "-c", BEGIN + code]
        child = await Child.start("child", command, env=os.environ, on_line=scene.lines.append, channel=scene.channel)
        if act is not None:
            await act(scene)
        assert await asyncio.wait_for(child.wait(), 40) == 0, scene.lines
        return scene

    return asyncio.run(run())


def test_messages_arrive_in_order_after_the_end() -> None:
    scene = with_child("for n in range(100): assert channel.send({'type': 'n', 'n': n}, limit_s=5)")
    assert [each["n"] for each in scene.messages] == list(range(100)) and scene.lines == []


def test_messages_go_to_the_child_and_its_answers_come_back() -> None:
    async def act(scene: Scene) -> None:
        for n in range(3):
            assert scene.channel.send({"type": "ask", "n": n})

    scene = with_child("for _ in range(3): channel.send({'answer': channel.receive(20)['n']})", act)
    assert scene.messages == [{"answer": 0}, {"answer": 1}, {"answer": 2}]


def test_threads_of_a_child_send_whole_messages() -> None:
    code = """
def say(name):
    for n in range(50):
        while not channel.send({'name': name, 'n': n, 'filling': 'x' * 3000}, limit_s=10): pass
threads = [threading.Thread(target=say, args=(name,)) for name in 'abcd']
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    scene = with_child(code)
    for name in "abcd":
        assert [each["n"] for each in scene.messages if each["name"] == name] == list(range(50))
    assert len(scene.messages) == 200


@in_event_loop
async def test_child_that_reads_nothing_costs_nothing() -> None:
    channel = Channel(lambda values: None)
    child = await Child.start("child", ["sleep", "0.5"], env=os.environ, on_line=print, channel=channel)
    assert not all(channel.send({"type": "hello", "filling": "x" * 1000}) for _ in range(2000))
    assert await child.wait() == 0
    assert not channel.send({"type": "late"})


def test_waiting_message_arrives_when_the_child_reads() -> None:
    async def act(scene: Scene) -> None:
        count = 0
        while scene.channel.send({"n": count, "filling": "x" * 5000}):
            count += 1
        scene.messages.append({"sent": count})

    code = """
import time
time.sleep(0.5)
last = -1
while (values := channel.receive(2.0)) is not None:
    assert values['n'] == last + 1
    last = values['n']
channel.send({'got': last + 1})
"""
    scene = with_child(code, act)
    assert scene.messages[1] == {"got": scene.messages[0]["sent"]}


def test_child_drops_what_the_launcher_does_not_read() -> None:
    launcher, script = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = ProcessChannel(script)
    sent = sum(channel.send({"filling": "x" * 10_000}) for _ in range(200))
    assert 0 < sent < 200
    assert not channel.send({"n": 1}, limit_s=0.05) or sent
    launcher.close()
    assert not channel.send({"n": 1}) and channel.receive() is None and not channel._end
    channel.close()


def test_launcher_that_reads_again_gets_waiting_messages() -> None:
    launcher, script = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = ProcessChannel(script)
    while channel.send({"filling": "x" * 10_000}):
        pass

    def drain() -> None:
        for _ in range(5):
            launcher.recv(1 << 16)

    timer = threading.Timer(0.1, drain)
    timer.start()
    for _ in range(3):
        assert channel.send({"n": 1}, limit_s=20)
    timer.join()
    launcher.close()
    channel.close()


def test_process_without_a_launcher_sends_nothing() -> None:
    channel = inherited({})
    assert not channel._end
    assert not channel.send({"type": "hello"}, limit_s=5) and channel.receive(5) is None
    assert inherited({}) is channel


@pytest.mark.parametrize("text", ["rubbish", "1", "1:2", "-1:0", "99999:1", "9" * 400 + ":1", ":", "\u0663:1"])
def test_wrong_variable_opens_nothing(text: str) -> None:
    assert not inherited({CHANNEL_VARIABLE: text})._end


def test_variable_without_its_descriptor_opens_nothing() -> None:
    one, other = socket.socketpair()
    text = f"{one.fileno()}:{os.fstat(other.fileno()).st_ino}"
    assert not inherited({CHANNEL_VARIABLE: text})._end
    one.close()
    other.close()


def test_programs_and_forks_lack_the_end() -> None:
    code = """
same = 'import os; from tfhet.messages import inherited; print(bool(inherited(os.environ)._end))'
subprocess.run([sys.executable, '-c', same], close_fds=False, check=True)
pid = os.fork()
if not pid:
    print(bool(channel._end), bool(inherited(os.environ)._end), channel.send({'who': 'fork'}), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
channel.send({'who': 'child'})
"""
    scene = with_child(code)
    assert scene.lines == ["False", "False False False"]
    assert scene.messages == [{"who": "child"}]


def test_grandchild_does_not_keep_the_channel_open() -> None:
    code = "channel.send({'n': 1}); subprocess.Popen(['sleep', '1'], start_new_session=True, stdout=subprocess.DEVNULL)"
    scene = with_child(code)
    assert scene.messages == [{"n": 1}]
    assert not scene.channel.send({"n": 2})


def test_packets_that_are_no_messages_are_passed_over() -> None:
    code = """
end = channel._end
for packet in (b'rubbish', b'[]', b'{"a": 1', b'x' * 40000, b'\\xff\\xfe', b'[' * 30000): end.send(packet)
channel.send({'n': 1})
"""
    scene = with_child(code)
    assert scene.messages == [{"n": 1}]


def test_what_is_no_message_is_not_sent() -> None:
    channel = ProcessChannel()
    for values in ({"x": object()}, {"x": "y" * MAX_BYTES}):
        with pytest.raises(MessageError):
            channel.send(values)


@in_event_loop
async def test_missing_program_leaves_no_socket() -> None:
    channel = Channel(lambda values: None)
    numbers = [channel.descriptor, channel._end.fileno()]
    with pytest.raises(OSError):
        await Child.start("child", ["/no/such/program"], env={}, on_line=print, channel=channel)
    for number in numbers:
        with pytest.raises(OSError):
            os.fstat(number)
