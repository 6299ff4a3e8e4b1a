"""The verb `doctor`."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec

import typer

from pipeline.redaction import redact

_SHOWN = ("narrated", "torch", "av", "numba", "numpy", "opencv-python-headless", "redis", "pydantic")


def doctor() -> None:
    """Check the installation: packages, kernels, captioner; `check-config` checks a configuration."""
    checks: dict[str, Callable[[], str]] = {
        "versions": _check_versions,
        "kernels": _check_kernels,
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


def _check_kernels() -> str:
    from pipeline.kernels import are_compiled_ahead  # noqa: PLC0415

    if are_compiled_ahead():
        return "compiled ahead"
    if find_spec("numba") is None:
        raise RuntimeError(
            "they were not compiled at installation, and numba is missing: pip install 'narrated[jit]', or "
            "install narrated again where there are g++ and Python's headers (python3-dev)"
        )
    return "compiled when they are first called, by numba"


def _check_captioner() -> str:
    from daemon.commands.options import load_chosen_captioner  # noqa: PLC0415
    from daemon.threads.narrator import warm_up  # noqa: PLC0415

    captioner = load_chosen_captioner(None)
    warm_up(captioner)
    return f"{captioner.name} {captioner.sha256[:12]} works on {captioner.device}"
