"""The verb that looks at one's own pictures: describe."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.commands.narrating import CaptionerChoice, CaptionerFile, Device, Json
from daemon.settings import CameraDefaults

if TYPE_CHECKING:
    from daemon.describe import Description, PairError, PairPaths
    from daemon.plan import CameraPlan
    from models.captioner import Captioner
    from pipeline.narration import Narration

_PAIR_MEMBERS = ("text", "box", "confidence")


def add_to(app: typer.Typer) -> None:
    """Make the verb known."""
    app.command("describe")(describe)


def describe(
    before: Annotated[Path | None, typer.Argument(help="The earlier picture.")] = None,
    after: Annotated[Path | None, typer.Argument(help="The later picture.")] = None,
    *,
    pairs: Annotated[
        Path | None,
        typer.Option(help='JSON Lines of {"id", "before", "after"}: one JSON line per pair comes out.'),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A picture with numbered outlines; with --pairs, where the lines go.")
    ] = None,
    json: Json = False,
    captioner: CaptionerChoice = None,
    captioner_file: CaptionerFile = None,
    device: Device = "auto",
) -> None:
    """Say what changed between two pictures of one scene."""
    if (pairs is None) == (before is None or after is None) or (pairs and before):
        raise typer.BadParameter("give two pictures, BEFORE and AFTER, or --pairs FILE.jsonl")
    from daemon.checkpoint import chosen_checkpoint  # noqa: PLC0415
    from daemon.describe import PairPaths, read_pairs  # noqa: PLC0415
    from daemon.device import chosen_device  # noqa: PLC0415
    from daemon.plan import camera_plan  # noqa: PLC0415
    from models import load_captioner  # noqa: PLC0415

    wanted = list(read_pairs(pairs)) if pairs else []
    loaded = load_captioner(chosen_checkpoint(None, captioner, captioner_file), chosen_device(device))
    plan = camera_plan("describe", "", CameraDefaults())
    if pairs:
        raise typer.Exit(_describe_many(wanted, loaded, plan, out))
    assert before is not None  # noqa: S101 - checked above
    assert after is not None  # noqa: S101
    _describe_one(PairPaths("", before, after), loaded, plan, out, as_json=json)


def _describe_many(
    wanted: Sequence[PairPaths | PairError], captioner: Captioner, plan: CameraPlan, out: Path | None
) -> int:
    """One JSON line per pair that can be read; the exit code."""
    from daemon.describe import PairPaths, describe, sentence_members  # noqa: PLC0415

    failed = 0
    for error in wanted:
        if not isinstance(error, PairPaths):
            failed += 1
            typer.echo(f"narrated: {error}", err=True)
    output = out.open("w", encoding="utf-8") if out else sys.stdout
    try:
        for one in describe([pair for pair in wanted if isinstance(pair, PairPaths)], captioner, plan):
            if isinstance(one, Exception):
                failed += 1
                typer.echo(f"narrated: {one}", err=True)
                continue
            sentences = [sentence_members(sentence) for sentence in one.narration.sentences]
            told = [{member: sentence[member] for member in _PAIR_MEMBERS} for sentence in sentences]
            output.write(json.dumps({"id": one.id, "sentences": told}, ensure_ascii=False) + "\n")
            output.flush()
    finally:
        if out:
            output.close()
    return 3 if failed else 0


def _describe_one(
    paths: PairPaths, captioner: Captioner, plan: CameraPlan, out: Path | None, *, as_json: bool
) -> None:
    from daemon.describe import PairError, describe, sentence_members  # noqa: PLC0415

    [one] = describe([paths], captioner, plan)
    if isinstance(one, PairError):
        raise PairError(str(one).removeprefix(": "))
    sentences = one.narration.sentences
    if as_json:
        members = {
            "before": str(paths.before),
            "after": str(paths.after),
            "event": one.narration.event.value,
            "l2": round(one.narration.l2, 3),
            "sentences": [sentence_members(sentence) for sentence in sentences],
            "abstained": one.narration.abstained or None,
        }
        typer.echo(json.dumps(members, ensure_ascii=False))
    else:
        for sentence in sentences:
            typer.echo(sentence.text)
        if not sentences:
            typer.echo(_silence(one.narration))
    if out:
        _draw(one, out)


def _silence(narration: Narration) -> str:
    """What is said where there is no sentence."""
    return f"Nothing is told: {narration.abstained}." if narration.abstained else "Nothing has changed."


def _draw(one: Description, out: Path) -> None:
    import cv2  # noqa: PLC0415

    from pipeline.report import side_by_side  # noqa: PLC0415

    told = one.narration
    picture = side_by_side(one.pair.before.image, one.pair.after.image, told.sentences, _silence(told))
    suffix = out.suffix.lower() or ".png"
    try:
        _, encoded = cv2.imencode(suffix, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    except cv2.error:
        raise typer.BadParameter(f"--out {out}: end it in .png, .jpg or .webp") from None
    out.write_bytes(encoded.tobytes())
    typer.echo(f"wrote {out}", err=True)
