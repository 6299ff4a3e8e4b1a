"""Logins: who is let in, for how long, and which settings would let others in."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import httpx
import pytest
import yaml
from doc_pages import page, sections, table
from houses import House
from pydantic import ValidationError
from serving_here import Served
from starlette.requests import Request
from starlette.responses import Response
from waiting import until

from daemon.config.secrets import SecretError, secret_file
from daemon.config.settings import ServeSettings
from daemon.serve import access
from daemon.serve.access import Logins, ServeError, password_line
from pipeline.journal.custody import verify_access
from pipeline.record_format import ACCESS_LOG

from .conftest import furnish

PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def passwords(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("etc") / "passwords"
    path.write_text(f"# those of the house\n{password_line('anna', PASSWORD)}\n")
    return path


@pytest.fixture(scope="module")
def guarded(house, passwords) -> Iterator[Served]:
    """Asks for a password."""
    with Served(house, "--passwords", str(passwords)) as running:
        yield running


def log_in(
    client: httpx.Client, password: str = PASSWORD, name: str = "anna", to: str = ""
) -> httpx.Response:
    return client.post("/login", data={"name": name, "password": password, "next": to})


def test_nothing_is_shown_before_a_login(guarded, house):
    record = house.records["yard"][0]
    digest = record.evidence.before.removeprefix("sha256:")
    with guarded.fresh_client() as stranger:
        for path in ("/", "/review?day=all", f"/record/{record.id}", f"/picture/{digest}", "/feed", "/no"):
            answer = stranger.get(path)
            assert answer.status_code == 303, path
            assert answer.headers["location"].startswith("/login?next=%2F")
            assert stranger.get(path, headers={"accept": "*/*"}).status_code == 401
        assert stranger.post(f"/record/{record.id}/reviewed", data={"reviewed": "yes"}).status_code == 401
        assert "person" not in stranger.get("/login").text
        assert stranger.get("/static/page.css").status_code == 200


def test_a_login_lasts_until_the_logout_and_a_copied_cookie_ends_with_it(guarded):
    with guarded.fresh_client() as client, guarded.fresh_client() as thief:
        answer = log_in(client, to="/review?day=all")
        assert (answer.status_code, answer.headers["location"]) == (303, "/review?day=all")
        cookie = answer.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/"))
        assert "Logged in as anna" in client.get("/").text
        copy = {"cookie": f"narrated={client.cookies['narrated']}"}
        assert thief.get("/review", headers=copy).status_code == 200
        assert client.post("/logout", data={"x": ""}).headers["location"] == "/login"
        assert client.get("/review").status_code == 303
        assert thief.get("/review", headers=copy).status_code == 303


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", "/\r\nX: y", ""])
def test_a_login_leads_nowhere_else(guarded, to):
    with guarded.fresh_client() as client:
        assert log_in(client, to=to).headers["location"] == "/"


def test_guesses_at_the_same_time_are_limited(house, passwords):
    """Of twenty at once, the last of them right, five are checked; after that not even the right one."""
    log = house.state / ACCESS_LOG
    before = log.stat().st_size if log.exists() else 0
    with Served(house, "--passwords", str(passwords)) as served, ThreadPoolExecutor(20) as pool:

        def guess(number: int) -> int:
            with served.fresh_client() as client:
                return log_in(client, PASSWORD if number == 19 else f"wrong {number}").status_code

        answers = Counter(pool.map(guess, range(20)))
        with served.fresh_client() as client:
            log_in(client, "wrong")
            refused = log_in(client)
    assert answers[303] + answers[403] <= 5
    recorded = log.read_bytes()[before:]
    assert recorded.count(b'"refused"') == answers[403]  # however often somebody asks
    assert answers[429] >= 15
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= 301


def test_the_limit_counts_by_network_and_altogether(passwords, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(access, "monotonic", lambda: now[0])
    for name, most in (("_MOST_OF_A_NETWORK", 2), ("_MOST_GUESSES", 4), ("_GUESSES_WITHIN_S", 10)):
        monkeypatch.setattr(access, name, most)
    logins = Logins(passwords)

    def guess(address: str, password: str) -> float:
        wait_s = logins.wait_s(address)
        if not wait_s:
            asyncio.run(logins.match("anna", password, address))
        return wait_s

    assert guess("2001:db8::1", "wrong") == 0
    now[0] = 1
    assert guess("2001:db8::2", PASSWORD) == 0, "the right one does not count"
    assert guess("2001:db8::3", "wrong") == 0
    assert guess("2001:db8::4", PASSWORD) == 9
    assert [guess(address, "wrong") for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3")] == [0, 0, 9]
    now[0] = 11.5
    assert guess("10.0.0.3", "wrong") == 0


def test_a_session_ends_with_its_week(passwords, monkeypatch):
    logins, answer = Logins(passwords), Response()
    logins.open_session("anna", answer)
    cookie = answer.headers["set-cookie"].partition(";")[0]
    request = Request({"type": "http", "headers": [(b"cookie", cookie.encode())]})
    assert logins.user(request) == "anna"
    later = monotonic() + access.SESSION_S
    monkeypatch.setattr(access, "monotonic", lambda: later)
    assert logins.user(request) == ""


@pytest.mark.parametrize(
    "text", ["", "anna", "anna:plain", "a b:$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$aaaa"]
)
def test_a_file_without_hashes_is_refused(tmp_path, text):
    path = tmp_path / "passwords"
    path.write_text(text)
    with pytest.raises(ServeError, match="--new-password"):
        Logins(path)


def test_passwords_come_from_a_credential(tmp_path, monkeypatch):
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert secret_file("${cred:page}") == tmp_path / "page"
    with pytest.raises(SecretError, match="letters"):
        secret_file("${cred:../page}")


@pytest.mark.parametrize(
    ("name", "password"), [("anna", "short"), ("an na", PASSWORD), ("", PASSWORD), ("a:b", PASSWORD)]
)
def test_bad_names_and_short_passwords_are_refused(name, password):
    with pytest.raises(ServeError):
        password_line(name, password)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"listen": "0.0.0.0:8470"}, "set passwords"),
        ({"proxy": True}, "set passwords"),
        ({"proxy": True, "passwords": "x", "listen": "10.0.0.1:80"}, "listen on 127.0.0.1"),
        ({"hosts": ["a b"]}, "write a host name"),
        ({}, ""),
        ({"listen": "0.0.0.0:1", "passwords": "x"}, ""),
        ({"proxy": True, "passwords": "x", "hosts": ["cameras.example"]}, ""),
    ],
)
def test_settings_that_would_let_others_in_are_refused(given, words):
    check: Callable[[object], ServeSettings] = ServeSettings.model_validate
    if words:
        with pytest.raises(ValidationError, match=re.escape(words)):
            check(given)
    else:
        assert check(given)


def test_every_key_of_the_page_has_its_default():
    rows = table(sections(page("serve.md"))["Settings"])
    assert [row[0] for row in rows] == list(ServeSettings.model_fields)
    written = {key: yaml.safe_load(default.strip("`")) for key, default, _ in rows}
    assert ServeSettings.model_validate(written) == ServeSettings()


@pytest.fixture
def own(tmp_path) -> Iterator[House]:
    """A house of its own."""
    made = House(tmp_path / "state")
    furnish(made)
    yield made
    made.close()


def test_every_look_is_recorded_with_who_and_what(own, passwords):
    record = own.records["yard"][0]
    with Served(own, "--passwords", str(passwords)) as served:
        get = served.client.get
        assert log_in(served.client, "wrong").status_code == 403
        assert log_in(served.client).status_code == 303
        for path in ("/", "/digest?q=yesterday", "/review?object=person", f"/record/{record.id}"):
            get(path)
        for path in ("/feed?seen=guessed", "/static/page.css"):
            get(path)
        seen = re.search(r'data-seen="(.*?)"', get("/").text)[1]  # type: ignore[index]
        assert get(f"/feed?seen={seen}").status_code == 204
        own.tell(500)
        until(lambda: get(f"/feed?seen={seen}").status_code == 200)
        served.send(f"/record/{record.id}/note", text="seen")
        served.client.post("/logout")
        log = own.state / ACCESS_LOG
        until(lambda: b"logout" in log.read_bytes())
        written = log.read_bytes()
        assert len(verify_access(log)) == 10
        log.write_text("somebody has changed this\n")  # keeps nobody from looking
        assert served.client.get("/login").status_code == 200
        assert log_in(served.client).status_code == 303
        assert "accesses are not recorded" in served.stop()
    lines = [json.loads(line) for line in written.splitlines()]
    assert [(line["what"], line["detail"]) for line in lines] == [
        ("refused", ""),
        ("login", ""),
        ("view", "/"),
        ("query", "q=yesterday"),
        ("query", "object=person"),
        ("view", record.id),
        ("view", "/"),
        ("view", "/"),
        ("mark", f"{record.id}/note"),
        ("logout", ""),
    ]
    assert {line["who"] for line in lines} == {"anna"}
    assert PASSWORD.encode() not in written
