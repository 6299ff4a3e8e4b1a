"""Writes the messages of all sentences, digests and pages, for translators, as a .pot file."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nLanguage: \\nPlural-Forms: \\n"\n'


def messages() -> dict[str, str]:
    """Each message, and its English for several, or empty."""
    found: dict[str, str] = {}
    for one, *several in (*_of_code(), *_of_templates(), *_of_nouns()):
        found[one] = found.get(one) or "".join(several)
    return found


def _of_code() -> Iterator[tuple[str, ...]]:
    from pipeline.report.words import plural  # noqa: PLC0415

    for path in sorted(
        path for room in ("models", "pipeline", "daemon") for path in ROOT.glob(f"{room}/**/*.py")
    ):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                continue
            texts = [each.value for each in call.args if isinstance(each, ast.Constant)]
            texts = [text for text in texts if isinstance(text, str)]
            if call.func.id in ("_", "N_", "NN_", "ngettext", "tell") and texts:
                yield tuple(texts)
            elif call.func.id == "counted" and texts:
                yield texts[0], plural(texts[0])


def _of_templates() -> Iterator[tuple[str, ...]]:
    from pipeline.report.pages import environment  # noqa: PLC0415

    pages = environment()
    for name in pages.list_templates():
        source, *_ = pages.loader.get_source(pages, name) if pages.loader else ("",)
        for _, _, message in pages.extract_translations(source):  # type: ignore[attr-defined]
            yield (message,) if isinstance(message, str) else tuple(text for text in message if text)


def _of_nouns() -> Iterator[tuple[str, ...]]:
    from models.language.templates import noun_messages  # noqa: PLC0415

    return noun_messages()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    print(HEADER)
    for one, several in messages().items():
        quoted, others = (json.dumps(text, ensure_ascii=False) for text in (one, several))
        print(f"msgid {quoted}")
        print(f'msgid_plural {others}\nmsgstr[0] ""\nmsgstr[1] ""\n' if several else 'msgstr ""\n')
