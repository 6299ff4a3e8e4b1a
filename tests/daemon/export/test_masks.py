"""`narrated export --mask`, and privacy areas in recordings."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from drawn_footage import HEIGHT, WIDTH, clip
from narrations import narration

from daemon import cli
from daemon.export.clips import Mask
from models.boxes import Box
from models.captioner import Sentence
from pipeline.evidence import EvidenceStore
from pipeline.journal import Journal
from pipeline.record import ChainEnd, Evidence, build_record
from pipeline.report.picture import encode
from pipeline.sources import Frame, SourceOptions, open_source
from pipeline.sources.frame import rgb_of

from .conftest import START, House, stamp

FPS = 4
PRIVATE = ((0.0, 0.0), (1.0, 0.0), (1.0, 0.3), (0.0, 0.3))


def person_at(k: int) -> Box:
    """Where the drawn clip has its blue person in frame `k`."""
    return (200 - 5 * k) / WIDTH, 30 / HEIGHT, 25 / WIDTH, 61 / HEIGHT


def feet(*frames: int) -> tuple[tuple[float, float], ...]:
    return tuple((x + w / 2, y + h) for x, y, w, h in map(person_at, frames))


@pytest.fixture(scope="module")
def tracked(tmp_path_factory) -> House:
    """A person comes (from frame 8 on), walks and leaves (frame 24), with real pictures; a car is there."""
    folder = tmp_path_factory.mktemp("tracked")
    footage = clip(folder / "footage" / "yard.mp4", seconds=12)
    with open_source(str(footage), SourceOptions(sample_hz=FPS, start=START), "yard") as source:
        frames = list(source)
    store = EvidenceStore(folder / "state" / "evidence", fsync=False)

    def kept(frame: Frame) -> str:
        return store.put(encode(frame.image, 90), "jpg")

    walk = [("entered", "p", 4, 12), ("moved", "p", 12, 20), ("left", "p", 20, 28)]
    with Journal(folder / "state" / "journal", "yard", fsync=False) as journal:
        for n, (action, track, a, b) in enumerate([*walk, ("stopped", "c", 20, 24)], 1):
            boxes = None if action == "entered" else person_at(a), None if action == "left" else person_at(b)
            path = feet(*range(max(a, 8), min(b, 24) + 1))
            change = {"entered": "appeared", "left": "disappeared"}.get(action, "moved")
            said = Sentence(
                f"Somebody {action}.", change, "person", boxes[1] or boxes[0], 0.7, 0.8, before=boxes[0],
                after=boxes[1], paths=(path,), action=action, track=track,
            )  # fmt: skip
            sides = {"before": stamp(frames[a]), "after": stamp(frames[b])}
            told = narration(n, "yard", sentences=(said,), rate_hz=FPS, **sides)
            journal.append(told, evidence=Evidence(before=kept(frames[a]), after=kept(frames[b])))
    return House(folder / "state", footage, "")


def colours(image: np.ndarray) -> tuple[int, int]:
    """Pixels that are the person's blue, and the car's red."""
    red, _, blue = (image[..., k].astype(int) for k in range(3))
    return int(((blue > 150) & (red < 90)).sum()), int(((red > 150) & (blue < 90)).sum())


def frames_of(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [rgb_of(frame) for frame in container.decode(video=0)]


def test_only_the_tracks_box_is_left_in_pictures_and_clips(tracked, tmp_path, capsys):
    out = tmp_path / "out"
    assert tracked.export(out, "--mask", "p", "--clips", str(tracked.clip)) == 0
    assert cli.main(["verify", str(out)]) == 0
    checked = subprocess.run([sys.executable, out / "check.py"], capture_output=True, text=True, check=False)
    assert checked.stdout == "all holds\n"
    records = [json.loads(line) for line in (out / "records.jsonl").read_bytes().splitlines()]
    assert [record["seq"] for record in records] == [1, 2, 3]
    masked = json.loads((out / "export.json").read_bytes())["masked"]
    for record, sides in zip(records, ("after", "before after", "before"), strict=True):
        for side, reference in record["evidence"].items():
            content = (out / "pictures" / f"{masked[reference[7:]]}.jpg").read_bytes()
            assert hashlib.sha256(content).hexdigest() == masked[reference[7:]]
            image = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
            blue, red = colours(image)
            assert red == 0
            if side in sides.split():
                assert blue > 0.8 * 25 * 61
                lit = (image > 16).any(axis=2)
                assert lit.mean() < 0.1
                assert lit.any(axis=0).sum() == pytest.approx(1.4 * 25, abs=3)  # a fifth on either side
            else:
                assert image.max() < 16
    shown = frames_of(out / "clips/yard-2.mp4")
    assert len(shown) == 33  # 3 s before and after two seconds
    for k, image in enumerate(shown):
        blue, red = colours(image)
        assert red == 0, k
        if 8 <= k <= 24:
            assert blue > 0.7 * 25 * 61, k
        else:
            assert image.max() < 24, k
    whole = {path.read_bytes() for path in (tracked.state / "evidence").rglob("*.jpg")}
    assert not whole & {path.read_bytes() for path in out.rglob("*") if path.is_file()}
    picture = next((out / "pictures").iterdir())
    picture.unlink()
    assert cli.main(["verify", str(out)]) == 1
    assert picture.name in capsys.readouterr().err


@pytest.mark.parametrize("masked", [(), ("--mask", "p")])
def test_the_same_selection_gives_the_same_bytes(tracked, tmp_path, masked):
    one, two = (tmp_path / f"{name}.zip" for name in "ab")
    for out in (one, two):
        assert tracked.export(out, *masked, "--clips", str(tracked.clip)) == 0
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("rotation", [0, 90])
def test_privacy_areas_hold_in_clips_and_others_are_copied(tracked, tmp_path, rotation):
    clips, height = tmp_path / "yard.mp4", WIDTH if rotation else HEIGHT
    with av.open(str(tracked.clip)) as lying, av.open(str(clips), "w") as upright:
        stream = upright.add_stream_from_template(lying.streams.video[0])
        stream.set_display_rotation(rotation)
        for packet in lying.demux():
            packet.stream = stream
            if packet.size:
                upright.mux(packet)
    for camera in ("yard", "gate"):
        out, path = tmp_path / camera, tmp_path / f"{camera}.yaml"
        area = [list(corner) for corner in PRIVATE]
        own = f"{{url: 'rtsp://cam/1', privacy: {{sky: {area}}}}}"
        path.write_text(f"version: 1\nstate: {tracked.state}\ncameras: {{{camera}: {own}}}\n")
        options = ("--config", str(path), "--clips", str(clips), "what happened last")
        assert cli.main(["export", *options, "--timezone", "UTC", "--out", str(out)]) == 0
        (facts,) = json.loads((out / "export.json").read_bytes())["clips"].values()
        assert facts.get("encoded", False) == (camera == "yard")
        rows = int(0.3 * height)
        shown = frames_of(next(out.glob("clips/*")))
        assert (max(int(image[:rows].max()) for image in shown) < 24) == (camera == "yard")
        assert all(image[rows + 8 :].max() > 60 for image in shown)


def test_a_track_that_no_record_names_is_refused(tracked, tmp_path, capsys):
    assert tracked.export(tmp_path / "out", "--mask", "x") == 2
    assert "no such record names the track 'x'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_track_is_of_one_camera(tmp_path, capsys):
    """Cameras whose first frames are of one second call their tracks alike: another's is somebody else."""
    said = Sentence("Somebody entered.", "appeared", "person", None, 0.7, 0.8, action="entered", track="p")
    for camera in ("gate", "yard"):
        with Journal(tmp_path / "journal", camera, fsync=False) as journal:
            journal.append(narration(1, camera, sentences=(said,)))
    house, out = House(tmp_path, tmp_path, ""), tmp_path / "out"
    assert house.export(out, "--mask", "p") == 2
    assert "'p' is a track of gate and of yard: choose one with --camera" in capsys.readouterr().err
    assert not out.exists()
    assert house.export(out, "--mask", "p", "--camera", "yard") == 0
    assert len((out / "records.jsonl").read_bytes().splitlines()) == 1


@pytest.mark.parametrize("content", [b"", b"no picture"])
def test_what_is_no_picture_is_left_out(content: bytes) -> None:
    record = build_record(narration(), ChainEnd(0, "0" * 64))
    assert Mask("p").picture(record, "before", content) is None
