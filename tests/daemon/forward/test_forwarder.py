"""From the streams to targets: at least once, in order, over every restart; and digests at set hours."""

import json
import logging
import re
import signal
import sqlite3
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock, create_autospec

import pytest
import redis
from doc_pages import page
from forwarding_here import Receiver, forwarding, sent
from waiting import until

from daemon.forward import forwarder
from daemon.forward.forwarder import dead_letter_key
from daemon.search import index
from pipeline.evidence import EvidenceStore
from pipeline.publisher import stream_key
from pipeline.record import Evidence, read_record

MIDNIGHT = datetime(2024, 5, 1, tzinfo=UTC)  # from which a camera counts its seconds


def hook(receiver: Receiver, name: str = "office") -> str:
    target = f"{{url: '{receiver.url}', message: record}}"
    return f"  apprise:\n    {name}: {target}\n"


def test_new_records_are_forwarded_in_order_and_old_ones_are_not(configure, camera, receiver):
    """Nor are held ones, and those that complete an earlier one."""
    yard = camera()
    yard.narrate(3)
    with forwarding(configure(hook(receiver))):
        published = yard.narrate(2)
        yard.narrate(held="hourly")
        yard.narrate(continues=published[0])
        published += yard.narrate(3)
        until(lambda: len(receiver.taken) == 5)
        lane = camera("lane").narrate(2)  # a stream that appears later is read from its start
        until(lambda: len(receiver.taken) == 7)
    assert receiver.ids == published + lane
    body = receiver.taken[0]
    assert body["title"] == "yard"
    assert read_record(body["message"]).id == published[0]


@pytest.mark.parametrize("delay_s", [None, 0.5], ids=["away", "slow"])
def test_a_target_that_is_away_or_slow_loses_nothing_and_delays_no_other(
    configure, camera, receiver, delay_s
):
    other = Receiver()
    path = configure(hook(receiver) + hook(other, "home").removeprefix("  apprise:\n"))
    if delay_s is None:
        receiver.stop()
    else:
        receiver.delay_s = delay_s
    try:
        with forwarding(path) as running:
            published = camera().narrate(20)
            until(lambda: len(other.taken) == 20)
            assert len(receiver.taken) < 20
            if delay_s is None:
                until(lambda: "cannot be reached" in running["office"].backoff.reason)
                receiver.start()
            receiver.delay_s = 0.0
            until(lambda: len(receiver.taken) == 20)
            until(lambda: not running["office"].backoff.reason)
        assert receiver.ids == other.ids == published
    finally:
        other.stop()


def test_redis_is_killed_and_returns(configure, camera, receiver, redis_server):
    path, yard = configure(hook(receiver)), camera()
    with forwarding(path) as running:
        published = yard.narrate(3)
        until(lambda: len(receiver.taken) == 3)
        redis_server.stop(signal.SIGKILL)
        until(lambda: running["office"].backoff.reason)
        redis_server.start()
        published += yard.narrate(2)
        until(lambda: len(receiver.taken) == 5)
        until(lambda: sent(running, "office") == 5)
    assert receiver.ids == published


def test_entries_are_acknowledged_and_foreign_ones_skipped(configure, camera, receiver, redis_server, caplog):
    with (
        forwarding(configure(hook(receiver))),
        redis.Redis.from_url(redis_server.url, decode_responses=True) as client,
    ):
        published = camera().narrate()
        until(lambda: receiver.taken)
        client.xadd(stream_key("foreign"), {"json": "{}"})
        client.xadd(stream_key("foreign"), {"hello": "world"})
        published += camera("lane").narrate()
        until(lambda: len(receiver.taken) == 2)
        groups = lambda: [client.xinfo_groups(stream_key(name))[0] for name in ("yard", "lane", "foreign")]  # noqa: E731
        until(lambda: [(g["name"], g["pending"]) for g in groups()] == [("narrated-forward:office", 0)] * 3)
    assert receiver.ids == published
    assert sum("is not a record of narrated" in r.getMessage() for r in caplog.records) == 2


def test_records_that_the_stream_lost_are_counted(configure, camera, receiver, redis_server, caplog):
    path, yard = configure(hook(receiver)), camera()
    with forwarding(path):
        published = yard.narrate()
        until(lambda: receiver.taken)
    missed, new = yard.narrate(6), camera("new").narrate()  # while it does not run
    with redis.Redis.from_url(redis_server.url) as client:
        client.xtrim(stream_key("yard"), maxlen=2, approximate=False)
    with forwarding(path):
        until(lambda: len(receiver.taken) == 4)
    assert sorted(receiver.ids) == sorted(published + missed[-2:] + new)
    assert "the stream of camera yard has lost 4 records" in caplog.text


def test_sigkill_in_the_middle_loses_nothing(configure, camera, receiver, forked):
    """Killed while it sends, again and again; every record arrives, and at most the one on its way twice."""
    path, yard = configure(hook(receiver)), camera()
    receiver.delay_s = 0.005
    published = yard.narrate(80)
    kills = 2
    for _ in range(kills):
        before = len(receiver.taken)
        process = forked("forward", "-c", path, "--from-start")
        until(lambda: len(receiver.taken) >= before + 15)  # noqa: B023
        assert process.poll() is None
        process.kill()
        process.wait()
        published += yard.narrate(10)
    assert len(set(receiver.ids)) < len(published)
    with forwarding(path) as running:
        until(lambda: set(receiver.ids) == set(published))
        until(lambda: sent(running, "office") == len(published))
    twice = [count for count in Counter(receiver.ids).values() if count > 1]
    assert len(twice) <= kills
    assert list(dict.fromkeys(receiver.ids)) == published


def test_two_forwarders_do_not_share_a_folder(configure, receiver):
    path = configure(hook(receiver))
    with (
        forwarding(path),
        pytest.raises(Exception, match="another narrated forward works in"),
        forwarding(path),
    ):
        pass


@pytest.mark.parametrize("running_meanwhile", [True, False], ids=["while it runs", "while it does not"])
def test_nothing_is_sent_twice_after_a_flush(configure, camera, receiver, redis_server, running_meanwhile):
    """Even while the daemon has published again only the first of what was lost."""
    yard, key, path = camera(), stream_key("yard"), configure(hook(receiver))
    with redis.Redis.from_url(redis_server.url) as client:
        with forwarding(path):
            published = yard.narrate(3)
            until(lambda: len(receiver.taken) == 3)
            first, *others = client.xrange(key)
            if running_meanwhile:
                client.flushall()
                client.xadd(key, first[1], id=first[0])
                until(lambda: client.xinfo_groups(key) and client.xinfo_groups(key)[0]["entries-read"])
        if not running_meanwhile:
            client.flushall()
            client.xadd(key, first[1], id=first[0])
        with forwarding(path):
            for entry, fields in others:
                client.xadd(key, fields, id=entry)
            published += yard.narrate(1)
            until(lambda: len(receiver.taken) == 4)
    assert receiver.ids == published


def test_what_a_target_refuses_becomes_a_dead_letter_and_can_be_tried_again(
    configure, camera, receiver, narrated, redis_server, caplog
):
    """With no more rights than the page names."""
    caplog.set_level(logging.INFO)
    (rules,) = re.findall(r"`(~narrated:\* [^`]*)`", page("forward.md"))
    path, yard = configure(hook(receiver)), camera()
    with redis.Redis.from_url(redis_server.url) as admin:
        admin.execute_command("ACL", "SETUSER", "forward", "on", ">SECRET", "resetkeys", *rules.split())
    path.write_text(path.read_text().replace("unix://", "unix://forward:SECRET@"))
    receiver.status = 400
    with forwarding(path), redis.Redis.from_url(redis_server.url) as client:
        (bad,) = yard.narrate()
        until(lambda: client.xlen(dead_letter_key("office")) == 1)
        assert len(receiver.requests) == forwarder.ATTEMPTS
        receiver.status = 204
        (good,) = yard.narrate()
        until(lambda: receiver.ids == [good])
        shown = narrated("forward", "-c", path, "--dead")
        assert shown.code == 0, shown.err
        assert bad in shown.out
        assert "JSON answers 400" in shown.out
        assert shown.err == "1 dead letter\n"
        as_json = narrated("forward", "-c", path, "--dead", "--json")
        assert json.loads(as_json.out)["id"] == bad
        assert "1 dead letter queued again" in narrated("forward", "-c", path, "--retry").out
        until(lambda: receiver.ids == [good, bad])
        assert narrated("forward", "-c", path, "--dead").out == ""
        until(lambda: all(group["pending"] == 0 for group in client.xinfo_groups(stream_key("yard"))))


def test_a_folder_that_cannot_be_written_stops_nothing(configure, camera, receiver, caplog):
    yard = camera()
    with forwarding(configure(hook(receiver))) as running:
        running["office"]._queue.path = Path("/proc/none/office.json")
        published = yard.narrate(3)
        until(lambda: len(receiver.taken) == 3)
        until(lambda: "continuing with the groups in Redis" in caplog.text)
    assert receiver.ids == published


# Digests


class Clock:
    def __init__(self, hour: float) -> None:
        self.hour = hour

    def __call__(self) -> datetime:
        return MIDNIGHT + timedelta(hours=self.hour)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock(-1.0)
    monkeypatch.setattr(forwarder, "present", clock)
    return clock


def daily(receiver: Receiver) -> str:
    filtered = "filter: {camera: nowhere}"
    return f"  apprise:\n    office: {{url: '{receiver.url}', {filtered}, digest: ['07:00', '19:00']}}\n"


def test_it_is_sent_once_at_each_hour(configure, camera, receiver, clock, tmp_path):
    path, store = configure(daily(receiver)), EvidenceStore(tmp_path / "state" / "evidence", fsync=False)
    with forwarding(path):
        for name, count in (("gate", 1), ("yard", 3)):
            camera(name).narrate(count, Evidence(overlay=store.put(name.encode(), "jpg")))
        clock.hour = 7.1
        until(lambda: len(receiver.taken) == 1)
    (told,) = receiver.taken
    assert told["title"] == "Tue 30 Apr 2024 19:00 to Wed 01 May 2024 07:00"
    assert "3 cars, at 00:00. (yard-1, yard-2 and 1 more)\n" in told["message"]
    assert len(told["attachments"]) == 2
    assert re.search(r"\n  yard, 3: [0-9a-f]{64}$", told["message"])
    clock.hour = 7.2
    with forwarding(path):  # a restart sends no other, until the next hour
        clock.hour = 19.1
        until(lambda: len(receiver.taken) == 2)
    assert receiver.taken[1]["title"] == "Wed 01 May 2024 07:00 to 19:00"


def test_what_was_missed_is_sent_after_a_restart_and_while_away_is_kept(configure, camera, receiver, clock):
    path = configure(daily(receiver))
    camera().narrate(1)
    with forwarding(path):
        pass
    clock.hour = 8.0
    receiver.stop()
    with forwarding(path) as running:
        until(lambda: "cannot be reached" in running["office"].backoff.reason)
    receiver.start()
    with forwarding(path) as running:
        until(lambda: len(receiver.taken) == 1)
    with forwarding(path):
        pass
    assert len(receiver.taken) == 1


def test_a_clock_that_was_set_back_ends_no_digests(configure, camera, receiver, clock):
    path = configure(daily(receiver))
    camera().narrate(1)
    clock.hour = 24 * 365.0
    with forwarding(path):
        pass
    clock.hour = 6.0
    with forwarding(path) as running:
        until(lambda: running["office"]._queue.digest == MIDNIGHT - timedelta(hours=5))
        clock.hour = 7.1
        until(lambda: len(receiver.taken) == 1)
    assert receiver.taken[0]["title"] == "Tue 30 Apr 2024 19:00 to Wed 01 May 2024 07:00"


@pytest.mark.parametrize("damaged", [True, False])
def test_a_digest_that_cannot_be_written_is_sent_later(
    configure, camera, receiver, clock, monkeypatch, damaged
):
    """Its index proves to be damaged as it is asked, and is built anew, or there is no room for one."""
    monkeypatch.setattr(forwarder, "DIGEST_RETRY_S", 0.05)
    path = configure(daily(receiver))
    camera().narrate(3)
    discard = create_autospec(index.Index.delete, side_effect=index.Index.delete)
    monkeypatch.setattr(index.Index, "delete", discard)
    with forwarding(path) as running:
        with monkeypatch.context() as patch:
            if damaged:
                error = sqlite3.DatabaseError("database disk image is malformed")
                patch.setattr(forwarder, "write_digest", Mock(side_effect=error))
            else:
                patch.setattr(index, "_LEAST_FREE", 2**60)
            clock.hour = 7.1
            until(lambda: running["office"]._digest_due)
        until(lambda: len(receiver.taken) == 1)
    assert discard.called == damaged
    assert "3 cars" in receiver.taken[0]["message"]


def test_hours_are_those_of_the_time_zone(configure, receiver):
    path = configure(daily(receiver))
    path.write_text(path.read_text().replace("timezone: UTC", "timezone: Europe/Berlin"))
    with forwarding(path) as running:
        for now, last in ((4.9, -7), (5.0, 5), (100, 89)):  # 7:00 in Berlin is 5:00 in UTC
            hour = running["office"].last_hour(MIDNIGHT + timedelta(hours=now))
            assert hour == MIDNIGHT + timedelta(hours=last)
