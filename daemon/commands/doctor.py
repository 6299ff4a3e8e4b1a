import importlib.metadata
import platform
from contextlib import suppress
from importlib.util import find_spec

import typer

from daemon.commands.options import load_chosen_captioner, warn
from daemon.threads.captioning import warm_up
from pipeline.kernels import are_compiled_ahead

_SHOWN = ("narrated", "torch", "av", "numba", "numpy", "opencv-python-headless", "redis", "pydantic")


def doctor() -> None:
    """Check the installation: packages, kernels, captioner; `check-config` checks a configuration."""
    versions = [f"Python {platform.python_version()}"]
    for name in _SHOWN:
        with suppress(importlib.metadata.PackageNotFoundError):  # cv2 may come from Debian
            versions.append(f"{name} {importlib.metadata.version(name)}")
    typer.echo(f"versions: {', '.join(versions)}")
    if are_compiled_ahead():
        typer.echo("kernels: compiled at installation")
    elif find_spec("numba"):
        typer.echo("kernels: compiled by numba when first called")
    else:
        warn(
            "the kernels were not compiled at installation, and numba is missing: pip install "
            "'narrated[jit]', or install narrated again where there are g++ and python3-dev"
        )
        raise typer.Exit(1)
    captioner = load_chosen_captioner(None)
    warm_up(captioner)
    typer.echo(f"captioner: {captioner.name} {captioner.sha256[:12]} works on {captioner.device}")
