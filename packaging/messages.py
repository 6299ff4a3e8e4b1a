"""Writes the messages of all sentences, digests and pages, for translators, as a .pot file."""

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from jinja2.ext import extract_from_ast  # noqa: E402

from models.language.catalogue import NN_  # noqa: E402
from models.language.templates import noun_messages  # noqa: E402
from pipeline.report.page import environment  # noqa: E402
from pipeline.report.words import plural  # noqa: E402

HEADER = r"""msgid ""
msgstr "Project-Id-Version: narrated\nPO-Revision-Date: \nLast-Translator: \nLanguage-Team: \nLanguage: \n"
"MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n"
"Plural-Forms: \n"
"""
FUNCTIONS = ("_", "gettext", "N_", "NN_", "ngettext", "tell", "counted")


def messages() -> dict[str, str]:
    """Each message, and its English for several, or empty."""
    found: dict[str, str] = {}
    for function, texts in (*_of_code(), *_of_templates()):
        if texts and function == "counted":
            texts.append(plural(texts[0]))
        elif texts and function == "NN_":
            texts = NN_(*texts)  # noqa: PLW2901
        if texts:
            found[texts[0]] = "".join(texts[1:]) or found.get(texts[0], "")
    for one, *several in noun_messages():
        found[one] = "".join(several)
    return found


def _of_code() -> Iterator[tuple[str, list[str]]]:
    """Calls, with the texts among their arguments."""
    paths = (path for room in ("models", "pipeline", "daemon") for path in ROOT.glob(f"{room}/**/*.py"))
    for path in sorted(paths):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in FUNCTIONS:
                values = (getattr(argument, "value", None) for argument in call.args)
                yield call.func.id, [value for value in values if isinstance(value, str)]  # type: ignore[attr-defined]


def _of_templates() -> Iterator[tuple[str, list[str]]]:
    pages = environment()
    for name in pages.list_templates():
        source = ROOT.joinpath("pipeline/report/templates", name).read_text(encoding="utf-8")
        for _, function, texts in extract_from_ast(pages.parse(source), FUNCTIONS):
            yield function, [text for text in ([texts] if isinstance(texts, str) else texts or ()) if text]


if __name__ == "__main__":
    print(HEADER)
    for one, several in messages().items():
        quoted, others = (json.dumps(text, ensure_ascii=False) for text in (one, several))
        print(f"msgid {quoted}")
        print(f'msgid_plural {others}\nmsgstr[0] ""\nmsgstr[1] ""\n' if several else 'msgstr ""\n')
