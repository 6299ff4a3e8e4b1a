"""Evidence is stored by content, whole or not at all, and swept once no record names it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evidence import EvidenceStore, Named, evidence_fault, named_in, references


@pytest.fixture
def store(tmp_path: Path) -> EvidenceStore:
    return EvidenceStore(tmp_path / "evidence")


def test_a_picture_lies_under_its_digest(store: EvidenceStore) -> None:
    reference = store.put(b"a picture", "webp")
    digest = hashlib.sha256(b"a picture").hexdigest()
    assert reference == f"sha256:{digest}"
    path = store.folder / digest[:2] / f"{digest}.webp"
    assert path.read_bytes() == b"a picture"
    assert store.find(reference) == path
    assert store.find("sha256:" + "0" * 64) is None
    with pytest.raises(ValueError, match="not a kind of picture"):
        store.put(b"a picture", "exe")


def test_what_is_stored_twice_is_there_once(store: EvidenceStore) -> None:
    assert store.put(b"same", "jpg") == store.put(b"same", "jpg")
    assert (store.size().files, store.size().bytes) == (1, 4)


def test_a_picture_that_was_cut_short_is_written_again(store: EvidenceStore) -> None:
    path = store.find(store.put(b"whole", "jpg"))
    assert path is not None
    path.write_bytes(b"who")
    store.put(b"whole", "jpg")
    assert path.read_bytes() == b"whole"


def test_a_folder_that_cannot_be_written_leaves_nothing_half_done(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("a file is in the way")
    with pytest.raises(OSError, match="evidence"):
        EvidenceStore(tmp_path / "evidence").put(b"picture", "jpg")


@given(st.binary(min_size=1, max_size=200), st.data())
def test_any_changed_byte_is_found(tmp_path_factory: pytest.TempPathFactory, content: bytes, data) -> None:
    folder = tmp_path_factory.mktemp("evidence")
    store = EvidenceStore(folder, fsync=False)
    reference = store.put(content, "jpg")
    assert evidence_fault(folder, reference) == ""
    path = store.find(reference)
    place = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(changed))
    assert "was changed" in evidence_fault(folder, reference)
    path.unlink()
    assert "is missing" in evidence_fault(folder, reference)


def test_a_sweep_removes_only_what_no_record_names(store: EvidenceStore) -> None:
    kept, gone = store.put(b"kept", "jpg"), store.put(b"gone", "webp")
    foreign = [store.folder / "notes.txt", store.folder / gone[7:9] / "notes.jpg"]
    for path in foreign:
        path.write_text("not ours")
    unfinished = store.find(kept).with_name(f"{'ab' * 32}.jpg.part")
    unfinished.write_bytes(b"half")
    assert store.sweep({kept[7:]}).files == 1  # the unfinished one; the other two were put just now
    assert store.find(gone) is not None
    swept = store.sweep({kept[7:]}, unsettled_s=0)
    assert (swept.files, swept.bytes) == (1, 4)
    assert store.find(gone) is None
    assert store.find(kept) is not None
    assert all(path.exists() for path in foreign)


def test_what_an_earlier_run_left_is_swept_whatever_its_time(store: EvidenceStore) -> None:
    path = store.find(store.put(b"old", "jpg"))
    os.utime(path, (4e9, 4e9))  # the clock was stepped back since
    again = EvidenceStore(store.folder)
    assert again.sweep(set()).files == 1


def test_references_are_found_without_parsing() -> None:
    line = b'{"evidence":{"after":"sha256:%s"},"text":"\\"sha256:%s\\""}' % (b"1" * 64, b"2" * 64)
    assert list(references(line)) == ["1" * 64]


def test_pictures_named_in_files_larger_than_a_block(tmp_path: Path) -> None:
    digests = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(9000)]
    lines = [b'{"evidence":{"after":"sha256:%b"}}\n' % digest.encode() for digest in digests[:8000]]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines[:7000]))
    (tmp_path / "b.jsonl").write_bytes(b"".join(lines[7000:])[:-1])  # a last line without its end counts too
    assert list(named_in(tmp_path / "a.jsonl")) == digests[:7000]
    named = Named(tmp_path.iterdir())
    assert [digest in named for digest in digests] == [True] * 8000 + [False] * 1000
    assert 5 not in named
    spoken = b'{"text":"say \\"sha256:nothing\\" or \\"sha256:12\\""}\n' + lines[0]
    (tmp_path / "d.jsonl").write_bytes(spoken)
    assert digests[0] in Named([tmp_path / "d.jsonl"])
    assert digests[0] not in Named([])
    (tmp_path / "c.jsonl").write_bytes(b'"sha256:' + b"f" * 64 + b'"' + b" " * 600_000 + lines[0])
    assert list(named_in(tmp_path / "c.jsonl")) == ["f" * 64, digests[0]]
