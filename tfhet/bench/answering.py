"""A process of ours that answers each request, a line of JSON, with a line of JSON: this side of it, and its own."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from tfhet.errors import TfhetError

ANSWER_LIMIT_S = 600.0


class AnsweringProcess:
    """Between requests it does nothing, so that it costs the others nothing."""

    def __init__(
        self, name: str, command: Sequence[str], env: Mapping[str, str], answer_limit_s: float = ANSWER_LIMIT_S
    ):
        self.name = name
        """What messages call it."""
        self._limit_s = answer_limit_s
        self._words = tempfile.TemporaryFile(mode="w+", errors="replace")  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words, env=dict(env)
        )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Its answer. Raises TfhetError with what it said, or when it is silent for too long, or has ended."""
        self.request(request)
        return self.answer()

    def request(self, request: Mapping[str, Any]) -> None:
        """The first half of `ask`."""
        process = self._process
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except (BrokenPipeError, OSError):
            raise self._ended() from None

    def answer(self) -> dict[str, Any]:
        """The second half of `ask`."""
        process = self._process
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(self._limit_s):
                self.close()
                raise TfhetError(f"{self.name} gave no answer within {self._limit_s:g} s")
        line = process.stdout.readline()
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise TfhetError(f"{self.name}: {answer['error']}")
        return answer

    def _ended(self) -> TfhetError:
        code = self._process.wait(timeout=30)
        last = ""
        if not self._words.closed:
            self._words.seek(0)
            last = " | ".join(self._words.read().strip().splitlines()[-3:])
        return TfhetError(f"{self.name} ended with exit code {code}: {last or 'without a word'}")

    def close(self, grace_s: float = 5.0) -> None:
        """Ends the process, by force when it has not ended after so long; safe to call again."""
        process = self._process
        if process.stdin is not None and not process.stdin.closed:
            with contextlib.suppress(OSError):  # it has ended already
                process.stdin.close()
        try:
            process.wait(timeout=grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()
        self._words.close()


def serve(handle: Callable[[dict[str, Any]], dict[str, Any]], requests: IO[str], answers: IO[str]) -> None:
    """Answers `requests` until they end; what goes wrong is answered with {"error": text}."""
    for line in requests:
        try:
            answer = handle(json.loads(line))
        except Exception as error:  # noqa: BLE001  foreign code: the other side says what it raised
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


@contextlib.contextmanager
def output_for_answers() -> Iterator[IO[str]]:
    """The output of this process, for answers alone: whatever libraries print goes to standard error from now on."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        yield answers
