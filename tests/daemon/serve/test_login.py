"""Logins: who is let in, for how long, and which settings would let others in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from pydantic import ValidationError
from serving_here import Served, ServedHouse, said

from daemon.config.serve import ServeSettings
from daemon.serve import access
from daemon.serve.access import GuessLimit, Passwords, Session, SessionCookies, password_file, password_line
from daemon.serve.errors import ServeError

PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHouse]:
    made = ServedHouse(tmp_path_factory.mktemp("house") / "state")
    made.tell(100, said("A person has come."), evidence=made.pictures())
    yield made
    made.close()


@pytest.fixture(scope="module")
def guarded(house: ServedHouse, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Asks for a password."""
    path = tmp_path_factory.mktemp("etc") / "passwords"
    path.write_text(f"# those of the house\n{password_line('anna', PASSWORD)}\n")
    with Served(house, "--passwords", str(path)) as running:
        yield running


def log_in(
    served: Served, client: httpx.Client, password: str = PASSWORD, name: str = "anna", to: str = ""
) -> httpx.Response:
    form = {"token": served.token(client, "/login"), "name": name, "password": password, "next": to}
    return client.post("/login", data=form)


def test_nothing_is_shown_before_a_login(guarded: Served, house: ServedHouse) -> None:
    digest = house.records["yard"][0].evidence.before.removeprefix("sha256:")
    record = house.records["yard"][0].id
    with guarded.fresh_client() as stranger:
        for path in (
            "/",
            "/review?day=all",
            f"/record/{record}",
            f"/picture/{digest}",
            "/events",
            "/nothing",
        ):
            answer = stranger.get(path)
            assert answer.status_code == 303, path
            assert answer.headers["location"].startswith("/login?next=%2F")
            assert stranger.get(path, headers={"accept": "*/*"}).status_code == 401
        assert stranger.post(f"/record/{record}/reviewed", data={"reviewed": "yes"}).status_code == 401
        assert "person" not in stranger.get("/login").text.replace("a person last", "")
        assert stranger.get("/static/page.css").status_code == 200


def test_a_login_lasts_until_the_logout(guarded: Served) -> None:
    with guarded.fresh_client() as client:
        before = client.get("/login").cookies.get("narrated")
        answer = log_in(guarded, client, to="/review?day=all")
        assert (answer.status_code, answer.headers["location"]) == (303, "/review?day=all")
        cookie = answer.headers["set-cookie"]
        assert before not in cookie
        assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/"))
        assert client.get("/review").status_code == 200
        assert "Logged in as anna" in client.get("/").text
        kept = client.cookies.get("narrated")
        answer = client.post("/logout", data={"token": guarded.token(client)})
        assert answer.headers["location"] == "/login"
        assert client.get("/review").status_code == 303
        assert kept


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:1", "/\r\nX: y", ""]
)
def test_a_login_leads_nowhere_else(guarded: Served, to: str) -> None:
    with guarded.fresh_client() as client:
        assert log_in(guarded, client, to=to).headers["location"] == "/"


@pytest.mark.parametrize("cookie", ["", "x", "a.b.c", "WyJhIiwiYW5uYSIsIiJd.aaaa.bbbb", "é", "A" * 4000])
def test_forged_cookies_are_nobody(guarded: Served, cookie: str) -> None:
    headers = {"cookie": f"narrated={cookie}".encode()}
    with guarded.fresh_client() as client:
        assert client.get("/review", headers=headers).status_code == 303  # type: ignore[arg-type]


def test_guesses_are_limited(house: ServedHouse, tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.write_text(password_line("anna", PASSWORD))
    with Served(house, "--passwords", str(path)) as served, served.fresh_client() as client:
        for name in ("anna", "bert", "anna", "anna", "anna"):
            assert log_in(served, client, "wrong password", name).status_code == 403
        answer = log_in(served, client)
        assert answer.status_code == 429
        assert 0 < int(answer.headers["retry-after"]) <= 301


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """For 127.0.0.1, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = tmp_path / "page.pem", tmp_path / "page.key"
    paths[0].write_bytes(made.public_bytes(Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return paths


def test_beyond_this_machine_with_tls_and_a_login(
    house: ServedHouse, tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    path, config = tmp_path / "passwords", tmp_path / "narrated.yaml"
    path.write_text(password_line("anna", PASSWORD))
    config.write_text(
        f"version: 1\nstate: {house.state}\ncameras: {{yard: {{url: y.mp4}}}}\nserve: "
        f"{{listen: '0.0.0.0:0', passwords: {path}, certificate: {certificate[0]}, key: {certificate[1]}}}\n"
    )
    with Served(house, "--config", str(config), authority=certificate[0]) as served:
        assert served.url.startswith("https://")
        answer = log_in(served, served.client)
        assert answer.status_code == 303
        assert answer.headers["set-cookie"].startswith("__Host-narrated=")
        assert "Secure" in answer.headers["set-cookie"]
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
        assert served.client.get("/review").status_code == 200


def test_the_limit_counts_by_network_and_altogether(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(access, "monotonic", lambda: now[0])
    limit = GuessLimit(2, 4, 10)
    limit.wrong("2001:db8::1")
    now[0] = 1
    limit.wrong("2001:db8::2")
    assert limit.wait_s("2001:db8::3") == 9
    assert limit.wait_s("2001:db9::3") == limit.wait_s("10.0.0.1") == 0
    limit.wrong("10.0.0.1")
    limit.wrong("10.0.0.2")
    assert limit.wait_s("10.0.0.3") == 9
    now[0] = 11.5
    assert limit.wait_s("2001:db8::3") == 0


def test_a_session_ends_with_its_password(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.write_text(password_line("anna", PASSWORD))
    old = SessionCookies(b"k" * 32, Passwords(path))
    cookie = old.cookie(Session(who="anna"))
    assert old.read(cookie) == Session(old.read(cookie).nonce, "anna")
    path.write_text(password_line("anna", PASSWORD + "!"))
    assert SessionCookies(b"k" * 32, Passwords(path)).read(cookie) is None
    assert SessionCookies(b"l" * 32, Passwords(path)).read(cookie) is None
    assert SessionCookies(b"k" * 32, None).read(cookie) is None
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        patched.setattr(access, "SESSION_S", -1)
        assert old.read(cookie) is None


@pytest.mark.parametrize(
    "text", ["", "anna", "anna:plain", "anna:$argon2id$x", "a b:$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$aaaa"]
)
def test_a_file_without_hashes_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "passwords"
    path.write_text(text)
    with pytest.raises(ServeError, match="--new-password"):
        Passwords(path)


def test_passwords_come_from_a_credential(tmp_path: Path) -> None:
    assert password_file("${cred:page}", {"CREDENTIALS_DIRECTORY": str(tmp_path)}) == tmp_path / "page"
    for text in ("${cred:../page}", "${cred:page}"):
        with pytest.raises(ServeError, match="LoadCredential"):
            password_file(text, {} if text == "${cred:page}" else {"CREDENTIALS_DIRECTORY": str(tmp_path)})


def test_a_password_has_some_length() -> None:
    for name, password in (("anna", "short"), ("an na", PASSWORD), ("", PASSWORD), ("a:b", PASSWORD)):
        with pytest.raises(ServeError):
            password_line(name, password)
    assert PASSWORD not in password_line("anna", PASSWORD)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"listen": "0.0.0.0:8470"}, "give passwords"),
        ({"listen": "0.0.0.0:8470", "passwords": "x"}, "plain: true"),
        ({"listen": "[::]:8470", "passwords": "x"}, "plain: true"),
        ({"proxy": True}, "give passwords"),
        ({"proxy": True, "passwords": "x", "listen": "10.0.0.1:80", "plain": True}, "listen on 127.0.0.1"),
        ({"certificate": "x"}, "go together"),
        ({"listen": "here:80"}, "write an address"),
        ({"listen": "127.0.0.1:99999"}, "write an address"),
        ({"hosts": ["a b"]}, "not a host name"),
        ({"hosts": ["a/b"]}, "not a host name"),
        ({"timezone": "Mars/Base"}, "not a time zone"),
    ],
)
def test_settings_that_would_let_others_in_are_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(words)):
        ServeSettings.model_validate(given)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"listen": "[::1]:1"},
        {"listen": "localhost:1"},
        {"listen": "0.0.0.0:1", "passwords": "x", "plain": True},
        {"listen": "10.0.0.1:1", "passwords": "x", "certificate": "a", "key": "b"},
        {"proxy": True, "passwords": "x", "hosts": ["cameras.example"]},
    ],
)
def test_settings_that_are_safe(given: dict[str, object]) -> None:
    settings = ServeSettings.model_validate(given)
    assert ServeSettings.model_validate(settings.model_dump(mode="json")) == settings
