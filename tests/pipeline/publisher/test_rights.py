"""A user of Redis that may not do what it must: nobody waits, and the error says what to grant."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from threading import Event, Timer

import pytest
import redis
from embedded_redis import EmbeddedServer

from pipeline.journal import Journal
from pipeline.publisher import Delivery, Publisher, PublisherError

KEYS, CHANNELS = "~narrated:*", "&narrated:*"
LIMIT_S = 20.0
Limited = Callable[[str], str]


@pytest.fixture
def limited(server: EmbeddedServer) -> Limited:
    """The URL of a user with these rights only."""
    path = server.url.removeprefix("unix://").partition("?")[0]

    def made(rules: str) -> str:
        with redis.Redis(unix_socket_path=path) as client:
            user = ("ACL", "SETUSER", "limited", "on", ">x", "resetkeys", "resetchannels", "-@all")
            client.execute_command(*user, *rules.split())
        return f"unix://limited:x@{path}"

    return made


@pytest.fixture
def stop() -> Event:
    """Ends what waits for ever; then no error is raised, and the test fails."""
    stopped = Event()
    timer = Timer(LIMIT_S, stopped.set)
    timer.daemon = True
    timer.start()
    return stopped


def test_publishing_says_what_to_grant_and_goes_on_with_it(
    limited: Limited, stop: Event, tmp_path: Path, narration
) -> None:
    refusing = {
        "+xadd": f"{KEYS} {CHANNELS} +@all -xadd",
        "~narrated:*": f"{CHANNELS} +@all",
        "&narrated:*": f"{KEYS} +@all",
    }
    with Journal(tmp_path, "yard") as journal:
        for number, (granted, rules) in enumerate(refusing.items()):
            journal.append(narration(number))
            publisher = Publisher(limited(rules))
            with pytest.raises(PublisherError, match=re.escape(f"ACL SETUSER limited {granted}")) as refused:
                Delivery(journal, publisher).drain(stop)
            assert ":x@" not in str(refused.value)
            assert journal.published.seq == number
            limited(f"{KEYS} {CHANNELS} +@all")
            assert Delivery(journal, publisher).drain(stop) == 1
            publisher.close()
