import importlib.metadata
import platform
from collections.abc import Iterator
from contextlib import closing, suppress
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

import typer

from daemon.commands.options import ConfigurationFile, load_chosen_captioner, warn
from daemon.config.configuration import ConfigurationError, load_configuration
from daemon.config.secrets import reveal, secret_file
from daemon.config.settings import Configuration
from pipeline.report.words import many

_SHOWN = ("narrated", "torch", "av", "numba", "numpy", "opencv-python-headless", "redis", "pydantic")


def run(config: ConfigurationFile) -> None:
    """Watch the cameras in a configuration, until SIGTERM or Ctrl-C."""
    configuration = load_configuration(config)
    from daemon.service import daemon  # noqa: PLC0415 - a mistake shows at once
    from daemon.service.process import limit_arenas, start_logging  # noqa: PLC0415

    limit_arenas()
    start_logging()
    raise typer.Exit(daemon.run(config, configuration))


def check_config(config: ConfigurationFile) -> None:
    """Check a configuration file and what it refers to: secrets, checkpoint, folders, footage, server."""
    configuration = load_configuration(config)
    from daemon.service.checks import check_configuration  # noqa: PLC0415 - a mistake shows at once

    warnings = check_configuration(configuration, config)
    _check_others(configuration, config)
    for warning in [*warnings, *(f"{config}: {each}" for each in _unknown_objects(configuration))]:
        warn(f"warning: {warning}")
    if url := configuration.redis.url:
        _try_server(reveal(url), configuration)
    typer.echo(f"{config}: fine, {many(len(configuration.cameras), 'camera')}")


def doctor() -> None:
    """Check the installation: packages, kernels, captioner; `check-config` checks a configuration."""
    from pipeline.kernels import are_compiled_ahead  # noqa: PLC0415

    versions = [f"Python {platform.python_version()}"]
    for name in _SHOWN:
        with suppress(importlib.metadata.PackageNotFoundError):  # cv2 may come from Debian
            versions.append(f"{name} {importlib.metadata.version(name)}")
    typer.echo(f"versions: {', '.join(versions)}")
    if are_compiled_ahead():
        typer.echo("kernels: compiled at installation")
    elif find_spec("numba"):
        typer.echo("kernels: compiled by numba when first called")
    else:
        warn(
            "the kernels were not compiled at installation, and numba is missing: pip install "
            "'narrated[jit]', or install narrated again where there are g++ and python3-dev"
        )
        raise typer.Exit(1)
    from daemon.threads.captioning import warm_up  # noqa: PLC0415

    captioner = load_chosen_captioner(None)
    warm_up(captioner)
    typer.echo(f"captioner: {captioner.name} {captioner.sha256[:12]} works on {captioner.device}")


def _check_others(configuration: Configuration, name: Path) -> None:
    """Refuse what `forward` and `serve` would."""
    passwords = secret_file(configuration.serve.passwords or "")
    if configuration.serve.passwords and not passwords.is_file():
        advice = "make it by `narrated serve --new-password NAME`"
        raise ConfigurationError([f"{name}: serve.passwords: {passwords} is not there: {advice}"])
    if [*configuration.forward.targets()]:
        from daemon.forward.forwarder import check  # noqa: PLC0415 - most files have no targets

        check(configuration, str(name))


def _unknown_objects(configuration: Configuration) -> Iterator[str]:
    """Objects of filters that only a captioner of one's own would name."""
    from daemon.questions.words import NOUNS  # noqa: PLC0415

    known = {*NOUNS, *(door.door.object for each in configuration.cameras.values() for door in each.doors)}
    for name, target in configuration.forward.targets():
        for each in {*target.filter.object} - known:
            near = get_close_matches(each, known, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            yield f"forward.{target.kind}.{name}.filter.object: no record names {each!r}{meant}"


def _try_server(url: str, configuration: Configuration) -> None:
    """Warn where the server does not answer, or no worker fits: both may come later."""
    from daemon.workers import living_workers  # noqa: PLC0415
    from models import read_label  # noqa: PLC0415
    from pipeline.publisher import PublisherError, RedisServer, stream_key  # noqa: PLC0415

    try:
        with closing(RedisServer(url)) as server, server.client() as client:
            client.xrange(stream_key("check-config"), "1-1", "1-1")
        if any(each.narrate.workers == "redis" for each in configuration.cameras.values()):
            wanted = read_label(configuration.captioner.checkpoint).sha256
            living = living_workers(lambda: url)
            fit = sum(each["checkpoint"] == wanted for each in living)
            typer.echo(f"workers with the checkpoint {wanted[:12]}: {fit} of {len(living)}")
    except PublisherError as error:
        warn(f"warning: redis.url: {error}")
