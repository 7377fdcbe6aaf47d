from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tfhet.cluster import free_ports
from tfhet.planes.tf_service import server
from tfhet.planes.tf_service.engine import whole_engine
from tfhet.planes.tf_service.reader import Generation
from tfhet.planes.tf_service.transport import Transport

ENGINE = whole_engine()


def test_a_mark_stands_at_the_dispatcher_that_has_it_for_all_readers(served):
    first, second, other = (Generation(served.dispatcher, job, Transport()) for job in ("a job", "a job", "another"))
    assert first.number == 0
    first.renew()
    second.renew()
    assert (first.number, second.number) == (1, 1)
    assert first.stands() and second.stands()
    other.number = 1
    assert not other.stands()


def test_a_reader_that_has_not_renewed_its_mark_does_not_stand(served):
    ahead, behind = (Generation(served.dispatcher, "a third job", Transport()) for _ in range(2))
    ahead.renew()
    behind.number = 2
    assert not behind.stands()


def test_a_dispatcher_with_a_journal_keeps_a_mark_and_a_fresh_one_has_none(tmp_path):
    (port,) = free_ports(1)
    generation = Generation(f"127.0.0.1:{port}", "job", Transport())
    dispatcher = server.dispatcher(ENGINE, port, str(tmp_path))
    generation.renew()
    dispatcher.stop()
    del dispatcher
    dispatcher = server.dispatcher(ENGINE, port, str(tmp_path))
    assert generation.stands()
    dispatcher.stop()
    del dispatcher
    dispatcher = server.dispatcher(ENGINE, port)
    assert not generation.stands()
    generation.renew()
    assert generation.number == 2 and generation.stands()
    dispatcher.stop()


def test_a_dispatcher_that_is_being_started_is_waited_for():
    (port,) = free_ports(1)
    generation = Generation(f"127.0.0.1:{port}", "job", Transport())
    generation.number = 1
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(generation.stands)
        assert not answer.done()
        dispatcher = server.dispatcher(ENGINE, port)
        assert answer.result(30) is False
    dispatcher.stop()
