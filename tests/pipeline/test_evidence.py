"""Evidence is stored by content, whole or not at all, and swept once no record names it."""

import hashlib
import os
import shutil

import pytest

from pipeline import evidence as module
from pipeline.evidence import EvidenceStore, references


@pytest.fixture
def store(tmp_path) -> EvidenceStore:
    return EvidenceStore(tmp_path / "evidence")


def test_a_picture_lies_under_its_digest(store):
    reference = store.put(b"a picture", "webp")
    digest = hashlib.sha256(b"a picture").hexdigest()
    assert reference == f"sha256:{digest}"
    path = store.folder / digest[:2] / f"{digest}.webp"
    assert path.read_bytes() == b"a picture"
    assert (store.find(reference), store.size()) == (path, 9)
    assert (store.put(b"a picture", "webp"), store.size()) == (reference, 9)
    assert store.find("sha256:" + "0" * 64) is None
    with pytest.raises(ValueError, match="not a kind of picture"):
        store.put(b"a picture", "exe")


def test_a_picture_that_was_cut_short_is_written_again(store):
    path = store.find(store.put(b"whole", "jpg"))
    path.write_bytes(b"who")
    store.put(b"whole", "jpg")
    assert path.read_bytes() == b"whole"
    shutil.rmtree(store.folder)  # to free the disk
    store.put(b"whole", "jpg")
    assert path.read_bytes() == b"whole"


def test_only_what_was_put_long_ago_is_removed(store, monkeypatch):
    kept, gone = store.put(b"kept", "jpg"), store.put(b"gone", "webp")
    assert store.remove([gone[7:], "0" * 64]) == 0  # its record may be on its way
    monkeypatch.setattr(module, "RECENT_S", 0.0)
    assert store.size() == 8
    assert store.remove([gone[7:], "0" * 64]) == 1
    assert store.find(gone) is None
    assert store.find(kept) is not None
    assert store.size() == EvidenceStore(store.folder).size() == 4


def test_what_an_earlier_run_left_is_removed_whatever_its_time(store):
    reference = store.put(b"old", "jpg")
    os.utime(store.find(reference), (4e9, 4e9))  # the clock was stepped back since
    assert EvidenceStore(store.folder).remove([reference[7:]]) == 1


def test_references_are_found_without_parsing():
    line = b'{"evidence":{"after":"sha256:%s"},"text":"\\"sha256:%s\\""}' % (b"1" * 64, b"2" * 64)
    assert references(line) == {"1" * 64}
