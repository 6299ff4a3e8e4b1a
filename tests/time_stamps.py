"""A local authority of time stamps: OpenSSL behind a small HTTP server."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_CONFIGURATION = """
[tsa]
default_tsa = authority
[authority]
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/signer.pem
signer_key = {folder}/signer.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1
ordering = no
tsa_name = yes
ess_cert_id_chain = no
[extensions]
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,timeStamping
"""


def make_authority(folder: Path) -> Path:
    """Keys and certificates in `folder`; the root's certificate."""
    folder.mkdir()
    (folder / "tsa.cnf").write_text(_CONFIGURATION.format(folder=folder))
    (folder / "serial").write_text("01\n")
    make = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout"
    for command in (
        f"{make} root.key -x509 -days 3650 -subj /CN=root -out root.pem",
        f"{make} signer.key -subj /CN=authority -out signer.csr",
        (
            "openssl x509 -req -in signer.csr -CA root.pem -CAkey root.key -CAcreateserial -days 3650 "
            "-extfile tsa.cnf -extensions extensions -out signer.pem"
        ),
    ):
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder / "root.pem"


@contextmanager
def serve_authority(folder: Path) -> Iterator[str]:
    """The authority's URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            (folder / "query").write_bytes(self.rfile.read(int(self.headers["content-length"])))
            answer = ["openssl", "ts", "-reply", "-config", "tsa.cnf", "-queryfile", "query"]
            done = subprocess.run(answer, cwd=folder, capture_output=True, check=True)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(done.stdout)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()
