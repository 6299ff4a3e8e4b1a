"""The appearance embedding: a published network and, behind it, a linear layer of our own, which is learnt.

The network is Open Model Zoo's person-reidentification-retail-0248, a narrow OSNet (Zhou et al. 2019,
"Omni-Scale Feature Learning for Person Re-Identification"). It takes one BGR picture; here a batch of crops.

Crops of one tracklet show one object; those of two that were there at once, or are of different
footage, show two. Of others nothing is known. The loss is the supervised contrastive one (Khosla et al.
2020, "Supervised Contrastive Learning"). What cameras rarely show is made: far and blurred, hidden in part,
cut badly, in other light.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor
from torch.nn import functional

from models.captioner import Captioner
from models.embedding import SIZE, AppearanceEmbedding
from pipeline.narration.batch import detect
from pipeline.settings import SMALL_WIDTH
from pipeline.sources.frame import shrink
from pipeline.tracking import Tracker
from train.checkpoints import TrainError, camera_record, load_grounded, refuse_folder, write_checkpoint
from train.footage.cameras import CLIP_SUFFIXES, CameraFiles, cameras_in, sample_frames, stated_sources
from train.grounded.detector_weights import plain_start
from train.grounded.stages import kept_rows

_VECTOR = 256


@dataclass(slots=True, eq=False)
class OSNet:
    """A published network, which stays as it is, and a linear layer: the identity until it is trained."""

    published: onnx.ModelProto
    weight: Tensor = field(default_factory=lambda: torch.eye(_VECTOR))
    bias: Tensor = field(default_factory=lambda: torch.zeros(_VECTOR))


def starting_osnet(path: Path) -> OSNet:
    try:
        model = onnx.load(str(path))
    except Exception as error:  # protobuf's and the file system's have no common ancestor
        raise TrainError(f"{path} cannot be read as ONNX ({error})") from error
    weights = {each.name for each in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in weights]
    shapes = [
        [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in (*inputs, *model.graph.output)
    ]
    if shapes != [[1, *SIZE, 3], [1, _VECTOR]]:
        raise TrainError(f"{path} is not person-reidentification-retail-0248")
    return OSNet(model)


def graph_of(net: OSNet) -> bytes:
    """ONNX, from `crops` uint8 RGB ``(B, 256, 128, 3)`` to unit `embeddings` float32 ``(B, 256)``."""
    model = copy.deepcopy(net.published)
    graph = model.graph
    _take_batches(graph)
    weights = {each.name for each in graph.initializer}
    (image,) = (each.name for each in graph.input if each.name not in weights)
    vector = graph.output[0].name
    added = {
        "crops.bgr": np.array([2, 1, 0]),
        "last.weight": net.weight.numpy(),
        "last.bias": net.bias.numpy(),
    }
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in added.items())
    first = [
        helper.make_node("Cast", ["crops"], ["crops.float"], to=TensorProto.FLOAT),
        helper.make_node("Gather", ["crops.float", "crops.bgr"], [image], axis=3),
    ]
    last = [
        helper.make_node("LpNormalization", [vector], ["unit"], axis=1, p=2),
        helper.make_node("Gemm", ["unit", "last.weight", "last.bias"], ["turned"], transB=1),
        helper.make_node("LpNormalization", ["turned"], ["embeddings"], axis=1, p=2),
    ]
    nodes = [*first, *graph.node, *last]
    for part in (graph.node, graph.input, graph.output, graph.value_info):
        del part[:]
    graph.node.extend(nodes)
    graph.input.append(helper.make_tensor_value_info("crops", TensorProto.UINT8, ["b", *SIZE, 3]))
    graph.output.append(helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ["b", _VECTOR]))
    return bytes(model.SerializeToString())


def _take_batches(graph: onnx.GraphProto) -> None:
    """Leave the first dimension alone where the network, made for one picture, averages or reshapes it."""
    shapes = {node.input[1] for node in graph.node if node.op_type == "Reshape"}
    for value in graph.initializer:
        if value.name in shapes:
            shape = numpy_helper.to_array(value).copy()
            shape[0] = 0  # as it comes in
            value.CopyFrom(numpy_helper.from_array(shape, value.name))
    for node in graph.node:
        if node.op_type == "ReduceMean":
            (axes,) = (each for each in node.attribute if each.name == "axes")
            axes.ints[:] = [axis for axis in axes.ints if axis]


_EVERY_S = 0.2
_CLIP_S = 60.0  # of a clip
_CLIPS = 16  # of a camera
_MARGIN = 0.2  # of a box's width and height, on each side, from which a crop is cut again
_SURE = 0.9  # probability of an association from which two crops show one object
_LEAST_PIXELS = 24  # height
_CROPS, _FEWEST = 12, 3  # of a tracklet
_PEOPLE = 0.75  # share of batches that show people; the others show vehicles


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    steps: int = 400  # batches
    tracks: int = 60  # tracklets of a batch
    crops: int = 4  # of each
    rate: float = 1e-3  # largest learning rate
    temperature: float = 0.1  # by which cosines are divided
    pull: float = 1e-2  # of the layer towards the identity, times the square of what it differs by
    seed: int = 1  # of what is drawn


_Crops = list[tuple[NDArray[np.uint8], tuple[float, ...]]]
"""Images, and the box within each, ``x, y, width, height`` in 0..1."""


@dataclass(slots=True, eq=False)
class Tracklet:
    """A part of a track that surely shows one object."""

    clip: str  # where, by camera and file
    track: str  # its number there
    family: str  # person, vehicle or two-wheeler
    begin_s: float  # when, until
    end_s: float
    # ``(K, 256)``, what the published network answers to its crops, drawn by `draw_crop`
    vectors: Tensor = field(default_factory=lambda: torch.zeros(0, 256))


def add_embedding(
    footage: Path,
    out: Path,
    reid: Path,
    options: EmbeddingOptions,
    *,
    start: Path | None = None,
    val_cameras: Sequence[str] = (),
    command: str = "",
    note: Callable[[str], None] = lambda _line: None,
) -> None:
    """Train an embedding on clips and write it with all else that the checkpoint `start` holds.

    None for `start` is the packaged one; for `reid` see `starting_osnet`; `val_cameras` are left out.
    ``<out without suffix>.run`` keeps whom the tracker followed.
    """
    refuse_folder(out)
    captioner, net, stated = load_grounded(start), starting_osnet(reid), stated_sources(footage)
    cameras = [each for each in cameras_in(footage) if each.name not in val_cameras]
    cache = out.with_suffix(".run") / f"tracklets-{captioner.sha256[:12]}-{options.seed}"
    learnt = learn_embedding(net, captioner, cameras, options, cache, note=note)
    captioner.graphs["embedding"] = graph_of(net)
    sources = [
        {"camera": each.name, "stated": stated.get(each.name), "made_of": {"files": each.hashes()}}
        for each in cameras
        if each.name in learnt
    ]
    captioner.record = {**captioner.record, **embedding_record(command, reid, options, sources)}
    note(f"{out.name}: {write_checkpoint(captioner, out)}")


def embedding_record(
    command: str, reid: Path, options: EmbeddingOptions, sources: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    cameras = [camera_record(source, held=False) for source in sources]
    made = {"command": command, "start": plain_start(reid), "options": asdict(options), "cameras": cameras}
    return {"embedding": made}


def learn_embedding(
    net: OSNet,
    captioner: Captioner,
    cameras: Sequence[CameraFiles],
    options: EmbeddingOptions,
    cache: Path,
    *,
    note: Callable[[str], None] = lambda _line: None,
) -> list[str]:
    """Learn a network's last layer, so far the identity; the cameras in which anything was followed."""
    if not options.steps:
        return []
    published = AppearanceEmbedding(graph_of(net))
    tracklets = collect_tracklets(captioner, published, cameras, cache, options.seed)
    if len({each.clip for each in tracklets if each.family == "person"}) < 2:  # noqa: PLR2004
        raise TrainError("people are followed in fewer than two clips of the footage; give more of it")
    learnt = sorted({each.clip.split("/")[0] for each in tracklets})
    note(f"{len(tracklets)} objects are followed in {len(learnt)} cameras")
    train_embedding(net, tracklets, options)
    return learnt


def collect_tracklets(
    captioner: Captioner,
    published: AppearanceEmbedding,
    cameras: Sequence[CameraFiles],
    cache: Path,
    seed: int,
) -> list[Tracklet]:
    """The tracklets of the cameras' clips, each camera's made once and kept in a folder."""

    def of_camera(camera: CameraFiles) -> Iterator[Tracklet]:
        rng = np.random.default_rng((seed, *camera.name.encode()))
        clips = [file for file in camera.files if file.lower().endswith(CLIP_SUFFIXES)][:_CLIPS]
        for file in clips:
            yield from _follow(captioner, published, camera, file, rng)

    kept = (kept_rows(cache / f"{each.name}.pt", partial(of_camera, each)) for each in cameras)
    return [Tracklet(**row) for rows in kept for row in rows]


def _follow(
    captioner: Captioner,
    published: AppearanceEmbedding,
    camera: CameraFiles,
    file: str,
    rng: np.random.Generator,
) -> Iterator[Tracklet]:
    tracker: Tracker | None = None
    running: dict[str, tuple[Tracklet, _Crops]] = {}
    done: list[tuple[Tracklet, _Crops]] = []
    for _, seconds, image in sample_frames(camera.folder / file, _EVERY_S):
        if seconds is None or seconds > _CLIP_S:
            break
        small = shrink(image, SMALL_WIDTH)
        tracker = tracker or Tracker(small.shape[1] / small.shape[0])
        tracker.update(seconds, detect([small], captioner)[0], small)
        for track in tracker.tracks:
            if track.unseen_s > 0 or track.last.box[3] * image.shape[0] < _LEAST_PIXELS:
                continue
            if track.last.p < _SURE and track.id in running:
                done.append(running.pop(track.id))
            begun = Tracklet(f"{camera.name}/{file}", track.id, "", seconds, seconds)
            own, crops = running.setdefault(track.id, (begun, []))
            own.family, own.end_s = track.family, seconds
            crops.append(_with_margin(image, track.last.box))
            if len(crops) > 3 * _CROPS:
                del crops[1::2]
    for own, crops in (*done, *running.values()):
        if len(crops) >= _FEWEST:
            chosen = np.unique(np.linspace(0, len(crops) - 1, _CROPS).round().astype(int)).tolist()
            drawn = [draw_crop(crops[k][0], crops[k][1], rng) for k in chosen]
            own.vectors = torch.from_numpy(published.embed(drawn))
            yield own


def _with_margin(
    image: NDArray[np.uint8], box: tuple[float, ...]
) -> tuple[NDArray[np.uint8], tuple[float, ...]]:
    """A crop of a box with a margin, at most as high as the network's input, and the box within it."""
    height, width = image.shape[:2]
    x, y, w, h = box[0] * width, box[1] * height, box[2] * width, box[3] * height
    aside, above = _MARGIN * w, _MARGIN * h
    left, top = max(int(x - aside), 0), max(int(y - above), 0)
    right, bottom = min(int(x + w + aside) + 1, width), min(int(y + h + above) + 1, height)
    cut = image[top:bottom, left:right]
    high, wide = cut.shape[:2]
    inner = (x - left) / wide, (y - top) / high, w / wide, h / high
    if high > SIZE[0]:
        cut = _resize(cut, max(1, round(wide * SIZE[0] / high)), SIZE[0])
    return np.ascontiguousarray(cut), inner


def _resize(image: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    way = cv2.INTER_AREA if height < image.shape[0] else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (width, height), interpolation=way), np.uint8)


def draw_crop(crop: NDArray[np.uint8], box: tuple[float, ...], rng: np.random.Generator) -> NDArray[np.uint8]:
    """A crop as another camera might have it, uint8 RGB ``(256, 128, 3)``."""
    size = np.array(crop.shape[1::-1])
    corner, sides = np.array(box[:2]), np.array(box[2:])
    corner, sides = corner + rng.normal(0, 0.06, 2) * sides, sides * (1 + rng.normal(0, 0.06, 2))
    left, top = np.clip(corner * size, 0, size - 2).astype(int)
    right, bottom = np.clip(((corner + sides) * size).round(), (left + 2, top + 2), size).astype(int)
    image = crop[top:bottom, left:right]
    far = round(rng.uniform(20, 160))
    if far < image.shape[0]:
        image = _resize(image, max(4, round(far * image.shape[1] / image.shape[0])), far)
    image = _resize(image, SIZE[1], SIZE[0])
    if rng.random() < 0.5:  # noqa: PLR2004
        image = image[:, ::-1]
    light = (image / 255.0) ** rng.uniform(0.75, 1.35) * rng.uniform(0.75, 1.25)
    light = light * rng.uniform(0.95, 1.05, 3) + rng.uniform(-0.05, 0.05) + rng.normal(0, 0.015, image.shape)
    if rng.random() < 0.4:  # noqa: PLR2004 - hidden in part
        high, wide = (int(side * share) for side, share in zip(SIZE, rng.uniform(0.15, 0.5, 2), strict=True))
        down, across = int(rng.integers(SIZE[0] - high)), int(rng.integers(SIZE[1] - wide))
        light[down : down + high, across : across + wide] = rng.uniform(0, 1, 3)
    return np.asarray((light * 255).clip(0, 255), np.uint8)


def _differ(tracklets: Sequence[Tracklet], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which two surely show different objects, ``(N, N)``."""
    clip, track = (np.array([getattr(tracklets[k], name) for k in rows]) for name in ("clip", "track"))
    begin, end = (np.array([getattr(tracklets[k], name) for k in rows]) for name in ("begin_s", "end_s"))
    at_once = np.minimum(end[:, None], end) > np.maximum(begin[:, None], begin)
    return np.asarray((clip[:, None] != clip) | (at_once & (track[:, None] != track)))


def contrastive_loss(vectors: Tensor, same: Tensor, differ: Tensor, temperature: float) -> Tensor:
    """Mean of minus the log share that each positive has among itself and the anchor's negatives.

    Of unit vectors ``(N, D)``; `same`, without the diagonal, and `differ` are bool ``(N, N)``: of what is
    neither nothing is known.
    """
    odds = vectors @ vectors.T / temperature
    rivals = odds.masked_fill(~differ, -torch.inf).logsumexp(1, keepdim=True)
    loss = torch.logaddexp(odds, rivals.expand_as(odds)) - odds
    return loss[same].mean()


def _draw_batch(
    tracklets: Sequence[Tracklet], family: str, rng: np.random.Generator, count: int
) -> list[int]:
    """Tracklets of a batch: most of one clip, where they are hard to tell apart."""
    pool = np.array([k for k, each in enumerate(tracklets) if each.family == family])
    clip = tracklets[int(rng.choice(pool))].clip
    here = rng.permutation([k for k in pool if tracklets[k].clip == clip])[: count * 2 // 3]
    return [*here.tolist(), *rng.permutation(np.setdiff1d(pool, here))[: count - len(here)].tolist()]


def train_embedding(net: OSNet, tracklets: Sequence[Tracklet], options: EmbeddingOptions) -> None:
    torch.manual_seed(options.seed)
    vectors = [each.vectors for each in tracklets]
    weight, bias = (each.clone().requires_grad_() for each in (net.weight, net.bias))
    optimizer = torch.optim.Adam((weight, bias), lr=options.rate)
    families = [family for family in ("person", "vehicle") if any(e.family == family for e in tracklets)]
    for step in range(options.steps):
        rng = np.random.default_rng((options.seed, step))
        family = families[0] if rng.random() < _PEOPLE else families[-1]
        some = _draw_batch(tracklets, family, rng, options.tracks)
        shown = [
            vectors[k][torch.from_numpy(rng.permutation(len(vectors[k]))[: options.crops])] for k in some
        ]
        rows = np.repeat(some, [len(each) for each in shown])
        for group in optimizer.param_groups:
            group["lr"] = options.rate * 0.5 * (1 + math.cos(math.pi * step / options.steps))
        out = functional.normalize(torch.cat(shown) @ weight.T + bias)
        same = torch.from_numpy((rows[:, None] == rows) & ~np.eye(len(rows), dtype=bool))
        loss = contrastive_loss(out, same, torch.from_numpy(_differ(tracklets, rows)), options.temperature)
        loss = loss + options.pull * (weight - net.weight).square().sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    net.weight, net.bias = weight.detach(), bias.detach()
