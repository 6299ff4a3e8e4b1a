"""Messages between clients and workers on Redis: versioned names, lossless images, no code in them."""

import struct
from collections.abc import Sequence

import cv2
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from models.detections import Detections
from models.families import OBJECTS
from pipeline.sources import Image

GROUP = "workers"
MOST_IMAGES = 64  # images in one request
LONGEST_SIDE = 4096  # pixels of an image's side: a PNG of 69 bytes may claim to be gigabytes

_ROOT = "narrated:{workers}:2"
_PARTS = ("box", "score", "label", "feature")
_LOSSLESS = (cv2.IMWRITE_PNG_COMPRESSION, 1, cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE)
_SIZE = slice(16, 24)  # of a PNG's header chunk, which comes first


class MessageError(ValueError):
    """A message is malformed, or refused; says why."""


def requests_key(checkpoint: str) -> str:
    """Stream of the requests for one checkpoint (sha256, hex): workers with another never see them."""
    return f"{_ROOT}:requests:{checkpoint[:16]}"


def response_key(request: str) -> str:
    """List that gets the response to a request."""
    return f"{_ROOT}:response:{request}"


def worker_key(name: str) -> str:
    """A worker's heartbeat, a JSON object; gone soon after its end."""
    return f"{_ROOT}:worker:{name}"


def encode_image(image: Image) -> bytes:
    done, data = cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), _LOSSLESS)
    if not done:
        raise MessageError(f"an image of shape {image.shape} cannot be encoded")
    return data.tobytes()


def decode_image(data: bytes) -> Image:
    """The image in a PNG of this room; MessageError where it is another, or larger than `LONGEST_SIDE`."""
    if not data.startswith(b"\x89PNG\r\n\x1a\n") or len(data) < _SIZE.stop:
        raise MessageError("an image is not a PNG")
    width, height = struct.unpack(">II", data[_SIZE])
    if not (0 < width <= LONGEST_SIDE and 0 < height <= LONGEST_SIDE):
        raise MessageError(f"an image has {width} x {height} pixels, {LONGEST_SIDE} a side are allowed")
    try:
        bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    except cv2.error as error:
        raise MessageError(f"an image cannot be decoded: {error}") from None
    if bgr is None:
        raise MessageError("an image is damaged")
    return np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)


def encode_response(detections: Sequence[Detections]) -> bytes:
    arrays = {
        f"{number}.{part}": np.ascontiguousarray(getattr(each, part))
        for number, each in enumerate(detections)
        for part in _PARTS
    }
    return b"+" + save(arrays)


def encode_refusal(reason: str) -> bytes:
    return b"-" + reason.encode()


def decode_response(data: bytes, images: int) -> list[Detections]:
    """Detections of all images of a request; MessageError where the worker refused, or it is malformed."""
    if data[:1] != b"+":
        raise MessageError(data[1:].decode(errors="replace") or "the response is empty")
    try:
        arrays = load(data[1:])
        detections = [
            Detections(*(arrays[f"{number}.{part}"] for part in _PARTS)) for number in range(images)
        ]
    except (SafetensorError, KeyError, ValueError) as error:
        raise MessageError(f"the response is malformed: {error!r}") from None
    for each in detections:
        count = len(each.box) if each.box.ndim else -1
        shapes = [tuple(getattr(each, part).shape) for part in _PARTS[:3]]
        fits = shapes == [(count, 4), (count,), (count, len(OBJECTS))] and each.feature.shape[:1] == (count,)
        if not fits or any(getattr(each, part).dtype != np.float32 for part in _PARTS):
            raise MessageError(f"the response has arrays of shapes {shapes}")
        shares = all(((part >= 0) & (part <= 1)).all() for part in (each.box, each.score, each.label))
        if not (shares and (each.box[:, 2:] > 0).all() and np.isfinite(each.feature).all()):
            raise MessageError("the response has numbers that no detector gives")
    return detections
