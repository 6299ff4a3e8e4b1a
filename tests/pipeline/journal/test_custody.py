"""The access log: appended by several processes, followed like a chain, and any change is found."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.journal import JournalError
from pipeline.journal.custody import SCHEMA, record_access, verify_access
from pipeline.record_format import ACCESS_LOG


def fill(path, count=5):
    for number in range(count):
        record_access(path, "view", who="anna", address="10.0.0.7", detail=f"yard-{number}")
    return path


def test_many_writers_make_one_chain(tmp_path):
    path = tmp_path / ACCESS_LOG
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: fill(path, 5), range(4)))
    assert len(verify_access(path)) == 20


def test_a_torn_last_line_is_replaced(tmp_path):
    path = fill(tmp_path / ACCESS_LOG)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(JournalError):
        verify_access(path)
    record_access(path, "query", who="", address="local", detail="cars")
    assert len(verify_access(path)) == 5
    assert path.read_bytes().startswith(whole[: whole.rindex(b"\n", 0, -1) + 1])


@settings(max_examples=40)
@given(st.data())
def test_any_changed_byte_is_found(tmp_path_factory, data):
    path = fill(tmp_path_factory.mktemp("log") / ACCESS_LOG)
    whole = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    with pytest.raises(JournalError):
        verify_access(path)


@pytest.mark.parametrize("order", [(0, 1, 3, 4), (0, 2, 1, 3, 4), (0, 1, 1, 2, 3, 4)])
def test_lines_out_of_place_are_found(tmp_path, order):
    path = fill(tmp_path / ACCESS_LOG)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[number] for number in order))
    with pytest.raises(JournalError, match="a removed one"):
        verify_access(path)


def test_a_line_that_lacks_its_number_is_no_line(tmp_path):
    path, bare = tmp_path / ACCESS_LOG, {"schema": SCHEMA}
    digest = hashlib.sha256(rfc8785.dumps(bare)).hexdigest()
    path.write_bytes(rfc8785.dumps(bare | {"hash": digest}) + b"\n")
    with pytest.raises(JournalError, match="was changed"):
        verify_access(path)
    with pytest.raises(JournalError, match="move the file away"):
        record_access(path, "view", who="", address="local")


def test_nothing_is_appended_behind_a_changed_line(tmp_path):
    path = fill(tmp_path / ACCESS_LOG)
    path.write_bytes(path.read_bytes().replace(b"yard-4", b"yard-9"))
    before = path.read_bytes()
    with pytest.raises(JournalError, match="move the file away"):
        record_access(path, "view", who="", address="local")
    assert path.read_bytes() == before
