"""Every page in a language of other letters: what is left in plain ones was not translated."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from houses import MIDNIGHT, House, said
from pseudo_language import Shown, left_in_english, widened, write_catalogue
from serving_here import Served

from daemon.serve.access import password_line
from pipeline.changes import SceneEvent
from pipeline.narration.narration import RecordEvent

PASSWORD = "correct horse battery"
DATA = ("narrated", "yard", "gate", "anna", "UTC", "ddla", ".yaml", "c" * 16, '"vehicle"')
EXAMPLES = (  # of questions and rules, whose grammar is English
    *("When did a person last come to the entrance?", "since I left at 8"),
    *("a van stands at the gate longer than 10 min", "10m", "https://h/live"),
)
NOW = (datetime.now(UTC) - MIDNIGHT).total_seconds()


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Iterator[House]:
    """What a page can show of a record, today and in the year before."""
    made = House(tmp_path_factory.mktemp("house") / "state")

    def tell(second: float, text: str, kind: str = "appeared", thing: str = "person", **more: Any) -> None:
        own = {name: more.pop(name) for name in ("action", "track", "other", "since_known") if name in more}
        until = {"until_s": 1.0, "duration_s": 90.0} if kind == "disappeared" else {"since_s": -5.0}
        sentence = said(widened(text), kind, thing, moment_s=1.0, **until, **own)
        made.tell(second, sentence, evidence=made.pictures(), **more)

    for day in (0.0, NOW - 7200):
        person, bag, car = (f"{letter}-{day:g}" for letter in "abc")
        tell(day + 10, "A person has come in.", action="entered", track=person, since_known=False)
        tell(day + 20, "A bag was put down.", thing="bag", action="placed", track=bag, other=person)
        tell(day + 99, "The person has left.", "disappeared", action="left", track=person, since_known=False)
        tell(day + 200, "A car has parked.", thing="car", action="parked", track=car)
        tell(day + 300, "A vehicle has come.", thing="vehicle", action="entered", held="cooldown")
        unsure = {"fallback": "captioner failed", "abstained": "unsure"}
        tell(day + 310, "Something has changed.", "unknown", "something", **unsure)
        gap = {"event": RecordEvent.GAP, "reason": "outage", "since": MIDNIGHT}
        tell(day + 400, "Nothing was seen.", "none", "scene", **gap)
        for second in (500, 510):
            tell(day + second, "The view is blocked.", "none", "scene", event=SceneEvent.OBSTRUCTED)
        rule = {"name": "gate", "records": (made.records["yard"][0].id,)}
        tell(day + 600, "A rule was met.", "none", "scene", event=RecordEvent.RULE, rule=rule)
        tell(day + 700, "A dog has come.", thing="dog", camera="gate")
    yield made
    made.close()


@pytest.fixture(scope="module")
def served(house) -> Iterator[Served]:
    folder = house.state.parent
    write_catalogue(folder / "xx.mo")
    (folder / "passwords").write_text(password_line("anna", PASSWORD) + "\n")
    (folder / "narrated.yaml").write_text(
        f"version: 1\nlanguage: {folder / 'xx.mo'}\nhttp: {{listen: '127.0.0.1:1'}}\n"
        f"serve: {{listen: '127.0.0.1:0', passwords: {folder / 'passwords'}}}\n"
        "cameras:\n  empty: {url: 'rtsp://h/'}\n"
        "  yard: {url: 'rtsp://h/', live_url: 'https://h/live', masks: {gate: [[0, 0], [1, 0], [1, 1]]}}\n"
    )
    with Served(house, "--config", str(folder / "narrated.yaml")) as running:
        yield running


def plain_words(page: str, house: House) -> list[str]:
    records = [record for each in house.records.values() for record in each]
    data = (*DATA, *EXAMPLES, "empty", str(house.state.parent), *(record.id for record in records))
    return [text for text in Shown(page).texts if left_in_english(text, (*data, *(r.hash for r in records)))]


def test_every_page_is_in_the_language(served, house):
    first = served.client.get("/login").text
    refused = served.client.post("/login", data={"name": "anna", "password": "wrong", "next": "/"}).text
    assert served.client.post("/login", data={"name": "anna", "password": PASSWORD}).status_code == 303
    record = house.records["yard"][0]
    served.send(f"/record/{record.id}/feedback", sentence="0", opinion="wrong")
    served.send(f"/record/{record.id}/note", text="gate")
    served.send(f"/record/{record.id}/reviewed", reviewed="yes")
    hour = "since=2024-05-01T00:00&until=2024-05-01T01:00"
    paths = [
        *(
            "/",
            "/week",
            "/digest",
            "/digest?q=2024-05-01",
            "/digest?q=last+night",
            "/camera/empty",
            "/nowhere",
        ),
        *(
            "/camera/yard?written=yes",
            "/record/nothing",
            *(f"/record/{r.id}" for r in house.records["yard"][:12]),
        ),
        *("/rules", "/rules?when=a+person+comes&since=", "/rules?when=more+than+5+people+in+the+gate&since="),
        *("/review", "/review?day=all", "/review?day=all&object=horse", "/review?day=1999-01-01"),
        *(f"/review?day=2024-05-01&{more}" for more in (hour, "page=2")),
        *(
            f"/review?q={words}"
            for words in ("vans", "cars+in+may", "who+is+there+now", "how+long+were+people+there")
        ),
        *("/review?q=how+many+people+per+weekday", "/review?q=visits+per+object+and+camera"),
    ]
    pages = {path: served.client.get(path) for path in paths}
    assert not [path for path, answer in pages.items() if answer.status_code not in (200, 404)]
    assert '<html lang="xx">' in first
    formless = served.client.post(f"/record/{record.id}/note", json={})
    assert formless.status_code == 415
    texts = {"login": first, "formless": formless.text, "refused": refused}
    texts |= {path: answer.text for path, answer in pages.items()}
    assert not {path: words for path, page in texts.items() if (words := plain_words(page, house))}
