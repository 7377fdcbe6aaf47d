"""The protocol between a suite and its child processes: one line of JSON asks, one line of JSON answers."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from tfhet.errors import TfhetError
from tfhet.process import end_with_parent

ANSWER_LIMIT_S = 600.0


class AnsweringProcess:
    """A child process that works only while it has a request, so that it costs the others nothing."""

    def __init__(
        self, name: str, command: Sequence[str], env: Mapping[str, str], answer_limit_s: float = ANSWER_LIMIT_S
    ):
        self.name = name
        self._limit_s = answer_limit_s
        self._errors = tempfile.TemporaryFile(mode="w+", errors="replace")  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=dict(env)
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    @classmethod
    @contextlib.contextmanager
    def of_module(
        cls, module: str, *arguments: str, env: Mapping[str, str], before: Sequence[str] = ()
    ) -> Iterator[AnsweringProcess]:
        """Runs `python -m MODULE ARGUMENTS` while the context lasts. before: words of the command before Python."""
        process = cls(module, [*before, sys.executable, "-m", module, *arguments], env)
        try:
            yield process
        finally:
            process.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: Mapping[str, Any], limit_s: float | None = None) -> dict[str, Any]:
        """Sends a request and returns its answer. limit_s: maximum time for it, if not the process's own limit. Raises
        TfhetError with the child's error, and when it gives no answer in time or has ended."""
        self.request(request)
        return self.answer(limit_s)

    def request(self, request: Mapping[str, Any]) -> None:
        """The first half of `ask`."""
        try:
            self._requests.write(json.dumps(request).encode() + b"\n")
            self._requests.flush()
        except OSError:
            raise self._ended() from None

    def answer(self, limit_s: float | None = None) -> dict[str, Any]:
        """The second half of `ask`."""
        limit_s = self._limit_s if limit_s is None else limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            if not selector.select(limit_s):
                self.close()
                raise TfhetError(f"{self.name} gave no answer within {limit_s:g} s")
        line = self._answers.readline()
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise TfhetError(f"{self.name}: {answer['error']}")
        return answer

    def signal(self, number: int) -> None:
        """Sends a signal. Raises TfhetError when the process has ended."""
        if self._process.poll() is not None:
            raise self._ended()
        self._process.send_signal(number)

    def _ended(self) -> TfhetError:
        code = self._process.wait(timeout=30)
        last = ""
        if not self._errors.closed:
            self._errors.seek(0)
            last = " | ".join(self._errors.read().strip().splitlines()[-3:])
        return TfhetError(f"{self.name} ended with exit code {code}: {last or 'it printed nothing'}")

    def close(self, grace_s: float = 5.0) -> None:
        """Ends the process, by force when it has not ended after `grace_s`; safe to call again."""
        with contextlib.suppress(OSError):  # it has ended already
            self._requests.close()
        try:
            self._process.wait(timeout=grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=30)
        self._answers.close()
        self._errors.close()

    def kill(self) -> None:
        self._process.kill()
        self.close()


Handle = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns a request into its answer; an error that it raises becomes the answer {"error": text}."""


def answer_requests(handle: Handle) -> None:
    """The main function of a child: answers the requests on standard input until they end, or its parent does."""
    end_with_parent(signal.SIGKILL)
    with output_for_answers() as answers:
        for line in sys.stdin:
            answer_line(handle, line, answers)


def answer_line(handle: Handle, line: str, answers: IO[str]) -> None:
    try:
        answer = handle(json.loads(line))
    except Exception as error:  # noqa: BLE001  foreign code: the suite reports what it raised
        answer = {"error": f"{type(error).__name__}: {error}"}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


@contextlib.contextmanager
def output_for_answers() -> Iterator[IO[str]]:
    """Keeps this process's output for answers alone: what libraries print goes to standard error from now on."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        yield answers
