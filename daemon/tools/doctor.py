"""Checks of the installation."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from daemon.config.checks import check_configuration
from daemon.config.secrets import Secrets
from daemon.config.settings import Configuration
from pipeline.redaction import redacted

OWN_PACKAGES = ("daemon", "pipeline", "models", "train")
_KERNELS = Path(__file__).resolve().parents[2] / "pipeline" / "__pycache__"
_SHOWN = ("torch", "av", "numba", "numpy", "opencv-python-headless", "redis", "pydantic")


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check; `ok` None means that it is not needed here."""

    name: str
    ok: bool | None
    detail: str


def examine(
    path: Path | None, configuration: Configuration | None, checkpoint: Path, device: str
) -> list[Check]:
    """All checks, in order; none raises."""
    checks: dict[str, Callable[[], str | None]] = {
        "versions": _check_versions,
        "package names": _check_names,
        "numba cache": _check_numba_cache,
        "captioner": lambda: _check_captioner(checkpoint, device),
        "configuration": lambda: _check_file(path, configuration),
        "Redis": lambda: _check_redis(configuration),
        "workers": lambda: _check_workers(configuration),
    }
    return [_run(name, check) for name, check in checks.items()]


def _run(name: str, check: Callable[[], str | None]) -> Check:
    try:
        detail = check()
    except Exception as error:  # noqa: BLE001 - a check fails for any reason
        return Check(name, ok=False, detail=redacted(error) or type(error).__name__)
    return Check(name, None, "not configured") if detail is None else Check(name, ok=True, detail=detail)


def _check_versions() -> str:
    versions = [f"Python {platform.python_version()}"]
    for name in ("narrated", *_SHOWN):
        with suppress(importlib.metadata.PackageNotFoundError):  # cv2 may come from Debian
            versions.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(versions)


def foreign_owners() -> dict[str, list[str]]:
    """Distributions besides narrated that own one of our packages, by package: pip overwrites silently."""
    owners = importlib.metadata.packages_distributions()
    others = {name: sorted(set(owners.get(name, [])) - {"narrated"}) for name in OWN_PACKAGES}
    return {name: names for name, names in others.items() if names}


def _check_names() -> str:
    if foreign := foreign_owners():
        owners = ", ".join(f"{package} ({' and '.join(names)})" for package, names in foreign.items())
        raise RuntimeError(f"other distributions own {owners}: use a virtual environment for narrated alone")
    return "no other distribution owns " + ", ".join(OWN_PACKAGES)


def _check_numba_cache() -> str:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    for place in [Path(chosen)] if chosen else [_KERNELS, Path.home() / ".cache"]:  # as numba looks for one
        with suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place):
                return f"{place} can be written"
    raise RuntimeError(
        "no folder for it can be written, so kernels are compiled at every start: set NUMBA_CACHE_DIR"
    )


def _check_captioner(path: Path, device: str) -> str:
    from daemon.config.device import load_on  # noqa: PLC0415
    from daemon.threads.narrator import warm_up  # noqa: PLC0415

    captioner = load_on(device, path)
    warm_up(captioner)
    return f"{captioner.name} {captioner.sha256[:12]} ({path.name}) works on {captioner.device}"


def _check_file(path: Path | None, configuration: Configuration | None) -> str | None:
    if path is None or configuration is None:
        return None
    return "; ".join(["nothing is wrong with it", *check_configuration(configuration, Secrets(), path)])


def _check_redis(configuration: Configuration | None) -> str | None:
    if configuration is None or configuration.redis.url is None:
        return None
    from pipeline.publisher import open_publisher  # noqa: PLC0415

    publisher = open_publisher(Secrets().reveal(configuration.redis.url))
    try:
        publisher.entry("doctor", "1-1")
    finally:
        publisher.close()
    return f"{redacted(configuration.redis.url)} answers"


def _check_workers(configuration: Configuration | None) -> str | None:
    if configuration is None or all(
        each.narrate.workers == "none" for each in configuration.cameras.values()
    ):
        return None
    from daemon.workers.worker import living_workers  # noqa: PLC0415
    from models import read_label  # noqa: PLC0415

    wanted = read_label(configuration.captioner.checkpoint).sha256
    living = living_workers(lambda: Secrets().reveal(configuration.redis.url or ""))
    fit = sum(each["checkpoint"] == wanted for each in living)
    count = f"{fit} of {len(living)} have the checkpoint {wanted[:12]}"
    if not fit:
        raise RuntimeError(f"{count}: start `narrated worker` with this version of narrated")
    return count
