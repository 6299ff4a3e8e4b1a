"""The units of the page and of the forwarder leave each what it needs, and no more."""

import os
import re
import signal
from pathlib import Path

import httpx
from confined_units import children, kill_confined, open_to_its_group, start_confined, unit_words
from embedded_redis import EmbeddedServer
from forwarding_here import Camera, Receiver
from houses import House, said
from waiting import LIMIT_S, until

from pipeline.evidence import EvidenceStore
from pipeline.record import Evidence

UNITS = Path(__file__).parents[2] / "systemd"


def test_it_forwards_under_its_restrictions(tmp_path):
    """To a web hook with the picture; only its own folder is written."""
    receiver, state, own = Receiver(), tmp_path / "state", tmp_path / "own"
    with EmbeddedServer(settings={"unixsocketperm": "777"}) as server:
        server.folder.chmod(0o755)
        config = tmp_path / "narrated.yaml"
        config.write_text(
            f"version: 1\nstate: {state}\nredis: {{url: '{server.url}'}}\ncameras: {{yard: {{url: y.mp4}}}}\n"
            f"forward:\n  apprise: {{office: {{url: '{receiver.url}'}}}}\n"
        )
        picture = EvidenceStore(state / "evidence", fsync=False).put(b"\xff\xd8", "jpg")
        yard = Camera(state / "journal", "yard", server.url)
        yard.narrate(evidence=Evidence(overlay=picture))
        open_to_its_group(state)
        unit = UNITS / "narrated-forward.service"
        words = unit_words(unit, config, "--from-start")
        process = start_confined(unit, own, [state, server.folder, config], words)
        try:
            until(lambda: receiver.taken or process.poll() is not None)
            assert process.poll() is None, process.communicate()[1]
            os.kill(*children(process), signal.SIGTERM)
            assert process.wait(LIMIT_S) == 0
        finally:
            kill_confined(process)
            yard.close()
            receiver.stop()
    assert receiver.taken[0]["attachments"][0]["mimetype"] == "image/jpeg"
    assert (own / "state" / "office.json").exists()


def test_it_serves_under_its_restrictions(tmp_path):
    """The page is there and takes feedback; the record and the pictures are out of its reach."""
    house, own = House(tmp_path / "state"), tmp_path / "own"
    house.tell(1, said("A person has come."), evidence=house.pictures())
    config = tmp_path / "narrated.yaml"
    config.write_text(
        f"version: 1\nstate: {house.state}\nserve: {{listen: '127.0.0.1:0'}}\n"
        "cameras: {yard: {url: y.mp4}}\n"
    )
    open_to_its_group(house.state)
    unit = UNITS / "narrated-serve.service"
    process = start_confined(unit, own, [house.state, config], unit_words(unit, config))
    try:
        assert process.stderr
        address = re.search(r"http://127\.0\.0\.1:\d+", said_at_start := process.stderr.readline())
        assert address, said_at_start + process.stderr.read()
        with httpx.Client(base_url=address[0], trust_env=False, timeout=LIMIT_S) as client:
            assert "A person has come." in client.get("/review").text
            record = f"/record/{house.records['yard'][0].id}"
            sent = client.post(f"{record}/reviewed", data={"reviewed": "yes"}, headers={"Origin": address[0]})
            assert sent.status_code == 303
            assert "Reviewed ✓" in client.get(record).text
        os.kill(*children(process), signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    finally:
        kill_confined(process)
        house.close()
    assert (own / "state" / "feedback.sqlite3").exists()
    assert list((own / "cache").rglob("index-*.sqlite3"))
    assert not (house.folder / "index.sqlite3").exists()
