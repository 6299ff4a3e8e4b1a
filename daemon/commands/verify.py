import json as json_format
import re
from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from daemon.commands.options import Json, warn
from pipeline.journal.comparison import WITHIN_S, Agreement, Comparison, compare
from pipeline.journal.custody import verify_access
from pipeline.journal.signatures import SigningKey, TimestampError, load_roots, new_key
from pipeline.journal.signatures import public_key as read_key
from pipeline.journal.verification import Verification, VerifyOptions
from pipeline.journal.verification import verify as verify_journals
from pipeline.record_format import ACCESS_LOG
from pipeline.report.words import many

_SHOWN = 20


def _make_key(file: Path | None) -> None:
    if file is None:
        return
    private = new_key()
    try:
        file.touch(0o600, exist_ok=False)
        file.write_text(private + "\n")
    except OSError as error:
        warn(f"cannot write {file}: {error.strerror or error}; a key is never overwritten")
        raise typer.Exit(1) from None
    typer.echo(SigningKey(private).public)
    raise typer.Exit


def verify(
    paths: Annotated[list[Path], Argument(help="Journals, folders of journals, exports, or access logs.")],
    *,
    against: Annotated[Path | None, Option(help="Compare with this folder, such as a replay's.")] = None,
    public_key: Annotated[
        list[str] | None, Option(help="Only accept signatures by this key (or file).")
    ] = None,
    new_key: Annotated[  # noqa: ARG001 - its callback exits
        Path | None,
        Option(
            help="Write a new signing key here, print its public half.", callback=_make_key, is_eager=True
        ),
    ] = None,
    head: Annotated[list[str] | None, Option(help="A noted hash that must still be there.")] = None,
    timestamp_ca: Annotated[
        Path | None, Option(help="Check time stamps by these certificates (PEM).")
    ] = None,
    json: Json = False,
) -> None:
    """Check that no byte of the journals, their pictures or their signatures has changed."""
    if against and len(paths) != 1:
        raise typer.BadParameter("give one journal or folder to compare with --against")
    keys = tuple(_key(text) for text in public_key or ())
    options = VerifyOptions(keys=keys, heads=head or (), roots=timestamp_ca)
    _check_options(options)
    logs = [path for path in paths if path.name == ACCESS_LOG]
    # a zip may be an export that was damaged
    exports = [path for path in paths if path.suffix.lower() == ".zip" or (path / "export.json").is_file()]
    if (logs or exports) and (against or len(paths) not in {len(logs), len(exports)}):
        raise typer.BadParameter("check access logs and exports by themselves, without --against")
    if logs:
        _verify_logs(logs, options)
        return
    if exports:
        _verify_exports(exports, options, json=json)
        return
    result = verify_journals(paths, options)
    other = verify_journals([against]) if against else None
    if not json:  # a damaged journal cannot be compared, and its problems are said all the same
        _print(result, options)
        if other:
            _print(other, VerifyOptions())
    comparison = compare(paths[0], against) if against else None
    if json:
        values = _members(result) | ({"against": _members(other)} if other else {})
        typer.echo(json_format.dumps(values | (asdict(comparison) if comparison else {}), default=str))
    elif comparison:
        _print_comparison(comparison)
    if result.problems or (other and other.problems) or (comparison and comparison.differences):
        raise typer.Exit(1)


def _verify_logs(logs: list[Path], options: VerifyOptions) -> None:
    if options.keys or options.roots:
        raise typer.BadParameter("an access log has neither signatures nor time stamps")
    missing = set(options.heads)
    for path in logs:
        hashes = verify_access(path)
        missing.difference_update(hashes)
        last = f", last hash {hashes[-1]}" if hashes else ""
        typer.echo(f"{path}: {many(len(hashes), 'line')} unchanged{last}")
    for head in sorted(missing):
        warn(f"no line has the hash {head} that was noted: the log was rewritten, or its end was cut off")
    if missing:
        raise typer.Exit(1)


def _check_options(options: VerifyOptions) -> None:
    if wrong := [head for head in options.heads if not re.fullmatch(r"[0-9a-f]{64}", head)]:
        raise typer.BadParameter(f"--head: {wrong[0]!r} is not a hash of 64 hexadecimal digits")
    try:
        if options.roots:
            load_roots(options.roots)
    except TimestampError as error:
        raise typer.BadParameter(str(error), param_hint="--timestamp-ca") from None


def _verify_exports(paths: list[Path], options: VerifyOptions, *, json: bool) -> None:
    from daemon.export.verification import print_export, verify_export  # noqa: PLC0415 - 13 ms

    if options.heads:
        raise typer.BadParameter("a head shows what is missing from a journal, not from an export")
    checked = [verify_export(path, tuple(options.keys), options.roots) for path in paths]
    problems = [problem for result in checked for problem in result.problems]
    if json:
        exports = [asdict(result) | {"problems": len(result.problems)} for result in checked]
        values = {"ok": not problems, "exports": exports, "problems": problems}
        typer.echo(json_format.dumps(values, default=str))
    else:
        for problem in problems:
            warn(problem)
        for result in checked:
            print_export(result, typer.echo, known=bool(options.keys))
    if problems:
        raise typer.Exit(1)


def _key(text: str) -> str:
    path = Path(text)
    try:
        return read_key(path.read_text(encoding="utf-8") if path.is_file() else text)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--public-key") from None


def _members(result: Verification) -> dict[str, Any]:
    ends = []
    for (path, camera), end in result.ends.items():
        members: dict[str, Any] = {"path": str(path), "camera": camera, "seq": end.seq, "hash": end.hash}
        for verb in ("signed", "stamped"):
            if attested := result.attested.get((path, camera, verb)):
                members |= {verb: attested.seq, f"{verb}_at": attested.time}
                members |= {"keys": [*attested.keys]} if attested.keys else {}
        ends.append(members)
    counts = {name: getattr(result, name) for name in ("ok", "files", "lines", "pictures", "unchecked")}
    return counts | {"ends": ends, "problems": list(map(asdict, result.problems))}


def _print(result: Verification, options: VerifyOptions) -> None:
    _warn_all(result.problems, "problem")
    for end in _members(result)["ends"]:
        line = f"{end['path']}: {end['camera']}: {many(end['seq'], 'record')}, last hash {end['hash']}"
        if "signed" in end:
            whose = "" if options.keys else f" with {', '.join(end['keys'])} (compare it: --public-key)"
            line += f", signed up to {end['signed']} at {end['signed_at']}{whose}"
        if "stamped" in end:
            line += f", time-stamped up to {end['stamped']} at {end['stamped_at']}"
            line += "" if options.roots else " (not checked: --timestamp-ca)"
        typer.echo(line)
    if result.unchecked:
        warn(f"{many(result.unchecked, 'picture')} not checked: no folder evidence is beside the journal")
    if result.pictures:
        typer.echo(f"{many(result.pictures, 'picture')} unchanged")
    typer.echo(f"in total: {many(result.lines, 'line')} unchanged, {many(result.files, 'file')}")


def _warn_all(faults: Sequence[object], kind: str) -> None:
    for fault in faults[:_SHOWN]:
        warn(fault)
    if (more := len(faults) - _SHOWN) > 0:
        warn(f"and {many(more, f'more {kind}')} (--json names all)")


def _print_comparison(comparison: Comparison) -> None:
    _warn_all(comparison.differences, "difference")
    for camera, same in comparison.same.items():
        typer.echo(f"{camera}: {_agreement(same)}")
    total = [sum(column) for column in zip(*map(astuple, comparison.same.values()), strict=True)]
    differences = many(len(comparison.differences), "difference")
    typer.echo(f"in total: {_agreement(Agreement(*total))}, {differences}")


def _agreement(same: Agreement) -> str:
    events = f"; of the rest, {same.events} of {many(same.of_events, 'event')} match within {WITHIN_S:.0f} s"
    return f"{many(same.records, 'matching record')}{events if same.of_events else ''}"
