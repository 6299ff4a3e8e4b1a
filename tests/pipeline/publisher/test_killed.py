"""SIGKILL at hundreds of moments: the chain verifies and the stream equals the journal."""

import subprocess
import sys
from pathlib import Path

import redis

from pipeline.journal import read_camera
from pipeline.journal.verification import verify
from pipeline.publisher import stream_key
from pipeline.record import read_record

LIVES = 200


def test_sigkill_at_hundreds_of_moments(quick_server, tmp_path):
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("killed.py"), tmp_path, quick_server.url, str(LIVES), "7"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lives, appended, count = map(int, done.stdout.split())
    assert lives == LIVES < appended <= count <= appended + lives  # killed before it could say so
    verification = verify([tmp_path])
    assert verification.ok, verification.problems
    assert verification.lines == count
    journalled = list(read_camera(tmp_path, "yard"))
    with redis.Redis.from_url(quick_server.url, decode_responses=True) as client:
        published = [read_record(fields["json"]) for _, fields in client.xrange(stream_key("yard"))]
    assert published == journalled
    assert [record.seq for record in journalled] == list(range(1, count + 1))
    assert len(list(tmp_path.glob("*.jsonl"))) > 3
