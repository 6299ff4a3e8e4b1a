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

from models.embedding import AppearanceEmbedding
from models.grounded.grounded import Grounded
from models.grounded.inference import OnnxDetector
from models.grounded.observations import ChangeClassifier, FeatureEmbedding
from train.checkpoints import (
    TrainError,
    camera_record,
    load_grounded,
    refuse_folder,
    versions,
    write_checkpoint,
)
from train.footage.cameras import CameraFiles
from train.footage.labels import by_camera, read_frames, read_source
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
from train.grounded.identities import Collector
from train.grounded.pictures import Pictures
from train.grounded.stages import ChainOptions, Result, StageOptions, Stages

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


def train_chain(run: ChainRun, note: Callable[[str], None] = lambda _line: None) -> dict[str, Any]:
    """Train a grounded captioner and write its checkpoint; returns the checkpoint's record."""
    refuse_folder(run.out)
    chain = _Chain(run)
    stages = Stages(run.out.with_suffix(".run"), note)
    stages.log(f"{len(chain.learn)} frames to learn from, {len(chain.held)} to validate on")
    captioner = chain.train(stages)
    stages.log(f"{run.out.name}: {write_checkpoint(captioner, run.out)}")
    return dict(captioner.record)


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


class _Chain:
    """A training under way: the labelled frames, divided, what they were made of, and the stages."""

    def __init__(self, run: ChainRun) -> None:
        self.run = run
        frames = [frame for frame in read_frames(run.data) if frame.camera not in run.leave_out]
        frames.sort(key=lambda frame: frame.camera)  # whatever the order in which they were labelled
        names = list(dict.fromkeys(frame.camera for frame in frames))
        held = validation_cameras(names, run.val_cameras)
        self.sources: dict[str, dict[str, Any]] = {}
        for name in names:
            source = read_source(run.data, name)
            if source is None:
                raise TrainError(
                    f"{run.data} does not say what the frames of {name} were made of (labels/{name}.json): "
                    "label them again with narrated-train label"
                )
            self.sources[name] = source
        self.sha256 = hashlib.sha256(repr(frames).encode()).hexdigest()
        self.learn = [frame for frame in frames if frame.camera not in held]
        self.held = [frame for frame in frames if frame.camera in held]
        self.held_cameras = sorted({frame.camera for frame in self.held})
        for name, own in by_camera(self.learn).items():  # now, and not when the detector is trained
            if not (self._folder(name) / own[0].file).exists():
                raise TrainError(
                    f"the footage of {name} is no longer in {self._folder(name)}, and objects are followed "
                    "through it: put it back, or label again from where it is, which keeps the labels"
                )

    def _folder(self, camera: str) -> Path:
        return Path(self.sources[camera]["footage"])

    def train(self, stages: Stages) -> Grounded:
        """The captioner with its record, stage by stage."""
        run, own = self.run, self.run.options
        footage = {"frames": self.sha256, "held": self.held_cameras}
        several = {"members": own.members, "seed": run.seed, **footage}
        started = {"start": plain_start(run.start), **asdict(run.detecting), **footage}
        detector = stages.run("detector", started, self._detector)
        graph = detector.result["graph"]
        asked = {"detector": detector.key, "steps": own.feature_steps, "reid": run.teacher, **several}
        embedding = stages.run("embedding", asked, partial(self._embedding, graph))
        packaged = load_grounded(None)
        features = {name: each.double().numpy() for name, each in embedding.result["weights"].items()}
        weights = replace(packaged.weights, embedding=FeatureEmbedding(**features))
        captioner = Grounded(weights, {**packaged.graphs, "detector": graph})
        kept = {name: packaged.record[name] for name in ("decisions", "embedding", "tracking")}
        captioner.record = {**kept, "changes": dict(run.changes)}
        asked = {"detector": detector.key, "pairs": own.classifier_pairs, "steps": own.classifier_steps}
        classifier = stages.run("classifier", {**asked, **several}, partial(self._classifier, captioner))
        arrays = {name: each.numpy() for name, each in classifier.result["weights"].items()}
        captioner.weights.classifier = ChangeClassifier.of(arrays)
        captioner.record = {**captioner.record, **self._record(detector.result, classifier.result)}
        if run.reid is not None:
            options = EmbeddingOptions(steps=own.embedding_steps, seed=run.seed)
            asked = {"embedding": embedding.key, "start": plain_start(run.reid), **asdict(options)}
            appearance = stages.run(
                "appearance", asked, partial(self._appearance, run.reid, captioner, options)
            )
            captioner.graphs["embedding"] = appearance.result["graph"]
            sources = [self.sources[name] for name in appearance.result["cameras"]]
            made = embedding_record(run.command, run.reid, options, sources)
            captioner.record = {**captioner.record, **made}
        return captioner

    def _detector(self, scratch: Path) -> Result:
        run = self.run
        net = starting_detector(run.start, run.seed)
        pictures = Pictures(run.data, self.learn, run.options.memory_mb)
        if run.options.detector_steps:
            net = train_detector(net, pictures, run.detecting, scratch, device=run.device).cpu()
        graph = export_onnx(net)
        every = max(1, len(self.held) // 200)
        scores = average_precision(OnnxDetector(graph), run.data, self.held, every)
        rounded = {name: round(score, 4) for name, score in scores.items()}
        return {"graph": graph, "ap50": {**rounded, "mean": round(mean(scores), 4)}}

    def _embedding(self, graph: bytes, scratch: Path) -> Result:
        run = self.run
        teacher = AppearanceEmbedding(graph_of(starting_osnet(run.reid))) if run.reid else None
        collector = Collector(OnnxDetector(graph), teacher, seed=run.seed)
        cameras = []
        for name, own in by_camera(self.learn).items():
            snapshots = collector.collect(own, self._folder(name), scratch / "seen")
            cameras.append(CameraSnapshots(name, snapshots, flowing=name in FLOWING))
        members = []
        for number in range(run.options.members):
            options = StageOptions(steps=run.options.feature_steps, seed=run.seed + number)
            members.append(train_feature_embedding(cameras, options, scratch / f"state{number}.pt"))
        learnt = embedding_of(members)
        return {"weights": _tensors({"weight": learnt.weight, "bias": learnt.bias})}

    def _classifier(self, captioner: Grounded, _scratch: Path) -> Result:
        run, own = self.run, self.run.options
        known = change_labels(captioner, run.data, self.learn, own.classifier_pairs, run.seed)
        if len(known.change) < _FEWEST:
            raise TrainError(
                f"hardly anything changes in {run.data}: it has labels of {len(known.change)} observations, "
                f"and {_FEWEST} are the least; label more footage"
            )
        seeds = (run.seed + number for number in range(own.members))
        classifier = classifier_of([train_classifier(known, seed, own.classifier_steps) for seed in seeds])
        unseen = change_labels(captioner, run.data, self.held, own.classifier_pairs // 4 + 1, run.seed + 1)
        return {
            "weights": _tensors(classifier.arrays()),
            "validated": len(unseen.change),
            "right": round(accuracy(classifier, unseen), 4),
        }

    def _appearance(
        self, reid: Path, captioner: Grounded, options: EmbeddingOptions, scratch: Path
    ) -> Result:
        cameras = [
            CameraFiles(name, self._folder(name), tuple(self.sources[name]["made_of"]["files"]))
            for name in by_camera(self.learn)
        ]
        net = starting_osnet(reid)
        names = learn_embedding(net, captioner, cameras, options, scratch / "tracklets")
        return {"graph": graph_of(net), "cameras": names}

    def _record(self, detector: Result, classifier: Result) -> dict[str, Any]:
        """The inputs that decide the checkpoint, as plain values; no paths of the machine and no times."""
        run, by = self.run, list[dict[str, Any]]()
        for made_of in (source["made_of"] for source in self.sources.values()):
            given = [{k: made_of[k] for k in _GIVEN if k in made_of}] if "labels" in made_of else []
            by += [each for each in given or made_of["teachers"] if each not in by]
        return {
            "captioner": Grounded.name,
            "command": run.command,
            "seed": run.seed,
            "steps": asdict(run.options),
            "start": plain_start(run.start),
            "teachers": by,
            "reid": run.teacher,
            "cameras": [
                camera_record(source, held=name in self.held_cameras) for name, source in self.sources.items()
            ],
            "validation_cameras": self.held_cameras,
            "left_out": sorted(run.leave_out),
            "frames": {"sha256": self.sha256, "learnt": len(self.learn), "held": len(self.held)},
            "validation": {
                "ap50": detector["ap50"],
                "observations classified": classifier["validated"],
                "observations classified right": classifier["right"],
            },
            "versions": versions(),
        }


def _tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(each.astype(np.float32)) for name, each in arrays.items()}


def accuracy(classifier: ChangeClassifier, known: ChangeLabels) -> float:
    """Share 0..1 of observations that are classified as labelled; 0 where there are none."""
    if not len(known.change):
        return 0.0
    return float(((classifier(known.evidence) > 0.5) == known.change).mean())  # noqa: PLR2004
