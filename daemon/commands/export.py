"""The verb `export`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daemon.commands import selection
from daemon.commands.options import Journals, Json, Pictures, TimeZone
from daemon.questions.question import SearchError
from daemon.questions.restatement import restate

if TYPE_CHECKING:
    from daemon.export.export import Exported

_SOME_FAILED = 3


def export(
    question: selection.Words = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder to write, or a zip where its name ends with .zip.")],
    journal: Journals = None,
    config: selection.StateOf = None,
    camera: selection.Cameras = None,
    zone: selection.Zones = None,
    thing: selection.Objects = None,
    kind: selection.Kinds = None,
    colour: selection.Colours = None,
    text: selection.Text = "",
    confidence: selection.Confidence = None,
    since: selection.Since = None,
    until: selection.Until = None,
    between: selection.Between = None,
    last: selection.Last = False,
    first: selection.First = False,
    limit: Annotated[int | None, typer.Option(min=0, help="Only this many, the newest; 0: all.")] = None,
    clips: Annotated[
        list[str] | None,
        typer.Option(
            help="Recordings: file, folder or pattern; CAMERA=PLACE where no name tells the camera."
        ),
    ] = None,
    linked: Annotated[
        bool,
        typer.Option("--linked", help="Also the records in between, up to a signature (without pictures)."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    json: Json = False,
    timezone: TimeZone = None,
    evidence: Pictures = None,
    rebuild: selection.Rebuild = False,
) -> None:
    """Package narrations, pictures and recordings so that others can check them without narrated."""
    with selection.complaints():
        from daemon.export.clips import Footage  # noqa: PLC0415
        from daemon.export.export import ExportOptions, write_export  # noqa: PLC0415
        from daemon.questions.local_time import LocalTime  # noqa: PLC0415
        from daemon.search.output import gap_sentences  # noqa: PLC0415

        local, now = LocalTime.named(timezone), selection.present()
        filters = (camera, zone, thing, kind, colour, text, confidence, since, until, between)
        asked = selection.Given(*filters, last, first, limit).question(local, now)
        footage = Footage(clips, local) if clips else None
        with selection.opened_search(journal, config, local, evidence, rebuild=rebuild) as search:
            if question:
                asked = selection.understood(search, question, asked, now)
            if asked.measure.count:
                raise SearchError("counts cannot be exported: leave out how many, or ask with narrated query")
            matches = search.answer(asked)
            if not matches.shown:
                raise SearchError("nothing was found, so nothing is written")
            options = ExportOptions(
                journals=search.folder,
                local=local,
                selection=restate(asked, local),
                gaps=gap_sentences(search, asked),
                linked=linked,
                footage=footage,
                force=force,
            )
            exported = write_export(matches.found, out, options)
    _tell(exported, out, json=json)
    if exported.manifest.problems:
        raise typer.Exit(_SOME_FAILED)


def _tell(exported: Exported, out: Path, *, json: bool) -> None:
    import json as json_format  # noqa: PLC0415

    from daemon.export.export import spell_runs  # noqa: PLC0415

    manifest = exported.manifest
    for problem in manifest.problems:
        selection.complain(f"does not verify: {problem}")
    for reason, count in Counter(manifest.without_clip.values()).items():
        selection.complain(f"{count} without a recording: {reason}")
    if manifest.gone:
        selection.complain(f"{len(manifest.gone)} of their pictures were deleted by retention")
    if json:
        typer.echo(json_format.dumps(_members(exported)))
        return
    for camera, chain in manifest.chains.items():
        reach = (
            f"signed up to {chain['signed']}" if chain["signed"] else "no signature reaches them (--linked)"
        )
        typer.echo(f"{camera}: records {spell_runs(chain['pieces'])}, {reach}")
    typer.echo(
        f"{out}: {manifest.records} records, {exported.pictures} pictures, {len(manifest.clips)} recordings; "
        f"note the sum of all, {exported.sum}"
    )


def _members(exported: Exported) -> dict[str, Any]:
    return asdict(exported.manifest) | {"pictures": exported.pictures, "sum": exported.sum}
