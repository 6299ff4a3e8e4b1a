"""Adapting a trained captioner to a user's own cameras: a few gentle epochs on pairs composed of their clips.

What it must not do is forget the rest, of which nothing is at hand here. So only the parts that look are
trained (words are the same on every camera), for a few epochs at a falling rate, and of the change of the
weights only a share is taken (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models": weights between
the old and the new ones keep much of what either can). From the last part of the footage, in time, nothing is
learnt: it chooses the share, and whether the adapted captioner or the one of before is written.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from models import DEFAULT_CHECKPOINT, load_captioner, save
from models.captioner import DescribeOptions
from models.checkpoint import ENCODER
from models.grounded import Grounded
from train.batches import Split, load_split
from train.compose import ComposeReport, compose
from train.evaluate import described
from train.loop import TrainError, TrainOptions, train
from train.recipe import TEST_FOOTAGE, ComposeOptions
from train.runs import QUIET, Telling, trained_changes
from train.verdicts import judge

LAST_PART = 0.25
"""Share of the footage that is held out."""
FEWEST_CROPS = 20
"""With fewer pictures of moving objects, nothing is adapted."""
SHARES = (0.5, 0.6, 0.7)
"""Of the change of the weights; the first of the best is taken. With more of it, what the footage never shows
is forgotten (docs/adapting.md), and the held-out footage, which does not show it either, cannot tell."""
_FROZEN = ("speaker.", "linker.")
_BATCH, _DECAY = 24, 0.3
"""A rate that does not fall unsettles what was learnt before: worse on every camera of the benchmark."""


@dataclass(frozen=True, slots=True)
class AdaptOptions:
    """What is adapted to what.

    Attributes:
        clips: folder of clips, see `train.scenes.find_clips`; one camera is enough.
        teacher: YOLOX network in ONNX format.
        out: checkpoint to write.
        checkpoint: of a grounded captioner; None takes the packaged one.
        pairs: pairs to learn from; a third as many are composed of the held-out footage.
        epochs: passes over them.
        learning_rate: of Adam, in the first epoch.
        avoid: see `train.recipe.ComposeOptions`.
        exclude: patterns of file names that are never used.
        seed: of composing and training.
        workers: processes for composing.
    """

    clips: Path
    teacher: Path
    out: Path
    checkpoint: Path | None = None
    pairs: int = 600
    epochs: int = 3
    learning_rate: float = 1e-3
    avoid: Path | None = None
    exclude: tuple[str, ...] = TEST_FOOTAGE
    seed: int = 1
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Score:
    """How right a captioner is about the held-out pairs.

    Attributes:
        right, wrong: sentences that could be judged.
        found, changes: changes about which a right sentence was told, and all changes.
    """

    right: int
    wrong: int
    found: int
    changes: int

    @property
    def f1(self) -> float:
        """Harmonic mean of the share of right sentences and the share of changes found, 0..1."""
        precision = self.right / max(self.right + self.wrong, 1)
        recall = self.found / max(self.changes, 1)
        return 2 * precision * recall / max(precision + recall, 1e-9)


@dataclass(frozen=True, slots=True)
class Adapted:
    """What came of it.

    Attributes:
        better: whether the adapted captioner was written; else the file is the checkpoint of before.
        before, after: the captioner of before and the adapted one, on the held-out pairs.
        share: of the change of the weights.
        sha256: hex, of the file written.
        notes: clips that were left out, and why.
    """

    better: bool
    before: Score
    after: Score
    share: float
    sha256: str
    notes: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON."""
        scores = {"before": self.before, "after": self.after}
        return {
            **asdict(self),
            "notes": list(self.notes),
            **{name: {**asdict(score), "f1": round(score.f1, 4)} for name, score in scores.items()},
        }


def adapt(options: AdaptOptions, *, command: str = "", telling: Telling = QUIET) -> Adapted:
    """Adapt a grounded captioner to the cameras of some clips and write it, if it is better there.

    Args:
        options: what, to what.
        command: the command line, for the record.
        telling: who is told how far it is.

    Raises:
        TrainError: not a grounded captioner, too little movement in the footage, or it cannot be written.
        CheckpointError, FootageError, TeacherError, SampleError, FeatureError: see
            their modules.
    """
    captioner = _grounded(options)
    with tempfile.TemporaryDirectory(prefix="narrated-adapt-") as scratch:
        folder = Path(scratch) / "pairs"
        report = compose(_compose_options(options, captioner, folder), telling.count)
        for note in report.notes:
            telling.note(note)
        _check_movement(options, report)
        training, validation = _splits(captioner, folder, telling)
        before = score(captioner, validation)
        sources = json.loads((folder / "compose.json").read_text(encoding="utf-8"))
        record = _record(options, captioner, sources, command)
        old = _weights(captioner)
        _learn(captioner, training, validation, options, Path(scratch), record=record, telling=telling)
        share, after = _mixed(captioner, old, validation)
        captioner.record = {
            **captioner.record,
            "share": share,
            "scores": {"before": asdict(before), "after": asdict(after)},
        }
        better = after.f1 > before.f1
        sha256 = _write(captioner, options, better=better)
    return Adapted(better, before, after, share, sha256, report.notes)


def _learn(
    captioner: Grounded,
    training: Split,
    validation: Split,
    options: AdaptOptions,
    folder: Path,
    *,
    record: dict[str, Any],
    telling: Telling,
) -> None:
    """Train the parts that look."""
    for name, weight in captioner.named_parameters():
        weight.requires_grad_(weight.requires_grad and not name.startswith(_FROZEN))
    settings = TrainOptions(
        epochs=options.epochs,
        patience=options.epochs,
        batch=_BATCH,
        learning_rate=options.learning_rate,
        decay=_DECAY,
        seed=options.seed,
        keep="last",
    )
    train(
        captioner,
        training,
        validation,
        settings,
        folder / "adapted.safetensors",
        record=record,
        keep_scaling=True,
        on_batch=telling.batch,
        on_epoch=telling.epoch,
    )


def _mixed(captioner: Grounded, old: dict[str, torch.Tensor], validation: Split) -> tuple[float, Score]:
    """Give a captioner, newly trained, weights between the old ones and its own: those of the best F1."""
    new = _weights(captioner)

    def take(share: float) -> None:
        mixed = {name: torch.lerp(old[name], new[name], share) for name in old}
        captioner.load_state_dict(mixed, strict=False)

    scores = {}
    for share in SHARES:
        take(share)
        scores[share] = score(captioner, validation)
    best = max(SHARES, key=lambda share: scores[share].f1)
    take(best)
    return best, scores[best]


def score(captioner: Grounded, split: Split) -> Score:
    """Judge everything that a captioner tells about a split, by the rules of `train.verdicts`."""
    right = wrong = found = 0
    told = described(captioner, split, lambda _sample: DescribeOptions())
    for sample, sentences in zip(split.samples, told, strict=True):
        verdicts = [v for v in judge(sentences, sample) if v.counted]
        right += sum(v.right for v in verdicts)
        wrong += sum(not v.right for v in verdicts)
        found += len({k for v in verdicts if v.right for k in v.tells})
    return Score(right, wrong, found, sum(len(s.changes) for s in split.samples))


def _grounded(options: AdaptOptions) -> Grounded:
    if options.out.is_dir():
        raise TrainError(f"{options.out} is a folder; --out names the checkpoint file to write")
    captioner = load_captioner(options.checkpoint)
    if not isinstance(captioner, Grounded):
        raise TrainError(
            f"{options.checkpoint} holds a captioner {captioner.name}; adapting needs a grounded one, which "
            "learns from objects: give another --checkpoint, or leave it out for the packaged one"
        )
    return captioner


def _compose_options(options: AdaptOptions, captioner: Grounded, folder: Path) -> ComposeOptions:
    return ComposeOptions(
        clips=options.clips,
        teacher=options.teacher,
        out=folder,
        pairs=options.pairs,
        val_pairs=max(options.pairs // 3, 1),
        last_part=LAST_PART,
        exclude=options.exclude,
        seed=options.seed,
        changes=trained_changes(captioner),
        avoid=options.avoid,
        workers=options.workers,
    )


def _check_movement(options: AdaptOptions, report: ComposeReport) -> None:
    crops = sum(report.crops.values())
    if crops < FEWEST_CROPS:
        raise TrainError(
            f"hardly anything moves in {options.clips}: the teacher's objects could be cut out only {crops} "
            f"times, and {FEWEST_CROPS} are the least; give clips in which people or vehicles pass by"
        )


def _splits(captioner: Grounded, folder: Path, telling: Telling) -> tuple[Split, Split]:
    """What is learnt from, and what is held out."""
    changes = trained_changes(captioner)
    training, validation = (
        load_split(
            folder,
            name,
            captioner.encoder,
            changes,
            cache=folder / ".features",
            progress=partial(telling.features, name),
            crop_size=captioner.crop_size,
            whole=captioner.whole,
            images=captioner.needs_images,
        )
        for name in ("train", "val")
    )
    return training, validation


def _weights(captioner: Grounded) -> dict[str, torch.Tensor]:
    own = captioner.state_dict().items()
    return {name: value.detach().clone() for name, value in own if not name.startswith(ENCODER)}


def _record(
    options: AdaptOptions, captioner: Grounded, sources: dict[str, Any], command: str
) -> dict[str, Any]:
    """What the training record says besides what the loop writes."""
    return {
        "command": command,
        "changes": captioner.record.get("changes", {}),
        "data": options.clips.name,
        "adapted_from": {"sha256": captioner.sha256, "command": captioner.record.get("command", "")},
        "clips": sources["clips"],
        "held_out": sources["held_out"],
        "teacher_sha256": sources["teacher_sha256"],
    }


def _write(captioner: Grounded, options: AdaptOptions, *, better: bool) -> str:
    """Write the adapted captioner, or the one of before as it was."""
    try:
        if better:
            return save(captioner, options.out)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(options.checkpoint or DEFAULT_CHECKPOINT, options.out)
    except shutil.SameFileError:
        pass
    except OSError as error:
        raise TrainError(
            f"{options.out} cannot be written ({error.strerror}); choose another --out"
        ) from error
    return load_captioner(options.out).sha256
