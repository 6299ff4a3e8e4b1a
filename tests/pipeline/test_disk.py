"""A file is written as a whole or not at all, and nothing lies beside it afterwards."""

import pytest

from pipeline.disk import replacing


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_stood_there_stays_when_writing_is_cut_short(tmp_path, error):
    path = tmp_path / "told.txt"
    path.write_bytes(b"before")

    def write() -> None:
        with replacing(path, durable=False) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"told.txt": b"before"}


@pytest.mark.parametrize("durable", [False, True])
def test_it_is_replaced_when_all_is_written(tmp_path, durable):
    path = tmp_path / "told.txt"
    path.write_bytes(b"before")
    with replacing(path, durable=durable) as file:
        file.write(b"after")
        assert path.read_bytes() == b"before"
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"told.txt": b"after"}
