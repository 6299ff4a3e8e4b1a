from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from daemon.replay.description import Description
from models.captioner import Sentence


def members(sentence: Sentence) -> dict[str, Any]:
    narration = SimpleNamespace(sentences=(sentence,))
    return Description("", None, cast("Any", None), cast("Any", narration)).sentences()[0]


def test_a_grounded_sentence_says_where_on_either_side_and_when() -> None:
    corners = ((0.1, 0.2), (0.3, 0.2), (0.2, 0.50001))
    reported = members(
        Sentence(
            *("Two cars have left.", "disappeared", "car", None, 0.9, 0.8, 2),
            *((0, 0, 1, 1), None, corners, (), 0.0),
        )
    )
    assert reported["box"] is None
    assert (reported["count"], reported["box_before"], reported["moment_s"]) == (2, (0, 0, 1, 1), 0.0)
    assert reported["outline_before"] == ((0.1, 0.2), (0.3, 0.2), (0.2, 0.5))
    assert reported.keys() & {"box_after", "outline_after"} == set()
