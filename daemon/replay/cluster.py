"""A replay on the machines of a Ray cluster: each camera's footage is a task, and one folder is the result.

A task replays its camera as `replay` does, into a temporary folder, and sends what is in it. The output
folder then has one more finished camera, as after an interrupted replay; when all are there, that replay is
resumed, and only the report is left to write. So the record equals, to the byte, the one that a single
machine writes, and a machine that dies costs the time of its tasks.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rich.console import Console

from daemon import __version__
from daemon.replay.inputs import ReplayInput
from daemon.replay.output import Outcome, OutputFolder, identity
from daemon.replay.replay import ReplayOptions, ReplayProgress, ReplayReport, Show, replay, show_records
from models.captioner import Captioner
from models.language.catalogue import language
from pipeline.report.words import many

_ANSWER_S = 10.0
_SHARE_OF_A_GPU = 0.25  # of each task: four fit on one, since decoding takes most of their time

_Result = tuple[str, Outcome, dict[str, bytes]]
"""Camera, outcome, and the contents of its journal and pictures by their paths in the folder of a replay."""

logger = logging.getLogger(__name__)


class ClusterError(Exception):
    """The cluster cannot be used; the message says what to do."""


class RayCluster(NamedTuple):
    """A cluster, and what its tasks need.

    Attributes:
        address: as Ray writes it (``auto``, ``host:6379``, ``ray://host:10001``), or ``local`` for one that
            is started here and ends with the replay.
        checkpoint: the captioner's file, sent to the tasks.
        device: with one that begins with ``cuda`` a task asks for a share of a GPU.
    """

    address: str
    checkpoint: Path
    device: str


def replay_on(
    cluster: RayCluster,
    footage: list[ReplayInput],
    captioner: Captioner,
    options: ReplayOptions,
    *,
    show: Show,
    progress: ReplayProgress,
) -> ReplayReport:
    """Replay into a folder by the tasks of a cluster, whose machines have the footage at the same paths.

    Ctrl-C keeps finished cameras for ``--resume``, and writes no report.

    Raises:
        ClusterError: the cluster does not answer.
        ModuleNotFoundError: Ray is not installed.
        OutputError: as `replay`.
    """
    if options.out is None:
        raise ValueError("a replay on a cluster needs a folder")
    of = identity(footage, captioner, options.plan, options.span)
    output = OutputFolder(options.out, of, resume=options.resume)
    left = [each for each in footage if each.camera not in output.finished]
    try:
        with _connect(cluster.address) as ray:
            for number, (camera, outcome, files) in enumerate(_narrate_all(ray, cluster, left, options), 1):
                show_records(output.adopt(camera, outcome, files), {camera: outcome.first}, show)
                progress.show(
                    f"{number} of {many(len(left), 'camera')}", number, len(left), output.narrations
                )
    except KeyboardInterrupt:
        missing = f"{len(footage) - len(output.finished)} of {many(len(footage), 'camera')}"
        problem = f"interrupted, so incomplete: {missing}; --resume continues"
        return ReplayReport(output.narrations, (problem,), interrupted=True)
    return replay(footage, captioner, replace(options, resume=True), show, progress)


@contextmanager
def _connect(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster, without its usage reports."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray  # noqa: PLC0415 - an extra

    local: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        if address not in {"auto", "local"}:  # fails at once where nothing listens: Ray waits for minutes
            server = urlsplit(address if "://" in address else f"ray://{address}")
            socket.create_connection((server.hostname or "", server.port or 0), timeout=_ANSWER_S).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ClusterError(
            f"no Ray cluster answers at {address} ({reason}): start one with `ray start --head`, or write "
            "--ray local"
        ) from error
    # Whatever its logging is set to, Ray prints to stdout, among the narrations, when a machine dies.
    ray._private.worker._worker_logs_enabled = False  # noqa: SLF001
    try:
        yield ray
    finally:
        ray.shutdown()


def _narrate_all(
    ray: Any, cluster: RayCluster, footage: list[ReplayInput], options: ReplayOptions
) -> Iterator[_Result]:
    """The cameras as they are finished; one whose task fails is logged and left out."""
    gpus = _SHARE_OF_A_GPU if cluster.device.startswith("cuda") else 0
    # A task whose machine dies is not at fault: it is run elsewhere while there is another machine.
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=-1)(_narrate)
    checkpoint = ray.put(cluster.checkpoint.read_bytes())
    running = {}
    for each in footage:
        absolute = replace(each, paths=tuple(path.absolute() for path in each.paths))
        same = {"catalogue": language.catalogue, "version": __version__}
        running[task.remote(absolute, checkpoint, cluster.device, options, **same)] = each.camera
    while running:
        (done,), _ = ray.wait(list(running), num_returns=1)
        camera = running.pop(done)
        try:
            yield ray.get(done)
        except Exception as error:  # noqa: BLE001 - this machine narrates the camera, or reports the error
            cause = getattr(error, "cause", None) or error
            if isinstance(cause, ClusterError):
                raise cause from None
            reason = str(cause).strip() or type(cause).__name__
            logger.error("%s: %s; it is narrated here instead", camera, reason)  # noqa: TRY400 - for people


def _narrate(
    footage: ReplayInput,
    checkpoint: bytes,
    device: str,
    options: ReplayOptions,
    *,
    catalogue: bytes,
    version: str,
) -> _Result:
    """Narrate one camera; a task, on a machine of the cluster."""
    if version != __version__:
        raise ClusterError(
            f"a machine of the cluster has narrated {__version__}, this one {version}: install the same"
        )
    language.use(catalogue)
    with tempfile.TemporaryDirectory(prefix="narrated-") as name:
        out = Path(name) / "part"
        part = replace(options, out=out, resume=False, redis_url="", report=False)
        captioner = _load(checkpoint, device)
        report = replay([footage], captioner, part, lambda *_: None, ReplayProgress(Console(quiet=True)))
        paths = [*(out / "evidence").rglob("*"), out / "journal" / f"{footage.camera}.jsonl"]
        files = {str(path.relative_to(out)): path.read_bytes() for path in paths if path.is_file()}
        return footage.camera, report.outcomes[footage.camera], files


@lru_cache(maxsize=1)
def _load(checkpoint: bytes, device: str) -> Captioner:
    from daemon.config.device import load_on  # noqa: PLC0415 - only where a task runs

    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(checkpoint)
        file.flush()
        return load_on(device, Path(file.name))
