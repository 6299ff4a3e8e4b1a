"""Short clips in the codecs of cameras, and what a gate hands out of them."""

from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import av
import numpy as np

from pipeline.sources import SourceOptions, SourceReport
from pipeline.sources.decode import DecodeGate, IntactFrames, video_stream
from pipeline.sources.frame import View, luma_of

CODECS = [("libx264", 0), ("libx264", 3), ("libx265", 0), ("libx265", 3), ("mpeg4", 0)]
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


def encode(
    path: Path,
    codec: str,
    b_frames: int,
    frames: Iterable[np.ndarray],
    *,
    gop: int,
    rate: int = 10,
    pixels: str = "rgb24",
    bit_rate: int | None = None,
    **parameters: str,
) -> Path:
    """Frames, so many a second, as arrays of `pixels`; x264 and x265 take the parameters."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate)
        stream.pix_fmt = "yuv420p"
        stream.codec_context.thread_count = 1
        stream.codec_context.gop_size = gop
        if bit_rate:
            stream.bit_rate = bit_rate
        if codec != "mpeg4":
            fixed = {"bf": str(b_frames), "preset": "ultrafast", "sc_threshold": "0", "g": str(gop)}
            stream.options = fixed | {"x265-params": "log-level=none:pools=1"} | parameters
        for array in frames:
            frame = av.VideoFrame.from_ndarray(array, format=pixels)
            if not stream.codec_context.is_open:
                stream.width, stream.height = frame.width, frame.height
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def true_frames(path: Path) -> dict[int, np.ndarray]:
    """Every frame by its pts, decoded in full."""
    with av.open(str(path)) as container:
        return {frame.pts: luma_of(frame).copy() for frame in container.decode(video=0)}


def gated(path: Path, gate: DecodeGate, at: Callable[..., object] = lambda *_: None) -> list[int]:
    """Numbers of the frames that a gate hands out, each compared with the true one.

    `at` is called before each packet, with its index and itself.
    """
    truth, given, counts = true_frames(path), [], SourceReport()
    number = {stamp: index for index, stamp in enumerate(sorted(truth))}
    view = View(SourceOptions(analysis_width=96))
    with closing(av.open(str(path))) as container:
        intact = IntactFrames(counts)
        for index, packet in enumerate(container.demux(video_stream(container))):
            if not packet.size:
                break
            at(index, packet)
            for due, _, _ in gate.due(packet, NOW):
                for frame in gate.decode(due, intact):
                    assert np.array_equal(luma_of(frame), truth[frame.pts])
                    gate.look(view.of_frame(frame)[0])
                    given.append(number[frame.pts])
    assert given == sorted(set(given))
    assert counts.corrupt == 0
    return given
