"""docs/configuration.md has every key with its default, and no other."""

from typing import Annotated, get_args

import pytest
import yaml
from doc_pages import code_blocks, page, sections, table
from pydantic import BaseModel, TypeAdapter

from daemon.config import settings
from daemon.config.configuration import parse_configuration

PARTS = {
    "The file": settings.Configuration,
    "`redis`": settings.RedisSettings,
    "`http`": settings.HttpSettings,
    "`retention`": settings.RetentionSettings,
    "`signing`": settings.SigningSettings,
    "`captioner`": settings.CaptionerSettings,
    "`cameras`": settings.Camera,
    "`zones`": settings.ZoneSettings,
    "`doors`": settings.DoorSettings,
    "`lines`": settings.LineSettings,
    "`rules`": settings.RuleSettings,
    "`rtsp`": settings.Rtsp,
    "`pairs`": settings.Pairs,
    "`narrate`": settings.Narrate,
    "`evidence`": settings.EvidenceSettings,
}
WORDED = {"state"}  # a default that depends on the machine


def rows(part: str) -> list[list[str]]:
    (text,) = (
        text for heading, text in sections(page("configuration.md")).items() if heading.startswith(part)
    )
    return table(text)


def test_every_section_of_the_file_has_a_table():
    models = {
        value
        for value in vars(settings).values()
        if isinstance(value, type) and issubclass(value, BaseModel) and value.model_fields
    }
    elsewhere = {  # of pages of their own
        *(settings.ServeSettings, settings.ForwardSettings, settings.FilterSettings),
        *(settings.TargetSettings, settings.MqttSettings, settings.AppriseSettings),
    }
    assert models - elsewhere - {settings.CameraDefaults, settings.Section} == set(PARTS.values())


@pytest.mark.parametrize("part", PARTS)
def test_every_key_has_its_default(part):
    fields = PARTS[part].model_fields
    assert [row[0] for row in rows(part)] == list(fields)
    for key, default, meaning in rows(part):
        field = fields[key]
        assert meaning, key
        if field.is_required():
            assert default == "required", key
        elif isinstance(field.default, BaseModel):
            assert default == "", key
        elif key not in WORDED:
            kind = TypeAdapter(Annotated[(field.annotation, key, *field.metadata)])
            shown = kind.validate_python(yaml.safe_load(default.strip("`")))
            assert shown == field.get_default(call_default_factory=True), key


@pytest.mark.parametrize("part", PARTS)
def test_every_choice_is_named(part):
    for key, default, meaning in rows(part):
        annotation = PARTS[part].model_fields[key].annotation
        for value in (choice for kind in (annotation, *get_args(annotation)) for choice in get_args(kind)):
            if isinstance(value, str):
                assert f"`{value}`" in default + meaning, (key, value)


def test_the_example_is_a_configuration():
    (example,) = code_blocks(page("configuration.md"), "yaml")
    assert list(parse_configuration(example).cameras) == ["yard"]
