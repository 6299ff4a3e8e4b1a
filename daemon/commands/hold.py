from pathlib import Path
from typing import Annotated

import typer

from daemon.commands.options import Cameras, Journals, OptionalFile, calling_user
from daemon.commands.selection import Selection, errors_as_exits, present
from daemon.questions.question import LocalTime, NoJournalsError, not_here
from pipeline.journal.custody import Hold, add_hold, count_held, load_holds, release_hold
from pipeline.journal.segments import find_chains
from pipeline.report.words import many


def hold(
    name: Annotated[str | None, typer.Argument(help="Name of the hold; without one, list all holds.")] = None,
    *,
    journal: Journals = None,
    config: OptionalFile = None,
    camera: Cameras = None,
    since: Annotated[str | None, typer.Option(help="Start of the span: 7d, 2026-05-01T22:00.")] = None,
    until: Annotated[str | None, typer.Option(help="End of the span; by default now.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why the records are kept.")] = None,
    ends: Annotated[str | None, typer.Option(help="When it ends by itself, if it is not released.")] = None,
    release: Annotated[bool, typer.Option("--release", help="End the hold.")] = False,
) -> None:
    """Protect part of the record and its pictures from automatic deletion."""
    with errors_as_exits():
        chosen = Selection(journal=journal, config=config)
        folder, local = chosen.folder, chosen.local
        if name is None:
            _list_holds(folder, local)
        elif release:
            release_hold(folder, name)
        elif since is None or reason is None:
            raise typer.BadParameter("a hold needs --since and --reason")
        else:
            now = present()
            begin, end = local.parse(since, now), local.parse(until, now) if until else now
            last = local.parse(ends, now) if ends else None
            if end <= begin or (last and last <= now):
                raise typer.BadParameter("the span or the hold would end before it begins")
            known = sorted({chain.camera for chain in find_chains([folder])[0]})
            if not known:
                raise NoJournalsError(f"{folder} holds no journals, so nothing can be held there")
            if unknown := [each for each in camera or () if each not in known]:
                raise not_here(unknown[0], "camera", known)
            asked = {"since": begin, "until": end, "ends": last, "made": now, "by": calling_user()}
            made = Hold(name=name, cameras=tuple(camera or ()), reason=reason, **asked)
            add_hold(folder, made)
            typer.echo(f"{many(count_held(folder, made, now), 'record')} held")


def _list_holds(folder: Path, local: LocalTime) -> None:
    for each in load_holds(folder):
        begin, end = (f"{local.of(moment):%Y-%m-%d %H:%M}" for moment in (each.since, each.until))
        last = f"until {local.of(each.ends):%Y-%m-%d %H:%M}" if each.ends else "until it is released"
        whose = ", ".join(each.cameras) or "all cameras"
        typer.echo(f"{each.name}: {whose}, {begin} to {end}, held {last} by {each.by}: {each.reason}")
