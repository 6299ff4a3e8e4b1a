"""An hour of mostly quiet footage with real events, coded once and muxed over and over.

    python benchmarks/quiet_hour.py OUT.mp4 [--minutes 60] [--every 8] [--clip FILE]

The clip is cut where nothing moves for a while. The picture of the first such pause, with the noise of the
camera, is played over and over; every few minutes the next stretch of the clip between two pauses is played.
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import cycle, islice, pairwise
from pathlib import Path

import av

from pipeline.distance import l2_luma
from pipeline.sources import SourceOptions, open_source

CLIP = Path(__file__).parents[2] / "shared" / "data" / "clips" / "intel_one-by-one-person-detection.mp4"
RATE, WIDTH, HEIGHT, QUIET_S, STILL = 15, 1920, 1080, 40, 6.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=8, help="minutes from one event to the next")
    parser.add_argument("--clip", type=Path, default=CLIP)
    chosen = parser.parse_args()
    print(made(chosen.clip, chosen.out, chosen.minutes, chosen.every))


def made(clip: Path, out: Path, minutes: float, every: float) -> str:
    pauses = quiet(clip)
    frames = read(clip)
    first = range(pauses[0][0] * 2 // 3, pauses[0][1])  # in half seconds
    calm = frames[int(first.start * RATE / 2) : int(first.stop * RATE / 2)]
    calm = list(islice(cycle([*calm, *reversed(calm)]), QUIET_S * RATE))
    middles = [(low + high) / 4 for low, high in pauses]
    events = [frames[int(a * RATE) : int(b * RATE)] for a, b in pairwise(middles)]
    with av.open(str(out), "w") as film:
        options = {"preset": "veryfast", "g": str(2 * RATE), "bf": "0", "maxrate": "2M", "bufsize": "2M"}
        stream = film.add_stream("libx264", rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = WIDTH, HEIGHT, "yuv420p", 2_000_000
        stream.time_base = Fraction(1, RATE)
        coded = [[(bytes(p), p.is_keyframe) for p in part] for part in _coded(stream, [calm, *events])]
        plan: list[int] = []
        told_s, shown = 0.0, cycle(range(1, len(coded)))
        while len(plan) < 100_000 and sum(len(coded[k]) for k in plan) < minutes * 60 * RATE:
            due = sum(len(coded[k]) for k in plan) / RATE >= every * 60 * (1 + sum(k > 0 for k in plan))
            plan.append(next(shown) if due else 0)
            told_s += len(coded[plan[-1]]) / RATE if due else 0.0
        for index, (payload, keyframe) in enumerate(packet for k in plan for packet in coded[k]):
            packet = av.Packet(payload)
            packet.pts = packet.dts = index
            packet.time_base, packet.stream, packet.is_keyframe = Fraction(1, RATE), stream, keyframe
            film.mux(packet)
    whole_s = sum(len(coded[k]) for k in plan) / RATE
    return f"{sum(k > 0 for k in plan)} stretches of {told_s:.0f} s in {whole_s:.0f} s"


def quiet(clip: Path) -> list[tuple[int, int]]:
    """Pauses in half seconds: begin and end."""
    pauses: list[tuple[int, int]] = []
    before, since = None, 0
    with open_source(str(clip), SourceOptions(), "yard") as source:
        number = 0
        for number, frame in enumerate(source):
            if before is not None and l2_luma(before.luma, frame.luma, 16)[1].max() > STILL:
                if number - since > 3:
                    pauses.append((since, number - 1))
                since = number
            before = frame
        if number - since > 3:
            pauses.append((since, number - 1))
    return pauses


def read(clip: Path) -> list[av.VideoFrame]:
    """The frames, small: at each moment of `RATE` the last one before it."""
    with av.open(str(clip)) as source:
        decoded = list(source.decode(video=0))
    times = [frame.time or 0.0 for frame in decoded]
    moments = (k / RATE for k in range(int(times[-1] * RATE)))
    return [decoded[bisect_right(times, moment) - 1] for moment in moments]


def _coded(
    stream: av.VideoStream, parts: Sequence[Sequence[av.VideoFrame]]
) -> list[list[av.Packet[av.VideoStream]]]:
    """Each part from a keyframe on, by one encoder: they may be played in any order."""
    coded: list[list[av.Packet[av.VideoStream]]] = [[] for _ in parts]
    starts, index = [], 0
    packets: list[av.Packet[av.VideoStream]] = []
    for part in parts:
        starts.append(index)
        for n, frame in enumerate(part):
            picture = frame.reformat(WIDTH, HEIGHT, "yuv420p")
            picture.pts, picture.time_base = index, Fraction(1, RATE)
            picture.pict_type = av.video.frame.PictureType.I if n == 0 else av.video.frame.PictureType.NONE
            packets += stream.encode(picture)
            index += 1
    packets += stream.encode(None)
    for packet in packets:
        shown = round((packet.pts or 0) * packet.time_base * RATE)
        coded[bisect_right(starts, shown) - 1].append(packet)
    return coded


if __name__ == "__main__":
    main()
