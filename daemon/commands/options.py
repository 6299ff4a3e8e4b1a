"""Options that several verbs have, and what they mean."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from typer import Option

if TYPE_CHECKING:
    from daemon.config.settings import CaptionerSettings, Configuration, Section
    from models.captioner import Captioner
    from pipeline.sources import Image

ConfigurationFile = Annotated[Path, Option("-c", "--config", help="Configuration file (YAML).")]
OptionalFile = Annotated[Path | None, Option("-c", "--config", help="Configuration file (YAML).")]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
Server = Annotated[str | None, Option(help="Redis URL; by default the configuration's, else localhost.")]
Cameras = Annotated[list[str] | None, Option(help="Only this camera; repeatable.")]
Journals = Annotated[
    Path | None,
    Option("-j", "--journal", help="Folder of journals, or a replay's --out; by default the state folder."),
]
TimeZone = Annotated[str | None, Option(help="Time zone of days and hours; by default as configured.")]
CaptionerChoice = Annotated[
    str | None,  # --captioner-file is read for one version more
    Option("--captioner", "--captioner-file", help="grounded, ddla or a file; by default as configured."),
]
Device = Annotated[str | None, Option(help="auto, cpu, cuda or cuda:N; by default as configured.")]

OK, FAILED, USAGE, SOME_FAILED, BAD_CONFIGURATION, INTERRUPTED = 0, 1, 2, 3, 78, 130
"""Exit codes; 3 is of a verb that has finished, but some input failed."""

_Value = TypeVar("_Value")
_Section = TypeVar("_Section", bound="Section")


def warn(text: object) -> None:
    typer.echo(f"narrated: {text}", err=True)


def calling_user() -> str:
    """Who has called the command, also by way of sudo."""
    import getpass  # noqa: PLC0415 - of few verbs

    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # of a container, which has no name for its user
        return f"{os.getuid()}"


def parse_option(parse: Callable[[str], _Value], text: str | None) -> _Value | None:
    """The value of an option; None where it was not given; BadParameter where `parse` refuses it."""
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def override(section: _Section, **given: str | None) -> _Section:
    """A section of the configuration, with what the command line says in its place."""
    from pydantic import ValidationError  # noqa: PLC0415

    options = {key: value for key, value in given.items() if value is not None}
    try:
        return type(section).model_validate(section.model_dump() | options)
    except ValidationError as error:
        problem = error.errors()[0]
        option = "captioner" if problem["loc"] == ("model",) else problem["loc"] and problem["loc"][0]
        hint = f"--{option}" if option else None
        raise typer.BadParameter(problem["msg"].removeprefix("Value error, "), param_hint=hint) from None


def choose_captioner(
    captioner: str | None, device: str | None = None, configuration: Configuration | None = None
) -> CaptionerSettings:
    from daemon.config.settings import CaptionerSettings  # noqa: PLC0415

    written = configuration.captioner if configuration else CaptionerSettings()
    return override(written, model=captioner or None, device=device or None)


def load_chosen_captioner(
    captioner: str | None, device: str | None = None, configuration: Configuration | None = None
) -> Captioner:
    from daemon.config.device import load_on  # noqa: PLC0415 - loads ONNX Runtime

    chosen = choose_captioner(captioner, device, configuration)
    return load_on(chosen.device, chosen.checkpoint)


def write_picture(image: Image, path: Path) -> None:
    """Write an RGB picture in the format that the name's end asks for, PNG without one."""
    import cv2  # noqa: PLC0415

    try:
        _, encoded = cv2.imencode(path.suffix.lower() or ".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
    except cv2.error:
        raise typer.BadParameter(f"--out {path}: end it in .png, .jpg or .webp") from None
    path.write_bytes(encoded.tobytes())
