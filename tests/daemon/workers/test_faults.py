"""Whatever dies, hangs or lies: each pair comes out once, in its camera's order, rightly seen."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from worker_here import DEADLY, FAULTY, OTHER
from workers_site import Site, pair, wait

from daemon.service.embedded_redis import find_servers
from daemon.workers.broker import GROUP, Broker, answers_key, asks_key, pictures_key, workers
from daemon.workers.messages import Ask, Reply, parsed
from daemon.workers.sights import UnseenError
from tests.balanced import balanced

IN_TIME = [("yard", n, False) for n in range(100)]


def test_order_is_kept_though_answers_come_in_any(site: Site) -> None:
    edge = site.edge("yard", "gate")
    slow, fast = site.worker(shut=True), site.worker()
    wait(lambda: edge.asking.alive == (2, 0))
    edge.put(*range(6))
    edge.put(*range(6), camera="gate")
    wait(lambda: slow.gate.looking and edge.asking.in_flight == 1)
    slow.gate.open()
    out = edge.take(12)
    for camera in ("yard", "gate"):
        assert [n for c, n, late in out if c == camera and not late] == list(range(6))
    assert edge.asking.counts.claims == 0
    assert fast.process.is_alive()
    assert wait(edge.idle)
    assert not site.keys("pictures")
    with site.client as client:
        assert client.xlen(asks_key(edge.captioner.sha256)) == 0
        wait(lambda: client.xlen(answers_key(edge.asking.card.name)) == 0)


def test_a_picture_that_two_pairs_share_is_looked_at_once(site: Site) -> None:
    edge = site.edge()
    site.worker()
    edge.put(*range(10))
    assert edge.take(10) == IN_TIME[:10]
    assert edge.asking.counts.pictures == 11
    assert edge.captioner.eyes is not None
    assert edge.captioner.eyes.looked_here == 0
    edge.queue.take(1, 0.0, 0.0)
    assert len(edge.captioner.eyes) == 2  # of the last pair: the next one may show them, too


def test_a_worker_that_is_killed_is_taken_over(site: Site) -> None:
    edge = site.edge()
    dying = site.worker(shut=True)
    edge.put(*range(4))
    wait(lambda: dying.gate.looking)
    dying.signal(signal.SIGKILL)
    heir = site.worker()
    assert edge.take(4) == IN_TIME[:4]
    wait(lambda: edge.asking.counts.claims == 1)
    assert "took over 1 asks" in heir.log
    assert edge.asking.counts.fates["answered"] == 4
    assert not edge.asking.counts.stray


def test_a_frozen_worker_that_thaws_answers_in_vain(site: Site) -> None:
    edge = site.edge()
    frozen = site.worker(shut=True)
    edge.put(0)
    wait(lambda: frozen.gate.looking)
    frozen.signal(signal.SIGSTOP)
    site.worker()
    assert edge.take(1) == IN_TIME[:1]
    frozen.gate.open()
    frozen.signal(signal.SIGCONT)
    wait(lambda: edge.asking.counts.stray["twice"] == 1)
    edge.put(1)
    assert edge.take(1) == IN_TIME[1:2]


def test_a_slow_worker_keeps_what_it_has_in_hand(site: Site) -> None:
    edge = site.edge()
    slow = site.worker(shut=True, claim_s=0.3)
    edge.put(0)
    wait(lambda: slow.gate.looking)
    site.worker(claim_s=0.3)
    edge.put(1)
    wait(lambda: edge.asking.counts.fates["answered"] == 1)
    time.sleep(1.0)  # three times as long as one that says nothing would keep it
    assert edge.asking.counts.claims == 0
    slow.gate.open()
    assert edge.take(2) == IN_TIME[:2]


def test_the_server_is_killed_and_has_forgotten_everything(site: Site) -> None:
    edge = site.edge()
    worker = site.worker(shut=True)
    edge.put(*range(3))
    wait(lambda: worker.gate.looking and edge.asking.in_flight == 3)
    site.server.stop(signal.SIGKILL)
    wait(lambda: edge.asking.away)
    edge.put(3)
    worker.gate.open()
    site.server.start()
    assert edge.take(4) == IN_TIME[:4]
    assert edge.asking.counts.fates["lost"] >= 2
    wait(edge.idle)


def test_the_server_is_flushed(site: Site) -> None:
    edge = site.edge()
    worker = site.worker(shut=True)
    edge.put(*range(3))
    wait(lambda: worker.gate.looking and edge.asking.in_flight == 3)
    with site.client as client:
        client.flushall()
    worker.gate.open()
    assert edge.take(3) == IN_TIME[:3]
    assert edge.asking.counts.fates["lost"] >= 2


def test_the_server_is_frozen_beyond_the_deadline(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.workers.broker.TIMEOUT_S", 1.0)
    edge = site.edge()
    site.worker()
    edge.put(0)
    assert edge.take(1) == IN_TIME[:1]
    process = site.server._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        edge.put(1, 2, deadline_s=0.2)
        assert edge.take(2) == [("yard", 1, True), ("yard", 2, True)]
    finally:
        process.send_signal(signal.SIGCONT)
    wait(lambda: not edge.asking.away)
    edge.put(3)
    assert edge.take(1) == IN_TIME[3:4]


def test_what_nobody_answers_in_time_is_late_and_taken_back(site: Site) -> None:
    edge = site.edge()
    edge.put(0, deadline_s=0.3)
    edge.put(7)
    assert edge.take(1) == [("yard", 0, True)]
    wait(lambda: edge.asking.counts.fates["given up"] == 1)
    assert len(site.keys("pictures")) == 1
    site.worker()
    assert edge.take(1) == [("yard", 7, False)]


def test_a_late_answer_is_dropped_and_counted(site: Site) -> None:
    edge = site.edge()
    worker = site.worker(shut=True)
    edge.put(0, deadline_s=0.5)
    wait(lambda: worker.gate.looking)
    assert edge.take(1) == [("yard", 0, True)]
    wait(lambda: edge.asking.counts.fates["given up"] == 1)
    worker.gate.open()
    wait(lambda: edge.asking.counts.stray["late"] == 1)
    edge.queue.take(1, 0.0, 0.0)
    assert len(edge.captioner.eyes or "") == 0


def test_an_edge_that_dies_leaves_nothing_behind_that_lasts(site: Site) -> None:
    dead, alive = site.edge(), site.edge()
    dead.put(0)
    wait(lambda: dead.asking.in_flight == 1)
    site.edges.remove(dead)
    for loop in dead.queue.loops:  # as if by SIGKILL: it neither listens nor takes anything back
        loop._last = lambda: None
        loop.stop()
        assert loop.join(5)
    (key,) = site.keys("pictures")
    with site.client as client:
        assert 0 < client.ttl(key) <= 120
        client.delete(key)  # its time has come
    site.worker()
    alive.put(0)
    assert alive.take(1) == IN_TIME[:1]
    with site.client as client:
        assert not site.keys("pictures")
        assert client.xlen(asks_key(alive.captioner.sha256)) == 0
        assert client.xpending(asks_key(alive.captioner.sha256), GROUP)["pending"] == 0


def test_another_checkpoint_gets_nothing_and_both_sides_say_so(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("daemon.workers.asks._ALONE_S", 0.0)
    edge = site.edge()
    other = site.worker(checkpoint=OTHER)
    edge.put(0)
    wait(lambda: edge.asking.alive == (0, 1))
    wait(lambda: "does nothing for it" in other.log)
    wait(lambda: "none has the checkpoint tiny aaaaaaaaaaaa (" in caplog.text)
    assert not other.gate.looking
    site.worker()
    assert edge.take(1) == IN_TIME[:1]


def by_hand(site: Site, *, checkpoint: str, pictures: list[bytes], **more: object) -> Reply:
    """What a worker answers to an ask that was written by hand."""
    with site.client as client:
        ask = Ask(id="me:1", edge="me", camera="yard", checkpoint=checkpoint, pictures=len(pictures))
        client.hset(pictures_key(ask.id), mapping=dict(enumerate(pictures)))
        text = (ask.model_dump_json() if not more else "{}").encode()
        client.xadd(asks_key("a" * 64), {"ask": text})
        told = client.xread({answers_key("me"): "0"}, block=30_000)[0][1][0][1]
    return parsed(Reply, told[b"answer"])


def test_a_worker_refuses_what_it_cannot_do_with_a_word(site: Site) -> None:
    site.worker()
    assert by_hand(site, checkpoint=OTHER, pictures=[b"x"]).refused == (
        "it has checkpoint aaaaaaaaaaaa, not bbbbbbbbbbbb"
    )
    with site.client as client:
        client.flushall()
    assert "cannot be decoded" in by_hand(site, checkpoint="a" * 64, pictures=[b"no picture"]).refused


def test_an_ask_of_another_version_is_passed_over(site: Site) -> None:
    worker = site.worker()
    edge = site.edge()
    with site.client as client:
        client.xadd(asks_key("a" * 64), {"ask": b'{"version": 2}'})
    edge.put(0)
    assert edge.take(1) == IN_TIME[:1]
    assert "an ask was passed over: Ask" in worker.log


def test_one_that_cannot_be_done_is_refused_and_the_only_one_of_its_batch(site: Site) -> None:
    edge = site.edge()
    edge.put(FAULTY - 3, FAULTY, FAULTY + 3)
    wait(lambda: edge.asking.in_flight == 3)
    site.worker(batch=8)
    wait(lambda: edge.asking.counts.fates["answered"] == 2)
    seen = [one for _ in range(3) for one in wait(lambda: edge.queue.take(1, 0.0))]
    assert [one.pair.before.pts for one in seen] == [FAULTY - 3, FAULTY, FAULTY + 3]
    assert edge.captioner.eyes is not None
    with pytest.raises(UnseenError, match="cannot be looked at"):
        edge.captioner.eyes(edge.queue._to_see(seen[1].pair, None))  # type: ignore[arg-type]
    assert edge.asking.counts.fates["refused"] == 1


def test_an_ask_that_ends_every_worker_ends_three_of_them(site: Site) -> None:
    edge = site.edge()
    edge.put(DEADLY)
    for _ in range(3):
        dying = site.worker(claim_s=0.2)
        wait(lambda dying=dying: not dying.process.is_alive())
    site.worker(claim_s=0.2)
    wait(lambda: edge.asking.counts.fates["refused"] == 1)
    edge.put(DEADLY + 5)
    assert [number for _, number, _ in map(tuple, _numbers(edge, 2))] == [DEADLY, DEADLY + 5]


def _numbers(edge, count):
    out = []
    while len(out) < count:
        out += [
            (o.pair.after.camera, o.pair.before.pts, o.late) for o in wait(lambda: edge.queue.take(8, 0.0))
        ]
    return out


def test_no_edge_adds_to_a_full_server(site: Site) -> None:
    edge = site.edge(on_server=3)
    edge.put(*range(8))
    wait(lambda: edge.asking.in_flight == 3)
    wait(lambda: edge.asking.full)
    time.sleep(0.5)
    assert edge.asking.in_flight == 3
    site.worker()
    assert edge.take(8) == IN_TIME[:8]


def test_an_edge_holds_no_more_than_it_may(site: Site) -> None:
    edge = site.edge(in_flight=2)
    edge.put(*range(6))
    wait(lambda: edge.asking.in_flight == 2)
    time.sleep(0.3)
    assert edge.asking.in_flight == 2
    site.worker()
    assert edge.take(6) == IN_TIME[:6]


def test_the_end_takes_back_what_was_asked(site: Site) -> None:
    edge = site.edge()
    edge.put(0, 1)
    wait(lambda: edge.asking.in_flight == 2)
    edge.queue.close()
    assert edge.queue.abandon() == 2
    edge.queue.leave(5.0)
    with site.client as client:
        wait(lambda: not site.keys("pictures"))
        assert client.xlen(asks_key("a" * 64)) == 0
    account = edge.queue.accounts.of("yard")
    assert balanced(account)
    assert account.dropped.total() == 2


def test_a_worker_that_is_asked_to_end_does_first_what_it_has_in_hand(site: Site) -> None:
    edge = site.edge()
    worker = site.worker(shut=True)
    edge.put(0)
    wait(lambda: worker.gate.looking)
    worker.signal(signal.SIGTERM)
    worker.gate.open()
    assert edge.take(1) == IN_TIME[:1]
    worker.process.join(30)
    assert worker.process.exitcode == 0
    broker = Broker(lambda: site.server.url)
    assert workers(broker) == []
    with site.client as client:
        assert client.xinfo_consumers(asks_key("a" * 64), GROUP) == []
    broker.close()


def test_a_camera_without_workers_goes_straight_through(site: Site) -> None:
    edge = site.edge()
    edge.queue.add("shed")
    edge.queue.put("shed", pair(5, "shed"), wait=True)
    (one,) = wait(lambda: edge.queue.take(8, 0.0))
    assert (one.pair.after.camera, one.late, edge.asking.in_flight) == ("shed", False, 0)


@pytest.mark.parametrize("program", find_servers(), ids=lambda program: program.name)
def test_every_server_takes_it(program, tmp_path: Path) -> None:
    """From Redis 6.2 on: a worker killed, an ask taken back while it had it, the next one done."""
    from daemon.service.embedded_redis import EmbeddedServer

    with EmbeddedServer(program) as server:
        site = Site(server, tmp_path)
        try:
            edge, dying = site.edge(), site.worker(shut=True)
            edge.put(0, deadline_s=0.5)
            wait(lambda: dying.gate.looking)
            dying.signal(signal.SIGKILL)
            assert edge.take(1) == [("yard", 0, True)]
            wait(lambda: edge.asking.counts.fates["given up"] == 1)
            edge.put(1)
            site.worker()
            assert edge.take(1) == [("yard", 1, False)]
            with site.client as client:
                key = asks_key("a" * 64)
                wait(lambda: client.xpending(key, GROUP)["pending"] == 0)
        finally:
            site.end()
