"""The verb `doctor`."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from daemon.commands.options import OptionalFile, choose_captioner
from daemon.config.configuration import load_configuration
from daemon.config.secrets import Secrets
from daemon.config.settings import Configuration
from pipeline.redaction import redact

_SHOWN = ("narrated", "torch", "av", "numba", "numpy", "opencv-python-headless", "redis", "pydantic")


def doctor(
    config: OptionalFile = None,
    compile_kernels: Annotated[
        bool,
        Option(
            "--compile",
            help="Compile the kernels into the installation first: narrated then starts sooner and takes "
            "130 MB less memory. Needs a C++ compiler, Python's headers and setuptools.",
        ),
    ] = False,
) -> None:
    """Check the installation: packages, kernels, captioner, and with -c what the configuration names."""
    configuration = load_configuration(config) if config else None
    path, device = choose_captioner(None, None, configuration)
    checks: dict[str, Callable[[], str]] = {
        "versions": _check_versions,
        "kernels": lambda: _check_kernels(compile_now=compile_kernels),
        "captioner": lambda: _check_captioner(path, device),
    }
    if config and configuration:
        checks["configuration"] = lambda: _check_file(config, configuration)
        if configuration.redis.url:
            checks["Redis"] = lambda: _check_redis(configuration)
        if any(each.narrate.workers == "redis" for each in configuration.cameras.values()):
            checks["workers"] = lambda: _check_workers(configuration)
    fine = True
    for name, check in checks.items():
        try:
            typer.echo(f"ok     {name}: {check()}")
        except Exception as error:  # noqa: BLE001 - a check fails for any reason
            typer.echo(f"FAILED {name}: {redact(error) or type(error).__name__}")
            fine = False
    if not fine:
        raise typer.Exit(1)


def _check_versions() -> str:
    versions = [f"Python {platform.python_version()}"]
    for name in _SHOWN:
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


def _check_file(path: Path, configuration: Configuration) -> str:
    from daemon.config.checks import check_configuration  # noqa: PLC0415
    from daemon.rules.configured import rule_problems  # noqa: PLC0415

    return (
        "; ".join(check_configuration(configuration, Secrets(), path, rule_problems(configuration)))
        or "no mistakes found"
    )


def _check_redis(configuration: Configuration) -> str:
    from pipeline.publisher import Publisher  # noqa: PLC0415

    url = configuration.redis.url or ""
    with closing(Publisher(Secrets().reveal(url))) as publisher:
        publisher.entry("doctor", "1-1")
    return f"{redact(url)} answers"


def _check_workers(configuration: Configuration) -> str:
    from daemon.workers.worker import living_workers  # noqa: PLC0415
    from models import read_label  # noqa: PLC0415

    wanted = read_label(configuration.captioner.checkpoint).sha256
    living = living_workers(lambda: Secrets().reveal(configuration.redis.url or ""))
    fit = sum(each["checkpoint"] == wanted for each in living)
    count = f"{fit} of {len(living)} have the checkpoint {wanted[:12]}"
    if not fit:
        raise RuntimeError(f"{count}: start `narrated worker` with this version of narrated")
    return count
