"""docs/export.md: its options are those of the command, its files those that are written."""

import inspect

from doc_pages import page, sections, table

from daemon.commands import export, query
from daemon.export.verification import MANIFEST, SUMS

PAGE = page("export.md")


def test_every_option_that_query_lacks_is_told():
    own = set(inspect.signature(export.export).parameters) - set(inspect.signature(query.query).parameters)
    told = {row[0].removeprefix("--").replace("-", "_") for row in table(PAGE.partition("## ")[0])}
    assert told == own | {"out", "json"}


def test_every_file_is_told():
    told = {row[0] for row in table(sections(PAGE)["What is in it"])}
    chains = {"chain/CAMERA.jsonl", "chain/CAMERA.signatures", "chain/CAMERA.timestamps"}
    assert told == {
        "README.md",
        "check.py",
        "index.html",
        "records.jsonl",
        MANIFEST,
        SUMS,
        "pictures/",
        "clips/",
        *chains,
    }
