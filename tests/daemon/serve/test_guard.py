"""What is refused, whoever asks."""

import asyncio
import re
import socket
from functools import partial

import pytest
import uvicorn
from serving_here import Served
from starlette.types import Send
from uvicorn.server import ServerState
from waiting import LIMIT_S

from daemon.serve import server

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ABOVE = ("../", "..%2f", "%2e%2e/", "..%5c", "%252e%252e%252f", "..%c0%af", "//", "%00/")
NONE = "0" * 64
BAD_PATHS = [
    *(f"/{room}{way * 6}etc/passwd" for room in ("", "picture/", "static/", "record/") for way in ABOVE),
    *("/static/", "/static/%70age.js%00.css", "/static/..%2fpages.py"),
    *("/picture/", f"/picture/{'A' * 64}", f"/picture/{NONE}?width=-1", f"/picture/sha256:{NONE}"),
    *("/record/", "/record/%00", "/record/" + "x" * 3000, "/record/%F0%9F%98%80", "/record/<script>"),
    *(
        "/record/yard-99999999T999999.999Z-0123456789ab",
        "/record/x?at=9999-12-31T23:59:59Z",
        "/record/'%20OR%201=1--",
    ),
    *("/.env", "/.git/config", "/admin", "/feed/x", "/login/x", "/metrics"),
]
BAD_QUERIES = [
    *("day=2026-13-01", "day=0000-00-00", "day=9999-12-31", "day=0001-01-01", "day=%00", "until=-1d"),
    *(
        "since=%F0%9F%98%80",
        "since=1e999",
        "since=9999-12-31T23:59:59",
        "until=0001-01-01",
        "since=99999999w",
    ),
    *("q=in+the+last+999999999+hours", "q=on+31+December+9999", "q=%00", "q=" + "a" * 290, "q=("),
    *("confidence=nan", "confidence=-1", "confidence=1e400", "between=25:00-26:00", "between=--"),
    *("camera=../yard", "camera=%00", "camera=yard'--", "kind=none-such", "object=%FF", "colour=<b>"),
    *("zone='", "text=%22", "text=NEAR(", "text=a+AND", "text=" + "x" * 299, "camera=" + "y" * 301),
    *("page=0", "page=1e9", "page=99999999999999999999", "page=x", "day=all&camera=a" * 40),
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
        for page in ("/review", "/record/x"):
            answer = served.client.get(f"{page}?{query}")
            assert answer.status_code in (200, 400, 404), (query, answer.status_code)
            assert "<b>" not in answer.text, query
            if answer.status_code == 400:
                assert 'role="alert"' in answer.text, query
                assert 'id="filters"' in answer.text, query


@pytest.mark.parametrize("asked", ["since 1900-01-01", "since 0001-01-01", "since 2999", "last 9999 weeks"])
def test_no_digest_is_of_centuries(served, asked):
    answer = served.client.get("/digest", params={"q": asked}, timeout=10.0)
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text


HOST = b"Host: localhost\r\n"


@pytest.mark.parametrize(
    ("head", "statuses"),
    [
        (b"GET / HTTP/1.1\r\n", {400}),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n", {421}),
        (b"GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n", {421}),
        (b"GET / HTTP/1.1\r\nHost: evil.example@localhost\r\n", {421}),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n", {400, 421}),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n", {421}),
        (b"GET / HTTP/1.1\r\nHost: [::1\r\n", {421}),
        (b"DELETE /record/x HTTP/1.1\r\n" + HOST, {405}),
        (b"POST /review HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\n", {405}),
        (b"POST /record/x/note HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\n", {415}),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", {400}),
    ],
)
def test_bad_requests_are_refused(served, head, statuses):
    answer = raw(served, head + b"Connection: close\r\n\r\n")
    assert int(answer.split()[1]) in statuses, answer[:200]


def test_a_form_is_no_larger_than_allowed_whatever_its_length_says(served):
    form = HOST + b"Content-Type: application/x-www-form-urlencoded\r\n"
    length = b"Content-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    with socket.create_connection(("127.0.0.1", served.port), LIMIT_S) as connection:
        connection.sendall(b"POST /record/x/note HTTP/1.1\r\n" + form + length + 2 * chunk)
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_connections_that_bring_no_request_end(monkeypatch):
    monkeypatch.setattr(server, "_REQUEST_S", 1.0)
    monkeypatch.setattr(server, "_CONNECTIONS", 2)

    async def app(_: object, receive: object, send: Send) -> None:
        await asyncio.sleep(1.5)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    async def connect() -> dict[int, bytes]:
        config = uvicorn.Config(app, log_config=None)
        config.load()
        made = partial(server._Connection, config, ServerState(), {})
        async with await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            known = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
            for (_, writer), sent in zip(
                known, (b"", b"GET / ", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), strict=False
            ):
                writer.write(sent)
            answers = dict[int, bytes]()

            async def read(number: int) -> None:
                answers[number] = await known[number][0].read()

            await asyncio.wait_for(asyncio.gather(*map(read, (0, 1, 2, 4))), LIMIT_S)
            for _, writer in known:
                writer.close()
            return answers

    answers = asyncio.run(connect())
    assert next(iter(answers)) == 4  # one too many
    assert answers[0] == answers[1] == answers[4] == b""
    assert answers[2].startswith(b"HTTP/1.1 200 OK\r\n")


def test_names_that_are_known(served):
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:8470", "192.168.0.7:8470"):
        assert served.client.get("/", headers={"host": host}).status_code == 200, host


def test_forms_of_other_sites_are_refused(served, house):
    address = f"/record/{house.records['yard'][0].id}/reviewed"
    form = {"reviewed": "yes"}
    post = served.client.post
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        assert post(address, data=form, headers=headers).status_code == 403, headers
    encoded = {"content-type": "application/x-www-form-urlencoded"}
    assert post(address, json=form).status_code == 415
    assert post(address, content=b"reviewed=%FF&x=\xff", headers=encoded).status_code == 400
    assert post(address, content=iter([b"reviewed=yes"]), headers=encoded).status_code == 303
    assert post(address, content=iter([b"text=" + b"x" * 70_000]), headers=encoded).status_code == 413
    assert post(address, data={**form, "text": "x" * 70_000}).status_code == 413
    assert post(address, data={**form, **{f"f{n}": "" for n in range(50)}}).status_code == 400
    assert post(address, data=form, headers={"origin": served.url}).status_code == 303
