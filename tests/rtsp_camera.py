"""A camera that tests can kill: GStreamer's RTSP server in a process of its own."""

import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from running_daemon import unused_port

PYTHON = "/usr/bin/python3"
"""The system's, which has GStreamer."""
CHECK = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer"


def no_gstreamer() -> str:
    """Why this machine has no such server; empty where it has."""
    found = shutil.which(PYTHON)
    if found and not subprocess.run([found, "-c", CHECK], capture_output=True, check=False).returncode:
        return ""
    return "no GStreamer RTSP server (apt install gir1.2-gst-rtsp-server-1.0 python3-gi)"


class RtspServer:
    """Killed and started again on the same port; it plays H.264 files as /1, /2 and so on."""

    def __init__(self, *credentials: str, port: int = 0, films: Sequence[Path] = ()) -> None:
        self.port, self.credentials, self.films = port or unused_port(), credentials, films
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def url(self, path: str = "stream", user: str = "") -> str:
        return f"rtsp://{user}127.0.0.1:{self.port}/{path}"

    def start(self) -> None:
        script = Path(__file__).with_name("rtsp_server.py")
        self.process = subprocess.Popen(
            [PYTHON, str(script), str(self.port), *self.credentials],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._expect("ready")
        for number, film in enumerate(self.films, 1):
            self.tell(f"play {film} {number}")

    def tell(self, command: str) -> None:
        """A command of `rtsp_server.py`; returns when it is carried out."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        self._expect("done")

    def _expect(self, word: str) -> None:
        assert self.process.stdout.readline().strip() == word

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                with suppress(BrokenPipeError):
                    pipe.close()
            self.process = None
