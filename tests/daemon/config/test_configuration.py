"""The configuration: strict, with units, and with errors that help."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from pydantic import BaseModel

from daemon.config.configuration import ConfigurationError, load_configuration, parse_configuration
from daemon.config.plan import camera_plan, camera_plans
from daemon.config.settings import Configuration
from models import SHIPPED
from models.captioner import Captioner, DescribeOptions
from models.language.places import Zone
from pipeline.changes import ChangeOptions
from pipeline.limits import NO_LIMITS
from pipeline.sources import SourceOptions

EXAMPLE = Path(__file__).parents[3] / "configs" / "narrated.yaml"
SMALL = "version: 1\ncameras:\n  door: {url: door.mp4}\n"


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        parse_configuration(text, "n.yaml")
    return caught.value.problems


class Trained:
    """What a plan looks at in a captioner."""

    name = "trained"

    def __init__(self, **changes: Any) -> None:
        self.record = {"changes": changes} if changes else {}


def trained(**changes: Any) -> Captioner:
    return cast("Captioner", Trained(**changes))


def test_defaults_are_those_of_the_pipeline():
    configuration = parse_configuration(SMALL)
    plan = camera_plan("door", "door.mp4", configuration.cameras["door"])
    assert plan.source == SourceOptions(sample_hz=5.0)
    assert plan.change_options(trained()) == ChangeOptions()
    assert plan.describe == DescribeOptions()
    assert (plan.lower, plan.upper) == (None, None)


def test_a_camera_inherits_what_it_does_not_say():
    configuration = parse_configuration(
        "version: 1\n"
        "defaults: {pairs: {sample: 4/s, lower: 12}}\n"
        "cameras:\n  a: {url: a.mp4}\n  b: {url: b.mp4, pairs: {sample: 30/m, upper: 70.5}}\n"
    )
    a, b = camera_plans(configuration)
    assert (a.source.sample_hz, a.lower, a.upper) == (4.0, 12.0, None)
    assert (b.source.sample_hz, b.lower, b.upper) == (0.5, 12.0, 70.5)
    assert a.settings_sha256(trained()) != b.settings_sha256(trained())


def test_a_time_zone_changes_the_record_and_no_id():
    here, there = (
        camera_plans(parse_configuration(text))[0] for text in (SMALL, f"timezone: Asia/Tokyo\n{SMALL}")
    )
    assert here.settings_sha256(trained()) == there.settings_sha256(trained())
    assert here.settings_sha256(trained(), limits=True) != there.settings_sha256(trained(), limits=True)


def test_what_decides_the_text_is_in_its_hash():
    corners = "[[0, 0], [1, 0], [1, 1]]"
    texts = [
        "",
        "pairs: {sample: 3/s}",
        "pairs: {lower: 7}",
        "pairs: {upper: 7}",
        "narrate: {colours: false}",
    ]
    texts += [
        f"masks: {{m: {corners}}}",
        f"privacy: {{m: {corners}}}",
        f"lines: [{{name: a a, points: {corners}}}]",
    ]
    cameras = "".join(f"  c{n}: {{url: x, {text}}}\n" for n, text in enumerate(texts))
    plans = camera_plans(parse_configuration(f"version: 1\ncameras:\n{cameras}"))
    plans.append(replace(plans[0], source=replace(plans[0].source, fast=True)))
    assert len({plan.settings_sha256(trained()) for plan in plans}) == len(texts) + 1
    unlimited = replace(plans[0], limits=NO_LIMITS)
    assert unlimited.settings_sha256(trained()) == plans[0].settings_sha256(trained()), "ids are the same"
    hashes = {each.settings_sha256(trained(), limits=True) for each in (unlimited, plans[0])}
    assert len(hashes) == 2


def test_a_small_stream_reaches_the_plan_and_shows_nowhere(monkeypatch):
    monkeypatch.setenv("PASSWORD", "s3cr3t")
    text = "version: 1\ncameras:\n  a: {{url: '{}', screening: '{}'}}\n  b: {{url: b.mp4}}\n"
    whole = text.format("rtsp://h/1", "rtsp://me:${env:PASSWORD}@h/2")
    a, b = camera_plans(parse_configuration(whole))
    assert (a.screening, b.screening) == ("rtsp://me:s3cr3t@h/2", None)
    assert "s3cr3t" not in repr(a)
    for url, screening in (("a.mp4", "rtsp://h/2"), ("rtsp://h/1", "small.mp4")):
        assert "screening" in problems(text.format(url, screening))[0]


def test_changes_are_found_as_the_captioner_was_trained():
    [plan] = camera_plans(parse_configuration(SMALL))
    captioner = trained(size=[288, 384], delta=38.0, eps=3.0)
    assert plan.change_options(captioner) == ChangeOptions(size=(288, 384), delta=38.0, eps=3.0)
    assert plan.settings_sha256(captioner) != plan.settings_sha256(trained(eps=4.0))
    with pytest.raises(ConfigurationError, match="unknown change options tempo: update narrated"):
        plan.change_options(trained(tempo=3))


ZONES = """\
version: 1
defaults: {narrate: {cooldown: 1500ms}, pairs: {sample: 7/m}}
cameras:
  a:
    url: rtsp://h/1
    zones:
      - name: at the entrance
        polygon: [[0.1, 0.1], [0.5, 0.1], [0.5, 0.5]]
      - {name: in the lot, polygon: [[0, 0], [1, 0], [1, 1], [0, 1]]}
  b: {url: rtsp://h/2}
"""


def test_zones_reach_whoever_words_the_sentences():
    a, b = camera_plans(parse_configuration(ZONES))
    assert a.describe.zones == (
        Zone("at the entrance", ((0.1, 0.1), (0.5, 0.1), (0.5, 0.5))),
        Zone("in the lot", ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))),
    )
    assert b.describe.zones == ()
    assert a.settings_sha256(trained()) != b.settings_sha256(trained())


@pytest.mark.parametrize(
    ("zone", "key"),
    [
        ("{name: entrance, polygon: [[0, 0], [1, 0], [1, 1]]}", "name"),
        ("{name: in the lot, polygon: [[0, 0], [1, 0]]}", "polygon"),
        ("{name: in the lot, polygon: [[0, 0], [1, 1], [1, 0], [0, 1]]}", "polygon"),
        ("{name: in the lot, polygon: [[0, 0], [640, 0], [640, 480]]}", "polygon"),
        ("{name: in the lot, polygon: [[0, 0], [1, 1], [1, '1']]}", "polygon.2.1"),
        ("{name: in the lot}", "polygon"),
        ("{nam: in the lot, name: in the lot, polygon: [[0, 0], [1, 0], [1, 1]]}", "nam"),
    ],
)
def test_a_zone_that_cannot_be_used(zone, key):
    found = problems(f"version: 1\ncameras:\n  a:\n    url: a.mp4\n    zones:\n      - {zone}\n")
    assert len(found) == 1, found
    assert found[0].startswith(f"n.yaml:6: cameras.a.zones.0.{key}: "), found


def test_a_configuration_of_the_version_before_is_read_once_more_with_warnings(caplog):
    text = """version: 1
redis: {url: embedded, maxlen: 100000}
signing: {key: null, every: 10m}
captioner: {checkpoint: own.safetensors, batch: 8, wait: 500ms, device: cpu}
defaults:
  rtsp: {open_timeout: 5s, stall_timeout: 10s, clock_skew: 2s, idle_keyframes: false, hardware: none}
  pairs: {sample: 2/s, lower: 7, upper: auto, settle: 750ms, max_wait: 3s, max_gap: 60s, long_gap: 5m}
  clusters: {size: null, eps: 20}
  narrate: {max_sentences: 16, min_salience: 0.05, colours: true, beam_size: 1, merge: 0s, deadline: 30s}
  evidence: {keep: all, format: jpeg, quality: 85}
cameras:
  a: {url: x}
  b: {url: y, rtsp: {stall_timeout: 3s}}
"""
    configuration = parse_configuration(text, "n.yaml")
    assert configuration.captioner.checkpoint == Path("own.safetensors")
    assert configuration.redis.url is None
    assert configuration.cameras["a"].pairs.lower == 7
    warned = [record.getMessage().split(": ")[:2] for record in caplog.records]
    assert len(warned) == 23
    assert {("n.yaml:2", "redis.url"), ("n.yaml:8", "defaults.clusters")} <= set(map(tuple, warned))
    assert warned[-1] == ["n.yaml:13", "cameras.b.rtsp.stall_timeout"]
    unnamed = text.replace("checkpoint: own.safetensors", "checkpoint: null, model: ddla")
    assert parse_configuration(unnamed).captioner.model == "ddla"


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("version: 1\ncameras:\n  door:\n    url: x\n    mask: {}\n", 5, "cameras.door.mask"),
        (
            "version: 1\ndefaults:\n  narrate: {cooldown: 5}\ncameras:\n  a: {url: x}\n",
            3,
            "defaults.narrate.cooldown",
        ),
        (
            "version: 1\ndefaults:\n  pairs: {sample: 2}\ncameras:\n  a: {url: x}\n",
            3,
            "defaults.pairs.sample",
        ),
        ("version: 1\ncameras:\n  a:\n    url: x\n    pairs: {lower: low}\n", 5, "cameras.a.pairs.lower"),
        ("version: 2\ncameras:\n  a: {url: x}\n", 1, "version"),
        ("version: 1\ncameras:\n  '../etc': {url: x}\n", 3, "cameras.../etc"),
        ("version: 1\ncameras:\n  a: {url: x}\ncaptioner: poet\n", 4, "captioner.model"),
        ("version: 1\ncameras:\n  a: {url: x}\n  a: {url: y}\n", 4, "the key"),
        ("version: 1\ncameras:\n  7: {url: x}\n", 3, "the key"),
        (SMALL + "    pairs: {sampel: 2/s}", 4, "broken YAML"),
        ("version: 1\ncameras: &a\n  a: *a\n", None, "broken YAML"),
        (SMALL + "retention: {size: 5QB}", 4, "retention.size"),
        (SMALL + "retention: {free: 20}", 4, "retention.free"),
        (SMALL + "a: " + "[" * 1200, None, "broken YAML"),
        (SMALL + "state: 2026-13-45", 4, "broken YAML"),
        (SMALL + "state: *nowhere", 4, "broken YAML"),
        (SMALL + "state: a\x07b", 4, "broken YAML"),
        ("", None, "is empty"),
        ("- a", None, "is empty"),
    ],
)
def test_an_error_says_where(text, line, key):
    found = problems(text)
    assert len(found) == 1, found
    assert found[0].startswith("n.yaml: " if line is None else f"n.yaml:{line}: {key}"), found


@pytest.mark.parametrize(
    ("cameras", "advice"),
    [
        ("a: rtsp://h/1", "write keys and their values here"),
        ("a: {pairs: {sample: 2/s}}", "this key is missing"),
        ("a: {url: 7}", "write a text, in quotes"),
        ("a: {url: x, narrate: {colours: 3}}", "write true or false"),
        ("a: {url: x, pairs: {upper: 300}}", "write 255.0 or less"),
        ("a: {url: x, rtsp: {transport: icmp}}", "write 'tcp' or 'udp'"),
        ("a: {url: x, lines: [{name: l l, points: [[0, 0], [1, 1]], directions: [one]}]}", "name both"),
        ("a: {url: x, masks: {m: [[10, 20], [30, 40], [50, 60]]}}", "shares 0..1 of the frame, not pixels"),
    ],
)
def test_an_error_says_what_to_write(cameras, advice):
    (found,) = problems(f"version: 1\ncameras: {{{cameras}}}\n")
    assert advice in found


def test_words_are_those_of_yaml_1_1_and_a_captioner_may_be_its_name():
    for word, value in (("yes", True), ("on", True), ("No", False), ("off", False)):
        text = (
            f"version: 1\ncameras: {{door: {{url: x, rtsp: {{idle_keyframes: {word}}}}}}}\ncaptioner: ddla\n"
        )
        configuration = parse_configuration(text)
        assert configuration.cameras["door"].rtsp.idle_keyframes is value
        assert configuration.captioner.checkpoint == SHIPPED["ddla"]


@pytest.mark.parametrize("kind", ["change", "none"])
def test_a_filter_takes_no_kind_that_no_message_has(kind):
    target = f"{{url: 'json://h', filter: {{kind: {kind}}}}}"
    (found,) = problems(f"version: 1\ncameras: {{a: {{url: x}}}}\nforward: {{apprise: {{a: {target}}}}}\n")
    assert "filter.kind.0: write 'appeared'" in found


def test_a_mistake_in_the_defaults_is_reported_once():
    text = "version: 1\ndefaults:\n  pairs:\n    lowr: 3\ncameras:\n  a: {url: x}\n  b: {url: y}\n"
    assert problems(text) == ['n.yaml:4: defaults.pairs.lowr: unknown key; did you mean "lower"?']


def keys_of(model: type[BaseModel], values: dict[str, Any], where: str = "") -> set[str]:
    """Keys of the model, nested ones too, that the values lack."""
    missing = set()
    for name, field in model.model_fields.items():
        inner = field.annotation
        if name not in values:
            missing.add(f"{where}{name}")
        elif isinstance(inner, type) and issubclass(inner, BaseModel):
            missing |= keys_of(inner, values[name], f"{where}{name}.")
    return missing


def test_the_example_loads_and_shows_every_key_with_its_default():
    configuration = load_configuration(EXAMPLE)
    values = yaml.safe_load(EXAMPLE.read_text())
    assert keys_of(Configuration, values) == set()
    assert configuration.defaults == parse_configuration(SMALL).defaults
    assert configuration.captioner == parse_configuration(SMALL).captioner
    assert set(configuration.cameras) == {"front_door", "archive"}


def test_the_live_page_has_no_password_in_its_address():
    text = "version: 1\ncameras: {{a: {{url: a.mp4, live_url: '{}'}}}}\n"
    for address in ("http://nvr:1984/stream.html?src=a@b", "https://[::1]/"):
        assert parse_configuration(text.format(address)).cameras["a"].live_url == address
    for address in ("rtsp://cam/1", "http://me:secret@cam/", "javascript:alert(1)", "http://"):
        (problem,) = problems(text.format(address))
        assert "live_url: write the http:// or https:// address" in problem
        assert "secret" not in problem
