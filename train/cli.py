"""The command `narrated-train`: footage in, samples and checkpoints out; see `train.commands`."""

import logging
import sys

import typer

from pipeline.command_line import LazyCommands, missing_extra
from train.commands.options import say

COMMANDS = ("label", "train", "adapt", "generate", "compare", "score")
"""In the order of --help; each is a function in the file of its name in `train.commands`."""

_OWN_PACKAGES = {"pipeline", "models", "train"}


class _Commands(LazyCommands):
    package, verbs = "train.commands", {name: name for name in COMMANDS}


app = typer.Typer(
    cls=_Commands,
    help="Label footage, train captioners, and measure how right they are.",
    epilog="Exit codes: 0 fine, 1 error, 2 usage, 3 finished but some input failed, 78 bad configuration.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _options() -> None:
    pass


def main() -> None:
    """Run the command line and exit with its code; see the epilog of ``--help``."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        app()
    except ModuleNotFoundError as error:
        missing = missing_extra(error, training=True)
        if not missing:
            raise
        say(missing)
        sys.exit(1)
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _OWN_PACKAGES:
            raise
        say(" ".join(str(error).split()))
        sys.exit(getattr(error, "exit_code", 1))
