"""The rules of a configuration: read for each camera, by its own zones and lines."""

from collections.abc import Iterable
from dataclasses import replace

from daemon.config.configuration import ConfigurationError
from daemon.config.settings import Camera, Configuration, RuleSettings
from daemon.questions.asker import Asker
from daemon.questions.facts import place_name
from daemon.questions.local_time import LocalTime, parse_hours
from daemon.questions.question import SearchError, not_here
from daemon.rules.rule import Rule, read_rule

Rules = dict[str, tuple[Rule, ...]]  # by camera


def configured_rules(configuration: Configuration) -> Rules:
    """The rules of each camera; a `ConfigurationError` has a line with the word for each not understood."""
    local, problems = LocalTime.named(configuration.timezone), list[str]()
    rules = {name: list[Rule]() for name in configuration.cameras}
    for settings in configuration.rules:
        try:
            rule, cameras = _read(settings, configuration, local)
        except SearchError as error:
            problems.append(f"rules: {settings.name}: {error}")
            continue
        for name in cameras:
            rules[name].append(rule)
    if problems:
        raise ConfigurationError(problems)
    return {name: tuple(each) for name, each in rules.items()}


def _read(
    settings: RuleSettings, configuration: Configuration, local: LocalTime
) -> tuple[Rule, tuple[str, ...]]:
    """A rule, and the cameras that it is about."""
    known = tuple(configuration.cameras)
    for name in settings.cameras:
        if name not in known:
            raise not_here(name, "camera", known)
    cameras = settings.cameras or known
    places = places_of(configuration.cameras[name] for name in cameras)
    doors = frozenset(door.door.object for name in cameras for door in configuration.cameras[name].doors)
    asker = Asker(known, doors, local, places.__contains__, lambda: list(places))
    between = parse_hours(settings.hours) if settings.hours else None
    rule = read_rule(settings.name, settings.when, asker, between=between, cooldown_s=settings.cooldown)
    if said := rule.filters.cameras or rule.then.cameras:
        cameras = tuple(name for name in cameras if name in said)
    if not cameras:
        raise SearchError(f"{settings.when!r} is about another camera than its cameras")
    return replace(rule, filters=replace(rule.filters, cameras=())), cameras


def places_of(cameras: Iterable[Camera]) -> dict[str, None]:
    """What zones and lines are called, lines also with the direction of a crossing."""
    names = dict[str, None]()
    for camera in cameras:
        names |= {place_name(zone.name).lower(): None for zone in camera.zones}
        for line in camera.lines:
            name = place_name(line.name).lower()
            names |= dict.fromkeys((name, *(f"{name} {each.lower()}" for each in line.line.ways)))
    return names
