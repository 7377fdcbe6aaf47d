"""PID 1 of a container: `python -m tfhet.launch.init COMMAND...` runs the command, reaps orphans, passes a stop on.

SageMaker stops a job by SIGTERM to PID 1 and SIGKILL 120 s later. Its toolkit, `train`, dies of SIGTERM without passing
it on (sagemaker-training-toolkit#125); its end closes the pipe for the output of the program that starts the ranks,
which ends them after some ten SIGPIPEs, and about a second after a SIGTERM. So init sends the signal to the launchers,
not to processes between, and to the command after the launchers have ended.

Linux only. It imports little, to start quickly: no asyncio, and of tfhet only `clock`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence

import psutil

from tfhet.clock import SYSTEM

LAUNCHER_NAME = "tfhet-launcher"
"""Name of a launcher in the process table (see `tfhet.process.name_process`), at most 15 characters."""
STOP_S = 110.0
"""Seconds that command and launchers may take to end after the signal; SageMaker's SIGKILL comes after 120 s."""
SETTLE_S = 5.0
"""Seconds that the command may take to end after the launchers, before it gets the signal, too: hosts do not get the
signal at the same moment, and the program that started the ranks may end all of them if its daemon on one host ends."""
LEFT_S = 2.0
"""Seconds that the command's remaining children may take to end after SIGTERM, before SIGKILL."""
_POLL_S = 0.1
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
"""States of a process that has ended, and that its parent has not reaped yet."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def processes() -> dict[int, psutil.Process]:
    """The living processes of this PID namespace, by number; `info` has the `ppid` and `name` of each."""
    every = psutil.process_iter(["ppid", "name", "status"])
    return {each.pid: each for each in every if each.info["status"] not in _ENDED}


def ancestors(table: dict[int, psutil.Process], pid: int) -> Iterator[int]:
    """Process ids of the parent of a process, its parent and so on, within this namespace."""
    while pid in table and table[pid].info["ppid"]:
        pid = table[pid].info["ppid"]
        yield pid


class Init:
    """Runs one command to its end, and then ends all remaining descendants."""

    def __init__(self, command: Sequence[str]):
        self._command = list(command)
        self._pid = 0
        self._code: int | None = None
        """The command's exit code, once it has ended: 128 + the number of a signal."""
        self._signalled: set[int] = set()

    def run(self) -> int:
        """Returns the command's exit code at the end of the command, or of the stop."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {*STOP_SIGNALS, signal.SIGCHLD})
        if os.getpid() != 1:
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._pid = self._start(set(before) - {*STOP_SIGNALS, signal.SIGCHLD})
        self._watch()
        self._end_rest()
        return 128 + signal.SIGKILL if self._code is None else self._code

    def _start(self, mask: Iterable[int]) -> int:
        """The number of the command's process, a fork of this one."""
        libc, parent = ctypes.CDLL(None), os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() == parent:  # else it died before we could ask
                for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and ignoring is inherited
                    signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                os.execvp(self._command[0], self._command)
        except OSError as error:
            _say(f"{self._command[0]} cannot be started: {error.strerror}")
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)  # as in shells
        finally:
            os._exit(1)

    def _watch(self) -> None:
        """Returns when the command and the launchers have ended, or a stop takes too long."""
        stop, until_s, seen_s = 0, 0.0, -SETTLE_S
        while True:
            self._reap()
            table = processes() if stop or self._code is not None else {}
            launchers = self._launchers(table)
            if self._code is not None and not launchers:
                return
            if self._code is not None and not stop:  # it has ended before the launchers
                stop, until_s = signal.SIGTERM, SYSTEM.monotonic() + STOP_S
                _say("the command has ended before the launchers: they are asked to stop")
            if stop:
                now_s = SYSTEM.monotonic()
                seen_s = now_s if launchers else seen_s
                above = {pid for pid in launchers if not launchers & set(ancestors(table, pid))}
                self._send(stop, above if now_s < seen_s + SETTLE_S else {self._pid})
                if now_s >= until_s:
                    _say(f"still running after {STOP_S:g} s: {_names(table, {*launchers, self._pid})}")
                    return
            number = _wait({*STOP_SIGNALS, signal.SIGCHLD}, _POLL_S if stop else None)
            if number in STOP_SIGNALS:
                until_s = until_s if stop else SYSTEM.monotonic() + STOP_S
                stop, self._signalled = number, set()
                _say(f"{signal.Signals(number).name}: the launchers are asked to stop, and then the command")

    def _launchers(self, table: dict[int, psutil.Process]) -> set[int]:
        """Process ids of the launchers: for PID 1, in the whole container; else among its descendants."""
        me, found = os.getpid(), {pid for pid, process in table.items() if process.info["name"] == LAUNCHER_NAME}
        return {pid for pid in found if me == 1 or me in ancestors(table, pid)}

    def _send(self, number: int, pids: Iterable[int]) -> None:
        """Sends a signal to the processes that have not received it."""
        for pid in set(pids) - self._signalled:
            self._signalled.add(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _end_rest(self) -> None:
        """Ends all descendants: SIGTERM first, SIGKILL after LEFT_S."""
        for number, limit_s in ((signal.SIGTERM, LEFT_S), (signal.SIGKILL, 5.0)):
            until_s, self._signalled = SYSTEM.monotonic() + limit_s, set()
            while True:
                self._reap()
                table, me = processes(), os.getpid()
                left = {pid for pid in table if me in ancestors(table, pid)}
                if not left or SYSTEM.monotonic() >= until_s:
                    break
                if not self._signalled:
                    _say(f"{number.name} to what is left: {_names(table, left)}")
                self._send(number, left)
                _wait({signal.SIGCHLD}, _POLL_S)

    def _reap(self) -> None:
        """Reaps all children that have ended, including orphans."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._pid:
                    code = os.waitstatus_to_exitcode(ended[1])
                    self._code = code if code >= 0 else 128 - code


def _wait(numbers: set[signal.Signals], limit_s: float | None) -> int:
    """The next of some blocked signals; 0 if there is none within `limit_s`."""
    found = signal.sigwaitinfo(numbers) if limit_s is None else signal.sigtimedwait(numbers, limit_s)
    return found.si_signo if found else 0


def _names(table: dict[int, psutil.Process], pids: Iterable[int]) -> str:
    return ", ".join(f"{table[pid].info['name']} ({pid})" for pid in sorted(pids) if pid in table)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # the reader of our log may end before us
        os.write(2, f"[tfhet init] {line}\n".encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command in the arguments; returns its exit code: 128 + n for a signal, 127 and 126 as in shells."""
    command = sys.argv[1:] if argv is None else list(argv)
    if not command:
        _say("no command: say python -m tfhet.launch.init COMMAND [ARGUMENT...]; SageMaker's is train")
        return 2
    return Init(command).run()


if __name__ == "__main__":
    sys.exit(main())
