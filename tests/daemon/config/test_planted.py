"""Passwords are planted wherever one can stand, and looked for in whatever narrated gives away."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
import redis
from running_daemon import page, until

from daemon.config import secrets

IN_URL, IN_QUERY, OF_REDIS = "pl4nted-in-url", "pl4nted-token", "pl4nted@redis"
IN_FILE, IN_CREDENTIAL, IN_SMALL = "pl4nted in/file#1", "pl4nted:cred%2", "pl4nted-in-screening"
NOWHERE = "rtsp://{}@127.0.0.1:9/s"


def leaks(*outputs: str | bytes) -> list[bytes]:
    """Where a planted password stands in the outputs, whole or in part, encoded or not."""
    whole = b"\n".join(o.encode() if isinstance(o, str) else o for o in outputs)
    return re.findall(rb".{0,40}pl4nted.{0,20}", whole)


@pytest.fixture
def guarded(server) -> Iterator[str]:
    """URL of a server that asks for the planted password."""
    with redis.Redis.from_url(server.url) as client:
        client.config_set("requirepass", OF_REDIS)
    path = server.url.removeprefix("unix://").partition("?")[0]
    yield f"unix://:{quote(OF_REDIS, safe='')}@{path}"
    with redis.Redis.from_url(server.url, password=OF_REDIS) as client:
        client.config_set("requirepass", "")


@pytest.fixture
def planted(tmp_path, clip, checkpoint, monkeypatch) -> Callable[[str, str], Path]:
    """Writes a configuration full of passwords."""
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "gate").write_text(f"user:{IN_CREDENTIAL}\n")
    (tmp_path / "secret").write_text(f"{IN_FILE}\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def write(url: str, http: str = "") -> Path:
        config = tmp_path / "narrated.yaml"
        config.write_text(
            f"version: 1\nstate: {tmp_path}/state\nredis: {{url: '{url}'}}\n{http}"
            f"captioner: {{model: {checkpoint}, device: cpu}}\ncameras:\n"
            f"  plain: {{url: '{NOWHERE.format('me:' + IN_URL)}'}}\n"
            f"  query: {{url: 'rtsp://127.0.0.1:9/s?user=me&password={IN_QUERY}'}}\n"
            f"  file: {{url: '{NOWHERE.format('me:${file:' + str(tmp_path) + '/secret}')}'}}\n"
            f"  gate: {{url: '{NOWHERE.format('${cred:gate}')}', "
            f"screening: '{NOWHERE.format('me:' + IN_SMALL)}'}}\n"
            f"  porch: {{url: {clip}}}\n"
        )
        return config

    return write


def test_running_tells_no_password(planted, forked, guarded, tmp_path, free_port):
    config = planted(guarded, f"http: {{listen: '127.0.0.1:{free_port}'}}\n")
    process = forked("run", "-c", config)
    journal = tmp_path / "state" / "journal" / "porch.jsonl"
    pages: list[bytes] = []
    until(process, lambda: journal.exists() and journal.read_bytes().count(b"\n") == 2)
    pages += [page(free_port, f"/{name}")[1].encode() for name in ("metrics", "readyz", "healthz")]
    shown = "\n".join(" ".join(p.cmdline()) for p in psutil.Process(process.pid).children(recursive=True))
    whole = config.read_text()
    log = process._files[1].read_text
    for broken in (whole.replace("redis: {", "redis: ["), whole.replace("gate: {url", "gate: {urk")):
        config.write_text(broken)
        said = log().count("the old one stays in force")
        process.send_signal(signal.SIGHUP)
        until(process, lambda said=said: log().count("the old one stays in force") > said)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert "refused" in err
    files = [path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file()]
    with redis.Redis.from_url(guarded) as client:
        streams = [client.xrange(key) for key in client.scan_iter(_type="stream")]
        others = [(key, client.dump(key)) for key in client.scan_iter() if client.type(key) != b"stream"]
        on_server = repr([streams, others, client.client_list(), client.client_getname()])
    assert leaks(out, err, shown, *pages, *files, on_server) == []


def test_no_verb_tells_a_password(planted, narrated, guarded, clip, checkpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("NARRATED_DEBUG", "1")

    def forgetful(*arguments: object) -> Any:
        secrets._revealed.clear()  # what an earlier verb has seen must not hide what this one tells
        return narrated(*arguments)

    wrong = guarded.replace("pl4nted", "pl4nted-and-wrong")
    config, url = planted(wrong), NOWHERE.format("me:" + IN_URL)
    told = [
        forgetful(*arguments)
        for arguments in (
            ("check-config", "-c", config),
            ("tail", "-c", config, "--count", "1"),
            ("tail", "--redis", f"redis://:{IN_URL}@127.0.0.1:9", "--count", "1"),
            ("tail", "--redis", f"ftp://me:{IN_URL}@127.0.0.1"),
            ("probe", url),
            ("probe", "gate", "-c", config),
            ("probe", "query", "-c", config),
            ("replay", clip, "--redis", f"http://me:{IN_URL}@127.0.0.1", "--captioner-file", checkpoint),
            ("replay", url, "-c", config),
            ("describe", url, url, "--captioner-file", checkpoint),
            ("describe", f"http://me:{IN_URL}@127.0.0.1/a.png", clip, "--captioner-file", checkpoint),
            ("verify", tmp_path / "state"),
        )
    ]
    assert sum("***@127.0.0.1" in outcome.err + outcome.out for outcome in told) >= len(told) // 2
    config.write_text(config.read_text().replace("version: 1", "version: [1"))
    told.append(forgetful("check-config", "-c", config))
    assert told[-1].code == 78
    assert leaks(*(outcome.out + outcome.err for outcome in told)) == []


def test_tracebacks_and_crashes_are_hidden():
    script = (
        "import os, threading\n"
        "from daemon.service.process import start_logging, format_traceback\n"
        "from daemon.config.secrets import reveal\n"
        "url = reveal('rtsp://me:${env:PLANTED}@host/s')\n"
        "start_logging()\n"
        "def crash(): raise ValueError(url + ' and bare ' + os.environ['PLANTED'])\n"
        "thread = threading.Thread(target=crash); thread.start(); thread.join()\n"
        "try: crash()\n"
        "except ValueError as error: print(format_traceback(error))\n"
        "crash()\n"
    )
    environment = {**os.environ, "PLANTED": IN_FILE}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, env=environment)
    assert done.returncode == 1
    assert done.stdout.count(b"ValueError: ") == 1
    assert done.stderr.count(b"ValueError: ") == 2
    assert leaks(done.stdout, done.stderr) == []
