"""A narration that tests can journal, publish and verify."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.narration.narration import FrameStamp, ModelStamp, Narration, RecordEvent
from pipeline.record import ChainEnd, Evidence, build_record
from pipeline.sources import Clock

MOVED = Sentence(
    "Two cars have moved.",
    "moved",
    "car",
    (0.1, 0.2, 0.6, 0.3),
    0.9,
    0.8,
    count=2,
    before=(0.1, 0.2, 0.2, 0.3),
    after=(0.5, 0.2, 0.2, 0.3),
    outline_before=((0.1, 0.2), (0.3, 0.2), (0.2, 0.5)),
    outline_after=((0.5, 0.2), (0.7, 0.2), (0.6, 0.5)),
    moment_s=0.25,
)
FULL = replace(
    MOVED,
    moment_s=0.5,
    paths=(((0.2, 0.5), (0.6, 0.5)),),
    action="left",
    track="3f2a-7",
    since_s=-12.5,
    until_s=0.5,
    since_known=False,
    duration_s=13.0,
    same_as=("3f2a-2", 0.93),
    other="3f2a-4",
    english="Two cars have moved.",
)


def narration(second: float = 0.0, camera: str = "yard", **changed: Any) -> Narration:
    """A car has appeared, so many seconds after midnight; `changed` are other fields than usual."""
    after = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(seconds=second)
    made = Narration(
        id=f"{camera}-{second:g}",
        camera=camera,
        before=FrameStamp(after - timedelta(seconds=1), 0, "a" * 64),
        after=FrameStamp(after, 1, "b" * 64),
        clock=Clock.FILE,
        event=SceneEvent.NONE,
        sentences=(Sentence("A car has appeared.", "appeared", "car", (0.4, 0.2, 0.1, 0.5), 0.7, 0.8),),
        l2=12.3,
        model=ModelStamp("ddla", "c" * 64),
        settings_sha256="d" * 64,
    )
    return replace(made, **changed)


def fullest() -> dict[str, Any]:
    """A record that has every member there is."""
    digest = "sha256:" + "1" * 64
    record = build_record(
        narration(
            sentences=(FULL,),
            event=RecordEvent.GAP,
            abstained="unsure",
            fallback="late",
            until=datetime(2024, 5, 1, 13, tzinfo=UTC),
            continues="front_door-1",
            covers=("front_door-2",),
            rate_hz=5.0,
            state_sha256="e" * 64,
            since=datetime(2024, 5, 1, 12, tzinfo=UTC),
            reason="overload",
            deletion={
                "reason": "age",
                "time": "2024-05-01T12:00:00.000000Z",
                "records": 3,
                "first_seq": 1,
                "last_seq": 3,
                "last_hash": "a" * 64,
            },
            rule={"name": "a van stands at the gate", "records": ("front_door-1",)},
        ),
        ChainEnd(),
        latency_ms={"batch": 1.5},
        evidence=Evidence(before=digest, after=digest, overlay=digest),
    )
    return json.loads(record.line()) | {"held": "hourly"}
