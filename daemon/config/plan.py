"""A camera's settings as the pipeline takes them."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import rfc8785

from daemon.config.configuration import ConfigurationError
from daemon.config.secrets import reveal
from daemon.config.settings import Camera, CameraDefaults, Configuration, EvidenceSettings
from models.captioner import DescribeOptions
from models.language.catalogue import language
from models.language.places import Zone
from pipeline.changes import ChangeOptions
from pipeline.limits import NO_LIMITS, LimitOptions
from pipeline.sources import SourceOptions

if TYPE_CHECKING:
    from models.captioner import Captioner
    from models.checkpoint import CheckpointLabel


_PAIRS_HZ = 2.0


@dataclass(frozen=True, slots=True)
class CameraPlan:
    name: str
    url: str = field(repr=False)  # with its secrets: never print it
    source: SourceOptions = field(default_factory=SourceOptions)
    lower: float | None = None  # grey levels; None is found by calibration
    upper: float | None = None  # the same
    describe: DescribeOptions = field(default_factory=DescribeOptions)
    evidence: EvidenceSettings = field(default_factory=lambda: EvidenceSettings(keep="none"))
    limits: LimitOptions = NO_LIMITS
    screening: str | None = field(default=None, repr=False)  # its small second stream, with secrets
    timezone: str = ""  # name of the time zone whose clocks are quoted; empty is UTC
    tracked: bool = True  # else pairs of frames are compared, as captioners of the papers do

    def for_captioner(self, captioner: Captioner | CheckpointLabel) -> CameraPlan:
        """The plan for a captioner: objects are tracked if it detects any, else two frames a second do."""
        tracked = captioner.name == "grounded"
        sample_hz = self.source.sample_hz if tracked else min(self.source.sample_hz, _PAIRS_HZ)
        return replace(self, tracked=tracked, source=replace(self.source, sample_hz=sample_hz))

    def change_options(self, captioner: Captioner | CheckpointLabel) -> ChangeOptions:
        """Options of change detection, as the captioner was trained; ConfigurationError if unknown."""
        try:
            return ChangeOptions.of(captioner.record.get("changes", {}))
        except ValueError as error:
            raise ConfigurationError([f"captioner {captioner.name}: {error}"]) from None

    def settings_sha256(self, captioner: Captioner | CheckpointLabel, *, limits: bool = False) -> str:
        """Hash (hex) of the settings that decide the text, whatever the camera is called.

        With `limits` those count too which decide what is held back, language and time zone: a record has it.
        Ids are made of the other one, so that a replay without limits finds each of them again.
        """
        source = self.source
        settings: dict[str, Any] = {
            "sample_hz": source.sample_hz,
            "fast": source.fast,
            "analysis_width": source.analysis_width,
            "areas": {"privacy": source.privacy, "masks": source.masks},
            "lower": self.lower,
            "upper": self.upper,
            "changes": asdict(self.change_options(captioner)),
            "describe": asdict(self.describe),
        }
        if limits:
            settings |= {"language": language.sha256, "timezone": self.timezone}
            settings |= {"limits": asdict(self.limits)}
        return hashlib.sha256(rfc8785.dumps(settings)).hexdigest()


def camera_plan(
    name: str, url: str, camera: CameraDefaults, start: datetime | None = None, *, limited: bool = False
) -> CameraPlan:
    """The plan of a camera; the URL has its secrets, messages are `limited` by cooldown and by the hour."""
    own = camera if isinstance(camera, Camera) else Camera.model_construct(**dict(camera))
    pairs, narrate = own.pairs, own.narrate
    return CameraPlan(
        name=name,
        url=url,
        source=SourceOptions(
            sample_hz=pairs.sample,
            start=start,
            rtsp_transport=own.rtsp.transport,
            privacy=tuple(own.privacy.values()),
            masks=tuple(own.masks.values()),
            idle_keyframes=own.rtsp.idle_keyframes,
        ),
        lower=pairs.lower,
        upper=pairs.upper,
        describe=DescribeOptions(
            min_confidence=narrate.min_confidence,
            zones=tuple(Zone(zone.name, zone.polygon) for zone in own.zones),
            colours=narrate.colours,
            depth=narrate.depth,
            lines=tuple(line.line for line in own.lines),
            doors=tuple(door.door for door in own.doors),
        ),
        evidence=own.evidence,
        limits=LimitOptions(
            cooldown_s=(narrate.cooldown or None) if limited else None,
            max_per_hour=narrate.max_per_hour if limited else None,
            per_minute=narrate.max_per_minute,
        ),
    )


def camera_plans(configuration: Configuration) -> list[CameraPlan]:
    """The plans of all configured cameras, in the order of the file; SecretError where a URL's is absent."""
    plans = []
    for name, camera in configuration.cameras.items():
        plan = camera_plan(name, reveal(camera.url), camera, limited=True)
        screening = None if camera.screening is None else reveal(camera.screening)
        plans.append(replace(plan, screening=screening, timezone=configuration.timezone or ""))
    return plans
