"""Keys and signatures; time stamps by a local authority: what they hold, and what breaks them."""

import base64
import json
import shutil
import socket
import subprocess
import threading
from functools import partial
from threading import Thread
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st
from narrations import narration
from raw_server import raw_server
from time_stamps import make_authority, serve_authority

from daemon.threads import publication
from daemon.threads.publication import JournalSigning
from pipeline.journal import Journal, verification
from pipeline.journal.signatures import (
    Signature,
    SigningError,
    SigningKey,
    Timestamp,
    public_key,
    request_timestamp,
)
from pipeline.journal.verification import VerifyOptions, verify


def test_the_key_of_rfc_8032_has_its_public_key():
    """Section 7.1, test 1."""
    key = SigningKey("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    assert key.public == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


@pytest.mark.parametrize("text", ["", "secret-not-hex", "1" * 63, "1" * 65])
def test_what_is_no_key_is_refused_without_showing_it(text):
    with pytest.raises(SigningError, match="--new-key") as raised:
        SigningKey(text)
    assert not text or text not in str(raised.value)
    with pytest.raises(SigningError, match="not a public key"):
        public_key(text)


@given(st.binary(max_size=300))
def test_anything_may_stand_in_the_file(content):
    assert all(isinstance(each, str) for each in Signature.read(content))


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    """The certificate of the authority's root."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl")
    return make_authority(tmp_path_factory.mktemp("authority") / "keys")


@pytest.fixture(scope="module")
def url(roots):
    with serve_authority(roots.parent) as running:
        yield running


@pytest.fixture
def stamped(tmp_path, url):
    """A journal of five records whose third is stamped."""
    with Journal(tmp_path / "journal", "yard", fsync=False) as journal:
        for second in range(5):
            record = journal.append(narration(second))
            if second == 2:
                request_timestamp(url, record).append(journal.folder)
    return tmp_path / "journal"


def check(folder, roots):
    return verify([folder], VerifyOptions(roots=roots))


def test_a_stamp_vouches_for_its_record_by_our_check_and_by_openssl(stamped, roots, tmp_path):
    found = check(stamped, roots)
    assert found.ok
    (last,) = found.attested.values()
    assert (last.seq, last.time[-1], last.keys) == (3, "Z", ())
    (stamp,) = Timestamp.load(stamped, "yard")
    answer = tmp_path / "answer"
    answer.write_bytes(base64.b64decode(stamp.response))
    command = ["openssl", "ts", "-verify", "-digest", stamp.hash, "-in", answer, "-CAfile", roots]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def rewrite(folder, **changed):
    path = folder / "yard.timestamps"
    members = json.loads(path.read_text()) | changed
    path.write_text(json.dumps(members, sort_keys=True, separators=(",", ":")) + "\n")


def moved(folder):
    other = json.loads((folder / "yard.jsonl").read_text().splitlines()[3])
    rewrite(folder, seq=other["seq"], hash=other["hash"])


def begun_anew(folder):
    (folder / "yard.jsonl").unlink()
    with Journal(folder, "yard", fsync=False) as journal:
        for second in range(5):
            journal.append(narration(second + 100))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (partial(rewrite, time="2020-01-01T00:00:00.000000Z"), "is of 20"),
        (partial(rewrite, camera="lot"), "belongs to lot"),
        (partial(rewrite, response="AAAA"), "does not hold"),
        (partial(rewrite, response="no base64"), "does not hold"),
        (partial(rewrite, schema="narrated-timestamp/2"), "written by something else"),
        (moved, "does not hold"),
        (begun_anew, "record 3 is not the one that was stamped"),
    ],
)
def test_a_changed_stamp_or_journal_is_found(stamped, roots, spoil, reason):
    spoil(stamped)
    (problem,) = check(stamped, roots).problems
    assert reason in problem.reason
    assert spoil is not begun_anew or not verify([stamped]).ok  # which needs no authority


def test_another_authority_does_not_count(stamped, tmp_path):
    other = make_authority(tmp_path / "other")
    (problem,) = check(stamped, other).problems
    assert "does not hold" in problem.reason


def test_the_daemon_stamps_what_has_grown(tmp_path, url, roots):
    with Journal(tmp_path, "yard", fsync=False) as journal:
        signing = JournalSigning(None, {"yard": journal}, authority=url)
        signing.stamp()
        journal.append(narration(0))
        for _ in range(2):
            signing.stamp()
        journal.append(narration(1))
        again = JournalSigning(None, {"yard": journal}, authority=url)
        path = tmp_path / "yard.timestamps"
        path.write_bytes(path.read_bytes() + b'{"torn')
        again.stamp()
        again.stamp()
    assert [stamp.seq for stamp in Timestamp.load(tmp_path, "yard")] == [1, 2]
    assert check(tmp_path, roots).ok


@pytest.mark.logs_errors
def test_a_server_that_is_away_delays_no_other_camera_and_is_asked_again(tmp_path, url, caplog):
    with Journal(tmp_path, "yard", fsync=False) as journal:
        journal.append(narration(0))
        signing = JournalSigning(None, {"yard": journal}, authority="http://127.0.0.1:9/")
        signing.stamp()
        signing.stamp()
        assert caplog.text.count("is not time-stamped") == 1
        signing._authority = url
        signing._turn()
    assert len(Timestamp.load(tmp_path, "yard")) == 1


GRANTED_WITHOUT_A_STAMP = bytes([0x30, 5, 0x30, 3, 2, 1, 0])


@pytest.mark.logs_errors
@pytest.mark.parametrize(
    "response", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.0 200 OK\r\n\r\n" + GRANTED_WITHOUT_A_STAMP]
)
def test_what_is_no_server_of_time_stamps_never_ends_the_daemon(tmp_path, response, caplog):
    with raw_server(response) as url, Journal(tmp_path, "yard", fsync=False) as journal:
        journal.append(narration(0))
        JournalSigning(None, {"yard": journal}, authority=url).stamp()
    assert "its journal is not time-stamped" in caplog.text


@pytest.mark.logs_errors
def test_a_server_that_never_ends_its_answer_is_given_up(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(publication, "_WITHIN_S", 0.4)
    with socket.create_server(("127.0.0.1", 0)) as server, Journal(tmp_path, "yard", fsync=False) as journal:
        journal.append(narration(0))
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        signing = JournalSigning(None, {"yard": journal}, authority=url)
        stamping = Thread(target=signing.stamp)
        stamping.start()
        connection, _ = server.accept()
        with connection:
            while stamping.is_alive():
                connection.sendall(b"H")
                stamping.join(0.05)
            monkeypatch.setattr(publication, "_WITHIN_S", 60.0)
            began = monotonic()
            signing.stamp()  # asks nobody beside it, nor waits for that
            assert monotonic() - began < 5.0
            (asking,) = (each for each in threading.enumerate() if each.name.startswith("time stamp"))
            assert asking.daemon  # the end of the process does not wait for it either
    assert "is not time-stamped: the time stamp server does not end its answer" in caplog.text


def test_a_head_noted_elsewhere_shows_an_end_cut_off(stamped, monkeypatch):
    path = stamped / "yard.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    noted = json.loads(lines[-1])["hash"]
    assert verify([stamped], VerifyOptions(heads=[noted])).ok
    path.write_bytes(b"".join(lines[:-1]))
    assert verify([stamped]).ok
    (problem,) = verify([stamped], VerifyOptions(heads=[noted])).problems
    assert noted in problem.reason
    shutil.copytree(stamped, stamped.parent / "other" / "journal")
    monkeypatch.setattr(verification, "WORTH_PROCESSES", 0)
    assert len(verify([stamped, stamped.parent / "other"], VerifyOptions(heads=[noted])).problems) == 1
