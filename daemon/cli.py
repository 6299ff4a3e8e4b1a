"""The command line: one way in; the verbs are in `daemon.commands`."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from daemon import __version__
from daemon.commands.options import BAD_CONFIGURATION, FAILED, INTERRUPTED, OK
from pipeline.command_line import LazyCommands, missing_extra

VERBS = {
    "run": "run", "replay": "replay", "demo": "replay", "describe": "describe", "tail": "streams",
    "query": "query", "digest": "query", "export": "export", "serve": "serve", "forward": "streams",
    "collect": "streams", "hold": "hold", "verify": "verify", "check-config": "run", "probe": "probe",
    "doctor": "run", "worker": "streams",
}  # fmt: skip
"""In the order of --help, with the file in `daemon.commands` that has a function of this name."""

_OWN_PACKAGES = {"daemon", "pipeline", "models", "train"}


class _NarratedCommands(LazyCommands):
    package, verbs = "daemon.commands", VERBS


app = typer.Typer(
    cls=_NarratedCommands,
    name="narrated",
    help="Watches fixed cameras and says in plain English what changed.",
    epilog="Exit codes: 0 fine, 1 error, 2 usage, 3 finished but some input failed, 78 bad configuration.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # with it --help takes nearly twice as long
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"narrated {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; every failure is one clear line on stderr (``NARRATED_DEBUG=1`` adds the traceback)."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to look for them reads all packages' names
    try:
        app(args=None if arguments is None else list(arguments), prog_name="narrated")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `narrated tail | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:  # noqa: BLE001 - users get a line, not a traceback
        return _report(error)
    return OK


def _report(error: Exception) -> int:
    from daemon.config.configuration import ConfigurationError  # noqa: PLC0415 - not for --help
    from daemon.config.secrets import SecretError, hide_secrets  # noqa: PLC0415

    mistake = isinstance(error, ConfigurationError | SecretError)
    missing = missing_extra(error) if isinstance(error, ModuleNotFoundError) else None
    if os.environ.get("NARRATED_DEBUG") and not (mistake or missing):
        from daemon.service.process import format_traceback  # noqa: PLC0415 - loads the decoders

        typer.echo(format_traceback(error), err=True)
    message = str(error) if mistake else missing or _format_error(error)
    for line in message.splitlines():
        typer.echo(f"narrated: {hide_secrets(line)}", err=True)
    return BAD_CONFIGURATION if mistake else FAILED


def _format_error(error: Exception) -> str:
    from pipeline.redaction import redact  # noqa: PLC0415

    if type(error).__module__.split(".")[0] in _OWN_PACKAGES:
        return redact(error)
    if isinstance(error, OSError) and error.filename:
        return redact(f"{error.filename}: {error.strerror}")
    return redact(f"{type(error).__name__}: {error} (NARRATED_DEBUG=1 shows where)")


if __name__ == "__main__":
    sys.exit(main())
