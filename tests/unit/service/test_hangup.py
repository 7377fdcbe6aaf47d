from __future__ import annotations

import socket
import subprocess
import sys
import textwrap

from tfhet.service.hangup import HangUp, connections


def test_connections_that_were_made_since_are_ended_and_others_are_not():
    # In a process of its own, which has no other sockets, against a server in this one.
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"""
            import socket
            from tfhet.service.hangup import HangUp, connections
            old = socket.create_connection(("127.0.0.1", {server.getsockname()[1]}))
            before = connections()
            new = socket.create_connection(("127.0.0.1", {server.getsockname()[1]}))
            with HangUp(before):
                new.settimeout(30)
                assert new.recv(1) == b""  # what would wait for ever is over
            old.sendall(b"here")
        """
        script = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
        ends = [server.accept()[0] for _ in range(2)]
        assert script.wait(60) == 0
        assert ends[0].recv(9) == b"here"
        for end in ends:
            end.close()


def test_both_ends_in_one_process_stay_connected():
    before = connections()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        there, _ = server.accept()
        with there:
            with HangUp(before):
                pass
            here.sendall(b"here")
            assert there.recv(9) == b"here"


def test_without_new_connections_nothing_is_started(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    with HangUp(connections()):
        pass
