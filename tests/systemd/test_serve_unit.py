"""The page's unit is enough for its work."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import httpx
from confined_units import children, command_of, confined, open_to_group
from houses import House, said

UNIT = Path(__file__).parents[2] / "systemd" / "narrated-serve.service"


def test_it_serves_under_its_restrictions(tmp_path: Path) -> None:
    """The page is there and takes feedback; the record and the pictures are out of its reach."""
    house, config = House(tmp_path / "state"), tmp_path / "narrated.yaml"
    house.tell(1, said("A person has come."), evidence=house.pictures())
    house.close()
    config.write_text(
        f"version: 1\nstate: {house.state}\nserve: {{listen: '127.0.0.1:0'}}\n"
        "cameras: {yard: {url: y.mp4}}\n"
    )
    open_to_group(tmp_path, house.state)
    with confined(UNIT, tmp_path, [house.state, config], *command_of(UNIT, config)) as process:
        address = re.search(r"http://127\.0\.0\.1:\d+", said_at_start := process.stderr.readline())
        assert address, said_at_start + process.stderr.read()
        with httpx.Client(base_url=address[0], trust_env=False, timeout=30) as client:
            assert "A person has come." in client.get("/review").text
            record = f"/record/{house.records['yard'][0].id}"
            sent = client.post(f"{record}/reviewed", data={"reviewed": "yes"}, headers={"Origin": address[0]})
            assert sent.status_code == 303
            assert "Reviewed ✓" in client.get(record).text
        os.kill(*children(process), signal.SIGTERM)
        assert process.wait(30) == 0
    assert (tmp_path / "own" / "feedback.sqlite3").exists()
    assert list((tmp_path / "cache").rglob("index-*.sqlite3"))
    assert not (house.folder / "index.sqlite3").exists()
