from __future__ import annotations

from types import SimpleNamespace

import pytest

from tfhet.planes.tf_service import Wire, server
from tfhet.planes.tf_service.engine import Engine

WIRE = Wire("a-protocol")


class Making:
    """An engine that notes what it is to make."""

    def __init__(self) -> None:
        self.made: list[dict] = []
        configs = SimpleNamespace(WorkerConfig=self._note, DispatcherConfig=self._note)
        library = SimpleNamespace(TF_DATA_NewWorkerServer=self._server, TF_DATA_NewDispatchServer=self._server)
        engine = Engine(library, configs, ())
        self.worker, self.dispatcher = engine.worker, engine.dispatcher

    def _note(self, **config: object) -> SimpleNamespace:
        self.made.append(config)
        return SimpleNamespace(SerializeToString=lambda: b"")

    def _server(self, config: bytes) -> SimpleNamespace:
        return SimpleNamespace(start=lambda: None)


def test_a_worker_is_known_by_the_address_that_it_was_told_and_never_as_localhost():
    engine = Making()
    engine.worker(WIRE, 6001, "10.0.3.7", "algo-1:6000")
    (config,) = engine.made
    assert (config["worker_address"], config["data_transfer_address"]) == ("10.0.3.7:6001", "10.0.3.7:6001")
    assert (config["dispatcher_address"], config["port"], config["protocol"]) == ("algo-1:6000", 6001, WIRE.protocol)
    assert "localhost" not in str(config)


def test_lost_workers_and_clients_are_noticed_in_seconds():
    engine = Making()
    engine.worker(WIRE, 6001, "10.0.3.7", "algo-1:6000")
    engine.dispatcher(WIRE, 6000)
    worker, dispatcher = engine.made
    assert worker["heartbeat_interval_ms"] <= 2_000
    assert worker["dispatcher_timeout_ms"] <= 120_000
    assert dispatcher["worker_timeout_ms"] <= 60_000
    assert dispatcher["job_gc_check_interval_ms"] <= 30_000


def test_a_dispatcher_keeps_a_journal_where_it_is_given_a_folder():
    engine = Making()
    engine.dispatcher(WIRE, 6000, "/somewhere")
    engine.dispatcher(WIRE, 6000)
    assert [(made["work_dir"], made["fault_tolerant_mode"]) for made in engine.made] == [
        ("/somewhere", True),
        ("", False),
    ]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["worker", "--port", "1"], "a server needs --address and --folder"),
        (["worker", "--port", "1", "--address", "algo-1", "--folder", "/tmp"], "a worker needs --dispatcher"),
        (["dispatcher"], "--port"),
        (["clerk", "--port", "1"], "invalid choice"),
    ],
)
def test_wrong_arguments_end_it_with_exit_code_2(argv, said, capsys):
    with pytest.raises(SystemExit) as ended:
        server.main(argv)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
