"""The command `narrated-train`: footage in, samples and checkpoints out; see `train.commands`."""

from __future__ import annotations

import logging
import sys

import typer

from pipeline.lazy_commands import LazyCommands
from train.commands.options import say

COMMANDS = {
    "extract": "Write frame pairs of footage to a folder, for annotation or for `narrated describe --pairs`.",
    "compose": "Turn unlabelled footage into labelled frames, and into pairs with exact captions.",
    "train": "Train a captioner; options here override the file.",
    "adapt": "Adapt a captioner to your own cameras; write it only where it is better on footage held out.",
    "retrieve": "Rank candidate after frames by a sentence about a before frame, or measure recall@k.",
    "negatives": "Rewrite true captions into false ones that look like them (IDC-PCL), as JSON lines.",
    "attend": "Draw where a captioner looks in both frames while it says each word.",
    "generate": "Draw a benchmark of surveillance-like pairs with exact captions and clusters.",
    "prepare": "Write a released set's annotations as the other commands read them; its images stay.",
    "check": "Check that a set is complete; exit code 3 if not.",
    "score": "Score any two caption files as the field does, the trivial rows beside them.",
    "compare": "Train every system of a paper's tables alike, and write those tables.",
    "evaluate": "Measure a checkpoint: text scores beside the trivial rows, and how much of it is right.",
    "gallery": "Show random sentences about unseen cameras on a page, with what is right and wrong in them.",
    "stats": "Count annotations, sentences and words; of Spot-the-diff beside the paper's Table 1.",
}
"""What --help says of each; its function has the name of its file in `train.commands`."""

_OWN_PACKAGES = {"pipeline", "models", "train"}


class _Commands(LazyCommands):
    package, verbs = "train.commands", COMMANDS


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
