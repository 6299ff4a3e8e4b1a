import json
from pathlib import Path

import pytest

from train.footage.cameras import FootageError
from train.footage.labels import avoided_times


def test_avoided_times_are_read_from_anywhere_inside(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    sides = {"before": {"clip": "a.mp4", "seconds": 3.5}, "after": {"clip": "b.mp4", "seconds": None}}
    deep = {"events": [{"x": [{"clip": "folder/a.mp4", "seconds": 1}]}], "seconds": 9}
    path.write_text(f"{json.dumps(sides)}\n\n{json.dumps(deep)}\n")
    assert avoided_times(path) == {"a.mp4": (1.0, 3.5)}
    path.write_text('{"clip": "a.mp4", "seconds": null}\n')
    with pytest.raises(FootageError, match="nothing would be avoided"):
        avoided_times(path)
    path.write_text("{")
    with pytest.raises(FootageError, match="cannot be read as JSON Lines"):
        avoided_times(path)
    with pytest.raises(FootageError, match="give another file"):
        avoided_times(tmp_path / "nowhere.jsonl")
