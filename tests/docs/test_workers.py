"""docs/workers.md: its users may do what they must and no more, its TLS holds, its figures are the code's."""

from __future__ import annotations

import datetime as dt
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from doc_pages import ROOT, page
from redis.exceptions import NoPermissionError
from running_daemon import unused_port
from workers_site import Site, wait

from daemon.config.configuration import parse_configuration
from daemon.service.embedded_redis import EmbeddedServer
from daemon.workers import pair_queue, worker
from daemon.workers.broker import Broker, edges, workers
from daemon.workers.messages import MOST_PICTURES

LINE = re.compile(r"^    ACL SETUSER (\w+) (.*)$", re.MULTILINE)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Site, dict[str, str]]]:
    """A server with the users of both pages, and their URLs."""
    with EmbeddedServer() as server:
        path = server.url.removeprefix("unix://")
        with redis.Redis(unix_socket_path=path) as client:
            for user, rules in LINE.findall(page("operations.md")) + LINE.findall(page("workers.md")):
                client.execute_command("ACL", "SETUSER", user, *rules.split())
        site = Site(server, tmp_path)
        try:
            yield site, {user: f"unix://{user}:SECRET@{path}" for user in ("narrated", "worker")}
        finally:
            site.end()


def test_users_may_do_what_they_must(guarded: tuple[Site, dict[str, str]]) -> None:
    """Everything that edges and workers do: ask, answer, take over, take back, list, leave."""
    site, urls = guarded
    edge = site.edge(url=urls["narrated"])
    dying = site.worker(url=urls["worker"], shut=True)
    edge.put(0)
    wait(lambda: dying.gate.looking)
    dying.process.kill()
    heir = site.worker(url=urls["worker"])
    assert edge.take(1) == [("yard", 0, False)]
    wait(lambda: edge.asking.counts.claims == 1)
    heir.process.terminate()
    heir.process.join(30)
    assert heir.process.exitcode == 0
    assert "NOPERM" not in heir.log
    edge.put(5, deadline_s=0.1)
    assert edge.take(1) == [("yard", 5, True)]
    wait(lambda: edge.asking.counts.fates["given up"] == 1)
    broker = Broker(lambda: urls["narrated"])
    assert len(edges(broker)) == 1
    assert len(workers(broker)) <= 1  # the one that was killed, until its time is over
    broker.close()
    assert not edge.asking.away
    refused = {each["object"] for each in site.client.acl_log()}
    assert refused <= {"client|setinfo"}, refused  # the client's own courtesy, which may fail


def test_a_worker_may_do_no_more(guarded: tuple[Site, dict[str, str]]) -> None:
    site, _ = guarded
    site.client.set("narrated:{yard}:writer", "somebody")
    with redis.Redis(
        unix_socket_path=site.server.url.removeprefix("unix://"), username="worker", password="SECRET"
    ) as client:
        for command in (
            "GET narrated:{yard}:writer",
            "DEL narrated:{yard}:writer",
            "FLUSHALL",
            "CONFIG GET dir",
        ):
            with pytest.raises(NoPermissionError):
                client.execute_command(*command.split())
        with pytest.raises(NoPermissionError):
            client.xadd("narrated:{yard}:changes", {"json": "{}"})


def signed(folder: Path) -> None:
    """A key and a certificate for 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "server.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "ca.pem").write_bytes(certificate.public_bytes(pem))
    plain = serialization.NoEncryption()
    (folder / "server.key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))


def test_tls_as_the_page_says(tmp_path: Path) -> None:
    program = shutil.which("redis-server", path="/usr/bin")
    if program is None:
        pytest.skip("no redis-server with TLS (apt install redis-server)")
    signed(tmp_path)
    port = unused_port()
    lines = re.findall(r"^    ((?:port|tls-).*)$", page("workers.md"), re.MULTILINE)
    assert len(lines) == 6
    settings = "\n".join(lines).replace("/etc/redis", str(tmp_path)).replace("6379", str(port))
    (tmp_path / "redis.conf").write_text(f'{settings}\nsave ""\ndir {tmp_path}\n')
    (query,) = set(re.findall(r"\?(ssl_ca_certs=)\S+?[`' ]", page("workers.md")))
    url = f"rediss://localhost:{port}?{query}{tmp_path}/ca.pem"
    process = subprocess.Popen([program, tmp_path / "redis.conf"], stdout=subprocess.DEVNULL)
    try:
        with redis.Redis.from_url(url) as client:
            wait(lambda: _answers(client))
        with EmbeddedServer() as unused:
            site = Site(unused, tmp_path)
            edge = site.edge(url=url)
            site.worker(url=url)
            edge.put(0)
            assert edge.take(1) == [("yard", 0, False)]
            site.end()
        other = tmp_path / "other"
        other.mkdir()
        signed(other)
        with (
            redis.Redis.from_url(url.replace("ca.pem", "other/ca.pem")) as stranger,
            pytest.raises(redis.ConnectionError, match=r"(?i)certificate"),
        ):
            stranger.ping()
    finally:
        process.kill()
        process.wait(30)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        time.sleep(0.05)
        return False


def test_its_figures_are_the_code_s() -> None:
    text = page("workers.md")
    assert f"at most {pair_queue.IN_FLIGHT} pairs" in text
    assert f"while {pair_queue.ON_SERVER} wait" in text
    assert f"after {worker.CLAIM_S:g} s another one" in text
    assert worker.MOST_TRIES == 3
    assert MOST_PICTURES >= 24
    (yaml,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    configuration = parse_configuration(f"version: 1\n{yaml}cameras: {{yard: {{url: y.mp4}}}}\n")
    assert configuration.cameras["yard"].narrate.workers == "redis"


def test_the_unit_is_the_one_that_the_page_installs() -> None:
    unit = (ROOT / "systemd" / "narrated-worker.service").read_text()
    assert "ExecStart=/opt/narrated/bin/narrated worker --redis $${cred:redis}\n" in unit
    (path,) = re.findall(r"LoadCredential=redis:(\S+)", unit)
    assert f"/dev/stdin {path}\n" in page("workers.md")
