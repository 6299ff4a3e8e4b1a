"""The verb `describe`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.commands.options import CaptionerChoice, Device, Json, loaded_captioner, write_picture
from daemon.config.settings import CameraDefaults

if TYPE_CHECKING:
    from daemon.config.plan import CameraPlan
    from daemon.tools.description import Description, PairError, PairPaths
    from daemon.tools.gaps import Gap
    from models.captioner import Captioner
    from pipeline.narration.narration import Narration

_PAIR_MEMBERS = ("text", "box", "confidence")


def describe(
    before: Annotated[Path | None, typer.Argument(help="The earlier picture.")] = None,
    after: Annotated[Path | None, typer.Argument(help="The later picture.")] = None,
    *,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help='JSON Lines of {"id", "before", "after"}, and "gap_s" where it is known: one JSON line per '
            "pair comes out."
        ),
    ] = None,
    gap: Annotated[
        str | None,
        typer.Option(
            help="Time between the pictures, such as 90s or 18h; by default their EXIF times or the stamps "
            "in their names tell it."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A picture with numbered outlines; with --pairs, where the lines go.")
    ] = None,
    json: Json = False,
    captioner: CaptionerChoice = None,
    device: Device = None,
) -> None:
    """Say what changed between two pictures of the same scene."""
    if (pairs is None) == (before is None or after is None) or (pairs and before):
        raise typer.BadParameter("give two pictures, BEFORE and AFTER, or --pairs FILE.jsonl")
    known = _gap(gap)
    from daemon.config.plan import camera_plan  # noqa: PLC0415
    from daemon.tools.description import PairPaths, read_pairs  # noqa: PLC0415

    wanted = list(read_pairs(pairs)) if pairs else []
    loaded = loaded_captioner(captioner, device)
    plan = camera_plan("describe", "", CameraDefaults())
    if pairs:
        wanted = [_with_gap(pair, known) for pair in wanted]
        raise typer.Exit(_describe_many(wanted, loaded, plan, out))
    assert before is not None  # noqa: S101 - checked above
    assert after is not None  # noqa: S101
    _describe_one(PairPaths("", before, after, known), loaded, plan, out, as_json=json)


def _gap(text: str | None) -> Gap | None:
    """What --gap tells."""
    from daemon.config.durations import parse_duration  # noqa: PLC0415
    from daemon.tools.gaps import Gap  # noqa: PLC0415

    try:
        return None if text is None else Gap(parse_duration(text), "--gap")
    except ValueError as error:
        raise typer.BadParameter(f"--gap: {error}") from None


def _with_gap(pair: PairPaths | PairError, known: Gap | None) -> PairPaths | PairError:
    """A pair that does not tell its gap with the one of --gap."""
    if isinstance(pair, Exception) or pair.gap:
        return pair
    return replace(pair, gap=known)


def _describe_many(
    wanted: Sequence[PairPaths | PairError], captioner: Captioner, plan: CameraPlan, out: Path | None
) -> int:
    """One JSON line per pair that can be read; the exit code."""
    from daemon.tools.description import PairPaths, describe, told_members  # noqa: PLC0415

    failed = 0
    for error in wanted:
        if not isinstance(error, PairPaths):
            failed += 1
            typer.echo(f"narrated: {error}", err=True)
    origins: Counter[str] = Counter()
    output = out.open("w", encoding="utf-8") if out else sys.stdout
    try:
        for one in describe([pair for pair in wanted if isinstance(pair, PairPaths)], captioner, plan):
            if isinstance(one, Exception):
                failed += 1
                typer.echo(f"narrated: {one}", err=True)
                continue
            sentences = [told_members(sentence) for sentence in one.narration.sentences]
            told = [{member: sentence[member] for member in _PAIR_MEMBERS} for sentence in sentences]
            origins[one.gap.origin] += 1
            line = {"id": one.id, "sentences": told, "gap_s": one.gap.seconds, "gap_from": one.gap.origin}
            output.write(json.dumps(line, ensure_ascii=False) + "\n")
            output.flush()
    finally:
        if out:
            output.close()
    if origins:
        told_by = ", ".join(f"{count} {_origin(origin)}" for origin, count in origins.most_common())
        typer.echo(f"gaps of {origins.total()} pairs: {told_by}", err=True)
    return 3 if failed else 0


def _describe_one(
    paths: PairPaths, captioner: Captioner, plan: CameraPlan, out: Path | None, *, as_json: bool
) -> None:
    from daemon.tools.description import PairError, describe, told_members  # noqa: PLC0415

    [one] = describe([paths], captioner, plan)
    if isinstance(one, PairError):
        raise PairError(str(one).removeprefix(": "))
    typer.echo(str(one.gap), err=True)
    sentences = one.narration.sentences
    if as_json:
        members = {
            "before": str(paths.before),
            "after": str(paths.after),
            "event": one.narration.event.value,
            "l2": round(one.narration.l2, 3),
            "gap_s": one.gap.seconds,
            "gap_from": one.gap.origin,
            "sentences": [told_members(sentence) for sentence in sentences],
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


def _origin(origin: str) -> str:
    from daemon.tools.gaps import NOT_KNOWN  # noqa: PLC0415

    return origin if origin == NOT_KNOWN else f"from {origin}"


def _silence(narration: Narration) -> str:
    """What is said where there is no sentence."""
    return f"Nothing is told: {narration.abstained}." if narration.abstained else "Nothing has changed."


def _draw(one: Description, out: Path) -> None:
    from pipeline.report.picture import side_by_side  # noqa: PLC0415

    told = one.narration
    picture = side_by_side(one.pair.before.image, one.pair.after.image, told.sentences, _silence(told))
    write_picture(picture, out)
    typer.echo(f"wrote {out}", err=True)
