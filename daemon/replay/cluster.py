"""A replay on the machines of a Ray cluster: each camera's footage is a task, and one folder is the result.

A task replays its camera into a temporary folder, and sends what is in it: so the record equals, to the byte,
the one that a single machine writes.
"""

import logging
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console

from daemon import __version__
from daemon.replay.files import Outcome, ReplayError, ReplayInput
from daemon.replay.replay import Elsewhere, ReplayOptions, ReplayProgress, replay
from models.captioner import Captioner
from models.language.catalogue import language

_ANSWER_S = 10.0
_POLL_S = 0.5
_SHARE_OF_A_GPU = 0.25  # of each task: four fit on one, since decoding takes most of their time

logger = logging.getLogger(__name__)


def narrate_on(
    footage: Sequence[ReplayInput],
    options: ReplayOptions,
    stop: Event,
    *,
    address: str,
    checkpoint: Path,
    device: str,
) -> Elsewhere:
    """Narrate cameras on machines that have their footage at the same paths; see `ReplayOptions.elsewhere`.

    `address` is as Ray writes it, or ``local`` for a cluster that is started here and ends with the replay.
    Raises `ReplayError` or `ModuleNotFoundError`.
    """
    gpus = _SHARE_OF_A_GPU if device.startswith("cuda") else 0
    with _connect(address) as ray:
        # A task whose machine dies is not at fault: it is run elsewhere while there is another machine.
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=-1)(_narrate)
        part = replace(options, resume=False, redis_url="", elsewhere=None)
        weights = ray.put(checkpoint.read_bytes())
        running = {}
        for each in footage:
            absolute = replace(each, paths=tuple(path.absolute() for path in each.paths))
            same = {"catalogue": language.catalogue, "version": __version__}
            running[task.remote(absolute, weights, device, part, **same)] = each.camera
        while running and not stop.is_set():
            for done in ray.wait(list(running), timeout=_POLL_S)[0]:
                camera = running.pop(done)
                try:
                    yield ray.get(done)
                except Exception as error:  # noqa: BLE001 - it is narrated here, which reports the error
                    cause = getattr(error, "cause", None) or error
                    if isinstance(cause, ReplayError):
                        raise cause from None
                    reason = str(cause).strip() or type(cause).__name__
                    logger.error("%s: %s; it is narrated here instead", camera, reason)  # noqa: TRY400


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
        advice = "start one with `ray start --head`, or write --ray local"
        reason = str(error).splitlines()[0]
        raise ReplayError(f"no Ray cluster answers at {address} ({reason}): {advice}") from error
    # Whatever its logging is set to, Ray prints to stdout, among the narrations, when a machine dies.
    ray._private.worker._worker_logs_enabled = False  # noqa: SLF001
    try:
        yield ray
    finally:
        ray.shutdown()


def _narrate(
    footage: ReplayInput,
    checkpoint: bytes,
    device: str,
    options: ReplayOptions,
    *,
    catalogue: bytes,
    version: str,
) -> tuple[str, Outcome, dict[str, bytes]]:
    if version != __version__:
        raise ReplayError(f"a machine has narrated {__version__}, this one {version}: install the same")
    language.use(catalogue)
    with tempfile.TemporaryDirectory(prefix="narrated-") as name:
        out = Path(name) / "part"
        captioner = _load(checkpoint, device)
        silent = ReplayProgress(Console(quiet=True))
        report = replay([footage], captioner, replace(options, out=out), silent, Event())
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
