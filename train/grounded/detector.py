"""Training the detector on labelled frames: an interrupted run goes on where it was."""

import json
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from models.families import CLASSES
from models.grounded.detector import Detector
from train.footage.votes import Vote
from train.grounded.losses import Objects, detector_loss
from train.grounded.pictures import CANVASES, LabelledPicture, Pictures
from train.grounded.stages import StageOptions, Stateful, load_state, save_state

TAUGHT = ("person", "bicycle", "car", "motorcycle", "bus", "truck", "van")
"""Classes that the teacher looks for in every frame; of the others only what it happens to see is known."""

_UNNAMED = {
    "vehicle": (("car", 1.0), ("truck", 0.5), ("bus", 0.5)),
    "two-wheeler": (("motorcycle", 1.0), ("bicycle", 0.7)),
    "person": (("person", 1.0),),
}


def label_of(vote: Vote) -> Tensor:
    """Soft class label from several detectors' votes, float32 ``(classes,)``; the largest is 1."""
    kinds = dict(vote.kinds) or dict(_UNNAMED.get(vote.family, ((vote.family, 1.0),)))
    label = torch.zeros(len(CLASSES))
    most = max(kinds.values())
    for name, share in kinds.items():
        label[CLASSES.index(name)] = share / most
    return label


def objects_of(picture: LabelledPicture) -> Objects:
    rows = np.flatnonzero(picture.sure)
    label = [label_of(picture.votes[i]) for i in rows]
    return Objects(
        torch.from_numpy(picture.boxes[rows]),
        torch.stack(label) if label else torch.zeros(0, len(CLASSES)),
        torch.from_numpy(picture.boxes[~picture.sure]),
    )


def batches(pictures: Pictures, options: StageOptions, first: int) -> Iterator[tuple[Tensor, list[Objects]]]:
    """Batches from step `first` on, drawn ahead by a thread; step n is the same whenever it is drawn."""

    def make(step: int) -> tuple[Tensor, list[Objects]]:
        rng = np.random.default_rng((options.seed, step))
        canvas = CANVASES[int(rng.integers(len(CANVASES)))]
        drawn = [pictures.draw(rng, canvas) for _ in range(options.batch)]
        stack = torch.from_numpy(np.stack([p.image for p in drawn])).permute(0, 3, 1, 2)
        return stack, [objects_of(p) for p in drawn]

    with ThreadPoolExecutor(1) as pool:
        waiting = [pool.submit(make, first + n) for n in range(3)]
        for step in range(first, options.steps):
            yield waiting.pop(0).result()
            waiting.append(pool.submit(make, step + 3))


def train_detector(
    start: Detector, pictures: Pictures, options: StageOptions, out: Path, *, device: str = "cpu"
) -> Detector:
    """Train from `start`, or go on where an earlier run into `out` stopped; the averaged weights."""
    torch.manual_seed(options.seed)
    original = deepcopy(start).eval().to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    net = deepcopy(start).train().to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    average: Detector = deepcopy(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.rate, weight_decay=1e-4)
    parts: dict[str, Stateful] = {"net": net, "average": average, "optimizer": optimizer}
    step = load_state(out / "state.pt", **parts)
    taught = torch.tensor([name in TAUGHT for name in CLASSES], device=device)
    began, losses = time.monotonic(), []
    for shown, objects in batches(pictures, options, step):
        for group in optimizer.param_groups:
            group["lr"] = _rate(step, options)
        images = shown.to(device)
        known = [Objects(o.box.to(device), o.label.to(device), o.doubtful.to(device)) for o in objects]
        with torch.autocast(device, torch.bfloat16):
            with torch.no_grad():
                before = original(images).label
            answer = net(images)
        loss = detector_loss(answer.float(), known, before.float(), taught)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), options.clip)
        optimizer.step()
        step += 1
        with torch.no_grad():
            keep = min(options.average, step / (step + 10))
            for ours, theirs in zip(average.parameters(), net.parameters(), strict=True):
                ours.lerp_(theirs, 1 - keep)
        losses.append(float(loss.detach()))
        if step % 50 == 0:
            loss_mean, seconds = round(sum(losses) / len(losses), 4), round(time.monotonic() - began)
            line = {"step": step, "loss": loss_mean, "s": seconds}
            with (out / "log.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            losses = []
        if step % 250 == 0 or step == options.steps:
            save_state(out / "state.pt", step, **parts)
    return average.eval()


def _rate(step: int, options: StageOptions) -> float:
    warm = min(1.0, (step + 1) / options.warm_up)
    return options.rate * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / options.steps)))
