"""The verb `replay`."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daemon.commands.options import CaptionerChoice, Device, Json, chosen_captioner, loaded_captioner
from daemon.commands.outcome import finish
from daemon.config.configuration import load_configuration
from daemon.config.durations import parse_moment, parse_rate, parse_time
from daemon.config.secrets import Secrets
from daemon.config.settings import CameraDefaults, Configuration

if TYPE_CHECKING:  # torch and numba load when the verb runs, not for --help
    from daemon.config.plan import CameraPlan
    from daemon.replay.cluster import RayCluster
    from daemon.replay.replay import ReplayOptions, ReplayReport
    from daemon.threads.camera_thread import Span
    from models.captioner import Captioner
    from pipeline.record import Record

EvidenceChoice = Annotated[
    bool | None,
    typer.Option(
        "--evidence/--no-evidence",
        help="Keep the pictures of what is reported in --out; by default so, or as the configuration says.",
    ),
]
LimitsChoice = Annotated[
    bool, typer.Option("--limits", help="Hold back floods, as `run` does; by default everything is reported.")
]
FastChoice = Annotated[
    bool, typer.Option("--fast", help="Decode only keyframes, and everything where something happens.")
]
RayChoice = Annotated[
    str | None,
    typer.Option(
        help="Share the files among the machines of a Ray cluster (auto, HOST:PORT, ray://HOST:PORT), or the "
        "processors of this one (local). Needs --out."
    ),
]
SummariesChoice = Annotated[
    bool,
    typer.Option(
        help="Let a summary stand for the events of a busy minute; without, every event is shown by itself."
    ),
]


def replay(
    paths: Annotated[
        list[str],
        typer.Argument(help="Video files, folders, globs, folders of stills."),
    ],
    *,
    begin: Annotated[
        str | None, typer.Option("--from", help="Begin here: 90s, 00:01:30 or 2026-05-01T12:00:00Z.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="End here; written like --from.")] = None,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Files to read at the same time.")] = 1,
    json: Json = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for narrations.jsonl, narrations.vtt and report.html.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the narrations in --out.")] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the interrupted replay in --out."),
    ] = False,
    start: Annotated[
        str | None,
        typer.Option(help="Wall-clock time of the first frame (ISO 8601; UTC unless it says otherwise)."),
    ] = None,
    camera: Annotated[
        str | None, typer.Option(help="Name of the camera; all files are then its recordings.")
    ] = None,
    redis: Annotated[
        str | None, typer.Option(help="Publish to redis://, rediss://, unix:// or embedded.")
    ] = None,
    sample: Annotated[str | None, typer.Option(help="How often to look at a frame, such as 2/s.")] = None,
    lower: Annotated[
        float | None, typer.Option(help="Lower threshold in grey levels; by default calibrated.")
    ] = None,
    upper: Annotated[
        float | None, typer.Option(help="Upper threshold in grey levels; by default calibrated.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="Take captioner, redis and settings from this file.")
    ] = None,
    captioner: CaptionerChoice = None,
    device: Device = None,
    evidence: EvidenceChoice = None,
    limits: LimitsChoice = False,
    fast: FastChoice = False,
    ray: RayChoice = None,
    summaries: SummariesChoice = True,
) -> None:
    """Narrate recorded footage."""
    configuration = load_configuration(config) if config else None
    changed = {"sample": sample, "lower": lower, "upper": upper}
    plan = _plan(configuration, camera, changed, start=start, evidence=evidence, limited=limits)
    if not summaries:
        plan = replace(plan, limits=replace(plan.limits, per_minute=None))
    if fast:
        plan = replace(plan, source=replace(plan.source, fast=True))
    span = _span(begin, end)
    url = Secrets().reveal(redis or (configuration and configuration.redis.url) or "none:")
    from daemon.replay.output import check_output  # noqa: PLC0415

    if resume and (force or out is None):
        raise typer.BadParameter("--resume needs the --out folder of the interrupted replay, and no --force")
    if ray and out is None:
        raise typer.BadParameter("--ray needs --out, the folder where all results are collected")
    if out and not resume:
        check_output(out, force=force)
    loaded = loaded_captioner(captioner, "cpu" if ray else device, configuration)
    from daemon.replay.cluster import RayCluster  # noqa: PLC0415
    from daemon.replay.replay import ReplayOptions  # noqa: PLC0415

    options = ReplayOptions(plan, span, jobs, url, out, resume=resume)
    chosen = chosen_captioner(captioner, device, configuration)
    cluster = RayCluster(ray, *chosen) if ray else None
    finish(_replayed(paths, camera, loaded, options, cluster, json=json), out, json=json)


def _plan(
    configuration: Configuration | None,
    camera: str | None,
    changed: dict[str, Any],
    *,
    start: str | None,
    evidence: bool | None,
    limited: bool,
) -> CameraPlan:
    """Settings of every file: the configuration's, and what the command line says instead.

    Footage of a configured camera has its settings and zones, other footage the defaults.
    """
    defaults = CameraDefaults()
    if configuration:
        guarded = [name for name, each in configuration.cameras.items() if each.privacy]
        if guarded and camera is None:
            raise typer.BadParameter(
                f"{', '.join(guarded)} of the configuration have privacy areas: say with --camera whose"
                " footage this is (any other name if it is not one of theirs)"
            )
        defaults = configuration.cameras.get(camera or "", configuration.defaults)
    try:
        changed = {**changed, "sample": parse_rate(changed["sample"]) if changed["sample"] else None}
        started = parse_time(start) if start else None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    for name in ("lower", "upper"):
        value = changed[name]
        if isinstance(value, float) and not 0 < value <= 255:  # noqa: PLR2004 - the range of uint8
            raise typer.BadParameter(f"--{name} is {value:g}: give grey levels above 0, up to 255")
    pairs = defaults.pairs.model_copy(update={k: v for k, v in changed.items() if v is not None})
    kept = {} if evidence is None else {"keep": "all" if evidence else "none"}
    pictures = defaults.evidence.model_copy(update=kept)
    from daemon.config.plan import camera_plan  # noqa: PLC0415

    given = defaults.model_copy(update={"pairs": pairs, "evidence": pictures})
    return camera_plan("replay", "", given, started, limited=limited)


def _span(begin: str | None, end: str | None) -> Span:
    from daemon.threads.camera_thread import Span  # noqa: PLC0415

    try:
        first, last = parse_moment(begin) if begin else None, parse_moment(end) if end else None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    backwards = (isinstance(first, timedelta) and isinstance(last, timedelta) and first >= last) or (
        isinstance(first, datetime) and isinstance(last, datetime) and first >= last
    )  # an offset and a wall-clock time can be compared only once the footage is open
    if backwards:
        raise typer.BadParameter(f"--from {begin} --to {end}: nothing lies between; --to must be later")
    return Span(first, last)


def _replayed(
    paths: list[str],
    camera: str | None,
    captioner: Captioner,
    options: ReplayOptions,
    cluster: RayCluster | None,
    *,
    json: bool,
) -> ReplayReport:
    from rich.console import Console  # noqa: PLC0415

    from daemon.replay.inputs import find_footage  # noqa: PLC0415
    from daemon.replay.progress import ReplayProgress  # noqa: PLC0415
    from daemon.replay.replay import replay  # noqa: PLC0415
    from daemon.service.formatting import offset_line  # noqa: PLC0415

    def show(record: Record, offset_s: float) -> None:
        line = record.line().decode() if json else offset_line(record, offset_s)
        progress.print(line)

    logging.basicConfig(level=logging.ERROR, format="narrated: %(message)s")
    with ReplayProgress(Console(stderr=True)) as progress:
        footage = find_footage(paths, camera)
        if cluster:
            from daemon.replay.cluster import replay_on  # noqa: PLC0415

            return replay_on(cluster, footage, captioner, options, show=show, progress=progress)
        return replay(footage, captioner, options, show, progress)
