"""The page behind nginx with TLS, configured as docs/serve.md says."""

import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest
from doc_pages import page
from houses import House, said
from running_daemon import unused_port
from serving_here import Served
from waiting import LIMIT_S, until

from daemon.serve.access import password_line

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
PASSWORD = "correct horse battery"
pytestmark = pytest.mark.skipif(NGINX is None, reason="no proxy: apt-get install nginx")


@pytest.fixture
def served(tmp_path) -> Iterator[Served]:
    house = House(tmp_path / "state")
    house.tell(100, said("A person has come."), evidence=house.pictures())
    house.close()
    passwords, config = tmp_path / "passwords", tmp_path / "narrated.yaml"
    passwords.write_text(password_line("anna", PASSWORD))
    config.write_text(
        f"version: 1\nstate: {house.state}\ncameras: {{yard: {{url: y.mp4}}}}\n"
        f"serve: {{listen: '127.0.0.1:0', hosts: [cameras.example], passwords: {passwords}, proxy: true}}\n"
    )
    with Served(house, "--config", str(config)) as running:
        yield running


@pytest.fixture
def visitor(served, tmp_path) -> Iterator[httpx.Client]:
    """A client of the proxy, which knows the page as cameras.example."""
    key = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "page.pem", "-subj", "/CN=cameras.example"]
    names = ["-addext", "subjectAltName=DNS:cameras.example"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *key, *names], check=True)
    port = unused_port()
    server = re.search(r"```nginx\n(.*?)```", page("serve.md"), re.DOTALL)
    assert server
    here = (
        server[1]
        .replace(
            "listen 443 ssl;",
            f"listen 127.0.0.1:{port} ssl; ssl_certificate {tmp_path}/page.pem;"
            f" ssl_certificate_key {tmp_path}/key.pem;",
        )
        .replace("8470", str(served.port))
    )
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {tmp_path}/body;\n"
        f"proxy_temp_path {tmp_path}/proxy;\n{here}}}\n"
    )
    nginx = subprocess.Popen(
        [str(NGINX), "-p", tmp_path, "-c", tmp_path / "nginx.conf"], stderr=subprocess.PIPE
    )
    trusted = ssl.create_default_context(cafile=tmp_path / "page.pem")
    trusted.check_hostname = False  # it is asked by its address
    headers = {"host": f"cameras.example:{port}", "accept": "text/html"}
    with httpx.Client(
        base_url=f"https://127.0.0.1:{port}", headers=headers, verify=trusted, timeout=LIMIT_S
    ) as client:

        def listens() -> bool:
            with suppress(httpx.ConnectError):
                return bool(client.get("/login"))
            return False

        until(listens)
        yield client
    nginx.terminate()
    nginx.communicate()


def test_a_login_behind_a_proxy(visitor, served):
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
