"""Checks an export of narrations with Python's standard library alone: python3 check.py, beside its files.

python3 check.py AUTHORITY.pem also has OpenSSL check the time stamps.
"""

import base64
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def check(folder: Path, authority: Path | None = None) -> list[str]:
    """Check an export, and its time stamps where an authority is given; gives one sentence for each fault."""
    faults: list[str] = []
    parts = [check_files(folder), check_chains(folder), check_records(folder)]
    for part in [*parts, check_timestamps(folder, authority)] if authority else parts:
        try:
            faults += part
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            faults.append(f"it cannot be checked further: {type(error).__name__}: {error}")
    return faults


def check_files(folder: Path) -> Iterator[str]:
    """Compare the files with SHA256SUMS."""
    lines = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    listed = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    for name in sorted((there - {"SHA256SUMS"}) ^ set(listed)):
        yield f"{name} is missing" if name in listed else f"{name} was added: SHA256SUMS does not name it"
    for name in sorted(there & set(listed)):
        if (folder / name).is_symlink():
            yield f"{name} is a link"
        elif sha256(folder / name) != listed[name]:
            yield f"{name} was changed"


def check_chains(folder: Path) -> Iterator[str]:
    """Follow each camera's chain: a record carries its own hash, and that of the record before it."""
    for path in sorted(folder.glob("chain/*.jsonl")):
        last: dict[str, Any] = {"seq": 0, "hash": "0" * 64}
        for line in path.read_bytes().split(b"\n")[:-1]:
            record, name = json.loads(line), f"chain/{path.name}"
            unhashed = re.sub(rb'"hash":"[0-9a-f]{64}",', b"", line, count=1)
            if hashlib.sha256(unhashed).hexdigest() != record["hash"]:
                yield f"{name}: record {record['seq']} was changed"
            if record["seq"] == last["seq"] + 1 and record["prev"] != last["hash"]:
                yield f"{name}: record {record['seq']} does not follow on {last['seq']}"
            if record["seq"] <= last["seq"] or record["camera"] != path.stem:
                yield f"{name}: record {record['seq']} of {record['camera']} is out of place"
            last = record


def check_records(folder: Path) -> Iterator[str]:
    """Compare the selected records with the chains, and with their pictures."""
    chained = {line for path in folder.glob("chain/*.jsonl") for line in path.read_bytes().split(b"\n")}
    pictures = {path.stem: path for path in folder.glob("pictures/*")}
    manifest = json.loads((folder / "export.json").read_bytes())
    yield from (f"when it was exported this did not verify: {each}" for each in manifest["problems"])
    for line in (folder / "records.jsonl").read_bytes().split(b"\n")[:-1]:
        record = json.loads(line)
        if line not in chained:
            yield f"records.jsonl: record {record['id']} is in no chain"
        for name in record.get("evidence", {}).values():
            here = manifest.get("masked", {}).get(name[7:], name[7:])
            if here and here not in pictures and name[7:] not in manifest["gone"]:
                yield f"a picture of {record['id']} is missing: {name}"
    for digest, path in pictures.items():
        if sha256(path) != digest:
            yield f"pictures/{path.name} was changed"


def check_timestamps(folder: Path, authority: Path) -> Iterator[str]:
    """Have OpenSSL check each time stamp against the record that it names and the authority's certificate."""
    for chain in sorted(folder.glob("chain/*.jsonl")):
        records = map(json.loads, chain.read_bytes().split(b"\n")[:-1])
        hashes = {record["seq"]: record["hash"] for record in records}
        path, name = chain.with_suffix(".timestamps"), f"chain/{chain.stem}.timestamps"
        if not path.is_file():
            yield f"{name}: no time stamp covers these records: export them again with --linked"
            continue
        for line in path.read_bytes().split(b"\n")[:-1]:
            stamp = json.loads(line)
            if hashes.get(stamp["seq"]) != stamp["hash"]:
                yield f"{name}: record {stamp['seq']} is not the one that was stamped"
            command = ["openssl", "ts", "-verify", "-digest", stamp["hash"], "-in", "/dev/stdin"]
            done = subprocess.run(  # noqa: S603 - OpenSSL, from the PATH of whoever checks
                [*command, "-CAfile", str(authority)],
                input=base64.b64decode(stamp["response"]),
                capture_output=True,
                check=False,
            )
            if done.returncode:
                reason = done.stderr.decode(errors="replace").strip()
                yield f"{name}: the time stamp of record {stamp['seq']} does not hold: {reason}"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    problems = check(Path(__file__).resolve().parent, Path(sys.argv[1]) if sys.argv[1:] else None)
    sys.stdout.write("\n".join(problems or ["all holds"]) + "\n")
    sys.exit(1 if problems else 0)
