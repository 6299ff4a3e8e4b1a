from __future__ import annotations

from daemon.tools.description import told_members
from models.captioner import Sentence

PLAIN = Sentence("A car has appeared.", "appeared", "car", (0.1, 0.2, 0.123456, 0.4), 0.9, 0.8)


def test_a_plain_sentence_has_the_plain_members() -> None:
    assert told_members(PLAIN) == {
        "text": "A car has appeared.",
        "type": "appeared",
        "object": "car",
        "box": (0.1, 0.2, 0.1235, 0.4),
        "salience": 0.9,
        "confidence": 0.8,
    }


def test_a_grounded_sentence_says_where_on_either_side_and_when() -> None:
    corners = ((0.1, 0.2), (0.3, 0.2), (0.2, 0.50001))
    told = Sentence(
        "Two cars have left.", "disappeared", "car", None, 0.9, 0.8, 2, (0, 0, 1, 1), None, corners, (), 0.0
    )
    members = told_members(told)
    assert members["box"] is None
    assert (members["count"], members["box_before"], members["moment_s"]) == (2, (0, 0, 1, 1), 0.0)
    assert members["outline_before"] == ((0.1, 0.2), (0.3, 0.2), (0.2, 0.5))
    assert members.keys() & {"box_after", "outline_after"} == set()
