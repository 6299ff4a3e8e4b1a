"""What is refused, whoever asks; who is let in, and for how long; the page behind nginx."""

import asyncio
import json
import re
import shutil
import socket
import ssl
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest
import uvicorn
import yaml
from doc_pages import page, sections, table
from houses import House, said
from pydantic import ValidationError
from running_daemon import unused_port
from serving_here import Served
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send
from uvicorn.server import ServerState
from waiting import LIMIT_S, until

from daemon.config.settings import ServeSettings
from daemon.serve import access, server
from daemon.serve.access import Logins, ServeError, password_line
from pipeline.journal.custody import verify_access
from pipeline.record_format import ACCESS_LOG

PASSWORD = "correct horse battery"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ABOVE = ("../", "..%2f", "%2e%2e/", "..%5c", "%252e%252e%252f", "..%c0%af", "//", "%00/")
NONE = "0" * 64
BAD_PATHS = [
    *(f"/{room}{way * 6}etc/passwd" for room in ("", "picture/", "static/", "record/") for way in ABOVE),
    *("/static/", "/static/%70age.js%00.css", "/static/..%2fpages.py", "/feed/x", "/login/x", "/metrics"),
    *("/picture/", f"/picture/{'A' * 64}", f"/picture/{NONE}?width=-1", f"/picture/sha256:{NONE}", "/.env"),
    *("/record/", "/record/%00", "/record/" + "x" * 3000, "/record/%F0%9F%98%80", "/record/<script>"),
    *("/record/yard-99999999T999999.999Z-0123456789ab", "/record/'%20OR%201=1--", "/.git/config", "/admin"),
]
BAD_QUERIES = [
    *("day=2026-13-01", "day=0000-00-00", "day=9999-12-31", "day=0001-01-01", "day=%00", "until=-1d"),
    *("since=%F0%9F%98%80", "since=1e999", "since=9999-12-31T23:59:59", "since=99999999w"),
    *("until=0001-01-01", "q=in+the+last+999999999+hours", "q=on+31+December+9999", "q=%00", "q=("),
    *("confidence=nan", "confidence=-1", "confidence=1e400", "between=25:00-26:00", "between=--"),
    *("camera=../yard", "camera=%00", "camera=yard'--", "kind=none-such", "object=%FF", "colour=<b>"),
    *(
        "zone='",
        "text=%22",
        "text=NEAR(",
        "text=a%00b",
        "zone=%00",
        "colour=%00",
        "text=a+AND",
        "text=" + "x" * 299,
        "camera=" + "y" * 301,
    ),
    *("page=0", "page=1e9", "page=9" * 20, "page=x", "day=all&camera=a" * 40, "q=" + "a" * 290),
]


def raw(served: Served, request: bytes) -> bytes:
    """The answer to bytes."""
    with socket.create_connection(("127.0.0.1", served.port), LIMIT_S) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


def test_every_answer_has_the_headers(served, house):
    digest = house.records["yard"][0].evidence.before.removeprefix("sha256:")
    for path in ("/", "/static/page.js", f"/picture/{digest}", "/nothing", "/review?q=why"):
        headers = served.client.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
        assert "server" not in headers
    assert served.client.get("/").headers["cache-control"] == "no-store"
    style = served.client.get("/static/page.css").headers
    again = served.client.get("/static/page.css", headers={"if-none-match": style["etag"]})
    assert (again.status_code, style["cache-control"]) == (304, "no-cache")


def test_pages_need_nothing_from_elsewhere_and_no_inline_code(served, house):
    for path in ("/", "/review?day=all&object=person", f"/record/{house.records['yard'][0].id}", "/nothing"):
        page = served.client.get(path).text
        assert re.findall(r"(?:src|href|action)=\"(?!/|\?|#)[^\"]*\"", page) == []
        assert "http://" not in page.replace("http://www.w3.org", "")
        assert re.findall(r"<style|style=|<script>|\son\w+=|javascript:", page) == []


def test_no_path_leads_out(served):
    for path in BAD_PATHS:
        answer = raw(served, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert int(answer.split()[1]) in (303, 307, 400, 404, 405, 414), (path, answer[:300])
        assert b"root:" not in answer, path
        assert b"Traceback" not in answer, path


def test_no_question_breaks_it(served):
    for query in BAD_QUERIES:
        for path in ("/review", "/record/x"):
            answer = served.client.get(f"{path}?{query}")
            assert answer.status_code in (200, 400, 404), (query, answer.status_code)
            assert "<b>" not in answer.text, query
            if answer.status_code == 400:
                assert 'role="alert"' in answer.text, query
                assert 'id="filters"' in answer.text, query


def test_no_digest_is_of_centuries(served):
    for asked in ("since 1900-01-01", "since 0001-01-01", "since 2999", "last 9999 weeks"):
        answer = served.client.get("/digest", params={"q": asked}, timeout=10.0)
        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True), asked


@pytest.mark.parametrize(
    ("head", "statuses"),
    [
        (b"GET / HTTP/1.1\r\n", {400}),
        *(
            (b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n", {421})
            for host in (b"evil.example", b"localhost.evil.example", b"evil.example@localhost", b"[::1")
        ),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n", {400, 421}),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n", {421}),
        (b"DELETE /record/x HTTP/1.1\r\nHost: localhost\r\n", {405}),
        (b"POST /review HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n", {405}),
        (b"POST /record/x/note HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n", {415}),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", {400}),
    ],
)
def test_bad_requests_are_refused(served, head, statuses):
    answer = raw(served, head + b"Connection: close\r\n\r\n")
    assert int(answer.split()[1]) in statuses, answer[:200]


def test_connections_that_bring_no_request_end(monkeypatch):
    monkeypatch.setattr(server, "_REQUEST_S", 1.0)
    monkeypatch.setattr(server, "_CONNECTIONS", 2)

    async def app(_: object, receive: object, send: Send) -> None:
        await asyncio.sleep(1.5)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    async def connect() -> list[bytes]:
        config = uvicorn.Config(app, log_config=None)
        config.load()
        made = partial(server._Connection, config, ServerState(), {})
        async with await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0) as listening:
            address = listening.sockets[0].getsockname()
            known = [await asyncio.open_connection(*address) for _ in range(5)]
            for number, sent in ((1, b"GET / "), (2, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")):
                known[number][1].write(sent)
            assert await asyncio.wait_for(known[4][0].read(), 0.9) == b"", "one too many"
            answers = [await asyncio.wait_for(known[number][0].read(), LIMIT_S) for number in range(3)]
            for _, writer in known:
                writer.close()
            return answers

    *none, answer = asyncio.run(connect())
    assert none == [b"", b""]
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


def test_names_that_are_known(served):
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:8470", "192.168.0.7:8470"):
        assert served.client.get("/", headers={"host": host}).status_code == 200, host


def test_forms_of_other_sites_are_refused(served, house):
    address, form = f"/record/{house.records['yard'][0].id}/reviewed", {"reviewed": "yes"}

    def post(**given: Any) -> int:
        return served.client.post(address, **given).status_code

    for origin in ("https://evil.example", "null", "http://["):
        assert post(data=form, headers={"origin": origin}) == 403, origin
    for site in ("cross-site", "same-site"):
        assert post(data=form, headers={"sec-fetch-site": site}) == 403, site
    assert post(data=form, headers={"origin": served.url}) == 303
    encoded = {"content-type": "application/x-www-form-urlencoded"}
    assert post(json=form) == 415
    assert post(content=b"reviewed=%FF&x=\xff", headers=encoded) == 400
    assert post(content=iter([b"reviewed=yes"]), headers=encoded) == 303
    assert post(content=iter([b"text=" + b"x" * 70_000]), headers=encoded) == 413
    assert post(data={**form, "text": "x" * 70_000}) == 413
    assert post(data={**form, **{f"f{n}": "" for n in range(50)}}) == 400


# Logins


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


def test_a_login_leads_nowhere_else(guarded):
    with guarded.fresh_client() as client:
        for to in ("//evil.example", "https://evil.example", "/\\evil.example", "/\r\nX: y", ""):
            assert log_in(client, to=to).headers["location"] == "/", to


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


def test_every_look_is_recorded_with_who_and_what(tmp_path, passwords):
    own = House(tmp_path / "state")
    record = own.tell(100)
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
        own.close()
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


# Behind a proxy, as docs/serve.md says


@pytest.fixture
def visitor(tmp_path) -> Iterator[httpx.Client]:
    """A client of the proxy, which knows the page as cameras.example."""
    house = House(tmp_path / "state")
    house.tell(100, said("A person has come."))
    house.close()
    passwords, config = tmp_path / "passwords", tmp_path / "narrated.yaml"
    passwords.write_text(password_line("anna", PASSWORD))
    config.write_text(
        f"version: 1\nstate: {house.state}\ncameras: {{yard: {{url: y.mp4}}}}\n"
        f"serve: {{listen: '127.0.0.1:0', hosts: [cameras.example], passwords: {passwords}, proxy: true}}\n"
    )
    key = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "page.pem", "-subj", "/CN=cameras.example"]
    names = ["-addext", "subjectAltName=DNS:cameras.example"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *key, *names], check=True)
    port = unused_port()
    (settings,) = re.findall(r"```nginx\n(.*?)```", page("serve.md"), re.DOTALL)
    certificate = f"ssl_certificate {tmp_path}/page.pem; ssl_certificate_key {tmp_path}/key.pem;"
    settings = settings.replace("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl; {certificate}")
    trusted = ssl.create_default_context(cafile=tmp_path / "page.pem")
    trusted.check_hostname = False  # it is asked by its address
    headers = {"host": f"cameras.example:{port}", "accept": "text/html"}
    with (
        Served(house, "--config", str(config)) as served,
        httpx.Client(
            base_url=f"https://127.0.0.1:{port}", headers=headers, verify=trusted, timeout=LIMIT_S
        ) as client,
    ):
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}\n"
            f"http {{ access_log off; client_body_temp_path {tmp_path}/body;\n"
            f"proxy_temp_path {tmp_path}/proxy;\n{settings.replace('8470', str(served.port))}}}\n"
        )
        command = [str(NGINX), "-p", tmp_path, "-c", tmp_path / "nginx.conf"]
        nginx = subprocess.Popen(command, stderr=subprocess.PIPE)

        def listens() -> bool:
            with suppress(httpx.ConnectError):
                return bool(client.get("/login"))
            return False

        until(listens)
        yield client
        nginx.terminate()
        nginx.communicate()


@pytest.mark.skipif(NGINX is None, reason="no proxy: apt-get install nginx")
def test_a_login_behind_a_proxy(visitor):
    assert visitor.get("/review").headers["location"].startswith("/login")
    origin = f"https://{visitor.headers['host']}"
    form = {"name": "anna", "password": PASSWORD}
    refused = visitor.post("/login", data=form, headers={"origin": "https://evil.example"})
    assert refused.status_code == 403
    answer = visitor.post("/login", data=form, headers={"origin": origin})
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-narrated=")
    assert all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=strict"))
    login = {"cookie": cookie.partition(";")[0]}
    assert "A person has come." in visitor.get("/review", headers=login).text
    visitor.post("/logout", headers={**login, "origin": origin})
    assert visitor.get("/review", headers=login).status_code == 303

    # Guesses count by the visitor's address: another's header does not make them those of others.
    for n in range(6):
        wrong, header = {"name": "anna", "password": f"wrong {n}"}, {"x-forwarded-for": f"10.0.0.{n}"}
        assert visitor.post("/login", data=wrong, headers=header).status_code == (403 if n < 5 else 429)
