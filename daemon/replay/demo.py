"""`narrated demo`: a server, a clip, and a listener who prints what comes out of the stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Self

from rich.console import Console

from daemon.config.plan import camera_plan
from daemon.config.settings import CameraDefaults, EvidenceSettings
from daemon.replay.inputs import find_footage
from daemon.replay.output import check_output
from daemon.replay.progress import ReplayProgress
from daemon.replay.replay import ReplayOptions, ReplayReport, replay, unseen
from daemon.service.embedded_redis import EmbeddedServer
from daemon.service.lines import time_line
from models.captioner import Captioner
from pipeline.loop import Loop
from pipeline.publisher import subscribe

_LAST_ARRIVALS_S = 10.0
_POLL_S = 0.05


class Listener:
    """Prints the records of one camera as they arrive from the stream, in a thread of its own.

    Attributes:
        arrived: records printed.
    """

    def __init__(self, url: str, camera: str, line: Callable[[str], None]) -> None:
        self.arrived = 0
        self._url, self._camera, self._print = url, camera, line
        self._loop = Loop("listener", self._listen)

    def __enter__(self) -> Self:
        self._loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.stop()
        self._loop.join(_LAST_ARRIVALS_S)

    def wait_for(self, count: int) -> None:
        """Wait until so many have arrived, but not for ever; raises what ended the thread."""
        until = monotonic() + _LAST_ARRIVALS_S
        while self.arrived < count and self._loop.alive and monotonic() < until:
            self._loop.stopped.wait(_POLL_S)
        self._loop.raise_error()

    def _listen(self) -> None:
        for record in subscribe(self._url, [self._camera], "0", self._loop.stopped):
            self._print(time_line(record))
            self.arrived += 1


def run_demo(clip: Path, captioner: Captioner, out: Path, *, pictures: bool = False) -> ReplayReport:
    """Replay a clip into an embedded server, print what arrives from its stream, write the report.

    Narrations in `out` are replaced; with `pictures` the frames that a page needs are kept.

    Raises:
        OutputError: the folder cannot be written.
        EmbeddedServerError: no server can be started.
        PublisherError: the stream cannot be read.
    """
    check_output(out, force=True)
    footage = find_footage([str(clip)])
    console = Console(stderr=True)
    progress = ReplayProgress(console)
    with EmbeddedServer() as server, Listener(server.url, footage[0].camera, progress.print) as listener:
        console.print(
            f"stream narrated:{{{footage[0].camera}}}:changes on {server.url}",
            highlight=False,
            soft_wrap=True,
        )
        evidence = EvidenceSettings(keep="frames" if pictures else "none")
        options = ReplayOptions(
            camera_plan("demo", "", CameraDefaults(evidence=evidence)),
            redis_url=server.url,
            out=out,
        )
        with progress:
            report = replay(footage, captioner, options, unseen, progress)
        listener.wait_for(report.narrations)
    return report
