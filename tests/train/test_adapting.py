import re
import sys
from collections.abc import Callable
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
import torch

import train.compose
from models import DEFAULT_CHECKPOINT, SHIPPED, load_captioner, save
from models.checkpoint import read_checkpoint
from models.grounded import Grounded
from models.perception import OBJECTS
from train.adapting import SHARES, AdaptOptions, adapt
from train.cli import main
from train.teacher import Detection

Run = Callable[..., tuple[int, str, str]]

HEIGHT, WIDTH = 192, 256
RED = (220, 30, 30)


def footage(path: Path, *, still: bool = False, frames: int = 96) -> Path:
    """24 s of a rough wall, before which red boxes come and go; nothing happens if `still`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rough = np.random.default_rng(5).integers(70, 140, (HEIGHT // 8, WIDTH // 8, 3), np.uint8)
    wall = np.kron(rough, np.ones((8, 8, 1), np.uint8))
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=4)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for k in range(frames):
            image = wall.copy()
            left = 10 + 12 * (k % 16)
            if not still and k % 32 < 16:
                cv2.ellipse(image, (left + 20, 90), (20, 14), 0, 0, 360, RED, -1)
            if not still and k % 24 < 8:
                cv2.ellipse(image, (60 + k, 150), (22, 15), 0, 0, 360, RED, -1)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return path


class Painted:
    """A teacher for painted footage: red blobs are cars."""

    def __init__(self, weights: Path) -> None:
        self.sha256 = weights.name

    def detect(self, image: np.ndarray) -> tuple[Detection, ...]:
        red = np.asarray((image[..., 0] > 150) & (image[..., 1] < 90), np.uint8)
        boxes = cv2.connectedComponentsWithStats(red)[2][1:]
        height, width = red.shape
        return tuple(
            Detection("car", (x / width, y / height, w / width, h / height), 0.9)
            for x, y, w, h, area in boxes.tolist()
            if area > 80
        )


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process: exit code, standard output, standard error."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["narrated-train", "adapt", *map(str, words)])
        with pytest.raises(SystemExit) as exit_:
            main()
        shown = capsys.readouterr()
        return int(exit_.value.code or 0), shown.out, shown.err

    return call


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A name under which the teacher of painted footage is found; there are no weights of it."""
    monkeypatch.setattr(train.compose, "Teacher", Painted)
    monkeypatch.setattr(train.compose, "_TEACHERS", {})
    return Path("painted.onnx")


@pytest.fixture
def ignorant(tmp_path: Path) -> Path:
    """The packaged captioner, but it takes every object for a bottle: there is something to learn."""
    captioner = load_captioner()
    assert isinstance(captioner, Grounded)
    with torch.no_grad():
        captioner.perception.answer.bias[5 + OBJECTS.index("bottle")] += 6  # type: ignore[index]
    save(captioner, tmp_path / "ignorant.safetensors")
    return tmp_path / "ignorant.safetensors"


@pytest.mark.slow
@pytest.mark.usefixtures("painted")
def test_adapts_to_one_camera_and_records_how(ignorant: Path, tmp_path: Path) -> None:
    footage(tmp_path / "clips" / "gate.mp4")
    out = tmp_path / "mine.safetensors"
    options = AdaptOptions(
        tmp_path / "clips", Path("painted.onnx"), out, ignorant, pairs=60, epochs=4, learning_rate=3e-3
    )
    adapted = adapt(options, command="the command")
    assert adapted.after.f1 > adapted.before.f1
    assert adapted.better
    assert adapted.share in SHARES
    base, new = read_checkpoint(ignorant), read_checkpoint(out)
    assert (new.words, new.arguments) == (base.words, base.arguments)
    record = new.record
    assert (record["command"], record["changes"]) == ("the command", base.record["changes"])
    assert record["share"] == adapted.share
    assert record["adapted_from"]["sha256"] == base.sha256
    assert [len(digest) for digest in record["clips"].values()] == [64]
    (held_out,) = record["held_out"]
    assert held_out["clip"] == "gate.mp4"
    assert held_out["from_s"] == pytest.approx(0.75 * 23.75, abs=0.3)
    changed = {name for name, value in new.weights.items() if not torch.equal(value, base.weights[name])}
    assert changed
    assert not any(name.startswith(("speaker", "linker", "scale", "calibration")) for name in changed)
    assert load_captioner(out).sha256 == new.sha256 == adapted.sha256
    assert sorted(p.name for p in tmp_path.iterdir()) == ["clips", "ignorant.safetensors", "mine.safetensors"]


@pytest.mark.slow
def test_the_command_says_what_changed(run: Run, painted: Path, tmp_path: Path) -> None:
    footage(tmp_path / "clips" / "gate.mp4")
    out = tmp_path / "mine.safetensors"
    options = ("--clips", tmp_path / "clips", "--teacher", painted, "--out", out, "--pairs", 30)
    code, shown, said = run(*options, "--epochs", 1)
    assert code == 0, said
    heading, before, adapted = shown.splitlines()
    assert heading.startswith("On the last quarter of the footage")
    assert re.fullmatch(r"  before: \d+ sentences right, \d+ wrong; \d+ of \d+ changes .*", before)
    assert re.fullmatch(r"  adapted: \d+ sentences right, \d+ wrong; \d+ of \d+ changes .*", adapted)
    kept = out.read_bytes() == DEFAULT_CHECKPOINT.read_bytes()
    assert ("checkpoint of before, unchanged" in said.splitlines()[-1]) == kept


@pytest.mark.slow
@pytest.mark.usefixtures("painted")
def test_what_is_no_better_leaves_the_checkpoint_of_before(tmp_path: Path) -> None:
    footage(tmp_path / "clips" / "gate.mp4")
    out = tmp_path / "mine.safetensors"
    adapted = adapt(
        AdaptOptions(tmp_path / "clips", Path("painted.onnx"), out, pairs=40, epochs=1, learning_rate=1e-12)
    )
    assert adapted.before == adapted.after
    assert adapted.share == SHARES[0]
    assert not adapted.better
    assert out.read_bytes() == DEFAULT_CHECKPOINT.read_bytes()
    assert adapted.sha256 == read_checkpoint(DEFAULT_CHECKPOINT).sha256


def test_footage_in_which_nothing_moves(run: Run, painted: Path, tmp_path: Path) -> None:
    footage(tmp_path / "clips" / "gate.mp4", still=True, frames=64)
    out = tmp_path / "mine.safetensors"
    code, shown, said = run("--clips", tmp_path / "clips", "--teacher", painted, "--out", out, "--pairs", 6)
    assert (code, shown) == (1, "")
    assert "hardly anything moves" in said
    assert "could be cut out only 0 times" in said
    assert not out.exists()


def test_what_cannot_be_adapted(run: Run, tmp_path: Path) -> None:
    footage(tmp_path / "clips" / "gate.mp4", frames=64)
    nowhere, out = tmp_path / "nowhere.onnx", tmp_path / "mine.safetensors"
    options = ("--clips", tmp_path / "clips", "--teacher", nowhere)
    for more, says in (
        (("--out", out), f"no detector at {nowhere}"),
        (("--out", tmp_path), "is a folder"),
        (("--out", out, "--checkpoint", SHIPPED["ddla"]), "adapting needs a grounded one"),
        (("--out", out, "--checkpoint", nowhere), "no checkpoint at"),
        (("--out", out, "--exclude", "gate*"), "no clips"),
    ):
        code, shown, said = run(*options, *more)
        assert (code, shown) == (1, "")
        assert len(said.splitlines()) == 1
        assert says in said
    assert not out.exists()
