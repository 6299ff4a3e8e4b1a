"""Where journals do not verify, as far as was seen while they were read into the index."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from daemon.search.store import Store
from pipeline.journal.segments import Start

_FRESH = "0" * 64


def faults(store: Store, folder: Path) -> list[str]:
    """One sentence for each file, and each join of two files, that does not hold.

    What holds here may still not verify: pictures and signatures are not looked at, and what was changed in
    a file since it was read is seen only when it is shown. `narrated verify` looks at everything.
    """
    sql = "SELECT name, fault FROM files WHERE fault != '' ORDER BY name"
    found = [f"{folder / name}:{fault}" for name, fault in store.connection.execute(sql)]
    sql = (
        "SELECT chain, camera, files.name, first_seq, first_prev, last_seq, last_hash FROM ends "
        "JOIN files ON files.id = file ORDER BY chain, camera, first_seq"
    )
    for (chain, camera), rows in groupby(store.connection.execute(sql), key=lambda row: row[:2]):
        start = Start.load(folder / f"{chain}.start") if chain == camera else None
        seq, digest = (start.seq, start.hash) if start else (0, _FRESH)
        for _, _, name, first_seq, first_prev, last_seq, last_hash in rows:
            interrupted = start and last_seq <= start.seq  # retention, before it deleted
            if (first_seq, first_prev) != (seq + 1, digest) and not interrupted:
                found.append(
                    f"{folder / name}: seq {first_seq} of {camera} does not continue "
                    f"{f'seq {seq}' if seq else 'the start of the chain'}: records are missing or changed"
                )
            if not interrupted:
                seq, digest = last_seq, last_hash
    return found
