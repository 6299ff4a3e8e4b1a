"""What people say of a narration, as forms send it: reviewed, a note, right, wrong, what it was."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.feedback import Correction, FeedbackStore, Opinion
from pipeline.record import Record

REMARKS = ("reviewed", "note", "feedback")
"""Kinds of forms, which are parts of addresses."""

_BOX = 4


def say(store: FeedbackStore, record: Record, what: str, form: Mapping[str, str], who: str) -> None:
    """Keep what somebody says of a record: `what` is one of `REMARKS`, `form` the fields of that form.

    Raises:
        FeedbackError, ValueError: the fields do not fit.
    """
    if what == "reviewed":
        store.set_reviewed(record.id, reviewed=form.get("reviewed") == "yes", who=who)
    elif what == "note":
        store.set_note(record.id, form.get("text", "").replace("\r\n", "\n"), who)
    else:
        place = _number(form.get("sentence", ""), len(record.sentences))
        opinion = form.get("opinion", Opinion.CORRECTED)
        if opinion == "back":
            store.withdraw(record.id, place)
        elif opinion == Opinion.CORRECTED:
            remarks = store.remarks([record.id]).get(record.id)
            said = remarks.feedback.get(place) if remarks else None
            store.say(
                record.id, place, Opinion.CORRECTED, _correction(form, said.correction if said else None), who
            )
        else:
            store.say(record.id, place, Opinion(opinion), who=who)


def _correction(form: Mapping[str, str], before: Correction | None) -> Correction:
    """What a form corrects, added to what was corrected before."""
    box = form.get("box")
    numbers = tuple(float(number) for number in box.split(",")) if box else before and before.box
    if numbers and len(numbers) != _BOX:
        raise ValueError("a box is x,y,width,height in 0..1 of the picture")
    return Correction(
        form.get("type") or (before and before.type) or None,
        " ".join(form.get("object", "").lower().split()) or (before and before.object) or None,
        numbers or None,  # type: ignore[arg-type]
    )


def _number(text: str, below: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(below)) and int(text) < below):
        raise ValueError("there is no such sentence")
    return int(text)
