import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from daemon.commands import options
from daemon.config.plan import CameraPlan, camera_plan
from daemon.config.settings import CameraDefaults
from daemon.config.units import parse_duration
from daemon.replay import description
from daemon.replay.description import PairError, PairPaths, read_pairs
from models.captioner import Captioner
from pipeline.report.picture import side_by_side

_PAIR_MEMBERS = ("text", "box", "confidence")


def describe(
    before: Annotated[Path | None, Argument(help="The earlier picture.")] = None,
    after: Annotated[Path | None, Argument(help="The later picture.")] = None,
    *,
    pairs: Annotated[
        Path | None, Option(help='JSON Lines of {"id", "before", "after", "gap_s"}; prints a line for each.')
    ] = None,
    gap: Annotated[str | None, Option(help="Time between the pictures; by default from names.")] = None,
    out: Annotated[Path | None, Option(help="File for the outlined picture or --pairs' lines.")] = None,
    json: options.Json = False,
    captioner: options.CaptionerChoice = None,
    device: options.Device = None,
) -> None:
    """Say what changed between two pictures of the same scene."""
    given = before is not None and after is not None
    if given == (pairs is not None) or (pairs and before):
        raise typer.BadParameter("give two pictures, BEFORE and AFTER, or --pairs FILE.jsonl")
    read = [path for path in (before, after, pairs) if path and path.is_file()]
    if out and out.exists() and any(map(out.samefile, read)):
        raise typer.BadParameter(f"--out {out} would replace what is to be read")
    gap_s = options.parse_option(parse_duration, gap)
    plan = camera_plan("describe", "", CameraDefaults())
    loaded = options.load_chosen_captioner(captioner, device)
    if before and after:
        _describe_one(PairPaths("", before, after, gap_s), loaded, plan, out, as_json=json)
    elif pairs and not _describe_many(pairs, gap_s, loaded, plan, out):
        raise typer.Exit(options.SOME_FAILED)


def _describe_many(
    file: Path, gap_s: float | None, captioner: Captioner, plan: CameraPlan, out: Path | None
) -> bool:
    lines = list(read_pairs(file))
    failures = [each for each in lines if isinstance(each, PairError)]
    pairs = [each for each in lines if not isinstance(each, PairError)]
    pairs = [replace(each, gap_s=gap_s) if each.gap_s is None else each for each in pairs]
    with out.open("w", encoding="utf-8") if out else nullcontext(sys.stdout) as output:
        for one in description.describe(pairs, captioner, plan):
            if isinstance(one, PairError):
                failures.append(one)
                continue
            sentences = [{name: each[name] for name in _PAIR_MEMBERS} for each in one.sentences()]
            line = {"id": one.id, "sentences": sentences, "gap_s": one.gap_s}
            print(json.dumps(line, ensure_ascii=False), file=output, flush=True)
    for error in failures:
        options.warn(error)
    return not failures


def _describe_one(
    paths: PairPaths, captioner: Captioner, plan: CameraPlan, out: Path | None, *, as_json: bool
) -> None:
    [one] = description.describe([paths], captioner, plan)
    if isinstance(one, PairError):
        raise one
    narration = one.narration
    if as_json:
        members = {
            "before": str(paths.before),
            "after": str(paths.after),
            "event": narration.event.value,
            "l2": round(narration.l2, 3),
            "gap_s": one.gap_s,
            "sentences": one.sentences(),
            "abstained": narration.abstained or None,
        }
        typer.echo(json.dumps(members, ensure_ascii=False))
    elif narration.sentences:
        typer.echo("\n".join(sentence.text for sentence in narration.sentences))
    else:
        unnamed = narration.abstained == "nothing of an object"
        reason = "no object changed" if unnamed else narration.abstained
        typer.echo(f"Nothing to report: {reason}." if reason else "Nothing has changed.")
    if out:
        picture = side_by_side(one.pair.before.image, one.pair.after.image, narration.sentences)
        options.write_picture(picture, out)
        typer.echo(f"wrote {out}", err=True)
