"""A section of the configuration file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Strict: no unknown key, no value of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
