"""A digest at set hours: once, of the time since the one before, also after a restart."""

import re
import sqlite3
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest
from forwarding_here import Receiver, forwarding
from waiting import until

from daemon.forward import forwarder
from daemon.search import index
from pipeline.evidence import EvidenceStore
from pipeline.record import Evidence

MIDNIGHT = datetime(2024, 5, 1, tzinfo=UTC)  # from which a camera counts its seconds


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


def hook(receiver: Receiver) -> str:
    filtered = "filter: {camera: nowhere}"
    return f"  apprise:\n    office: {{url: '{receiver.url}', {filtered}, digest: ['07:00', '19:00']}}\n"


def test_it_is_sent_once_at_each_hour(configure, camera, receiver, clock, tmp_path):
    path, store = configure(hook(receiver)), EvidenceStore(tmp_path / "state" / "evidence", fsync=False)
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
    path = configure(hook(receiver))
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
    path = configure(hook(receiver))
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
    path = configure(hook(receiver))
    camera().narrate(3)
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
    assert "3 cars" in receiver.taken[0]["message"]


def test_hours_are_those_of_the_time_zone(configure, receiver):
    path = configure(hook(receiver))
    path.write_text(path.read_text().replace("timezone: UTC", "timezone: Europe/Berlin"))
    with forwarding(path) as running:
        for now, last in ((4.9, -7), (5.0, 5), (100, 89)):  # 7:00 in Berlin is 5:00 in UTC
            hour = running["office"].last_hour(MIDNIGHT + timedelta(hours=now))
            assert hour == MIDNIGHT + timedelta(hours=last)
