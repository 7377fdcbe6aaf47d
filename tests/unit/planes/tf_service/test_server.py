from __future__ import annotations

from types import SimpleNamespace

import pytest

from tfhet.planes.tf_service import Wire, server
from tfhet.planes.tf_service.engine import Engine

WIRE = Wire("a-protocol")


class Making:
    """An engine that records configurations."""

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


def test_worker_registers_its_own_address():
    engine = Making()
    engine.worker(WIRE, 6001, "10.0.3.7", "algo-1:6000")
    (config,) = engine.made
    assert (config["worker_address"], config["data_transfer_address"]) == ("10.0.3.7:6001", "10.0.3.7:6001")
    assert (config["dispatcher_address"], config["port"], config["protocol"]) == ("algo-1:6000", 6001, WIRE.protocol)
    assert "localhost" not in str(config)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["worker", "--port", "1"], "--folder"),
        (["worker", "--port", "1", "--address", "algo-1", "--folder", "/tmp"], "--dispatcher"),
        (["dispatcher"], "--port"),
        (["clerk", "--port", "1"], "clerk"),
    ],
)
def test_wrong_arguments_are_refused(argv, named, capsys):
    with pytest.raises(SystemExit) as ended:
        server.main(argv)
    assert ended.value.code == 2
    assert named in capsys.readouterr().err
