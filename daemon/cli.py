"""The command line: one way in; the verbs are in `daemon.commands`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from daemon import __version__
from pipeline.lazy_commands import LazyCommands

OK, FAILED, USAGE, SOME_INPUT_FAILED, BAD_CONFIGURATION, INTERRUPTED = 0, 1, 2, 3, 78, 130
VERBS = (
    "run",
    "worker",
    "workers",
    "replay",
    "demo",
    "describe",
    "tail",
    "query",
    "export",
    "serve",
    "forward",
    "verify",
    "keys",
    "schema",
    "check-config",
    "calibrate",
    "doctor",
    "warm-up",
    "probe",
    "snapshot",
)
"""In the order of --help; the function of each has the name of its file in `daemon.commands`."""

ALIASES = {"search": "query"}
"""Further names of verbs, which --help does not show."""

_OWN_PACKAGES = {"daemon", "pipeline", "models", "train"}


class _NarratedCommands(LazyCommands):
    package, names, aliases = "daemon.commands", VERBS, ALIASES


app = typer.Typer(
    cls=_NarratedCommands,
    name="narrated",
    help="Watches fixed cameras and says in plain English what changed.",
    epilog="Exit codes: 0 fine, 1 error, 2 usage, 3 finished but some input failed, 78 bad configuration.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
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
    """Run a command; every failure is one clear line on stderr (``NARRATED_DEBUG=1`` adds the traceback).

    Args:
        arguments: without the program's name; None takes the process's.

    Returns:
        The exit code.
    """
    try:
        app(args=None if arguments is None else list(arguments), prog_name="narrated")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `narrated tail | head`: whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:  # noqa: BLE001 - users get a line, not a traceback
        from daemon.config.configuration import ConfigurationError  # noqa: PLC0415 - not for --help
        from daemon.config.secrets import SecretError  # noqa: PLC0415

        if isinstance(error, ConfigurationError | SecretError):
            for line in str(error).splitlines():
                _complain(line)
            return BAD_CONFIGURATION
        if os.environ.get("NARRATED_DEBUG"):
            from daemon.health.log import shown_traceback  # noqa: PLC0415 - loads the decoders

            typer.echo(shown_traceback(error), err=True)
        _complain(_worded(error))
        return FAILED
    return OK


def _worded(error: Exception) -> str:
    from pipeline.redaction import redacted  # noqa: PLC0415

    if type(error).__module__.split(".")[0] in _OWN_PACKAGES:
        return redacted(error)
    if isinstance(error, OSError) and error.filename:
        return redacted(f"{error.filename}: {error.strerror}")
    return redacted(f"{type(error).__name__}: {error} (NARRATED_DEBUG=1 shows where)")


def _complain(line: str) -> None:
    from daemon.config.secrets import hidden  # noqa: PLC0415

    typer.echo(f"narrated: {hidden(line)}", err=True)


if __name__ == "__main__":
    sys.exit(main())
