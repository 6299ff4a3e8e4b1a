"""Who predicts in `quality.py`: baselines, `narrated describe`, and captioners with a step switched off."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from daemon.describe import Description, PairPaths, describe, sentence_members
from daemon.plan import camera_plan
from daemon.settings import CameraDefaults
from models import load_captioner
from pipeline.changes import ChangeOptions

SHARED = Path(__file__).resolve().parents[2] / "shared"
BENCH, DATA = SHARED / "bench", SHARED / "data"
LABELS = BENCH / "visible" / "pairs.jsonl"
MEMBERS = ("text", "box", "confidence")

Predictions = dict[str, list[dict[str, Any]]]
"""By a pair's id its sentences, as `score.py` takes them."""

_PAPER = ChangeOptions()


@dataclass(frozen=True)
class Step:
    """A step of the grounded captioner, switched off (or set otherwise) while it describes.

    Attributes:
        name: of the row.
        attributes: of the captioner, to be set.
        functions: of `models.grounded`, to be replaced.
        changes: options by which changes are found, to be set.
        options: by which is described, to be set.
    """

    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


NONE = Step("")
NOT_ASKED = Step("the encoder's own classes not asked", attributes={"recognise": False})
STEPS = (
    NOT_ASKED,
    Step("clusters not split: one thing each", attributes={"split": False}),
    Step("nothing linked: nothing has moved", attributes={"link": False}),
    Step("nothing told together", attributes={"group": False}),
    Step("ghosts told", functions={"without_ghosts": lambda before, after: (before, after)}),
    Step("words not checked against facts", functions={"agrees": lambda *_: True}),
    Step("no confidence asked for", options={"min_confidence": 0.0}),
    Step("light gate at .7", changes={"light_correlation": 0.7}),
    Step("no light gate", changes={"light_correlation": None}),
    Step(
        "the paper's difference and clusters",
        changes={
            name: getattr(_PAPER, name)
            for name in ("size", "max_shift", "delta", "eps", "min_samples", "min_area")
        },
    ),
)


def baseline(name: str, folder: Path) -> Predictions:
    """A baseline of the benchmark; what lies in `folder` already is taken as it is."""
    out = folder / f"{name}.jsonl"
    if not out.exists():
        weights = DATA / "weights" / "yolox_nano_416_coco.onnx"
        options = ("--out", out, "--clips", DATA / "clips", "--weights", weights)
        run_script("baselines.py", name, LABELS, *options)
    return read_predictions(out)


def pictures(ids: Sequence[str], folder: Path) -> dict[str, PairPaths]:
    """The pairs as pictures in `folder`, written unless they are there."""
    paths = {
        i: PairPaths(i, folder / "png" / f"{i}_before.png", folder / "png" / f"{i}_after.png") for i in ids
    }
    if not all(each.before.exists() and each.after.exists() for each in paths.values()):
        run_script("extract.py", LABELS, "--clips", DATA / "clips", "--out", folder / "png")
    return paths


def by_command(pairs: Sequence[PairPaths], folder: Path, *options: str) -> Predictions:
    """What the public command `narrated describe --pairs` says."""
    wanted, out = folder / "describe.jsonl", folder / "narrated.jsonl"
    lines = [
        json.dumps({"id": p.id, "before": str(p.before.resolve()), "after": str(p.after.resolve())})
        for p in pairs
    ]
    wanted.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    narrated = Path(sys.executable).with_name("narrated")
    command = [narrated, "describe", "--pairs", wanted, "--out", out]
    subprocess.run([*map(str, command), *options], check=True)
    return read_predictions(out)


def in_process(pairs: Sequence[PairPaths], checkpoint: Path | None, step: Step = NONE) -> Predictions:
    """What the command would say, with a step switched off; None takes the packaged checkpoint."""
    captioner = load_captioner(checkpoint)
    for name, value in step.attributes.items():
        if not hasattr(captioner, name):
            raise ValueError(f"captioner {captioner.name} has no {name} to be switched off")
        setattr(captioner, name, value)
    plan = camera_plan("describe", "", CameraDefaults())
    plan = replace(plan, changes=dict(step.changes), describe=replace(plan.describe, **step.options))
    told: Predictions = {}
    with ExitStack() as replaced:
        for name, function in step.functions.items():
            replaced.enter_context(patch(f"models.grounded.{name}", function))
        for one in describe(pairs, captioner, plan):
            if not isinstance(one, Description):
                raise one
            sentences = [sentence_members(sentence) for sentence in one.narration.sentences]
            told[one.id] = [{member: s[member] for member in MEMBERS} for s in sentences]
    return told


def read_predictions(path: Path) -> Predictions:
    """Predictions by id."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["id"]: line["sentences"] for line in lines}


def run_script(name: str, *arguments: object) -> None:
    """A script of the benchmark."""
    subprocess.run([sys.executable, str(BENCH / name), *map(str, arguments)], check=True)
