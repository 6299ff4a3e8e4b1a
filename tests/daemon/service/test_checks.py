"""`check-config` finds what `run` refuses, because the same code decides; the exit code of each is 78."""

import socket
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from daemon.config.configuration import parse_configuration
from daemon.service.checks import check_configuration

KEY = "5" * 64
LIVE = "cameras: {a: {url: 'rtsp://10.0.0.1/s'}}\n"


def deep_checkpoint(path: Path) -> Path:
    """A checkpoint whose description is nested deeper than Python recurses."""
    save_file({"x": np.zeros(1, np.float32)}, path, metadata={"narrated": "[" * 100_000 + "]" * 100_000})
    return path


MISTAKES = {
    "redis of another kind": "redis: {url: 'http://x'}\n" + LIVE,
    "redis port": "redis: {url: 'redis://h:notaport'}\n" + LIVE,
    "redis secret absent": "redis: {url: 'redis://:${env:ABSENT_SECRET}@h'}\n" + LIVE,
    "signing key secret absent": "signing: {key: '${file:/nonexistent}'}\n" + LIVE,
    "signing key in the file": f"signing: {{key: '{KEY}'}}\n" + LIVE,
    "signing key is none": "signing: {key: '${file:TMP/text.mp4}'}\n" + LIVE,
    "server of time stamps is none": "signing: {timestamps: 'tsa.example'}\n" + LIVE,
    "checkpoint absent": "captioner: {model: TMP/none.safetensors}\n" + LIVE,
    "checkpoint damaged": "captioner: {model: TMP/text.mp4}\n" + LIVE,
    "checkpoint deeply nested": "captioner: {model: TMP/deep.safetensors}\n" + LIVE,
    "captioner that does not ship": "captioner: poet\n" + LIVE,
    "device": "captioner: {device: 'cuda:77'}\n" + LIVE,
    "state not writable": "state: /proc/narrated\n" + LIVE,
    "footage absent": "cameras: {a: {url: TMP/absent.mp4}}\n",
    "footage damaged": "cameras: {a: {url: TMP/text.mp4}}\n",
    "pattern without a file": "cameras: {a: {url: 'TMP/*.avi'}}\n",
    "folder without pictures": "cameras: {a: {url: TMP/empty}}\n",
    "camera by http": "cameras: {a: {url: 'http://10.0.0.5/snapshot.jpg'}, b: {url: 'rtsp://h/1'}}\n",
    "camera without a host": "cameras: {a: {url: 'rtsp:///stream'}}\n",
    "camera's secret absent": "cameras: {a: {url: 'rtsp://${env:ABSENT_SECRET}@h/1'}}\n",
    "workers without a server": "cameras: {a: {url: 'rtsp://h/1', narrate: {workers: redis}}}\n",
    "workers with ddla": "captioner: ddla\nredis: {url: 'redis://h'}\n"
    "cameras: {a: {url: 'rtsp://h/1', narrate: {workers: redis}}}\n",
    "a rule's place": "rules: [{name: r, when: a van at the gaet for 10 min}]\n" + LIVE,
    "a rule's camera": "rules: [{name: r, when: a van, cameras: b}]\n" + LIVE,
    "a rule's word": "rules: [{name: r, when: a vna comes}]\n" + LIVE,
    "two rules of a name": "rules: [{name: r, when: a van}, {name: r, when: a car}]\n" + LIVE,
    "a line of one point": "cameras: {a: {url: 'rtsp://h/1', lines: [{name: l l, points: [[0, 0]]}]}}\n",
    "a line with one direction": "cameras: {a: {url: 'rtsp://h/1', lines: "
    "[{name: l l, points: [[0, 0], [1, 1]], directions: [in]}]}}\n",
    "a secret without its end": "cameras: {a: {url: 'rtsp://${env:CAM_LOGIN@h/1'}}\n",
    "a secret without braces": "cameras: {a: {url: 'rtsp://$CAM_LOGIN@h/1'}}\n",
    "more frames than a record can say": "cameras: {a: {url: 'rtsp://h/1', pairs: {sample: 2000/s}}}\n",
    "a camera's port": "cameras: {a: {url: 'rtsp://me:pass@h:notaport/1'}}\n",
    "pages for everybody": "http: {listen: '0.0.0.0:9464'}\n" + LIVE,
    "no camera": "cameras: {}\n",
    "unknown key": "camras: {}\n" + LIVE,
    "broken YAML": "cameras: {a: [\n",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_run_and_check_config_refuse_the_same(narrated, tmp_path, mistake):
    (tmp_path / "text.mp4").write_text("no video\n" * 100)
    (tmp_path / "empty").mkdir()
    deep_checkpoint(tmp_path / "deep.safetensors")
    state = "" if "state:" in MISTAKES[mistake] else f"state: {tmp_path}/state\n"
    config = tmp_path / "n.yaml"
    text = MISTAKES[mistake].replace("TMP", str(tmp_path))
    config.write_text(f"version: 1\n{state}{text}")
    checked = narrated("check-config", "-c", config)
    assert checked.code == 78, checked.err
    ran = narrated("run", "-c", config)
    assert (checked.code, ran.code) == (78, 78), checked.err + ran.err
    assert checked.err == ran.err != ""
    assert KEY not in checked.err
    assert not (tmp_path / "state" / "journal").exists()


@pytest.mark.parametrize(
    ("more", "code", "word"),
    [
        ("redis: {url: 'redis://h'}\nforward: {apprise: {a: {url: 'foo://'}}}\n", 78, "no such service"),
        ("serve: {passwords: TMP/none}\n", 78, "serve.passwords: TMP/none is not there"),
        (
            "redis: {url: 'redis://h'}\nforward: {mqtt: {a: {url: 'mqtt://h', filter: {object: persn}}}}\n",
            0,
            "warning: n.yaml: forward.mqtt.a.filter.object: no record names 'persn'; did you mean person?",
        ),
    ],
)
def test_what_other_verbs_would_refuse_is_found(narrated, tmp_path, monkeypatch, more, code, word):
    monkeypatch.chdir(tmp_path)
    Path("n.yaml").write_text(f"version: 1\nstate: s\n{more.replace('TMP', str(tmp_path))}{LIVE}")
    checked = narrated("check-config", "-c", "n.yaml")
    assert checked.code == code
    assert word.replace("TMP", str(tmp_path)) in checked.err


def test_an_address_in_use_is_a_mistake_at_a_start(narrated, tmp_path):
    config = tmp_path / "n.yaml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config.write_text(f"version: 1\nstate: {tmp_path}\nhttp: {{listen: '127.0.0.1:{port}'}}\n{LIVE}")
        ran = narrated("run", "-c", config)
    assert ran.code == 78
    assert f"http.listen: cannot listen on 127.0.0.1:{port} (Address already in use)" in ran.err


def test_footage_that_is_not_there_ends_no_live_camera():
    configuration = parse_configuration(
        "version: 1\nstate: /tmp\ncameras: {a: {url: 'rtsp://h/1'}, archive: {url: /absent/*.mp4}}\n"
    )
    (warning,) = check_configuration(configuration, "n.yaml")
    assert warning.startswith("n.yaml: cameras.archive.url: /absent/*.mp4: no video and no still image")


def test_a_disk_smaller_than_what_must_stay_free_is_warned_of(tmp_path):
    text = f"version: 1\nstate: {tmp_path}/new\nretention: {{free: 900 TB}}\n{LIVE}"
    (warning,) = check_configuration(parse_configuration(text), "n.yaml")
    assert warning.startswith("n.yaml: retention.free: 900.0TB on a disk of")


def test_a_password_in_the_file_is_warned_of(narrated, tmp_path):
    config = tmp_path / "n.yaml"
    config.write_text(f"version: 1\nstate: {tmp_path}\ncameras: {{a: {{url: 'rtsp://me:hunter2@h/1'}}}}\n")
    done = narrated("check-config", "-c", config)
    assert (done.code, done.out) == (0, f"{config}: fine, 1 camera\n")
    assert "anyone who can read this file can see the password" in done.err
    assert "hunter2" not in done.err


@pytest.mark.parametrize(
    "entries",
    [
        "cameras: {a: {url: 'rtsp:/me:hunter2@h/1'}}",
        "cameras: {a: {url: 'me:hunter2@h/*'}}",
        "redis: {url: 'redis//:hunter2@h'}\ncameras: {a: {url: 'rtsp://h/1'}}",
    ],
)
def test_a_password_in_a_malformed_address_is_not_printed(narrated, tmp_path, entries):
    config = tmp_path / "n.yaml"
    config.write_text(f"version: 1\nstate: {tmp_path}\n{entries}\n")
    done = narrated("check-config", "-c", config)
    assert "***@h" in done.err
    assert "hunter2" not in done.out + done.err
