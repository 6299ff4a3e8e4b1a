"""The command `narrated-train`: footage in, samples and checkpoints out; see `train.commands`."""

from __future__ import annotations

import logging
import sys

import typer

from pipeline.lazy_commands import LazyCommands
from train.commands.options import say

COMMANDS = (
    "extract",
    "compose",
    "train",
    "adapt",
    "retrieve",
    "negatives",
    "attend",
    "generate",
    "prepare",
    "check",
    "score",
    "compare",
    "evaluate",
    "gallery",
    "stats",
)
"""In the order of --help; the function of each has the name of its file in `train.commands`."""

_OWN_PACKAGES = {"pipeline", "models", "train"}


class _Commands(LazyCommands):
    package, names = "train.commands", COMMANDS


app = typer.Typer(
    cls=_Commands,
    help="Make training samples from footage, train captioners on them, and measure how right they are.",
    epilog="Exit codes: 0 fine, 1 error, 2 usage, 3 finished but some input failed, 78 bad configuration.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _options() -> None:
    pass


def main() -> None:
    """Run the command line and exit with its code; see the epilog of ``--help``."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        app()
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _OWN_PACKAGES:
            raise
        say(" ".join(str(error).split()))
        sys.exit(getattr(error, "exit_code", 1))
