"""Users of Redis: those of docs/operations.md may do what they must, and to another the error says what."""

import re
from collections.abc import Callable
from itertools import islice
from threading import Event, Timer

import pytest
import redis
from doc_pages import page
from waiting import LIMIT_S

from pipeline.journal import Journal
from pipeline.publisher import Delivery, PublisherError, RedisServer, subscribe

KEYS, CHANNELS = "~narrated:*", "&narrated:*"
Limited = Callable[[str], str]


@pytest.fixture
def limited(server) -> Limited:
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


def test_publishing_says_what_to_grant_and_goes_on_with_it(limited, stop, tmp_path, narration):
    refusing = {
        "+xadd": f"{KEYS} {CHANNELS} +@all -xadd",
        "~narrated:*": f"{CHANNELS} +@all",
        "&narrated:*": f"{KEYS} +@all",
    }
    with Journal(tmp_path, "yard") as journal:
        for number, (granted, rules) in enumerate(refusing.items()):
            journal.append(narration(number))
            publisher = RedisServer(limited(rules))
            with pytest.raises(PublisherError, match=re.escape(f"ACL SETUSER limited {granted}")) as refused:
                Delivery(journal, publisher).drain(stop)
            assert ":x@" not in str(refused.value)
            assert journal.published.seq == number
            limited(f"{KEYS} {CHANNELS} +@all")
            assert Delivery(journal, publisher).drain(stop) == 1
            publisher.close()


def test_the_users_of_the_page_may_do_what_they_must(server, stop, tmp_path, narration):
    path = server.url.removeprefix("unix://").partition("?")[0]
    made = re.findall(r"^    ACL SETUSER (\w+) (on >(\w+) .*)$", page("operations.md"), re.MULTILINE)
    with redis.Redis(unix_socket_path=path) as client:
        for user, rules, _ in made:
            client.execute_command("ACL", "SETUSER", user, *rules.split())
        client.execute_command("ACL", "SETUSER", "default", "off")
    urls = {user: f"unix://{user}:{secret}@{path}" for user, _, secret in made}
    assert set(urls) == {"narrated", "reader"}
    with Journal(tmp_path, "yard") as journal:
        told = [journal.append(narration(second)) for second in range(3)]
        publisher = RedisServer(urls["narrated"])
        assert Delivery(journal, publisher).drain(stop) == 3
        publisher.close()
    assert [*islice(subscribe(urls["reader"], last_id="0", stop=stop), 3)] == told
