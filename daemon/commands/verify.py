"""The verb `verify`."""

from __future__ import annotations

import json as json_format
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daemon.commands.options import Json, Pictures

if TYPE_CHECKING:
    from pipeline.journal import Comparison, Verification, VerifyOptions

_SHOWN = 20


def _make_key(file: Path | None) -> None:
    """Write a new signing key, print its public half, and exit."""
    from pipeline.journal.signatures import SigningKey, new_key  # noqa: PLC0415

    if file is None:
        return
    private = new_key()
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        reason = "it exists" if isinstance(error, FileExistsError) else error.strerror or error
        typer.echo(f"narrated: cannot write {file}: {reason}; a key is never overwritten", err=True)
        raise typer.Exit(1) from None
    with os.fdopen(handle, "w") as written:
        written.write(private + "\n")
    typer.echo(SigningKey(private).public)
    raise typer.Exit


NewKey = Annotated[
    Path | None,
    typer.Option(
        help="Make a key for signing journals, write it here, print its public half, and exit.",
        callback=_make_key,
        is_eager=True,
    ),
]


def verify(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Journals, narrations.jsonl, folders of journals, or what export wrote."),
    ],
    *,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Compare with this folder, such as a replay's --out of the same footage; it is checked, too."
        ),
    ] = None,
    evidence: Pictures = None,
    no_evidence: Annotated[bool, typer.Option("--no-evidence", help="Do not check the pictures.")] = False,
    public_key: Annotated[
        list[str] | None,
        typer.Option(help="Whose signatures count: the key that --new-key printed, or a file that holds it."),
    ] = None,
    new_key: NewKey = None,  # noqa: ARG001 - its callback exits
    json: Json = False,
) -> None:
    """Check that no byte of the journals, their pictures or their signatures has changed."""
    from daemon.export.files import is_export  # noqa: PLC0415
    from pipeline.journal import VerifyOptions  # noqa: PLC0415

    if against and len(paths) != 1:
        raise typer.BadParameter("give one journal or folder to compare with --against")
    keys = tuple(_key(text) for text in public_key or ())
    if exports := [path for path in paths if is_export(path)]:
        if against or len(exports) < len(paths):
            raise typer.BadParameter("check an export by itself: without journals and --against")
        _verify_exports(exports, keys, json=json)
        return
    found = _checked(paths, VerifyOptions(not no_evidence, evidence, keys))
    other = _checked([against], VerifyOptions(not no_evidence)) if against else None
    comparison = _comparison(paths[0], against) if against else None
    _report(found, other, comparison, known=bool(keys), json=json)
    compared = not against or (comparison and not comparison.differences)
    if not (found.ok and (other is None or other.ok) and compared):
        raise typer.Exit(1)


def _report(
    found: Verification,
    other: Verification | None,
    comparison: Comparison | None,
    *,
    known: bool,
    json: bool,
) -> None:
    if json:
        values = _members(found) | ({"against": _members(other)} if other else {})
        compared = asdict(comparison) if comparison else {}
        typer.echo(json_format.dumps(values | compared, default=str))
        return
    _print(found, known=known)
    if other:
        _print(other, known=False)
    if comparison:
        _print_comparison(comparison)


def _verify_exports(paths: list[Path], keys: tuple[str, ...], *, json: bool) -> None:
    """Check what `narrated export` wrote, and say what it proves."""
    from daemon.export.verification import print_export, verify_export  # noqa: PLC0415

    checked = [verify_export(path, keys) for path in paths]
    problems = [problem for found in checked for problem in found.problems]
    if json:
        exports = [asdict(found) | {"problems": len(found.problems)} for found in checked]
        values = {"ok": not problems, "exports": exports, "problems": problems}
        typer.echo(json_format.dumps(values, default=str))
    else:
        for problem in problems:
            typer.echo(f"narrated: {problem}", err=True)
        for found in checked:
            print_export(found, typer.echo, known=bool(keys))
    if problems:
        raise typer.Exit(1)


def _checked(paths: list[Path], options: VerifyOptions) -> Verification:
    from pipeline.journal import verify as verified  # noqa: PLC0415

    with _bar() as progress:
        return verified(paths, replace(options, progress=progress))


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """Shows how many bytes were checked, of how many: on stderr, on a terminal only."""
    from rich import progress as rich  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True)
    with rich.Progress(
        rich.TextColumn("checking"),
        rich.BarColumn(bar_width=24),
        rich.DownloadColumn(),
        rich.TransferSpeedColumn(),
        rich.TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=False,
    ) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, size: bar.update(task, completed=done, total=size)


def _comparison(journal: Path, other: Path) -> Comparison | None:
    """None where the two cannot be compared, which is said."""
    from pipeline.journal import JournalError, compare  # noqa: PLC0415

    try:
        return compare(journal, other)
    except JournalError as error:
        typer.echo(f"narrated: {error}", err=True)
        return None


def _key(text: str) -> str:
    from pipeline.journal.signatures import SigningError, public_key  # noqa: PLC0415

    try:
        path = Path(text)
        return public_key(path.read_text(encoding="utf-8") if path.is_file() else text)
    except (OSError, UnicodeDecodeError, SigningError) as error:
        raise typer.BadParameter(str(error), param_hint="--public-key") from None


def _members(found: Verification) -> dict[str, Any]:
    ends = [
        {"path": str(path), "camera": camera, "seq": end.seq, "hash": end.hash}
        | ({"signed": signed.seq, "signed_at": signed.time, "keys": list(signed.keys)} if signed else {})
        for (path, camera), end in found.ends.items()
        for signed in [found.signed.get((path, camera))]
    ]
    return {
        "ok": found.ok,
        "files": found.files,
        "lines": found.lines,
        "pictures": found.pictures,
        "ends": ends,
        "problems": list(map(asdict, found.problems)),
    }


def _print(found: Verification, *, known: bool) -> None:
    for problem in found.problems:
        typer.echo(f"narrated: {problem}", err=True)
    for (path, camera), end in found.ends.items():
        line = f"{path}: {camera}: {end.seq} records, last hash {end.hash}"
        if signed := found.signed.get((path, camera)):
            whose = "" if known else f" with {', '.join(signed.keys)} (compare it: --public-key)"
            line += f", signed up to {signed.seq} at {signed.time}{whose}"
        typer.echo(line)
    if found.pictures:
        typer.echo(f"{found.pictures} pictures are as they were stored")
    typer.echo(f"in total: {found.lines} lines hold, files read: {found.files}")


def _print_comparison(comparison: Comparison) -> None:
    from pipeline.journal.comparison import WITHIN_S  # noqa: PLC0415

    for difference in comparison.differences[:_SHOWN]:
        typer.echo(f"narrated: {difference}", err=True)
    if (more := len(comparison.differences) - _SHOWN) > 0:
        typer.echo(f"narrated: and {more} more differences (--json names all)", err=True)
    for camera, same in comparison.same.items():
        line = f"{camera}: {same.records} records agree"
        if same.of_events:
            line += f"; of the others {same.events} of {same.of_events} events agree within {WITHIN_S:.0f} s"
        typer.echo(line)
    total = sum(same.records for same in comparison.same.values())
    typer.echo(f"in total: {total} records agree, {len(comparison.differences)} differences")
