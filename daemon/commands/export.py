import json as json_format
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from daemon.commands import selection
from daemon.commands.options import SOME_FAILED, Json, calling_user, warn
from daemon.export.clips import Footage, Mask
from daemon.export.export import Export, Manifest
from daemon.questions.question import LocalTime, SearchError
from daemon.questions.restatement import restate
from daemon.search.output import caveats
from daemon.search.search import SearchResult
from pipeline.journal.custody import record_access
from pipeline.record_format import ACCESS_LOG
from pipeline.report.words import many


@selection.takes_selection
def export(
    chosen: selection.Selection,
    *,
    out: Annotated[Path, Option(help="Folder to write, or a zip if the name ends with .zip.")],
    clips: Annotated[
        list[str] | None,
        Option(help="Recordings: file, folder or pattern; CAMERA=PLACE if no name contains the camera's."),
    ] = None,
    mask: Annotated[
        str, Option(metavar="TRACK", help="Only records of this track, with all but its box blacked out.")
    ] = "",
    linked: Annotated[bool, Option("--linked", help="Add the records between, up to a signature.")] = False,
    force: Annotated[bool, Option("--force", help="Replace an existing export.")] = False,
    json: Json = False,
) -> None:
    """Package narrations, pictures and recordings so that others can verify them without narrated."""
    with chosen.search() as (search, asked):
        if asked.measure.count or asked.of_intervals:
            raise SearchError("counts cannot be exported: leave out 'how many', or use narrated query")
        answer = search.answer(asked)
        if not answer.count:
            raise SearchError("nothing was found, so nothing is written")
        results = answer.results if not mask else _of_track(answer.results, mask)
        if clips and not chosen.config and any(g.reason == "mask" for g in search.selection.gaps(asked)):
            warn("recordings show what privacy areas hide, which are in the configuration: give --config")
        manifest = Manifest(
            selection=restate(asked, search.local) + (f", only track {mask}" if mask else ""),
            gaps=caveats(search, asked),
            linked=linked,
            mask=mask,
        )
        masks = Mask(mask, chosen.privacy(), [each.record for each in results] if mask else ())
        footage = Footage(clips, LocalTime.named(chosen.timezone)) if clips else None
        writing = Export(manifest, search.folder, search.local, masks, footage)
        pictures, total = writing.write(results, out, force=force)
        _record(search.folder, f"{manifest.selection} to {out}")
    _print(manifest, pictures, total, out, json=json)
    if manifest.problems:
        raise typer.Exit(SOME_FAILED)


def _of_track(results: Iterable[SearchResult], track: str) -> list[SearchResult]:
    named = [each for each in results if any(s.track == track for s in each.record.sentences)]
    if not named:
        raise SearchError(f"no such record names the track {track!r}; narrated query --json shows tracks")
    cameras = sorted({each.record.camera for each in named})
    if len(cameras) > 1:  # their tracks may be called alike, and be of different people
        raise SearchError(f"{track!r} is a track of {' and of '.join(cameras)}: choose one with --camera")
    return named


def _record(journals: Path, detail: str) -> None:
    """Record the export in the access log of a daemon's state folder, if this user may write there."""
    if journals.name == "journal" and os.access(journals.parent, os.W_OK):
        path = journals.parent / ACCESS_LOG
        record_access(path, "export", who=calling_user(), address="local", detail=detail)


def _print(manifest: Manifest, pictures: int, total: str, out: Path, *, json: bool) -> None:
    for problem in manifest.problems:
        warn(f"does not verify: {problem}")
    for reason, count in Counter(manifest.without_clip.values()).items():
        warn(f"{count} without a recording: {reason}")
    if manifest.gone:
        number = many(len(manifest.gone), "picture")
        warn(f"{number} not there: deleted by retention, or not copied with the journals")
    if json:
        values = asdict(manifest) | {"pictures": pictures, "sum": total}
        typer.echo(json_format.dumps(values))
        return
    for camera, chain in manifest.chains.items():
        hint = "" if chain.covered == chain.records else " (try --linked)"
        typer.echo(f"{camera}: {chain}{hint}")
    recordings = many(len(manifest.clips), "recording")
    counts = f"{many(manifest.records, 'record')}, {many(pictures, 'picture')}, {recordings}"
    typer.echo(f"{out}: {counts}; keep this checksum of the whole export: {total}")
