"""Verbs that watch: run, replay, demo."""

from __future__ import annotations

import json as json_format
import logging
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from daemon.config.configuration import load_configuration
from daemon.config.durations import parse_moment, parse_rate, parse_time
from daemon.config.secrets import Secrets
from daemon.config.settings import CameraDefaults, CaptionerName, Configuration

if TYPE_CHECKING:  # torch and numba load when a verb runs, not for --help
    from daemon.config.plan import CameraPlan
    from daemon.replay.replay import ReplayOptions, ReplayReport
    from daemon.threads.camera_thread import Span
    from models.captioner import Captioner
    from pipeline.record import Record

ConfigurationFile = Annotated[Path, typer.Option("-c", "--config", help="Configuration file (YAML).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_SHIPPED = get_args(CaptionerName)


def _known(name: str | None) -> str | None:
    if name is not None and name not in _SHIPPED:
        raise typer.BadParameter(f"{name!r} does not ship; write {' or '.join(_SHIPPED)}")
    return name


CaptionerChoice = Annotated[
    str | None,
    typer.Option("--captioner", callback=_known, help=f"One that ships: {', '.join(_SHIPPED)}."),
]
CaptionerFile = Annotated[Path | None, typer.Option("--captioner-file", help="Or a checkpoint of your own.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
EvidenceChoice = Annotated[
    bool | None,
    typer.Option(
        "--evidence/--no-evidence",
        help="Keep the pictures of what is told in --out; else as the configuration says.",
    ),
]
LimitsChoice = Annotated[
    bool, typer.Option("--limits", help="Hold back floods, as `run` does; else everything is told.")
]

_INTERRUPTED = 130


def add_to(app: typer.Typer) -> None:
    """Make the verbs known."""
    app.command("run")(run)
    app.command("replay")(replay)
    app.command("demo")(demo)


def run(
    config: ConfigurationFile,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log more.")] = False,
) -> None:
    """Watch the cameras of a configuration, until SIGTERM or Ctrl-C."""
    configuration = load_configuration(config)
    secrets = Secrets()
    from daemon.health.log import start_logging  # noqa: PLC0415
    from daemon.service import daemon as live  # noqa: PLC0415

    start_logging(secrets, verbose=verbose)
    raise typer.Exit(live.run(config, configuration, secrets))


def replay(
    paths: Annotated[list[str], typer.Argument(help="Video files, folders, globs, folders of stills.")],
    *,
    begin: Annotated[
        str | None, typer.Option("--from", help="Begin here: 90s, 00:01:30 or 2026-05-01T12:00:00Z.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="End here; written like --from.")] = None,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Files that are read at the same time.")] = 1,
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
        str | None, typer.Option(help="Wall-clock time of the first frame (ISO 8601; UTC if unsaid).")
    ] = None,
    camera: Annotated[
        str | None, typer.Option(help="Name of the camera; all files are then segments of this one.")
    ] = None,
    redis: Annotated[
        str | None, typer.Option(help="Publish to redis://, rediss://, unix:// or embedded.")
    ] = None,
    sample: Annotated[str | None, typer.Option(help="Frames that are looked at, such as 2/s.")] = None,
    lower: Annotated[float | None, typer.Option(help="Lower threshold, grey levels; else found.")] = None,
    upper: Annotated[float | None, typer.Option(help="Upper threshold, grey levels; else found.")] = None,
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="Take captioner, redis and settings from this file.")
    ] = None,
    captioner: CaptionerChoice = None,
    captioner_file: CaptionerFile = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
    evidence: EvidenceChoice = None,
    limits: LimitsChoice = False,
) -> None:
    """Narrate footage that was recorded before."""
    configuration = load_configuration(config) if config else None
    changed = {"sample": sample, "lower": lower, "upper": upper}
    plan = _plan(configuration, camera, changed, start=start, evidence=evidence, limited=limits)
    span = _span(begin, end)
    url = Secrets().reveal(redis or (configuration and configuration.redis.url) or "none:")
    from daemon.replay.output import check_output  # noqa: PLC0415

    if resume and (force or out is None):
        raise typer.BadParameter("--resume needs the --out folder of the interrupted replay, and no --force")
    if out and not resume:
        check_output(out, force=force)
    loaded = _captioner(configuration, captioner, captioner_file, device)
    from daemon.replay.replay import ReplayOptions  # noqa: PLC0415

    options = ReplayOptions(plan, span, jobs, url, out, resume=resume)
    _finish(_replayed(paths, camera, loaded, options, json=json), out, json=json)


def demo(
    video: Annotated[
        Path | None, typer.Argument(help="A clip; without it OpenCV's vtest.avi is fetched.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report; its narrations are replaced.")] = Path(
        "demo"
    ),
    captioner: CaptionerChoice = None,
    captioner_file: CaptionerFile = None,
    device: Device = "auto",
) -> None:
    """Narrate a clip through an embedded server, printing each narration as it arrives from the stream."""
    from daemon.config.checkpoint import chosen_checkpoint  # noqa: PLC0415
    from daemon.config.device import chosen_device  # noqa: PLC0415
    from daemon.replay.demo import run_demo  # noqa: PLC0415
    from daemon.replay.footage import demo_clip  # noqa: PLC0415
    from models import load_captioner  # noqa: PLC0415

    if video is not None and not video.is_file():
        raise typer.BadParameter(f"there is no file {video}")
    clip = video or demo_clip()
    typer.echo(f"narrating {clip}", err=True)
    loaded = load_captioner(chosen_checkpoint(None, captioner, captioner_file), chosen_device(device))
    _finish(run_demo(clip, loaded, out), out)


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
    if evidence is None and configuration is None:
        evidence = False
    if configuration:
        guarded = [name for name, each in configuration.cameras.items() if each.privacy]
        if guarded and camera is None:
            raise typer.BadParameter(
                f"{', '.join(guarded)} of the configuration must not be seen whole: say with --camera whose"
                " footage this is (a name of your own if it is none of theirs)"
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


def _captioner(
    configuration: Configuration | None, name: str | None, path: Path | None, device: str | None
) -> Captioner:
    from daemon.config.checkpoint import chosen_checkpoint  # noqa: PLC0415
    from daemon.config.device import chosen_device  # noqa: PLC0415
    from daemon.config.settings import CaptionerSettings  # noqa: PLC0415
    from models import load_captioner  # noqa: PLC0415

    settings = configuration.captioner if configuration else CaptionerSettings()
    return load_captioner(chosen_checkpoint(settings, name, path), chosen_device(device or settings.device))


def _replayed(
    paths: list[str],
    camera: str | None,
    captioner: Captioner,
    options: ReplayOptions,
    *,
    json: bool,
) -> ReplayReport:
    from rich.console import Console  # noqa: PLC0415

    from daemon.replay.inputs import find_footage  # noqa: PLC0415
    from daemon.replay.progress import ReplayProgress  # noqa: PLC0415
    from daemon.replay.replay import replay  # noqa: PLC0415
    from daemon.service.lines import json_line, offset_line  # noqa: PLC0415

    def show(record: Record, offset_s: float) -> None:
        line = json_line(record) if json else offset_line(record, offset_s)
        progress.print(line)

    logging.basicConfig(level=logging.ERROR, format="narrated: %(message)s")
    with ReplayProgress(Console(stderr=True)) as progress:
        return replay(find_footage(paths, camera), captioner, options, show, progress)


def _finish(report: ReplayReport, out: Path | None, *, json: bool = False) -> None:
    if json and not report.narrations:
        typer.echo(json_format.dumps({"narrations": 0, "complete": not report.interrupted}))
    for problem in report.problems:
        typer.echo(f"narrated: {problem}", err=True)
    if out and report.narrations:
        typer.echo(f"{report.narrations} narrations; open {out / 'report.html'}", err=True)
    elif not report.problems:
        typer.echo(f"{report.narrations or 'no'} narrations", err=True)
    if report.interrupted:
        raise typer.Exit(_INTERRUPTED)
    if report.problems:
        raise typer.Exit(3)
