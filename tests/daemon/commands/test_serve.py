"""The command `narrated serve`, as far as it ends by itself."""

import asyncio
import io
import socket
import sys

import pytest

from daemon.serve.access import Logins


def test_a_new_password_is_a_line_of_the_file(narrated, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("correct horse battery\n"))
    done, file = narrated("serve", "--new-password", "anna"), tmp_path / "passwords"
    assert done.code == 0, done.err
    assert "horse" not in done.out + done.err
    file.write_text(done.out)
    assert asyncio.run(Logins(file).match("anna", "correct horse battery"))
    for name in ("bert", "anna"):  # the second line of a name is its new password
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"staple of {name}\n"))
        done = narrated("serve", "--new-password", name, "--passwords", file)
        assert (done.code, done.out) == (0, ""), done.err
        assert asyncio.run(Logins(file).match(name, f"staple of {name}"))
    monkeypatch.setattr(sys, "stdin", io.StringIO("short\n"))
    assert narrated("serve", "--new-password", "anna").code == 1


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--journal", "nowhere"), 1, "/nowhere: give a folder of journals"),
        (("--journal", ".", "--timezone", "Mars/Base"), 2, "no time zone is called"),
        (("--journal", ".", "--listen", "0.0.0.0:0"), 2, "set passwords"),
        (("--journal", ".", "--listen", "somewhere"), 2, "--listen: write an address of this machine"),
        (("--journal", ".", "--listen", "127.0.0.1:0", "--passwords", "none"), 1, "cannot be read"),
    ],
)
def test_what_cannot_be_served_is_said(narrated, tmp_path, monkeypatch, options, code, words):
    monkeypatch.chdir(tmp_path)
    done = narrated("serve", *options)
    assert (done.code, "Traceback" in done.err) == (code, False)
    assert words in done.err


@pytest.mark.logs_errors
def test_the_page_may_start_before_the_daemon(narrated, tmp_path):
    (tmp_path / "narrated.yaml").write_text(
        f"version: 1\nstate: {tmp_path}/state\ncameras: {{yard: {{url: 'rtsp://127.0.0.1:9/x'}}}}\n"
    )
    with socket.socket() as taken:  # so that it ends by itself, once it has its folder
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = narrated("serve", "-c", tmp_path / "narrated.yaml", "--listen", address)
    assert done.code == 1
    assert "give another --listen" in done.err
    assert (tmp_path / "state" / "journal").is_dir()
