"""docs/serve.md has every key of the section `serve` with its default."""

from __future__ import annotations

import yaml
from doc_pages import page, sections, table

from daemon.config.settings import ServeSettings


def test_every_key_has_its_default() -> None:
    rows = table(sections(page("serve.md"))["Settings"])
    assert [row[0] for row in rows] == list(ServeSettings.model_fields)
    written = {key: yaml.safe_load(default.strip("`")) for key, default, _ in rows}
    assert ServeSettings.model_validate(written) == ServeSettings()
