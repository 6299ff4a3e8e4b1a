"""A digest as text, JSON or a page of its own."""

import textwrap
from collections.abc import Iterator
from typing import Any

from daemon.digest.digest import SHOWN, Digest
from daemon.questions.local_time import LocalTime
from models.language.catalogue import tell
from pipeline.report.page import Card, environment
from pipeline.report.picture import inline_pictures


def text_lines(digest: Digest) -> Iterator[str]:
    """Lines for people: the span, a sentence a line with the records that it rests on, the last records."""
    yield digest.title
    for sentence in digest.sentences[:SHOWN]:
        yield textwrap.fill(sentence.text, 100, initial_indent="* ", subsequent_indent="  ")
        if sentence.named:
            yield f"    {sentence.named}"
    if len(digest.sentences) > SHOWN:
        yield tell("{number} more, of less importance: --json has them", number=len(digest.sentences) - SHOWN)
    yield from digest.noted


def members(digest: Digest, local: LocalTime) -> dict[str, Any]:
    return {
        "schema": "narrated-digest/1",
        "since": local.of(digest.since).isoformat(),
        "until": local.of(digest.until).isoformat(),
        "title": digest.title,
        "sentences": [
            {name: getattr(each, name) for name in ("text", "about", "query")}
            | {"records": list(each.records), "rests_on": len({*each.numbers})}
            for each in digest.sentences
        ],
        "pictures": [
            {"record": each.record.id, "files": {side: str(path) for side, path in each.pictures.items()}}
            for each in digest.pictured
        ],
        "heads": {camera: {"seq": number, "hash": hash_} for camera, (number, hash_) in digest.heads.items()},
    }


def page(digest: Digest, local: LocalTime) -> str:
    cards = [
        Card(each.record, local.zone, inline_pictures(each.pictures), f"#r-{each.record.id}")
        for each in digest.pictured
    ]
    template = environment().get_template("digest.html.j2")
    return template.render(digest=digest, cards=cards, shown=SHOWN, error="")
