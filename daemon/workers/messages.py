"""What edges and workers send one another: versioned, checked on both sides, no code in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

import cv2
import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from models.detections import Detections
from models.families import OBJECTS

VERSION = 1
"""Of these messages; it stands in every name on the server, so that two versions never meet."""

MOST_PICTURES = 64
"""In one ask: a pair has 24 small pictures, or 2 views and 8 tiles."""

_PARTS = ("box", "score", "label", "feature")
_LOSSLESS = (cv2.IMWRITE_PNG_COMPRESSION, 1, cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE)

Name = Annotated[str, Field(pattern=r"^[\w.:-]{1,128}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class MessageError(ValueError):
    """What came is no message of this version; says why."""


class _Versioned(BaseModel):
    """Strict: what another version adds must not be passed over."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    version: Literal[1] = 1


class Ask(_Versioned):
    """Look at these pictures; they lie beside it, under `id`.

    Attributes:
        id: of the ask, never used again.
        edge: whom to answer.
        camera: whose pictures; for people only.
        checkpoint: which the edge wants to be looked with.
        pictures: how many.
    """

    id: Name
    edge: Name
    camera: str
    checkpoint: Sha256
    pictures: Annotated[int, Field(ge=1, le=MOST_PICTURES)]


class Reply(_Versioned):
    """What a worker says to an ask; what it saw lies beside it.

    Attributes:
        id: of the ask.
        worker: who answers.
        refused: why it did not look; empty where it did.
    """

    id: Name
    worker: Name
    refused: str = ""


class WorkerCard(_Versioned):
    """A worker that lives, as it last said.

    Attributes:
        name: of host and process.
        narrated: its version.
        captioner, checkpoint: what it looks with.
        device: on what.
        asks, pictures: done so far.
        busy_s: seconds spent looking so far.
        per_s: asks done in each second of the last minute.
        claims: asks taken over from workers that said nothing any more.
        refused: asks that it could not do.
        cameras: whose pictures it has in hand now.
    """

    name: Name
    narrated: str
    captioner: str
    checkpoint: Sha256
    device: str
    asks: int = 0
    pictures: int = 0
    busy_s: float = 0.0
    per_s: float = 0.0
    claims: int = 0
    refused: int = 0
    cameras: tuple[str, ...] = Field((), strict=False)


class EdgeCard(_Versioned):
    """An edge that lives, as it last said.

    Attributes:
        name: of host and process.
        captioner, checkpoint: what it wants to be looked with.
        cameras: how many it sends out.
        asked, answered: asks so far.
        in_flight: asks that wait for an answer.
    """

    name: Name
    captioner: str
    checkpoint: Sha256
    cameras: int
    asked: int = 0
    answered: int = 0
    in_flight: int = 0


M = TypeVar("M", bound=_Versioned)


def parsed(kind: type[M], text: bytes | None) -> M:
    """A message of a kind.

    Raises:
        MessageError: it is not one of that kind, or is of another version.
    """
    try:
        return kind.model_validate_json(text or b"")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "message"
        raise MessageError(f"{kind.__name__}, {where}: {first['msg']}") from None


def encoded(picture: Tensor) -> bytes:
    """A picture, uint8 RGB ``(3, h, w)``, without loss: JPEG of any quality changes what is told."""
    rows = np.ascontiguousarray(picture.cpu().numpy().transpose(1, 2, 0)[..., ::-1])
    return cv2.imencode(".png", rows, _LOSSLESS)[1].tobytes()


def decoded(data: bytes) -> Tensor:
    """The picture.

    Raises:
        MessageError: the bytes are not a picture, or one with sides that no detector takes.
    """
    rows = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    if rows is None or rows.shape[0] % 32 or rows.shape[1] % 32:
        raise MessageError("a picture cannot be decoded, or has sides that are not multiples of 32")
    return torch.from_numpy(np.ascontiguousarray(rows[..., ::-1].transpose(2, 0, 1)))


def packed(seen: Sequence[Detections]) -> bytes:
    """What was seen in some pictures, to the last bit."""
    tensors = {
        f"{n}.{part}": getattr(each, part).cpu().contiguous()
        for n, each in enumerate(seen)
        for part in _PARTS
    }
    return bytes(save(tensors))


def unpacked(data: bytes, pictures: int) -> list[Detections]:
    """What was seen in so many pictures.

    Raises:
        MessageError: it is not that.
    """
    try:
        tensors = load(data)
        seen = [Detections(**{part: tensors[f"{n}.{part}"] for part in _PARTS}) for n in range(pictures)]
    except (SafetensorError, KeyError, ValueError) as error:
        raise MessageError(f"what was seen cannot be read: {error}") from None
    for each in seen:
        found = len(each.box)
        shapes = (tuple(each.box.shape), tuple(each.score.shape), tuple(each.label.shape), len(each.feature))
        if shapes != ((found, 4), (found,), (found, len(OBJECTS)), found):
            raise MessageError(f"what was seen has shapes {shapes}")
    return seen
