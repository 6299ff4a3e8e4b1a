"""A language made of the English by other letters, so that any plain letter left was not translated."""

import re
import runpy
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

from doc_pages import ROOT

from models.language.catalogue import language

_PLAIN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_WIDE = str.maketrans({letter: chr(ord(letter) + 0xFEE0) for letter in _PLAIN})
_KEPT = re.compile(r"(\{\w*\}|%\(\w+\)s|%-?[A-Za-z]|<[^>]*>|&\w+;)")
"""Fields, parts of dates, and markup."""
_READ = ("alt", "title", "aria-label", "placeholder")
_READ += ("data-copied", "data-refused", "data-more", "data-following", "data-lost")
"""Attributes whose values people read or hear."""


@cache
def messages() -> dict[str, str]:
    """What `make messages` collects."""
    return runpy.run_path(str(ROOT / "packaging/messages.py"))["messages"]()


def widened(text: str) -> str:
    """The text in the other letters."""
    return "".join(part if n % 2 else part.translate(_WIDE) for n, part in enumerate(_KEPT.split(text)))


def write_catalogue(path: Path, entries: dict[str, str] | None = None) -> Path:
    """A catalogue of entries, by default of all messages, as msgfmt compiles it."""
    if entries is None:
        entries = {
            f"{one}\0{several}" if several else one: "\0".join(map(widened, filter(None, (one, several))))
            for one, several in messages().items()
        }
    header = (
        "Content-Type: text/plain; charset=UTF-8\nLanguage: xx\nPlural-Forms: nplurals=2; plural=n != 1;\n"
    )
    pairs = sorted((key.encode(), text.encode()) for key, text in {"": header, **entries}.items())
    columns, content = ([], []), b""
    begin = 28 + 16 * len(pairs)
    for column, texts in zip(columns, zip(*pairs, strict=True), strict=True):
        for text in texts:
            column.append(struct.pack("<2I", len(text), begin + len(content)))
            content += text + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    path.write_bytes(head + b"".join(columns[0]) + b"".join(columns[1]) + content)
    return path


@contextmanager
def speaking(catalogue: Path | None) -> Iterator[None]:
    language.use(catalogue.read_bytes() if catalogue else b"")
    try:
        yield
    finally:
        language.use(b"")


def left_in_english(text: str, data: Collection[str] = ()) -> list[str]:
    """Words in plain letters, but for names and other data."""
    for each in sorted(data, key=len, reverse=True):
        text = text.replace(each, " ")
    return re.findall(r"[A-Za-z]+", text)


class Shown(HTMLParser):
    """The texts of a page that people read or hear."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts, self._hidden = list[str](), list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style", "code", "pre", "datalist"):  # a list of objects as records name them
            self._hidden.append(tag)
        for name, value in attrs:
            if ("name", "object") not in attrs and name in _READ:
                self.texts.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        if self._hidden[-1:] == [tag]:
            self._hidden.pop()

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.texts.append(data.strip())
