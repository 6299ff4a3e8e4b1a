"""Compose file and Home Assistant add-on: what they name is there, and the add-on's processes run."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from raw_server import raw_server
from waiting import LIMIT_S, until

from daemon import __version__
from daemon.cli import VERBS
from daemon.config.configuration import parse_configuration

ROOT = Path(__file__).parents[2]
COMPOSE, ADDON = ROOT / "packaging" / "compose", ROOT / "packaging" / "home-assistant"


def test_compose_names_images_commands_and_volumes_that_exist():
    whole = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    for service in whole["services"].values():
        command = service.get("command", ["run"])
        assert service["image"] != "narrated" or command[0] in VERBS
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in whole["volumes"] or (COMPOSE / source).exists()
        assert all(each.startswith("127.0.0.1:") for each in service.get("ports", []))
    built = whole["services"]["narrated"]["build"]
    assert (COMPOSE / built["context"] / built["dockerfile"]).is_file()
    configuration = parse_configuration((COMPOSE / "narrated.yaml").read_text())
    assert configuration.redis.url == "redis://redis"
    assert {"redis", "mosquitto"} <= whole["services"].keys()


def test_the_folder_of_the_add_on_can_be_built(tmp_path):
    subprocess.run([ADDON / "make", tmp_path / "narrated"], check=True)
    described = yaml.safe_load((tmp_path / "narrated" / "config.yaml").read_text())
    assert described["version"] == __version__
    assert described["options"].keys() == described["schema"].keys()
    assert described["map"] == [{"type": "addon_config", "read_only": False}]  # its default is true
    copied = re.findall(r"^COPY (\S+)", (tmp_path / "narrated" / "Dockerfile").read_text(), re.MULTILINE)
    assert copied == ["source"]
    assert os.access(tmp_path / "narrated" / "source" / "packaging" / "install", os.X_OK)


@pytest.fixture
def supervisor():
    """Answers where the broker is."""
    data = {"host": "127.0.0.1", "port": 9, "ssl": False, "username": "addons", "password": "p@ss"}
    body = json.dumps({"result": "ok", "data": data})
    with raw_server(f"HTTP/1.0 200 OK\r\n\r\n{body}".encode()) as url:
        yield url


@pytest.fixture
def start(tmp_path, supervisor):
    """Starts the add-on on folders of its own; the process and its log."""
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); import start; "
        "sys.exit(start.main(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], '127.0.0.1:0'))"
    )
    started = []

    def run(**options):
        told = {"user": "home", "password": "secret word", "secrets": [{"name": "YARD", "value": "u:p"}]}
        (tmp_path / "options.json").write_text(json.dumps(told | options))
        log = (tmp_path / "log").open("wb")
        command = [sys.executable, "-c", program, ADDON, tmp_path, tmp_path / "narrated.yaml", supervisor]
        started.append((subprocess.Popen(command, stdout=log, stderr=log), log))
        return started[-1][0]

    yield run
    for process, log in started:
        process.kill()
        process.wait()
        log.close()


def test_the_first_start_says_what_is_missing(start, tmp_path):
    for wrong in ({"password": ""}, {"password": "short"}, {"user": "at home"}):
        assert start(**wrong).wait(LIMIT_S) == 1
        assert (tmp_path / "log").read_text().startswith("narrated: the page's login")
    assert start().wait(LIMIT_S) == 78
    assert "name your cameras in narrated.yaml" in (tmp_path / "log").read_text()
    assert "${env:MQTT}" in (tmp_path / "narrated.yaml").read_text()


@pytest.mark.skipif(not shutil.which("redis-server"), reason="no redis-server")
def test_daemon_page_and_forwarder_run_until_one_ends(start, tmp_path):
    text = (ADDON / "start.py").read_text()
    first = text.partition('FIRST = """\\\n')[2].partition('"""')[0].format(data=tmp_path)
    (tmp_path / "narrated.yaml").write_text(
        first.replace("cameras: {}", "cameras: {yard: {url: 'rtsp://${env:YARD}@127.0.0.1:9/x'}}")
    )
    process, log = start(), tmp_path / "log"
    wanted = (b"forwarding to home", b"http://127.0.0.1:", b"watching yard")
    until(lambda: all(each in log.read_bytes() for each in wanted) or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == 0, log.read_text()
    said = log.read_text()
    assert "p%40ss" not in said
    assert "u:p" not in said
