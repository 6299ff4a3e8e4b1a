"""The command that trains a linker, on a clip made on the spot and a detector that knows nothing."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from models.families import CLASSES
from models.grounded.detector import Detector
from models.grounded.linker import Linker
from train.footage.frames import LabelledFrame
from train.footage.votes import Vote
from train.grounded.linker import main


def test_one_command_makes_a_linker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    torch.save(Detector(len(CLASSES)).state_dict(), tmp_path / "detector.pt")
    folder, labels = tmp_path / "footage" / "yard", tmp_path / "labels"
    folder.mkdir(parents=True)
    labels.mkdir()
    frames = []
    for i in range(6):
        image = np.full((96, 160, 3), 90, np.uint8)
        cv2.rectangle(image, (20 + 3 * i, 30), (60 + 3 * i, 60), (0, 0, 220), -1)
        cv2.imwrite(str(folder / f"in{3 * i:06d}.png"), image)
        car = Vote("vehicle", ((20 + 3 * i) / 160, 30 / 96, 40 / 160, 30 / 96), 0.9, (("car", 1.0),), 3)
        name = f"in{3 * i:06d}.png"
        frames.append(LabelledFrame("yard", name, None, f"images/yard/{name}", 160, 96, (car,)))
    (labels / "frames.jsonl").write_text("".join(json.dumps(asdict(frame)) + "\n" for frame in frames))
    out = tmp_path / "linker.pt"
    given = ["--detector", tmp_path / "detector.pt", "--data", tmp_path / "footage", "--labels", labels]
    monkeypatch.setattr("sys.argv", ["links", *map(str, given), "--out", str(out), "--steps", "2"])
    main()
    Linker().load_state_dict(torch.load(out, weights_only=True))
    assert len(list((tmp_path / "linker.cache").glob("yard-*.pt"))) == 1
    said = capsys.readouterr().out
    assert "yard: " in said
    assert '"auc"' in said
    monkeypatch.setattr(
        "sys.argv",
        ["links", *map(str, given[:2]), "--data", str(labels), *map(str, given[4:]), "--out", str(out)],
    )
    with pytest.raises(SystemExit, match="name the folder of the footage"):
        main()
