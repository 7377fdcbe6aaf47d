from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from own_wire import WIRE

from tfhet.cluster import free_ports
from tfhet.pipeline import Pipeline
from tfhet.planes.tf_service.engine import whole_engine
from tfhet.planes.tf_service.reader import ServiceReader
from tfhet.source import SyntheticSource
from tfhet.strategies import JobContext

ENGINE = whole_engine()


def reader(dispatcher: str, job_id: str) -> ServiceReader:
    job = JobContext(job_id, "heterogeneous", plane="tf_service", order={"dispatcher": dispatcher})
    return ServiceReader(Pipeline(SyntheticSource(4, 1, (2, 2, 1)), "", batch_size=2), job)


def test_mark_is_valid_for_its_job_and_generation(served):
    first, second, other = (reader(served.dispatcher, job) for job in ("a job", "a job", "another"))
    assert first.generation == 0
    first.agree()
    second.agree()
    assert (first.generation, second.generation) == (1, 1)
    assert first.stands() and second.stands()
    other.generation = 1
    first.generation = 2
    assert not other.stands() and not first.stands()


def test_only_a_journal_keeps_the_mark(tmp_path):
    (port,) = free_ports(1)
    generation = reader(f"127.0.0.1:{port}", "job")
    dispatcher = ENGINE.dispatcher(WIRE, port, str(tmp_path))
    generation.agree()
    dispatcher.stop()
    del dispatcher
    dispatcher = ENGINE.dispatcher(WIRE, port, str(tmp_path))
    assert generation.stands()
    dispatcher.stop()
    del dispatcher
    dispatcher = ENGINE.dispatcher(WIRE, port)
    assert not generation.stands()
    generation.agree()
    assert generation.generation == 2 and generation.stands()
    dispatcher.stop()


def test_starting_dispatcher_is_waited_for():
    (port,) = free_ports(1)
    generation = reader(f"127.0.0.1:{port}", "job")
    generation.generation = 1
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(generation.stands)
        assert not answer.done()
        dispatcher = ENGINE.dispatcher(WIRE, port)
        assert answer.result(30) is False
    dispatcher.stop()
