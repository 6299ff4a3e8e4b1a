"""The verb `keys`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def keys(
    file: Annotated[Path, typer.Argument(help="Where to write the private key; the file must not exist.")],
) -> None:
    """Make a key for signing journals, and print its public half, for `verify`."""
    from pipeline.journal.signatures import SigningKey, new_key  # noqa: PLC0415

    private = new_key()
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        typer.echo(f"narrated: {file} exists: a key is never overwritten", err=True)
        raise typer.Exit(1) from None
    except OSError as error:
        typer.echo(f"narrated: cannot write {file}: {error.strerror or error}", err=True)
        raise typer.Exit(1) from None
    with os.fdopen(handle, "w") as written:
        written.write(private + "\n")
    typer.echo(SigningKey(private).public)
