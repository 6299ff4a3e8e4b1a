"""The verb `doctor`."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer
from typer import Option

from pipeline.redaction import redact

_SHOWN = ("narrated", "torch", "av", "numba", "numpy", "opencv-python-headless", "redis", "pydantic")


def doctor(
    compile_kernels: Annotated[
        bool,
        Option(
            "--compile",
            help="Compile the kernels into the installation first: narrated then starts sooner and takes "
            "130 MB less memory. Needs a C++ compiler, Python's headers and setuptools.",
        ),
    ] = False,
) -> None:
    """Check the installation: packages, kernels, captioner; `check-config` checks a configuration."""
    checks: dict[str, Callable[[], str]] = {
        "versions": _check_versions,
        "kernels": lambda: _check_kernels(compile_now=compile_kernels),
        "captioner": _check_captioner,
    }
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


def _check_captioner() -> str:
    from daemon.commands.options import load_chosen_captioner  # noqa: PLC0415
    from daemon.threads.narrator import warm_up  # noqa: PLC0415

    captioner = load_chosen_captioner(None)
    warm_up(captioner)
    return f"{captioner.name} {captioner.sha256[:12]} works on {captioner.device}"
