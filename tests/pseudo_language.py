"""A language made of the English by other letters, so that any plain letter left was not translated."""

from __future__ import annotations

import re
import runpy
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from doc_pages import ROOT

from models.language.catalogue import language

_PLAIN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_WIDE = str.maketrans({letter: chr(ord(letter) + 0xFEE0) for letter in _PLAIN})
_KEPT = re.compile(r"(\{\w*\}|%\(\w+\)s|%-?[A-Za-z]|<[^>]*>|&\w+;)")
"""Fields, parts of dates, and markup."""


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
    language.use(catalogue)
    try:
        yield
    finally:
        language.use(None)


def left_in_english(text: str, data: Collection[str] = ()) -> list[str]:
    """Words in plain letters, but for names and other data."""
    for each in sorted(data, key=len, reverse=True):
        text = text.replace(each, " ")
    return re.findall(r"[A-Za-z]+", text)
