import json as json_format
import logging
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from typer import Argument, Option

from daemon.commands import options
from daemon.config.configuration import load_configuration
from daemon.config.plan import camera_plan
from daemon.config.secrets import reveal
from daemon.config.settings import CameraDefaults, Configuration, ServeSettings
from daemon.config.units import parse_moment, parse_rate, parse_time
from daemon.replay import replay as recorded
from daemon.replay.cluster import narrate_on
from daemon.replay.files import check_output, find_footage
from daemon.replay.replay import ReplayOptions, ReplayProgress, ReplayReport
from daemon.service.process import Signals, limit_arenas, offset_line
from daemon.threads.cameras import Span
from pipeline.camera_state import CameraMemory
from pipeline.record import Record
from pipeline.report.words import many


def replay(
    paths: Annotated[list[str], Argument(help="Video files, folders, globs, folders of stills.")],
    *,
    begin: Annotated[
        str | None, Option("--from", help="Start here: 90s, 00:01:30 or 2026-05-01T12:00:00Z.")
    ] = None,
    end: Annotated[str | None, Option("--to", help="End here; written like --from.")] = None,
    json: options.Json = False,
    out: Annotated[Path | None, Option(help="Folder for the narrations, subtitles and report.")] = None,
    force: Annotated[bool, Option("--force", help="Replace the narrations in --out.")] = False,
    resume: Annotated[bool, Option("--resume", help="Continue the interrupted replay in --out.")] = False,
    state: Annotated[
        Path | None, Option(help="Begin with what cameras had learnt, in the daemon's STATE/cameras/begun.")
    ] = None,
    start: Annotated[str | None, Option(help="Time of the first frame: 2026-05-01T12:00:00Z.")] = None,
    camera: Annotated[str | None, Option(help="Treat all files as recordings of this camera.")] = None,
    redis: Annotated[str | None, Option(help="Publish to redis://, rediss:// or unix://.")] = None,
    sample: Annotated[str | None, Option(help="Rate at which frames are analysed, such as 2/s.")] = None,
    config: options.OptionalFile = None,
    captioner: options.CaptionerChoice = None,
    device: options.Device = None,
    evidence: Annotated[bool | None, Option(help="Keep pictures in --out; by default as configured.")] = None,
    limits: Annotated[bool, Option("--limits", help="Apply message limits, as `run` does.")] = False,
    summaries: Annotated[bool, Option(help="Sum up the events of a busy minute, or report each one.")] = True,
    fast: Annotated[bool, Option("--fast", help="Decode only keyframes where nothing happens.")] = False,
    ray: Annotated[
        str | None, Option(help="Split the files on a Ray cluster (auto, HOST:PORT) or processors (local).")
    ] = None,
) -> None:
    """Narrate recorded footage."""
    configuration = load_configuration(config) if config else None
    settings = _settings(configuration, camera, sample, evidence)
    span = _span(begin, end)
    limit_arenas()
    plan = camera_plan("replay", "", settings, options.parse_option(parse_time, start), limited=limits)
    if not summaries:
        plan = replace(plan, limits=replace(plan.limits, per_minute=None))
    zone = (configuration.timezone if configuration else None) or ""
    plan = replace(plan, source=replace(plan.source, fast=fast), timezone=zone)
    if resume and (force or out is None):
        raise typer.BadParameter("--resume needs the --out folder of the interrupted replay, and no --force")
    if ray and out is None:
        raise typer.BadParameter("--ray needs --out, the folder where all results are collected")
    if out and not resume:
        check_output(out, force=force)
    loaded = options.load_chosen_captioner(captioner, "cpu" if ray else device, configuration)
    footage = find_footage(paths, camera)
    learnt = _learnt(state, [each.camera for each in footage]) if state else {}
    replaying = ReplayOptions(plan, span, reveal(redis or ""), out, resume=resume, states=learnt)
    if ray:
        chosen = options.choose_captioner(captioner, device, configuration)
        where = partial(narrate_on, address=ray, checkpoint=chosen.checkpoint, device=chosen.device)
        replaying = replace(replaying, elsewhere=where)

    def json_line(record: Record, _: float) -> str:
        return record.line().decode()

    logging.basicConfig(level=logging.ERROR, format="narrated: %(message)s")
    line = json_line if json else offset_line
    with ReplayProgress(Console(stderr=True), line) as progress, Signals(reloads=False) as signals:
        report = recorded.replay(footage, loaded, replaying, progress, signals.stop)
    _finish(report, out, json=json)


def demo(
    video: Annotated[Path | None, Argument(help="A clip; by default, download OpenCV's vtest.avi.")] = None,
    *,
    out: Annotated[Path, Option(help="Folder for the report; replaces the narrations in it.")] = Path("demo"),
    serve: Annotated[bool | None, Option(help="Show the page; by default only on a terminal.")] = None,
) -> None:
    """Narrate a clip through an embedded server, print narrations as they arrive, then show the page."""
    from daemon.commands.serve import serve_page  # noqa: PLC0415
    from daemon.replay.demo import demo_clip, run_demo  # noqa: PLC0415 - the extra

    shown = sys.stdin.isatty() and sys.stderr.isatty() if serve is None else serve
    if video is not None and not video.is_file():
        raise typer.BadParameter(f"there is no file {video}")
    clip = video or demo_clip()
    typer.echo(f"narrating {clip}", err=True)
    loaded = options.load_chosen_captioner(None)
    _finish(run_demo(clip, loaded, out), out)
    if shown:
        page = ServeSettings.model_validate({"listen": "127.0.0.1:0"})  # a free port
        serve_page(page, None, out)


def _settings(
    configuration: Configuration | None, camera: str | None, sample: str | None, evidence: bool | None
) -> CameraDefaults:
    """Settings of every file: a configured camera's, else the defaults, and what the command line says."""
    settings = CameraDefaults()
    if configuration:
        guarded = [name for name, each in configuration.cameras.items() if each.privacy]
        if guarded and camera is None:
            advice = "say with --camera whose footage this is, or any other name"
            raise typer.BadParameter(f"{', '.join(guarded)} have privacy areas: {advice}")
        settings = configuration.cameras.get(camera or "", configuration.defaults)
    if sample:
        pairs = settings.pairs.model_copy(update={"sample": options.parse_option(parse_rate, sample)})
        settings = settings.model_copy(update={"pairs": pairs})
    if evidence is not None:
        kept = settings.evidence.model_copy(update={"keep": "all" if evidence else "none"})
        settings = settings.model_copy(update={"evidence": kept})
    return settings


def _learnt(folder: Path, cameras: list[str]) -> dict[str, bytes]:
    paths = {name: folder / f"{name}.json" for name in cameras}
    files = {name: path for name, path in paths.items() if path.is_file()}
    if not files:
        raise typer.BadParameter(f"--state {folder} has no {', '.join(f'{name}.json' for name in cameras)}")
    if damaged := [str(path) for path in files.values() if not CameraMemory(path).sha256]:
        raise typer.BadParameter(f"--state: {', '.join(damaged)} cannot be read")
    return {name: path.read_bytes() for name, path in files.items()}


def _span(begin: str | None, end: str | None) -> Span:
    first, last = options.parse_option(parse_moment, begin), options.parse_option(parse_moment, end)
    # An offset and a wall-clock time can be compared only once the footage is open.
    if first is not None and type(first) is type(last) and first >= last:  # type: ignore[operator]
        raise typer.BadParameter(f"--from {begin} --to {end}: nothing lies between; --to must be later")
    return Span(first, last)


def _finish(report: ReplayReport, out: Path | None, *, json: bool = False) -> None:
    """Say how it went; the command ends here where it was interrupted, or some input failed."""
    if json and not report.narrations:
        typer.echo(json_format.dumps({"narrations": 0, "complete": not report.interrupted}))
    for problem in report.problems:
        options.warn(problem)
    if out and report.narrations:
        typer.echo(f"{many(report.narrations, 'narration')}; open {out / 'report.html'}", err=True)
    elif not report.problems:
        typer.echo(many(report.narrations, "narration") if report.narrations else "no narrations", err=True)
    if report.interrupted:
        raise typer.Exit(options.INTERRUPTED)
    if report.problems:
        raise typer.Exit(options.SOME_FAILED)
