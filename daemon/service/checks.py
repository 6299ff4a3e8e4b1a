"""Mistakes that show only when a configuration is put to use: for `run`, its reload and `check-config`."""

import errno
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from pydantic import ByteSize

from daemon.config.configuration import ConfigurationError
from daemon.config.plan import camera_plan, camera_plans
from daemon.config.secrets import absent_secrets, hide_secrets, reveal
from daemon.config.settings import Configuration
from daemon.rules.rule import configured_rules
from models import CheckpointError, read_label
from pipeline.command_line import missing_extra
from pipeline.journal.signatures import SigningError, SigningKey
from pipeline.publisher import PublisherError, RedisServer
from pipeline.sources import open_source, redact

_LIVE = ("rtsp://", "rtsps://")
_PASSWORD_IN_URL = re.compile(r"://[^/\s@$]*:[^/@$]+@")


def check_configuration(configuration: Configuration, name: object) -> list[str]:
    """Try what the configuration says; returns warnings, and a ConfigurationError has all mistakes."""
    texts = [*_addresses(configuration)]
    texts += [(f"signing.{key}", getattr(configuration.signing, key) or "") for key in ("key", "timestamps")]
    problems = [*absent_secrets(texts)]
    try:
        configured_rules(configuration)
    except ConfigurationError as error:
        problems += error.problems
    warnings = [
        f"{key}: anyone who can read this file can see the password: write ${{cred:NAME}} in its place"
        for key, text in _addresses(configuration)
        if _PASSWORD_IN_URL.search(text)
    ]
    warnings += _disk_warnings(configuration)
    if not problems:
        problems += _machine_problems(configuration)
        is_live = any(camera.url.startswith(_LIVE) for camera in configuration.cameras.values())
        for problem, mistaken in _footage_problems(configuration):
            (problems if mistaken or not is_live else warnings).append(problem)
    if problems:
        raise ConfigurationError([f"{name}: {hide_secrets(problem)}" for problem in problems])
    return [f"{name}: {hide_secrets(warning)}" for warning in warnings]


def _addresses(configuration: Configuration) -> Iterator[tuple[str, str]]:
    for name, camera in configuration.cameras.items():
        yield f"cameras.{name}.url", camera.url
        if camera.screening:
            yield f"cameras.{name}.screening", camera.screening
    if configuration.redis.url:
        yield "redis.url", configuration.redis.url


def _machine_problems(configuration: Configuration) -> Iterator[str]:
    key, url, captioner = configuration.signing.key, configuration.redis.url, configuration.captioner
    if key:
        yield from _try("signing.key", lambda: SigningKey(reveal(key)), SigningError)
    if configuration.signing.timestamps and find_spec("rfc3161_client") is None:
        missing = missing_extra(ModuleNotFoundError(name="rfc3161_client"))
        yield f"signing.timestamps: {missing}"
    if url:
        yield from _try("redis.url", lambda: RedisServer(reveal(url)).close(), PublisherError)
    if reason := _write_problem(configuration.state):
        yield f"state: {configuration.state} cannot be written ({reason}): change it, or the folder's owner"
    if captioner.device.startswith("cuda"):
        from daemon.config.device import DeviceError, choose_device  # noqa: PLC0415 - loads ONNX Runtime

        yield from _try("captioner.device", lambda: choose_device(captioner.device), DeviceError)
    try:
        label = read_label(captioner.checkpoint)
        camera_plan("", "", configuration.defaults).change_options(label)
    except (CheckpointError, ConfigurationError) as error:
        yield f"captioner.model: {error}"
        return
    if label.name != "grounded" and any(c.narrate.workers == "redis" for c in configuration.cameras.values()):
        yield f"narrate.workers: the captioner {label.name} has no workers: take grounded"


def _try(key: str, attempt: Callable[[], object], kind: type[Exception]) -> Iterator[str]:
    try:
        attempt()
    except kind as error:
        yield f"{key}: {error}"


def _footage_problems(configuration: Configuration) -> Iterator[tuple[str, bool]]:
    """Cameras that cannot be opened, and whether that is a mistake rather than footage that is not there."""
    for plan in camera_plans(configuration):
        try:
            open_source(plan.url, plan.source, plan.name, screening=plan.screening).close()
        except Exception as error:  # noqa: BLE001 - whatever opening raises, it is why it cannot be watched
            yield f"cameras.{plan.name}.url: {redact(error)}", "://" in plan.url


def _disk_warnings(configuration: Configuration) -> Iterator[str]:
    folder, free = configuration.state.absolute(), configuration.retention.free
    with suppress(OSError):
        place = next(each for each in (folder, *folder.parents) if each.exists())
        size = shutil.disk_usage(place).total
        if free and size < free:
            wanted, there = (ByteSize(each).human_readable(decimal=True) for each in (free, size))
            yield f"retention.free: {wanted} on a disk of {there}: all that may go will be deleted"


def _write_problem(folder: Path) -> str:
    """Reason for which a folder cannot be written or created; records wait for a disk that is full."""
    try:
        place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        with tempfile.TemporaryFile(dir=place):
            return ""
    except OSError as error:
        passing = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS} and folder.exists()
        return "" if passing else error.strerror or str(error)
