"""The training of the grounded captioner, from labelled frames to a checkpoint.

Detector, feature embedding, change classifier and appearance embedding are trained one after another, each on
what it needs; the decisions are those of the packaged checkpoint until they are fitted to labelled pairs
(`train.grounded.decisions`). Each stage is kept beside the checkpoint (`train.grounded.stages`), so that an
interrupted training goes on where it was.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models import load_captioner
from models.embedding import AppearanceEmbedding
from models.grounded.grounded import Grounded
from models.grounded.inference import OnnxDetector
from models.grounded.observations import ChangeClassifier, FeatureEmbedding
from train.checkpoints import TrainError, camera_record, refuse_folder, versions, write_checkpoint
from train.footage.cameras import CameraFiles
from train.footage.labels import LabelledFrame, by_camera, read_frames, read_source
from train.footage.teachers import TeacherFile
from train.grounded.appearance import (
    EmbeddingOptions,
    embedding_record,
    graph_of,
    learn_embedding,
    starting_osnet,
)
from train.grounded.change_classifier import ChangeLabels, change_labels, classifier_of, train_classifier
from train.grounded.detector import average_precision, mean, train_detector
from train.grounded.detector_weights import export_onnx, plain_start, starting_detector
from train.grounded.feature_embedding import FLOWING, CameraSnapshots, embedding_of, train_feature_embedding
from train.grounded.identities import Collector, collect
from train.grounded.pictures import Pictures
from train.grounded.stages import ChainOptions, Result, StageOptions, StageOutput, Stages

_FEWEST = 50  # observations that a classifier can learn from
_EVERY = 5  # cameras: one in so many is held out
_GIVEN = ("labels", "sha256", "detectors")  # what the record says of label files


@dataclass(frozen=True, slots=True)
class ChainRun:
    data: Path  # folder of labelled frames, see `train.footage.labels`
    out: Path  # checkpoint to write; the stages are kept in ``<out without suffix>.run``
    options: ChainOptions  # how much each part learns
    seed: int  # of everything that is drawn
    changes: Mapping[str, Any]  # the change options as plain values, see `pipeline.changes.ChangeOptions`
    start: Path | None = None  # what the detector starts from, see `train.grounded.detector_weights`
    val_cameras: tuple[str, ...] = ()  # held out; empty holds out about every fifth, by a hash of its name
    leave_out: frozenset[str] = frozenset()  # cameras that are used for nothing
    # the feature embedding's teacher, from which the appearance embedding starts, see
    # `train.grounded.appearance`; None does without and takes the packaged appearance embedding
    reid: Path | None = None
    command: str = ""  # the command line, for the record
    device: str = "cpu"  # where the detector is trained

    @property
    def detecting(self) -> StageOptions:
        own = self.options
        return StageOptions(own.detector_steps, own.detector_batch, own.detector_rate, seed=self.seed)

    @property
    def teacher(self) -> dict[str, Any] | None:
        return TeacherFile(self.reid).plain() if self.reid else None


@dataclass(frozen=True, slots=True)
class _LabelledFootage:
    """The labelled frames, divided, and what they were made of."""

    learn: list[LabelledFrame]
    held: list[LabelledFrame]
    sources: Mapping[str, dict[str, Any]]
    sha256: str

    @property
    def inputs(self) -> dict[str, Any]:
        return {"frames": self.sha256, "held": sorted({frame.camera for frame in self.held})}


def train_chain(run: ChainRun, note: Callable[[str], None] = lambda _line: None) -> dict[str, Any]:
    """Train a grounded captioner and write its checkpoint; returns the checkpoint's record."""
    refuse_folder(run.out)
    footage = _footage(run)
    stages = Stages(run.out.with_suffix(".run"), note)
    stages.log(f"{len(footage.learn)} frames to learn from, {len(footage.held)} to validate on")
    captioner = _train(run, footage, stages)
    stages.log(f"{run.out.name}: {write_checkpoint(captioner, run.out)}")
    return dict(captioner.record)


def _train(run: ChainRun, footage: _LabelledFootage, stages: Stages) -> Grounded:
    """The captioner with its record, stage by stage."""
    own, seed = run.options, {"seed": run.seed, **footage.inputs}
    started = {"start": plain_start(run.start), **asdict(run.detecting), **footage.inputs}
    detector = stages.run("detector", started, partial(_detector, run, footage))
    several = {"members": own.members, **seed}
    embedded = {"detector": detector.key, "steps": own.feature_steps, "reid": run.teacher, **several}
    embedding = stages.run("embedding", embedded, partial(_embedding, run, footage, detector))
    captioner = _assemble(run, detector, embedding)
    asked = {"detector": detector.key, "pairs": own.classifier_pairs, "steps": own.classifier_steps}
    classifier = stages.run("classifier", {**asked, **several}, partial(_classifier, run, footage, captioner))
    captioner.weights.classifier = ChangeClassifier.of(_arrays(classifier.result["weights"]))
    captioner.record = {**captioner.record, **_record(run, footage, captioner, (detector, classifier))}
    if run.reid is not None:
        options = EmbeddingOptions(steps=own.embedding_steps, seed=run.seed)
        asked = {"embedding": embedding.key, "start": plain_start(run.reid), **asdict(options)}
        appearance = stages.run("appearance", asked, partial(_appearance, run, footage, captioner, options))
        captioner.graphs["embedding"] = appearance.result["graph"]
        sources = [footage.sources[name] for name in appearance.result["cameras"]]
        made = embedding_record(run.command, run.reid, options, sources)
        captioner.record = {**captioner.record, **made}
    return captioner


def validation_cameras(names: Sequence[str], asked: Sequence[str] = ()) -> tuple[str, ...]:
    """The cameras that are held out: those asked for, or about every fifth by a hash of its name."""
    unknown = sorted(set(asked) - set(names))
    if unknown:
        raise TrainError(f"there is no camera {', '.join(unknown)}; there are {', '.join(sorted(names))}")
    number = {name: int(hashlib.sha256(name.encode()).hexdigest(), 16) for name in sorted(names)}
    held = tuple(sorted(asked)) or tuple(name for name in number if number[name] % _EVERY == 0)
    held = held or tuple(sorted(number, key=lambda name: number[name])[:1])
    if len(held) >= len(number):
        raise TrainError(
            f"there is only {', '.join(number) or 'no camera'}; validation needs a camera that nothing is "
            "learnt from: label footage of another one as well"
        )
    return held


def _footage(run: ChainRun) -> _LabelledFootage:
    frames = [frame for frame in read_frames(run.data) if frame.camera not in run.leave_out]
    frames.sort(key=lambda frame: frame.camera)  # whatever the order in which they were labelled
    names = list(dict.fromkeys(frame.camera for frame in frames))
    held = validation_cameras(names, run.val_cameras)
    sources = {}
    for name in names:
        source = read_source(run.data, name)
        if source is None:
            raise TrainError(
                f"{run.data} does not say what the frames of {name} were made of (labels/{name}.json): "
                "label them again with narrated-train label"
            )
        sources[name] = source
    digest = hashlib.sha256(repr(frames).encode()).hexdigest()
    learn = [frame for frame in frames if frame.camera not in held]
    for name, own in by_camera(learn).items():  # now, and not when the detector is trained
        folder = Path(sources[name]["footage"])
        if not (folder / own[0].file).exists():
            raise TrainError(
                f"the footage of {name} is no longer in {folder}, and objects are followed through it: put "
                "it back, or label again from where it is, which keeps the labels"
            )
    return _LabelledFootage(learn, [frame for frame in frames if frame.camera in held], sources, digest)


def _detector(run: ChainRun, footage: _LabelledFootage, scratch: Path) -> Result:
    start = starting_detector(run.start, run.seed)
    pictures = Pictures(run.data, footage.learn, run.options.memory_mb)
    net = start
    if run.options.detector_steps:
        net = train_detector(start, pictures, run.detecting, scratch, device=run.device).cpu()
    every = max(1, len(footage.held) // 200)
    graph = export_onnx(net)
    scores = average_precision(OnnxDetector(graph), run.data, footage.held, every)
    rounded = {name: round(score, 4) for name, score in scores.items()}
    return {"graph": graph, "ap50": {**rounded, "mean": round(mean(scores), 4)}}


def _embedding(run: ChainRun, footage: _LabelledFootage, detector: StageOutput, scratch: Path) -> Result:
    teacher = AppearanceEmbedding(graph_of(starting_osnet(run.reid))) if run.reid else None
    collector = Collector(OnnxDetector(detector.result["graph"]), teacher, seed=run.seed)
    cameras = []
    for name, own in by_camera(footage.learn).items():
        folder = Path(footage.sources[name]["footage"])
        snapshots = collect(collector, own, folder, scratch / "seen")
        cameras.append(CameraSnapshots(name, snapshots, flowing=name in FLOWING))
    members = []
    for number in range(run.options.members):
        options = StageOptions(steps=run.options.feature_steps, seed=run.seed + number)
        members.append(train_feature_embedding(cameras, options, scratch / f"state{number}.pt"))
    learnt = embedding_of(members)
    return {"weights": _tensors({"weight": learnt.weight, "bias": learnt.bias})}


def _assemble(run: ChainRun, detector: StageOutput, embedding: StageOutput) -> Grounded:
    packaged = load_captioner()
    assert isinstance(packaged, Grounded)  # noqa: S101
    own = _arrays(embedding.result["weights"])
    learnt = FeatureEmbedding(own["weight"].astype(np.float64), own["bias"].astype(np.float64))
    weights = replace(packaged.weights, embedding=learnt)
    captioner = Grounded(weights, {**packaged.graphs, "detector": detector.result["graph"]})
    kept = {name: packaged.record[name] for name in ("decisions", "embedding", "tracking")}
    captioner.record = {**kept, "changes": dict(run.changes)}
    return captioner


def _tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(each.astype(np.float32)) for name, each in arrays.items()}


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[np.float32]]:
    return {name: each.numpy() for name, each in tensors.items()}


def _appearance(
    run: ChainRun, footage: _LabelledFootage, captioner: Grounded, options: EmbeddingOptions, scratch: Path
) -> Result:
    assert run.reid is not None  # noqa: S101
    net, cameras = starting_osnet(run.reid), list[CameraFiles]()
    for name in dict.fromkeys(frame.camera for frame in footage.learn):
        source = footage.sources[name]
        cameras.append(CameraFiles(name, Path(source["footage"]), tuple(source["made_of"]["files"])))
    names = learn_embedding(net, captioner, cameras, options, scratch / "tracklets")
    return {"graph": graph_of(net), "cameras": names}


def _classifier(run: ChainRun, footage: _LabelledFootage, captioner: Grounded, _scratch: Path) -> Result:
    own = run.options
    known = change_labels(captioner, run.data, footage.learn, own.classifier_pairs, run.seed)
    if len(known.change) < _FEWEST:
        raise TrainError(
            f"hardly anything changes in {run.data}: it has labels of {len(known.change)} observations, and "
            f"{_FEWEST} are the least; label more footage"
        )
    seeds = (run.seed + number for number in range(own.members))
    classifier = classifier_of([train_classifier(known, seed, own.classifier_steps) for seed in seeds])
    unseen = change_labels(captioner, run.data, footage.held, own.classifier_pairs // 4 + 1, run.seed + 1)
    return {
        "weights": _tensors(classifier.arrays()),
        "learnt": len(known.change),
        "validated": len(unseen.change),
        "right": round(accuracy(classifier, unseen), 4),
    }


def accuracy(classifier: ChangeClassifier, known: ChangeLabels) -> float:
    """Share 0..1 of observations that are classified as labelled; 0 where there are none."""
    if not len(known.change):
        return 0.0
    return float(((classifier(known.evidence) > 0.5) == known.change).mean())  # noqa: PLR2004


def _record(
    run: ChainRun, footage: _LabelledFootage, captioner: Grounded, made: tuple[StageOutput, StageOutput]
) -> dict[str, Any]:
    """The inputs that decide the checkpoint, as plain values; no paths of the machine and no times."""
    detector, classifier = (each.result for each in made)
    held = {frame.camera for frame in footage.held}
    by: list[dict[str, Any]] = []
    for source in footage.sources.values():
        of_one = source["made_of"]
        given = [{k: of_one[k] for k in _GIVEN if k in of_one}] if "labels" in of_one else []
        by += [each for each in given or of_one["teachers"] if each not in by]
    return {
        "captioner": captioner.name,
        "command": run.command,
        "seed": run.seed,
        "steps": asdict(run.options),
        "start": plain_start(run.start),
        "teachers": by,
        "reid": run.teacher,
        "cameras": [camera_record(source, held=name in held) for name, source in footage.sources.items()],
        "validation_cameras": sorted(held),
        "left_out": sorted(run.leave_out),
        "frames": {"sha256": footage.sha256, "learnt": len(footage.learn), "held": len(footage.held)},
        "validation": {
            "ap50": detector["ap50"],
            "observations classified": classifier["validated"],
            "observations classified right": classifier["right"],
        },
        "versions": versions(),
    }
