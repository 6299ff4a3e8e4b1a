"""What docs/operations.md tells an administrator to type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Event, Timer

import pytest
import redis
from doc_pages import page
from embedded_redis import EmbeddedServer
from narrations import narration

from pipeline.journal import Journal
from pipeline.publisher import Delivery, Publisher, subscribe

LIMIT_S = 30.0


@pytest.fixture
def guarded() -> Iterator[dict[str, str]]:
    """URLs of a server, by its users: those that the page makes."""
    with EmbeddedServer() as server:
        path = server.url.removeprefix("unix://").partition("?")[0]
        with redis.Redis(unix_socket_path=path) as client:
            made = re.findall(r"^    ACL SETUSER (\w+) (on >(\w+) .*)$", page("operations.md"), re.MULTILINE)
            for user, rules, _ in made:
                client.execute_command("ACL", "SETUSER", user, *rules.split())
            client.execute_command("ACL", "SETUSER", "default", "off")
            yield {user: f"unix://{user}:{secret}@{path}" for user, _, secret in made}


@pytest.fixture
def stop() -> Iterator[Event]:
    """Ends the waiting for a server that refuses."""
    stopped = Event()
    timer = Timer(LIMIT_S, stopped.set)
    timer.start()
    yield stopped
    timer.cancel()
    timer.join()


def test_users_may_do_what_they_must(guarded: dict[str, str], stop: Event, tmp_path: Path) -> None:
    with Journal(tmp_path, "yard") as journal:
        for second in range(3):
            journal.append(narration(second))
        publisher = Publisher(guarded["narrated"])
        Delivery(journal, publisher).drain(stop)
        publisher.close()
        assert journal.published.seq == 3
    assert set(guarded) == {"narrated", "reader"}
    records = list(islice(subscribe(guarded["reader"], last_id="0", stop=stop), 3))
    assert [record.seq for record in records] == [1, 2, 3]
