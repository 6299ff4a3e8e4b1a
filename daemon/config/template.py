"""Messages in Jinja, in a sandbox: a template reaches the narration it words, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import StrictUndefined, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

NAMES = {
    "text": "the sentences that passed the filter, in one line",
    "camera": "name of the camera",
    "time": "when, in local time: {{ time.strftime('%H:%M') }}",
    "event": "change, or what became of the whole scene",
    "sentences": "those that passed: each has text, type, object, confidence, salience, box",
    "objects": "their objects, each once",
    "id": "of the record, the same at every attempt",
    "record": "the whole record as it stands in the journal",
}
"""Variables of a template, with their meaning."""

LONGEST = 65_536
"""Letters of a message; a longer one is cut."""


class TemplateError(ValueError):
    """A template cannot be used; the message says what to write instead."""


@lru_cache(maxsize=1)
def _environment() -> ImmutableSandboxedEnvironment:
    return ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)


def check_template(text: str) -> None:
    """Refuse a template that can never be rendered.

    Raises:
        TemplateError: it is no Jinja, or names what no narration has.
    """
    environment = _environment()
    try:
        unknown = (
            meta.find_undeclared_variables(environment.parse(text))
            - NAMES.keys()
            - environment.globals.keys()
        )
        environment.from_string(text)
    except jinja2.TemplateError as error:
        raise TemplateError(f"not a valid template: {error}") from None
    if unknown:
        raise TemplateError(
            f"a template cannot name {', '.join(sorted(unknown))}; known here: {', '.join(NAMES)}"
        )


def render(text: str, values: Mapping[str, Any]) -> str:
    """The message.

    Raises:
        TemplateError: it asks for what this narration does not have, or for what the sandbox forbids.
    """
    try:
        return _environment().from_string(text).render(values)[:LONGEST]
    except Exception as error:  # noqa: BLE001 - a template may divide by zero, or add a word to a number
        raise TemplateError(f"the template cannot be rendered: {type(error).__name__}: {error}") from None
