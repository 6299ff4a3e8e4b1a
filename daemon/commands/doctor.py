"""The verb `doctor`."""

from __future__ import annotations

import importlib.metadata
import json as json_format
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from daemon.commands.options import CaptionerChoice, Json, OptionalFile, choose_captioner
from daemon.config.configuration import load_configuration
from daemon.config.secrets import Secrets
from daemon.config.settings import Configuration
from pipeline.redaction import redact

_SHOWN = ("torch", "av", "numba", "numpy", "opencv-python-headless", "redis", "pydantic")


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check; `ok` None means that it is not needed here."""

    name: str
    ok: bool | None
    detail: str


def doctor(
    config: OptionalFile = None,
    captioner: CaptionerChoice = None,
    json: Json = False,
    compile_kernels: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="Compile the kernels into the installation first: narrated then starts sooner and takes "
            "130 MB less memory. Needs a C++ compiler, Python's headers and setuptools.",
        ),
    ] = False,
) -> None:
    """Check the installation: packages, kernels, captioner, and with -c what the configuration names."""
    configuration = load_configuration(config) if config else None
    path, device = choose_captioner(captioner, None, configuration)
    checks = [
        _run("versions", _check_versions),
        _run("kernels", lambda: _check_kernels(compile_now=compile_kernels)),
        _run("captioner", lambda: _check_captioner(path, device)),
        _run("configuration", lambda: _check_file(config, configuration)),
        _run("Redis", lambda: _check_redis(configuration)),
        _run("workers", lambda: _check_workers(configuration)),
    ]
    failed = any(check.ok is False for check in checks)
    if json:
        typer.echo(json_format.dumps({"ok": not failed, "checks": list(map(asdict, checks))}))
    else:
        signs = {True: "ok", False: "FAILED", None: "-"}
        for check in checks:
            typer.echo(f"{signs[check.ok]:<7}{check.name}: {check.detail}")
    if failed:
        raise typer.Exit(1)


def _run(name: str, check: Callable[[], str | None]) -> Check:
    try:
        detail = check()
    except Exception as error:  # noqa: BLE001 - a check fails for any reason
        return Check(name, ok=False, detail=redact(error) or type(error).__name__)
    return Check(name, None, "not configured") if detail is None else Check(name, ok=True, detail=detail)


def _check_versions() -> str:
    versions = [f"Python {platform.python_version()}"]
    for name in ("narrated", *_SHOWN):
        with suppress(importlib.metadata.PackageNotFoundError):  # cv2 may come from Debian
            versions.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(versions)


def _check_kernels(*, compile_now: bool) -> str:
    from pipeline.kernels import are_compiled_ahead, compile_ahead  # noqa: PLC0415

    if compile_now:
        try:
            compile_ahead()
        except Exception as error:  # whatever numba, setuptools and the compiler raise
            raise RuntimeError(
                f"not compiled ({error}): it needs g++, Python's headers (python3-dev), setuptools, and a "
                "folder that may be written; without, they are compiled at the first start"
            ) from error
    return "compiled ahead" if are_compiled_ahead() else "compiled when they are first called, by numba"


def _check_captioner(path: Path, device: str) -> str:
    from daemon.config.device import load_on  # noqa: PLC0415
    from daemon.threads.narrator import warm_up  # noqa: PLC0415

    captioner = load_on(device, path)
    warm_up(captioner)
    return f"{captioner.name} {captioner.sha256[:12]} ({path.name}) works on {captioner.device}"


def _check_file(path: Path | None, configuration: Configuration | None) -> str | None:
    if path is None or configuration is None:
        return None
    from daemon.config.checks import check_configuration  # noqa: PLC0415

    return "; ".join(["nothing is wrong with it", *check_configuration(configuration, Secrets(), path)])


def _check_redis(configuration: Configuration | None) -> str | None:
    if configuration is None or configuration.redis.url is None:
        return None
    from pipeline.publisher import Publisher  # noqa: PLC0415

    publisher = Publisher(Secrets().reveal(configuration.redis.url))
    try:
        publisher.entry("doctor", "1-1")
    finally:
        publisher.close()
    return f"{redact(configuration.redis.url)} answers"


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
