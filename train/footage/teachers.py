"""Teachers: detectors that the user names, run offline on footage to say what is in it.

Each kind of file has its own small class, and `open_network` finds the one that fits. A teacher looks at one
picture; `Teachers` asks several of them, on the whole frame and on 2 x 2 overlapping tiles of it, since
distant people have a dozen pixels. What they say is raw; `train.footage.votes` makes sense of it.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
from numpy.typing import NDArray

from models.boxes import Box
from models.families import COCO
from pipeline.sources import Image
from train.footage.votes import FAMILY, Raw

LEAST = 0.1  # scores below are not reported
TILED_FROM = 600  # footage at least so many pixels wide is looked at in tiles as well
KNOWN = {
    "person-vehicle-bike-detection-2": ("vehicle", "person", "bike"),
    "person-vehicle-bike-detection-crossroad-1016": ("bike", "vehicle", "person"),
    "person-vehicle-bike-detection-crossroad-0078": ("", "person", "vehicle", "bike"),
    "person-detection-0": ("person",),
    "person-detection-retail-0013": ("", "person"),
    "vehicle-detection-0": ("vehicle",),
}
"""Begin of a file's name to its classes, numbered from 0, for files of the Open Model Zoo."""

_TILE = 0.6
_EDGE = 0.03  # a box that ends nearer to an inner edge of a tile is cut there
_GREY = 114
_STRIDES = (8, 16, 32, 64)
_MEAN, _DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
_YOLOX, _PICODET, _SSD = 5 + len(COCO), 2 * len(_STRIDES), 7
_OVERLAP = 0.5
_Run = Callable[[NDArray[Any]], list[NDArray[np.float32]]]


class TeacherError(Exception):
    """The teacher cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Spotted:
    """A detection of one detector in one picture: class, score, and edges in 0..1 of the picture."""

    label: str
    score: float
    left: float
    top: float
    right: float
    bottom: float


Network = Callable[[Image], list[Spotted]]  # of RGB uint8 ``(h, w, 3)``; scores from `LEAST`


@dataclass(frozen=True, slots=True)
class TeacherFile:
    path: Path  # ``.onnx``, or ``.xml`` of OpenVINO with its ``.bin`` beside it
    classes: tuple[str, ...] | None = None  # numbered from 0; "" is not used. None: by the file's name

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def sha256(self) -> str:
        """Hex, of the file's bytes, for OpenVINO with those of its weights behind them."""
        digest = hashlib.sha256()
        weights = [self.path.with_suffix(".bin")] if self.path.suffix == ".xml" else []
        try:
            for path in (self.path, *weights):
                digest.update(path.read_bytes())
        except OSError as error:
            raise TeacherError(f"no detector at {path}: {error.strerror}; give the path of one") from error
        return digest.hexdigest()

    def plain(self) -> dict[str, Any]:
        """For records: name, hash and, where they were given, the classes."""
        given = {"classes": list(self.classes)} if self.classes else {}
        return {"file": self.path.name, "sha256": self.sha256, **given}


def teacher_file(text: str) -> TeacherFile:
    """Read ``FILE`` or ``FILE:vehicle,person,bike``; TeacherError if a class has no meaning here."""
    path, colon, names = text.rpartition(":")
    if not colon or "/" in names or Path(text).exists():
        return TeacherFile(Path(text))
    classes = tuple(name.strip() for name in names.split(","))
    unknown = [name for name in classes if name and name not in FAMILY]
    if unknown:
        raise TeacherError(f"{text}: class {unknown[0]!r} is unknown; there is {', '.join(FAMILY)}")
    return TeacherFile(Path(path), classes)


def open_network(teacher: TeacherFile) -> Network:
    """Load the network of a file; TeacherError if it is missing or of no kind that is known."""
    if not teacher.path.is_file():
        raise TeacherError(
            f"no detector at {teacher.path}; give the path of one: YOLOX or PicoDet in ONNX format, or a "
            "detector of OpenVINO (.xml)"
        )
    return _of_openvino(teacher) if teacher.path.suffix == ".xml" else _of_onnx(teacher.path)


def _of_onnx(path: Path) -> Network:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # else some files print a warning for each of their weights
    try:
        net = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no public common ancestor
        raise TeacherError(f"{path} is not an ONNX network that onnxruntime can run: {error}") from error
    entry, shapes = net.get_inputs()[0], [each.shape for each in net.get_outputs()]
    if len(entry.shape) != len("NCHW") or not all(isinstance(side, int) for side in entry.shape[2:]):
        raise TeacherError(f"{path} takes {entry.shape}; expected images of one fixed size (N, 3, S, S)")

    def run(picture: NDArray[Any]) -> list[NDArray[np.float32]]:
        return [output[0] for output in net.run(None, {entry.name: _planes(picture)})]

    if len(shapes) == 1 and shapes[0][-1] == _YOLOX:
        return partial(_yolox, run, entry.shape[2])
    if len(shapes) == _PICODET and {shape[-1] for shape in shapes[:4]} == {len(COCO)}:
        return partial(_picodet, run, entry.shape[2:])
    raise TeacherError(
        f"{path} answers {shapes}; known are YOLOX with raw head outputs (one of {_YOLOX} columns) and "
        f"PicoDet with class scores and edges of four strides ({_PICODET} outputs)"
    )


def _of_openvino(teacher: TeacherFile) -> Network:
    classes = teacher.classes or next(
        (names for begin, names in KNOWN.items() if teacher.name.startswith(begin)), None
    )
    if classes is None:
        raise TeacherError(
            f"the classes of {teacher.path.name} are not known; name them in their order, numbered from 0: "
            f"--teacher {teacher.path.name}:vehicle,person,bike"
        )
    openvino: Any = import_module("openvino")  # an extra
    try:
        core = openvino.Core()
        read = core.read_model(teacher.path)
        net = core.compile_model(read, "CPU", {"INFERENCE_NUM_THREADS": 1}).create_infer_request()
    except RuntimeError as error:
        raise TeacherError(f"{teacher.path} is not a network that OpenVINO can run: {error}") from error
    size = [int(side) for side in read.inputs[0].shape[2:]]
    outputs = {name for output in read.outputs for name in output.names}
    if len(read.outputs) == 1 and read.outputs[0].partial_shape[-1] == _SSD:
        rows_of: Callable[[Any, Sequence[int]], list[list[float]]] = _ssd_rows
    elif outputs >= {"boxes", "labels"}:
        rows_of = _atss_rows
    else:
        raise TeacherError(
            f"{teacher.path} answers {[str(o.partial_shape) for o in read.outputs]}; known are SSD (one "
            "output of 7 columns) and ATSS (outputs named boxes and labels)"
        )

    def detect(image: Image) -> list[Spotted]:
        net.infer({0: _planes(_resize(image, size)[..., ::-1])})
        rows = [row for row in rows_of(net, size) if row[1] >= LEAST and 0 <= row[0] < len(classes)]
        return [Spotted(name, *rest) for k, *rest in rows if (name := classes[int(k)])]

    return detect


def _resize(image: Image, size: Sequence[int]) -> Image:
    return np.asarray(cv2.resize(image, (size[1], size[0]), interpolation=cv2.INTER_LINEAR), np.uint8)


def _planes(image: NDArray[Any]) -> NDArray[np.float32]:
    return np.ascontiguousarray(image.transpose(2, 0, 1)[None], np.float32)


def _cells(size: Sequence[int], strides: Sequence[int]) -> NDArray[np.float64]:
    """Column, row and stride of every output row: ``(N, 3)``."""
    cells = []
    for stride in strides:
        high, wide = (-(-side // stride) for side in size)
        row, column = np.divmod(np.arange(high * wide), wide)
        cells.append(np.stack([column, row, np.full(high * wide, stride)], axis=1))
    return np.concatenate(cells).astype(np.float64)


def _best(scores: NDArray[np.float32], edges: NDArray[np.float64]) -> list[Spotted]:
    """Detections from scores ``(N, 80)`` and edges ``(N, 4)`` in 0..1, each object once."""
    found = []
    for i in np.flatnonzero(scores.max(1) >= LEAST):
        name = COCO[int(scores[i].argmax())]
        if name in FAMILY:
            left, top, right, bottom = (float(v) for v in edges[i])
            found.append(Spotted(name, float(scores[i].max()), left, top, right, bottom))
    return _once(found)


def _once(found: list[Spotted]) -> list[Spotted]:
    kept: list[Spotted] = []
    for name in sorted({sight.label for sight in found}):
        own = [sight for sight in found if sight.label == name]
        boxes = [[s.left, s.top, s.right - s.left, s.bottom - s.top] for s in own]
        rows = cv2.dnn.NMSBoxes(boxes, [s.score for s in own], LEAST, _OVERLAP)
        kept += [own[i] for i in np.asarray(rows).reshape(-1)]
    return kept


def _yolox(run: _Run, side: int, image: Image) -> list[Spotted]:
    """YOLOX (Ge et al. 2021) with raw head outputs: centre offsets, log sizes, objectness, class scores.

    Its input is BGR 0..255, square.
    """
    height, width = image.shape[:2]
    scale = min(side / height, side / width)
    small = max(int(height * scale), 1), max(int(width * scale), 1)
    canvas = np.full((side, side, 3), _GREY, np.uint8)
    canvas[: small[0], : small[1]] = _resize(image, small)
    (out,) = run(canvas[..., ::-1])
    cells = _cells((side, side), _STRIDES[:3])
    stride = cells[:, 2:]
    centre, size = (out[:, :2] + cells[:, :2]) * stride, np.exp(out[:, 2:4]) * stride
    edges = np.concatenate([centre - size / 2, centre + size / 2], axis=1) / scale
    return _best(out[:, 4:5] * out[:, 5:], edges / (width, height, width, height))


def _picodet(run: _Run, size: Sequence[int], image: Image) -> list[Spotted]:
    """PicoDet (Yu et al. 2021): class scores, and each edge's distance as a distribution over 8 bins.

    Its input is RGB, standardised as ImageNet's.
    """
    out = run((_resize(image, size).astype(np.float32) - _MEAN) / _DEVIATION)
    cells, half = _cells(size, _STRIDES), len(_STRIDES)
    bins = np.concatenate(out[half:])
    bins = bins.reshape(len(bins), 4, -1)
    share = np.exp(bins - bins.max(-1, keepdims=True))
    stride = cells[:, 2:]
    far = share / share.sum(-1, keepdims=True) @ np.arange(bins.shape[-1]) * stride
    middle = (cells[:, :2] + 0.5) * stride
    edges = np.concatenate([middle - far[:, :2], middle + far[:, 2:]], axis=1)
    height, width = size
    return _best(np.concatenate(out[:half]), edges / (width, height, width, height))


def _ssd_rows(request: Any, _size: Sequence[int]) -> list[list[float]]:
    """Class, score and edges of what an SSD answers: rows of image, class, score and edges."""
    rows = request.get_output_tensor(0).data.reshape(-1, _SSD).tolist()
    return [row for number, *row in rows if number >= 0]


def _atss_rows(request: Any, size: Sequence[int]) -> list[list[float]]:
    """Class, score and edges of what an ATSS answers: labels, and edges in pixels with scores."""
    boxes, labels = (request.get_tensor(name).data.astype(float) for name in ("boxes", "labels"))
    edges = boxes[:, :4] / (size[1], size[0], size[1], size[0])
    rows: list[list[float]] = np.column_stack([labels, boxes[:, 4], edges]).tolist()
    return rows


class Teachers:
    def __init__(self, networks: Mapping[str, Network]) -> None:
        if not networks:
            raise TeacherError("no teacher: give a detector's file with --teacher")
        self._networks = dict(networks)

    def __call__(self, image: Image) -> list[tuple[str, Raw]]:
        """Detections of all detectors in an image, each with its view, ``full`` or ``tile``."""
        height, width = image.shape[:2]
        windows = [("full", 0.0, 0.0, 1.0)]
        if width >= TILED_FROM:
            windows += [("tile", x, y, _TILE) for y, x in product((0.0, 1 - _TILE), repeat=2)]
        found: list[tuple[str, Raw]] = []
        for view, x, y, size in windows:
            top, left = int(y * height), int(x * width)
            part = image[top : int((y + size) * height), left : int((x + size) * width)]
            for name, network in self._networks.items():
                placed = [(each, _place(each, x, y, size)) for each in network(part)]
                found += [(view, Raw(name, each.label, each.score, box)) for each, box in placed if box]
        return found


def _place(spotted: Spotted, x: float, y: float, size: float) -> Box | None:
    """The box in the whole frame of a detection in a window; None where the window's edge has cut it."""
    edges = spotted.left, spotted.top, spotted.right, spotted.bottom
    left, top, right, bottom = (min(max(v, 0.0), 1.0) for v in edges)
    cut = (
        (x > 0 and left < _EDGE)
        or (y > 0 and top < _EDGE)
        or (x + size < 1 and right > 1 - _EDGE)
        or (y + size < 1 and bottom > 1 - _EDGE)
    )
    if cut or right <= left or bottom <= top:
        return None
    return x + size * left, y + size * top, size * (right - left), size * (bottom - top)


def teachers(files: Iterable[TeacherFile]) -> Teachers:
    """Load several teachers; TeacherError if one cannot be used, or two files have one name."""
    networks: dict[str, Network] = {}
    for file in files:
        if file.name in networks:
            raise TeacherError(f"two teachers are named {file.name}: rename one of the files")
        networks[file.name] = open_network(file)
    return Teachers(networks)
