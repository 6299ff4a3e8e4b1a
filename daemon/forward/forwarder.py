"""`narrated forward`: startup, main loop, shutdown; a process of its own beside the daemon."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from zoneinfo import ZoneInfo

from daemon.config.configuration import ConfigurationError
from daemon.config.forward import ForwardSettings, MqttSettings, TargetSettings, secret_texts
from daemon.config.secrets import SecretError, Secrets
from daemon.config.settings import Configuration
from daemon.config.state import unit_folder
from daemon.forward.courier import Courier
from daemon.forward.filter import Filter
from daemon.forward.intake import Intake
from daemon.forward.kinds import fault, open_target
from daemon.forward.ledger import REMEMBERED, Ledger, LedgerError
from daemon.forward.lock import alone
from daemon.forward.target import Target
from daemon.service.signals import Signals
from daemon.service.systemd import ServiceWatch
from daemon.threads.pulse import Pulses
from pipeline.evidence import EvidenceStore
from pipeline.loop import LIMIT_S, Loop
from pipeline.publisher import Backoff, ServerAwayError

GRACE_S = 10.0
"""From the signal to the end: what is being sent is sent to its end, as far as that fits."""

_TURN_S = 0.1
_IDLE_S = 0.5
_COUNTED_EVERY_S = 10.0

_OWN = frozenset({"daemon", "pipeline", "models"})

logger = logging.getLogger(__name__)


def hush_libraries() -> None:
    """Only our own words reach the log from now on.

    HTTP clients and the libraries of services log addresses, whole or in part, and those are secrets here.
    """
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: record.name.partition(".")[0] in _OWN)


def ledger_folder(configuration: Configuration) -> Path:
    """Where the ledger lies: the unit's own folder, else beside the journals."""
    return unit_folder(configuration.state / "forward")


def checked(configuration: Configuration, secrets: Secrets, name: str = "configuration") -> ForwardSettings:
    """The section `forward`, if it can be used.

    Raises:
        ConfigurationError: with one line per problem, none of which shows a secret.
        MissingExtraError: a library is not installed.
    """
    settings = configuration.forward
    problems = []
    url = configuration.redis.url
    if not list(settings.targets()):
        problems.append("forward: names no target; docs/forward.md shows some")
    if url is None or url == "embedded" or url.startswith("embedded:"):
        problems.append("redis.url: forwarding reads the streams of a server: redis://, rediss:// or unix://")
    for key, text in [("redis.url", url or ""), *secret_texts(settings)]:
        try:
            secrets.reveal(text)
        except SecretError as error:
            problems.append(f"{key}: {error}")
    if not problems:
        for target, each in settings.targets():
            if found := fault(each, secrets):
                problems.append(f"forward target {target}: {found}")
    if problems:
        raise ConfigurationError([f"{name}: {problem}" for problem in problems])
    return settings


@dataclass(slots=True)
class Forwarding:
    """Everything that runs; made by `startup`, ended by `shutdown`."""

    ledger: Ledger
    intake: Intake
    couriers: dict[str, Courier]
    pulses: Pulses
    watch: ServiceWatch
    signals: Signals
    reading: Loop = field(init=False)
    backoff: Backoff = field(default_factory=Backoff)
    away: str = ""
    _status: str = ""
    _counted_at: float = float("-inf")
    _forgotten: dict[str, int] | None = None

    @property
    def loops(self) -> list[Loop]:
        """All threads."""
        return [self.reading, *(courier.loop for courier in self.couriers.values())]

    @property
    def status(self) -> str:
        """One line for `systemctl status`; the ledger is counted now and then."""
        if monotonic() - self._counted_at >= _COUNTED_EVERY_S:
            self._counted_at = monotonic()
            counted = self.ledger.counts().values()
            waiting, dead = (sum(each[state] for each in counted) for state in ("waiting", "dead"))
            parts = [f"{len(self.couriers)} targets, {waiting} waiting, {dead} dead letters"]
            self._tell_forgotten()
            parts += [f"not reading: {self.away}"] if self.away else []
            parts += [f"{name}: {courier.away}" for name, courier in self.couriers.items() if courier.away]
            self._status = "; ".join(parts)
        return self._status

    def _tell_forgotten(self) -> None:
        """Warn where dead letters have gone since the last look; an earlier process has told of its own."""
        forgotten = self.ledger.forgotten()
        before = forgotten if self._forgotten is None else self._forgotten
        for name, count in forgotten.items():
            if (more := count - before.get(name, 0)) > 0:
                logger.warning(
                    "target %s: %d dead letters more than the %d that are kept: the oldest are gone from the "
                    "ledger; their records are in the journals",
                    *(name, more, REMEMBERED),
                )
        self._forgotten = forgotten


def run(
    configuration: Configuration, secrets: Secrets, settings: ForwardSettings, *, from_start: bool = False
) -> int:
    """Forward as `checked` allows until SIGTERM or SIGINT.

    Returns:
        Exit code 0.

    Raises:
        LedgerError, PublisherError: it cannot start, or not go on.
    """
    with Signals() as signals, ExitStack() as resources:
        forwarding = startup(configuration, secrets, settings, resources, signals, from_start=from_start)
        try:
            main_loop(forwarding)
        finally:
            shutdown(forwarding)
        for loop in forwarding.loops:
            loop.raise_error()
    return 0


def startup(
    configuration: Configuration,
    secrets: Secrets,
    settings: ForwardSettings,
    resources: ExitStack,
    signals: Signals,
    *,
    from_start: bool = False,
) -> Forwarding:
    """Open the ledger, start the threads."""
    folder = ledger_folder(configuration)
    resources.enter_context(alone(folder))
    ledger = resources.enter_context(Ledger(folder))
    targets = dict(settings.targets())
    _warn(configuration, settings, ledger)
    if from_start:
        ledger.forget_positions()
    zone = ZoneInfo(settings.timezone) if settings.timezone else None
    pulses, store = Pulses(), EvidenceStore(configuration.state / "evidence")
    couriers = {}
    for name, each in targets.items():
        opener = _opener(name, each, configuration, secrets, ledger)
        couriers[name] = Courier(name, each, opener, ledger, store, pulses=pulses, zone=zone)
    watch = ServiceWatch()
    resources.callback(watch.close)

    def wake(names: Sequence[str]) -> None:
        for name in names:
            couriers[name].loop.wake()

    url = configuration.redis.url or ""
    intake = Intake(
        lambda: secrets.reveal(url),
        settings.group,
        ledger,
        {name: Filter(each.filter, zone) for name, each in targets.items()},
        {name: each.queue for name, each in targets.items()},
        from_start=from_start,
        queued=wake,
    )
    forwarding = Forwarding(ledger, intake, couriers, pulses, watch, signals)
    forwarding.reading = Loop(
        "streams", lambda: _read(forwarding), pulses=pulses, within_s=2 * LIMIT_S, last=intake.close
    )
    signals.watching()
    for loop in forwarding.loops:
        loop.start()
    return forwarding


def _warn(configuration: Configuration, settings: ForwardSettings, ledger: Ledger) -> None:
    """What the administrator may not have meant."""
    names = [name for name, _ in settings.targets()]
    for name, count in ledger.orphan(names).items():
        logger.warning(
            "%d records wait for %s, which is no longer a target: they are dead letters", count, name
        )
    for doubt in doubts(configuration, settings):
        logger.warning("%s", doubt)


def main_loop(forwarding: Forwarding) -> None:
    """Look after the threads, and tell systemd, until the end is asked for or a thread has failed."""
    watch, told_ready = forwarding.watch, False
    while not forwarding.signals.stop.is_set():
        if any(loop.started and not loop.alive for loop in forwarding.loops):
            return
        try:
            status = forwarding.status
        except LedgerError as error:
            status = str(error)
        if not told_ready:
            watch.ready(status)
            logger.info("forwarding: %s", status)
            told_ready = True
        watch.progress(status, healthy=not forwarding.pulses.overdue())
        forwarding.signals.stop.wait(_TURN_S)


def shutdown(forwarding: Forwarding) -> None:
    """End the threads; what is not sent yet waits in the ledger."""
    forwarding.watch.stopping()
    for loop in forwarding.loops:
        loop.stop()
    until = monotonic() + GRACE_S
    for loop in forwarding.loops:
        if not loop.join(until - monotonic()):
            logger.warning(
                "a target takes too long to end: what it was being sent is sent again at the next start"
            )


def doubts(configuration: Configuration, settings: ForwardSettings) -> list[str]:
    """What filters ask for and this configuration does not know: another daemon may publish it."""
    cameras = set(configuration.cameras)
    zones = {zone.name for camera in configuration.cameras.values() for zone in camera.zones}
    found = []
    for name, target in settings.targets():
        asked = target.filter
        unknown = [each for each in asked.camera if not set("*?[") & set(each) and each not in cameras]
        found += [f"target {name}: the configuration has no camera {each}" for each in unknown]
        found += [
            f'target {name}: the configuration has no zone "{each}"'
            for each in asked.zone
            if each not in zones
        ]
    return found


def _opener(
    name: str, settings: TargetSettings, configuration: Configuration, secrets: Secrets, ledger: Ledger
) -> Callable[[], Target]:
    def seen() -> dict[str, list[str]]:
        wanted = Filter(settings.filter)
        known: dict[str, list[str]] = {each: [] for each in configuration.cameras if wanted.has_camera(each)}
        try:
            return known | ledger.seen(name) if isinstance(settings, MqttSettings) else {}
        except LedgerError:
            return known  # its own thread tells what is wrong with the ledger

    return lambda: open_target(name, settings, secrets, seen)


def _read(forwarding: Forwarding) -> None:
    """One turn of the thread that reads the streams."""
    stopped = forwarding.reading.stopped
    try:
        forwarding.intake.read()
    except ServerAwayError as error:
        forwarding.away = str(error)
        stopped.wait(forwarding.backoff.next_s(error))
        return
    except LedgerError as error:
        if not forwarding.away:
            logger.warning("nothing is taken from the streams: %s; trying again, nothing is lost", error)
        forwarding.away = str(error)
        stopped.wait(_IDLE_S)
        return
    if forwarding.away:
        logger.warning("reading the streams again")
    forwarding.away = forwarding.backoff.reason = ""
    if forwarding.intake.idle:
        stopped.wait(_IDLE_S)
