from __future__ import annotations

import io

import pytest

from tfhet.service import server


def test_a_worker_is_known_by_the_address_that_it_was_told_and_never_as_localhost(monkeypatch):
    made = []
    monkeypatch.setattr(server.tf.data.experimental.service, "WorkerServer", made.append)
    server.worker(6001, "10.0.3.7", "algo-1:6000")
    (config,) = made
    assert (config.worker_address, config.data_transfer_address) == ("10.0.3.7:6001", "10.0.3.7:6001")
    assert (config.dispatcher_address, config.port, config.protocol) == ("algo-1:6000", 6001, "grpc")
    assert "localhost" not in str(config)


def test_lost_workers_and_clients_are_noticed_in_seconds(monkeypatch):
    made = []
    monkeypatch.setattr(server.tf.data.experimental.service, "WorkerServer", made.append)
    monkeypatch.setattr(server.tf.data.experimental.service, "DispatchServer", made.append)
    server.worker(6001, "10.0.3.7", "algo-1:6000")
    server.dispatcher(6000)
    worker, dispatcher = made
    assert worker.heartbeat_interval_ms <= 2_000
    assert worker.dispatcher_timeout_ms <= 120_000
    assert dispatcher.worker_timeout_ms <= 60_000
    assert dispatcher.job_gc_check_interval_ms <= 30_000


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["worker", "--port", "1"], "a worker needs --address and --dispatcher"),
        (["worker", "--port", "1", "--address", "algo-1"], "a worker needs --address and --dispatcher"),
        (["dispatcher"], "--port"),
        (["clerk", "--port", "1"], "invalid choice"),
    ],
)
def test_wrong_arguments_end_it_with_exit_code_2(argv, said, capsys):
    with pytest.raises(SystemExit) as ended:
        server.main(argv)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_what_it_tells_the_launcher_is_one_marked_line_in_one_write(monkeypatch):
    class Pipe(io.StringIO):
        def __init__(self) -> None:
            super().__init__()
            self.writes: list[str] = []

        def write(self, text: str) -> int:
            self.writes.append(text)
            return super().write(text)

    pipe = Pipe()
    monkeypatch.setattr("sys.stdout", pipe)
    server.tell("ready", port=7)
    assert pipe.writes == ['@tfhet {"event": "ready", "port": 7}\n']
