"""The language of sentences, digests and pages: English, or another by a gettext catalogue.

The English texts in the code are the message ids. `make messages` collects them.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from string import Formatter
from typing import Any

EXTRA_FIELDS = {"thing"}
"""Fields that a translation may name although the English does not, see `noun_phrase`."""

_PERCENT = re.compile(r"%(?:\((\w+)\)s)?")
_english = ContextVar("english", default=False)


class _Catalogue(GNUTranslations):
    """A catalogue whose fields have been checked, so that none is missed when a sentence is told."""

    def _parse(self, fp: Any) -> None:
        super()._parse(fp)
        for key, text in vars(self)["_catalog"].items():
            message = key[0] if isinstance(key, tuple) else key
            if message and not _fields(text) <= _fields(message) | EXTRA_FIELDS:
                raise ValueError(f"{text!r} has other fields than {message!r}")


class Language:
    """The language that this process speaks.

    Attributes:
        name: as the catalogue's header has it: en, de, ...
        sha256: hash (hex) of the catalogue; empty for English.
    """

    def __init__(self) -> None:
        self._catalogue = self._none = NullTranslations()
        self.name, self.sha256 = "en", ""

    def use(self, catalogue: Path | None) -> None:
        """Speak the language of a compiled catalogue (``.mo``) from now on; None is English.

        Raises:
            ValueError: it cannot be read, or a translation has other fields than the English.
        """
        if catalogue is None:
            self.__init__()  # type: ignore[misc]
            return
        try:
            with catalogue.open("rb") as file:
                read = _Catalogue(file)
                file.seek(0)
                digest = hashlib.sha256(file.read()).hexdigest()
        except (OSError, struct.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(
                f"{catalogue} cannot be read ({reason}): msgfmt makes a .mo of a .po file"
            ) from None
        self._catalogue, self.name, self.sha256 = read, read.info().get("language") or "und", digest

    def gettext(self, message: str) -> str:
        """The text in this language; the message itself where the catalogue lacks it."""
        return self._spoken.gettext(message) if message else ""  # of "" there is the catalogue's header

    def ngettext(self, one: str, several: str, count: int) -> str:
        """Likewise, by the language's own rule for so many."""
        return self._spoken.ngettext(one, several, count)

    @property
    def _spoken(self) -> NullTranslations:
        return self._none if _english.get() else self._catalogue


def in_english(write: Callable[..., str], *arguments: object) -> str:
    """What a function writes in English; empty where that is the language."""
    if not language.sha256:
        return ""
    token = _english.set(True)
    try:
        return write(*arguments)
    finally:
        _english.reset(token)


def tell(message: str, **fields: object) -> str:
    """The message in the language, with its fields."""
    return _(message).format(**fields)


def N_(message: str) -> str:  # noqa: N802 - gettext's own name for it
    """The message itself: marks one that is translated where it is used."""
    return message


def NN_(one: str, several: str) -> tuple[str, str]:  # noqa: N802
    """Likewise, with the message for several."""
    return one, several


def join(words: Iterable[str], last: str) -> str:
    """Such as "a, b and c".

    Args:
        words: of the language.
        last: message for the last two, such as "{one} and {other}".
    """
    *first, end = [*words] or [""]
    return tell(last, one=", ".join(first), other=end) if first else end


def _fields(text: str) -> set[str]:
    named = {name for _, name, *_ in Formatter().parse(text) if name is not None}
    return named | {*_PERCENT.findall(text)}


language = Language()
_, ngettext = language.gettext, language.ngettext
