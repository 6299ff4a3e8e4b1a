"""The language of sentences, digests and pages: English, or another by a gettext catalogue.

The English texts in the code are the message ids. `make messages` collects them.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from string import Formatter
from typing import Any

EXTRA_FIELDS = {"thing"}  # that a translation may name although the English does not, see `noun_phrase`
_VERBS = {"has": "have", "is": "are", "was": "were", "stands": "stand"}
_PERCENT = re.compile(r"%(?:\((\w+)\)s)?")
_ENGLISH = NullTranslations()
_in_english = ContextVar("in_english", default=False)


class _Catalogue(GNUTranslations):
    """A catalogue whose fields are checked, so that none is missed when a sentence is written."""

    def _parse(self, fp: Any) -> None:
        super()._parse(fp)
        held: dict[Any, str] = vars(self)["_catalog"]
        # Python up to 3.11.4 finds no message by itself that also has one for several
        held |= {key[0]: text for key, text in held.items() if key[1:] == (self.plural(1),)}  # type: ignore[attr-defined]
        for key, text in held.items():
            message = key[0] if isinstance(key, tuple) else key
            if message and not _fields(text) <= _fields(message) | EXTRA_FIELDS:
                raise ValueError(f"{text!r} has other fields than {message!r}")


class Language:
    """The language that this process speaks.

    Attributes:
        catalogue: content of its compiled catalogue (``.mo``); empty for English.
        name: as the catalogue's header has it: en, de, ...
    """

    def __init__(self) -> None:
        self.use(b"")

    def use(self, catalogue: bytes) -> None:
        """Speak the language of a catalogue from now on; ValueError where a translation has other fields."""
        self._told = _Catalogue(BytesIO(catalogue)) if catalogue else _ENGLISH
        self.catalogue = catalogue
        self.name = self._told.info().get("language") or ("und" if catalogue else "en")

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.catalogue).hexdigest() if self.catalogue else ""

    def gettext(self, message: str) -> str:
        """The text in this language; the message itself where the catalogue lacks it."""
        return self._spoken.gettext(message) if message else ""  # of "" there is the catalogue's header

    def ngettext(self, one: str, several: str, count: int) -> str:
        """Likewise, by the language's own rule for so many."""
        return self._spoken.ngettext(one, several, count)

    @property
    def _spoken(self) -> NullTranslations:
        return _ENGLISH if _in_english.get() else self._told


def in_english(write: Callable[..., str], *arguments: object) -> str:
    """What a function writes in English; empty where that is the language."""
    if not language.catalogue:
        return ""
    token = _in_english.set(True)
    try:
        return write(*arguments)
    finally:
        _in_english.reset(token)


def tell(message: str, **fields: object) -> str:
    return _(message).format(**fields)


def join(words: Iterable[str], last: str) -> str:
    """Such as "a, b and c": words of the language, and the message for the last, "{one} and {other}"."""
    *first, end = [*words] or [""]
    return tell(last, one=", ".join(first), other=end) if first else end


def N_(message: str) -> str:  # noqa: N802 - gettext's own name for it
    """The message itself: marks one that is translated where it is used."""
    return message


def NN_(one: str, several: str = "") -> tuple[str, str]:  # noqa: N802
    """Likewise, with the message for several; without it, only the verb is another."""
    return one, several or " ".join(_VERBS.get(word, word) for word in one.split(" "))


def _fields(text: str) -> set[str]:
    named = {name for _, name, *_ in Formatter().parse(text) if name is not None}
    return named | {*_PERCENT.findall(text)}


language = Language()
_, ngettext = language.gettext, language.ngettext
