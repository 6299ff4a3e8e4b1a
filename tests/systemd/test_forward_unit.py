"""The forwarder's unit is enough for its work."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from confined_units import children, command_of, confined, open_to_group
from embedded_redis import EmbeddedServer
from forwarding_here import Camera, Receiver, until

from pipeline.evidence import EvidenceStore
from pipeline.record import Evidence

UNIT = Path(__file__).parents[2] / "systemd" / "narrated-forward.service"


def test_it_forwards_under_its_restrictions(tmp_path: Path) -> None:
    """To a web hook with the picture; only its own folder is written."""
    receiver, state = Receiver(), tmp_path / "state"
    with EmbeddedServer(settings={"unixsocketperm": "777"}) as server:
        server.folder.chmod(0o755)
        config = tmp_path / "narrated.yaml"
        config.write_text(
            f"version: 1\nstate: {state}\nredis: {{url: '{server.url}'}}\ncameras: {{yard: {{url: y.mp4}}}}\n"
            f"forward:\n  apprise: {{office: {{url: '{receiver.url}'}}}}\n"
        )
        picture = EvidenceStore(state / "evidence", fsync=False).put(b"\xff\xd8", "jpg")
        yard = Camera(state / "journal", "yard", server.url)
        try:
            yard.narrate(evidence=Evidence(overlay=picture))
            open_to_group(tmp_path, state)
            seen, command = [state, server.folder, config], [*command_of(UNIT, config), "--from-start"]
            with confined(UNIT, tmp_path, seen, *command) as process:
                until(lambda: receiver.taken or process.poll() is not None)
                assert process.poll() is None, process.communicate()[1]
                os.kill(*children(process), signal.SIGTERM)
                assert process.wait(30) == 0
        finally:
            yard.close()
            receiver.stop()
    assert receiver.taken[0]["attachments"][0]["mimetype"] == "image/jpeg"
    assert (tmp_path / "own" / "office.json").exists()
