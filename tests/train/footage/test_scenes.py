import json
from pathlib import Path

import av
import numpy as np
import pytest

from train.footage.cameras import Clip, FootageError, find_clips
from train.footage.scenes import Scene, aligned_views, avoided_times, load_scene


def clip(path: Path, frames: int = 8) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=4)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for k in range(frames):
            image = np.full((48, 64, 3), 100 + k, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def test_cameras_are_folders_or_names_without_their_number(tmp_path: Path) -> None:
    for name in ("gate/one.mp4", "gate/two.mp4", "corner_0628.mp4", "corner_0702.mp4", "hall.mp4"):
        clip(tmp_path / name)
    clip(tmp_path / "OpenCV_vtest.avi")
    (tmp_path / "notes.txt").write_text("no clip")
    found = find_clips(tmp_path, ("vtest*", "opencv_vtest*"))
    assert [(c.path.name, c.camera) for c in found] == [
        ("corner_0628.mp4", "corner"),
        ("corner_0702.mp4", "corner"),
        ("one.mp4", "gate"),
        ("two.mp4", "gate"),
        ("hall.mp4", "hall"),
    ]
    assert all(len(c.sha256) == 64 for c in found)
    assert len(find_clips(tmp_path)) == 6


def test_no_clips(tmp_path: Path) -> None:
    clip(tmp_path / "vtest.avi")
    with pytest.raises(FootageError, match="no clips"):
        find_clips(tmp_path, ("vtest*",))


class Blind:
    """A teacher that sees nothing."""

    def detect(self, _image: np.ndarray) -> tuple[()]:
        return ()


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


def test_frames_near_an_avoided_time_are_used_for_nothing(tmp_path: Path) -> None:
    """Frame k of the clip, at k / 4 s, has the grey level 100 + k."""
    path = clip(tmp_path / "gate.mp4", frames=60)
    whole = load_scene(Clip(path, "gate", ""), Blind())  # type: ignore[arg-type]
    part = load_scene(Clip(path, "gate", ""), Blind(), avoid=(3.0, 5.0), avoid_s=2.0)  # type: ignore[arg-type]
    assert whole is not None
    assert part is not None
    assert part.times_s[0] < 1
    assert all(abs(t - a) > 2.2 for t in part.times_s for a in (3.0, 5.0))
    assert whole.times_s[-1] == part.times_s[-1] == 14.75
    kept = [100 + k for k in range(60) if k / 4 < 1 or k / 4 > 7]
    assert part.median.mean() == pytest.approx(np.median(kept), abs=2.5)
    assert whole.median.mean() == pytest.approx(129.5, abs=2.5)
    assert load_scene(Clip(path, "gate", ""), Blind(), avoid=(7.0,), avoid_s=6.9) is not None  # type: ignore[arg-type]
    assert load_scene(Clip(path, "gate", ""), Blind(), avoid=(7.0,), avoid_s=8.0) is None  # type: ignore[arg-type]


def test_views_are_compared_only_where_they_show_the_same_in_like_light() -> None:
    rough = np.random.default_rng(2).integers(60, 160, (18, 24, 3), np.uint8)
    view = np.kron(rough, np.ones((8, 8, 1), np.uint8))

    def scene(median: np.ndarray) -> Scene:
        return Scene("gate", "gate.mp4", (0.0,), (median,), median, ((),), ((),), ())

    day = scene(view)
    assert aligned_views(day, scene(view + 10))
    assert not aligned_views(day, scene(view // 2)), "by night"
    assert not aligned_views(day, scene(np.roll(view, 24, axis=1))), "turned"
    assert not aligned_views(day, scene(view[:64]))
