from pathlib import Path

import av
import numpy as np
import pytest

from train.compose import ComposeOptions, compose
from train.dividing import GAP_S, last_held_out
from train.scenes import Clip, FootageError, find_clips, load_scene


def clip(path: Path, frames: int = 80) -> Path:
    """A clip of 20 s whose frame k, at k / 4 s, has the grey level 60 + k."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=4)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for k in range(frames):
            image = np.full((48, 64, 3), 60 + k, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return path


class Blind:
    """A teacher that sees nothing."""

    def detect(self, _image: np.ndarray) -> tuple[()]:
        return ()


def test_of_four_clips_or_more_the_last_ones_are_held_out() -> None:
    gate = [Clip(Path(f"gate_{k}.mp4"), "gate", "") for k in range(8)]
    yard = [Clip(Path(f"yard_{k}.mp4"), "yard", "") for k in range(4)]
    divided = last_held_out([*gate, *yard], 0.25)
    assert [c.path for c in divided] == [c.path for c in (*gate, *yard)]
    assert [c.path.stem for c in divided if c.held_out] == ["gate_6", "gate_7", "yard_3"]


def test_of_fewer_clips_the_end_of_each_is_held_out_with_a_gap(tmp_path: Path) -> None:
    clip(tmp_path / "gate_1.mp4")
    clip(tmp_path / "gate_2.mp4")
    divided = last_held_out(find_clips(tmp_path), 0.25)
    assert [(c.path.stem, c.held_out) for c in divided] == [
        ("gate_1", False),
        ("gate_1", True),
        ("gate_2", False),
        ("gate_2", True),
    ]
    first, last = (load_scene(c, Blind()) for c in divided[:2])  # type: ignore[arg-type]
    assert first is not None
    assert last is not None
    assert (first.held_out, last.held_out) == (False, True)
    assert first.times_s[0] == 0
    assert last.times_s[0] == pytest.approx(0.75 * 19.75, abs=0.25)
    assert last.times_s[-1] == 19.75
    assert last.times_s[0] - first.times_s[-1] >= GAP_S
    assert first.median.mean() < last.median.mean() - 20


def test_a_damaged_clip_is_named(tmp_path: Path) -> None:
    (tmp_path / "gate.mp4").write_bytes(b"no video")
    with pytest.raises(FootageError, match=r"gate\.mp4 cannot be read"):
        last_held_out(find_clips(tmp_path), 0.25)


def test_it_stands_in_place_of_validation_cameras(tmp_path: Path) -> None:
    options = ComposeOptions(tmp_path, tmp_path, tmp_path / "out", last_part=0.2, val_cameras=("gate",))
    with pytest.raises(ValueError, match="in place of val_cameras"):
        compose(options)
