"""Unwanted visits to a control port: messages, and connections that behave up to a point."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from rubbish import anything, json_bytes, mutated, numbers
from sockets import check_left, open_sockets

from tfhet.control import MAX_MESSAGE_BYTES, Secret
from tfhet.secure import MAGIC, Records

SECRET = Secret.from_text("the secret of these tests")
DEADLINE_S = 30.0
"""Seconds for one example; it takes milliseconds."""
EXAMPLES: list[dict[str, Any]] = [
    {"type": "join", "name": "evil-0", "instance": "i", "facts": {"host": "algo-1"}, "seen": 0},
    {"type": "refused", "reason": "because"},
    {"type": "joined", "lease_s": 0.2, "seen": 0},
    {"type": "alive", "seen": 0},
    {"type": "numbered", "n": 1, "body": {"type": "serving", "host": "algo-1"}},
    {"type": "numbered", "n": 2, "body": {"type": "odd"}},
    {"type": "end", "code": 3, "cause": "because"},
    {"type": "left", "code": 0},
]
WORDS = ("type", "n", "seen", "body", "code", "cause", "facts", "reason", *(e["type"] for e in EXAMPLES), "honest")
odd = mutated(st.sampled_from(EXAMPLES), WORDS)
whole = numbers.filter(lambda number: isinstance(number, int)) | st.integers(-1, 4)
right_types = st.one_of(
    st.builds(
        lambda n, body: {"type": "numbered", "n": n, "body": body}, whole, mutated(st.just({"type": "odd", "a": 1}))
    ),
    st.builds(lambda seen: {"type": "alive", "seen": seen}, whole),
    st.builds(lambda kind, code: {"type": kind, "code": code, "cause": ""}, st.sampled_from(["left", "end"]), whole),
    st.builds(lambda s, seen: {"type": "joined", "lease_s": s, "seen": seen}, numbers | st.floats(0.01, 0.2), whole),
    st.builds(lambda facts, seen: EXAMPLES[0] | {"facts": {"a": facts}, "seen": seen}, anything, whole),
)
texts = json_bytes(odd | right_types) | json_bytes(st.sampled_from(EXAMPLES))
rubbish = st.sampled_from(
    [b"", b"\0" * 1000, b"null", b"x" * (MAX_MESSAGE_BYTES + 1), MAGIC, MAGIC + b"\4\0" + bytes(100)]
    + [b'{"type":"alive","seen":0,"x":"' + b"x" * MAX_MESSAGE_BYTES + b'"}']
    + [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", b"SSH-2.0-x\r\n"]
)  # fmt: skip


@dataclass(frozen=True)
class Visit:
    """The behaviour of one connection."""

    stage: str
    """How far it behaves: nothing, opening, proved, joined."""
    name: str
    texts: tuple[bytes, ...]
    """Messages that it sends then."""
    cuts: tuple[int, ...]
    """Where the bytes of the messages are divided."""
    ending: str
    """eof, close, abort or stay."""


def written(visit: Visit, records: Records | None = None) -> list[bytes]:
    """The writes of a visit; with `records`, of a peer that knows the secret and is odd."""
    content = b"".join(visit.texts if records is None else map(records.sealed, visit.texts))
    places = [0, *sorted({cut % (len(content) + 1) for cut in visit.cuts}), len(content)]
    return [content[begin:end] for begin, end in itertools.pairwise(places)]


def visits(*stages: str) -> st.SearchStrategy[list[Visit]]:
    chunks = st.lists(texts | texts | rubbish | st.binary(max_size=10), max_size=5).map(tuple)
    cuts = st.lists(st.integers(0, 400), max_size=3).map(tuple)
    name = st.sampled_from(["evil-0", "evil-0", "evil-1", "evil-2", "honest", "stranger"])
    ending = st.sampled_from(["eof", "eof", "close", "abort", "stay"])
    return st.lists(st.builds(Visit, st.sampled_from(stages), name, chunks, cuts, ending), min_size=3, max_size=8)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine in a loop of its own; no task may be left, none may have failed unseen, and no socket."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        complaints: list[str] = []
        tasks: list[asyncio.Task[Any]] = []

        def task_of(its_loop: asyncio.AbstractEventLoop, coroutine: Any, **how: Any) -> asyncio.Task[Any]:
            tasks.append(asyncio.Task(coroutine, loop=its_loop, **how))
            return tasks[-1]

        loop.set_exception_handler(lambda _, context: complaints.append(str(context)))
        loop.set_task_factory(task_of)
        await asyncio.wait_for(scenario, DEADLINE_S)
        for _ in range(3):  # a closed transport lets go of its socket one turn later
            await asyncio.sleep(0)
        assert [task for task in tasks if not task.done()] == []
        assert [task for task in tasks if not task.cancelled() and task.exception() is not None] == []
        assert complaints == []

    before = open_sockets()
    asyncio.run(main())
    check_left(before)
