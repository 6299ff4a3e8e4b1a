from pathlib import Path

import av
import numpy as np
import pytest

from train.scenes import FootageError, find_clips


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
