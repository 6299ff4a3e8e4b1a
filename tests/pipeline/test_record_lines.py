"""What no record is, is refused."""

import json

import pytest
from narrations import fullest

from pipeline.record_format import RecordError
from pipeline.record_lines import read_record


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "null", "1", '"a"', "[" * 100_000, '{"a":1}', "\ufeff{}", "1" * 5000]
)
def test_what_is_no_object_is_refused(line):
    with pytest.raises(RecordError):
        read_record(line)


def test_half_a_character_is_refused_and_a_written_out_one_is_not():
    line = json.dumps(fullest() | {"text": "a car \U0001f697 came"})
    assert r"\ud83d\ude97" in line
    assert read_record(line).text == "a car \U0001f697 came"
    with pytest.raises(RecordError):
        read_record(line.replace(r"\ude97", ""))
