"""What the pages show, and what can be said on them."""

from __future__ import annotations

import json
import re
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread, Timer
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from serving_here import MIDNIGHT, Served, ServedHouse, identity, said

from pipeline.feedback import FILE, FeedbackStore, Opinion
from pipeline.narration.narration import RecordEvent


def texts(page: httpx.Response) -> list[str]:
    assert page.status_code == 200, page.text
    return [text.strip() for text in re.findall(r'<span class="text">(.*?)</span>', page.text)]


def test_live_shows_the_newest_and_every_camera(served: Served) -> None:
    page = served.client.get("/").text
    told = re.findall(r'<article class="card.*?data-id="(.*?)-2024', page)
    assert told == ["gate.2_-x", "gate.2_-x", "yard", "yard", "yard"]
    assert re.findall(r'<li class="tile[^>]*data-camera="(.*?)"', page) == ["gate.2_-x", "yard"]
    assert "What the cameras do now is not known" in page
    assert page.count('data-viewer data-mode="before"') == 1  # of who has left
    assert "A person has come &lt;b&gt;&amp;amp;&lt;/b&gt;." in page


def test_review_is_of_the_newest_day_and_leads_to_the_one_before(served: Served) -> None:
    page = served.client.get("/review")
    assert [text[:7] for text in texts(page)] == ["A perso", "A lorry"]
    assert "Thursday 2 May 2024" in page.text
    assert 'rel="prev" href="?day=2024-05-01"' in page.text
    assert len(texts(served.client.get("/review?day=2024-05-01"))) == 3


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("day=all", 5),
        ("day=all&camera=yard", 3),
        ("day=all&object=person", 3),
        ("day=all&object=person&kind=left", 1),
        ("day=all&zone=lot", 2),
        ("day=all&colour=red", 1),
        ("day=all&text=parked", 2),
        ("day=all&confidence=0.95", 0),
        ("day=all&between=00:03-00:06", 2),
        ("since=2024-05-01T00:05&until=2024-05-01T00:06", 1),
        ("q=when+did+a+person+last+come+to+the+entrance", 1),
    ],
)
def test_filters_are_in_the_address(served: Served, query: str, found: int) -> None:
    assert len(texts(served.client.get(f"/review?{query}"))) == found


def test_a_question_is_said_back_and_counts(served: Served) -> None:
    page = served.client.get("/review?q=how+many+people+by+camera").text
    assert "Understood as: People" in page
    rows = re.findall(r'<th scope="row">(\S+)</th><td class="num">(\d+)</td>', page)
    assert sorted(rows) == [("gate.2_-x", "1"), ("yard", "1")]


@pytest.mark.parametrize(
    "query",
    [
        "q=why",
        "q=cars+on+31+December+9999",
        "until=0001-01-01",
        "day=0001-01-01",
        "until=9999-12-31",
        "since=nonsense",
        "confidence=2",
        "camera=nowhere",
        "between=9",
        "day=x",
    ],
)
def test_what_is_not_understood_is_said_beside_the_form(served: Served, query: str) -> None:
    answer = served.client.get(f"/review?{query}")
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text
    assert 'id="filters"' in answer.text


def test_a_record_has_a_page_with_its_chain_and_neighbours(served: Served, house: ServedHouse) -> None:
    first, second, third = house.records["yard"]
    page = served.client.get(f"/record/{second.id}").text
    assert "The person at the entrance has left." in page
    assert f'id="prev" href="/record/{first.id}?"' in page
    assert f'id="next" href="/record/{third.id}?"' in page
    assert "Its hash holds, and it continues the record before it." in page
    assert "Its pictures are those that it names." in page
    assert "Records of its camera are not signed." in page
    assert second.hash in page
    day = served.client.get(f"/record/{third.id}?camera=yard").text
    assert 'id="next"' not in day
    assert 'id="next"' in served.client.get(f"/record/{third.id}").text  # of the other camera, a day later


def test_pictures_are_whole_or_small_and_never_change(served: Served, house: ServedHouse) -> None:
    digest = house.records["yard"][0].evidence.after.removeprefix("sha256:")
    whole = served.client.get(f"/picture/{digest}")
    small = served.client.get(f"/picture/{digest}?width=480")
    for answer in (whole, small):
        assert answer.headers["content-type"] == "image/jpeg"
        assert "immutable" in answer.headers["cache-control"]
    assert served.client.get(f"/picture/{digest}?width=481").status_code == 404


def test_what_is_said_is_kept_beside_the_record(served: Served, house: ServedHouse) -> None:
    record = house.records["yard"][2]
    journal = (house.folder / "yard.jsonl").read_bytes()
    address = f"/record/{quote(record.id)}"
    assert served.send(f"{address}/feedback", sentence="0", opinion="right").status_code == 303
    served.send(f"{address}/feedback", sentence="1", object="Cat")
    served.send(f"{address}/feedback", sentence="1", type="moved")
    served.send(f"{address}/feedback", sentence="1", box="0.1,0.2,0.3,0.4")
    served.send(f"{address}/reviewed", reviewed="yes")
    served.send(f"{address}/note", text="a friend of the house\r\n2")
    with FeedbackStore(house.state / FILE, read_only=True) as store:
        remarks = store.remarks([record.id])[record.id]
    assert remarks.feedback[0].opinion is Opinion.RIGHT
    corrected = remarks.feedback[1].correction
    assert corrected
    assert (corrected.object, corrected.type, corrected.box) == ("cat", "moved", (0.1, 0.2, 0.3, 0.4))
    assert remarks.note
    assert remarks.note.text == "a friend of the house\n2"
    page = served.client.get(address).text
    assert "Corrected: it was: cat, moved, in another place" in page
    assert "Reviewed ✓" in page
    assert "a friend of the house" in page
    assert '<span class="badge done">reviewed</span>' in served.client.get("/review?day=2024-05-01").text
    served.send(f"{address}/feedback", sentence="1", opinion="back")
    served.send(f"{address}/reviewed", reviewed="no")
    with FeedbackStore(house.state / FILE, read_only=True) as store:
        remarks = store.remarks([record.id])[record.id]
    assert (remarks.review, list(remarks.feedback)) == (None, [0])
    assert (house.folder / "yard.jsonl").read_bytes() == journal


def test_what_is_shown_can_be_taken_away_and_verified(
    served: Served, tmp_path: Path, narrated: Callable[..., Any]
) -> None:
    answer = served.client.post("/export?day=2024-05-01&object=person", data={"x": ""})
    assert answer.headers["content-type"] == "application/zip"
    (tmp_path / "export.zip").write_bytes(answer.content)
    assert narrated("verify", tmp_path / "export.zip").code == 0
    with zipfile.ZipFile(tmp_path / "export.zip") as archive:
        page = archive.read("index.html").decode()
    assert page.count("at the entrance") >= 2
    assert "red car" not in page
    assert served.client.post("/export?q=how+many+cars", data={"x": ""}).status_code == 400
    assert served.client.get("/export?day=all").status_code == 405


@pytest.mark.parametrize(
    ("what", "form"),
    [
        ("feedback", {"sentence": "0", "opinion": "maybe"}),
        ("feedback", {"sentence": "1", "opinion": "right"}),
        ("feedback", {"sentence": "-1", "opinion": "right"}),
        ("feedback", {"sentence": "٣", "opinion": "right"}),
        ("feedback", {"opinion": "right"}),
        ("feedback", {"sentence": "0"}),
        ("feedback", {"sentence": "0", "box": "0,0,1"}),
        ("feedback", {"sentence": "0", "box": "nan,0,1,1"}),
        ("feedback", {"sentence": "0", "box": "0.5,0.5,0.9,0.9"}),
        ("feedback", {"sentence": "0", "type": "eaten"}),
        ("feedback", {"sentence": "0", "object": "x" * 300}),
        ("note", {"text": "x" * 20_000}),
    ],
)
def test_what_does_not_fit_is_refused(
    served: Served, house: ServedHouse, what: str, form: dict[str, str]
) -> None:
    answer = served.send(f"/record/{house.records['yard'][0].id}/{what}", **form)
    assert answer.status_code == 400, answer.text


def stream(served: Served, last_id: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    """Events as they come."""
    headers = {"last-event-id": last_id} if last_id else {}
    with served.client.stream("GET", "/events", headers=headers) as answer:
        kind = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield kind, json.loads(line.removeprefix("data: "))


def test_narrations_come_by_themselves_and_none_is_missed(tmp_path: Path) -> None:
    house = ServedHouse(tmp_path / "state")
    first = house.tell(1, said("A person has come."))
    with Served(house) as served:
        telling = Timer(0.5, lambda: house.tell(2, said("A second one has come.")))
        telling.start()
        told = stream(served)
        kind, news = next(told)
        telling.join()
        assert kind == "narration"
        assert news["text"] == "A second one has come."
        assert 'class="card fresh"' in news["html"]
        assert next(told)[0] == "camera"
        told.close()
        kind, news = next(stream(served, first.id))
        assert news["id"] == identity("yard", 2)
    house.close()


def test_it_ends_at_once_though_somebody_follows(tmp_path: Path) -> None:
    house = ServedHouse(tmp_path / "state")
    house.tell(1)
    house.close()
    served = Served(house)
    with served.client.stream("GET", "/events") as answer:
        next(answer.iter_lines())
        served.process.terminate()
        assert served.process.wait(10) == 0
    assert "rror" not in served.stop()


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[ServedHouse]:
    made = ServedHouse(tmp_path / "state")
    yield made
    made.close()


def test_a_journal_that_does_not_verify_is_shown_as_such(odd: ServedHouse) -> None:
    for second in range(3):
        odd.tell(second, said(f"Person {second} has come."))
    path = odd.folder / "yard.jsonl"
    odd.close()
    path.write_bytes(path.read_bytes().replace(b"Person 1 has come.", b"Person 9 has come."))
    with Served(odd) as served:
        for address in ("/", "/review"):
            page = served.client.get(address).text
            assert "The record does not verify; what is shown may have been changed." in page
            assert "does not verify: the line was changed" in page
        assert texts(served.client.get("/review?text=9")) == ["Person 9 has come."]
        page = served.client.get(f"/record/{identity('yard', 1)}").text
        assert '<h2 id="chain-title">Does not verify</h2>' in page
        assert "Its hash holds" not in page
        served.stop()


def test_a_time_that_was_changed_has_an_address_all_the_same(odd: ServedHouse) -> None:
    odd.tell(1, said("Somebody has come."), id=identity("yard", 5000))
    with Served(odd) as served:
        (address,) = re.findall(r'<li class="row">\s*<a href="(.*?)"', served.client.get("/review").text)
        assert "?at=2024-05-01T00:00:01" in address
        page = served.client.get(address.replace("&amp;", "&"))
        assert "Somebody has come." in page.text


def test_a_clock_that_stepped_back_is_told(odd: ServedHouse) -> None:
    odd.tell(5000, said("First."))
    last = odd.tell(10, said("Second."))
    with Served(odd) as served:
        assert "the camera&#39;s clock had stepped back" in served.client.get("/review").text
        page = served.client.get(f"/record/{last.id}").text
        assert "The camera&#39;s clock had stepped back." in page


def test_footage_without_a_date(odd: ServedHouse) -> None:
    start = -MIDNIGHT.timestamp()
    odd.tell(start + 3, said("Early."), id="yard-19700101T000003.000Z-0123456789ab")
    with Served(odd) as served:
        page = served.client.get("/review").text
        assert "Footage without a date" in page
        assert "1970" not in re.sub(r'(href|datetime|value)=".*?"', "", page).replace("Date", "")
        assert "Early." in served.client.get("/record/yard-19700101T000003.000Z-0123456789ab").text


def test_an_index_of_another_version_is_built_anew_with_a_word(odd: ServedHouse) -> None:
    odd.tell(1)
    with Served(odd) as served:
        pass
    with sqlite3.connect(odd.folder / "index.sqlite3") as index:
        index.execute("PRAGMA user_version = 99")
    index.close()
    with Served(odd) as served:
        assert len(texts(served.client.get("/review"))) == 1
        assert "was of version 99" in served.stop()


def test_a_removed_camera_keeps_its_past(odd: ServedHouse, tmp_path: Path) -> None:
    odd.tell(1, camera="old")
    odd.tell(2, camera="yard")
    config = tmp_path / "narrated.yaml"
    config.write_text(
        f"version: 1\nstate: {odd.state}\nserve: {{listen: '127.0.0.1:0'}}\n"
        "cameras: {yard: {url: y.mp4}, new: {url: n.mp4}}\n"
    )
    with Served(odd, "--config", str(config)) as served:
        page = served.client.get("/").text
        assert re.findall(r'<li class="tile (\w+)" data-camera="(\w+)"', page) == [
            ("unknown", "new"),
            ("unknown", "yard"),
            ("removed", "old"),
        ]
        assert "nothing narrated yet" in page
        assert len(texts(served.client.get("/review?camera=old&day=all"))) == 1


def test_many_of_one_moment_are_all_reached(odd: ServedHouse) -> None:
    for number in range(120):
        odd.tell(7, said(f"Number {number}."), id=identity("yard", 7)[:-12] + f"{number:012x}")
    with Served(odd) as served:
        pages = [texts(served.client.get(f"/review?page={n}")) for n in (1, 2, 3, 4)]
        assert [len(page) for page in pages] == [50, 50, 20, 0]
        assert len({text for page in pages for text in page}) == 120
        address = f"/record/{odd.records['yard'][60].id}"
        page = served.client.get(address).text
        assert "Number 60." in page
        assert f'id="prev" href="/record/{odd.records["yard"][59].id}?"' in page
        assert f'id="next" href="/record/{odd.records["yard"][61].id}?"' in page


def test_what_limits_held_back_is_behind_a_switch(odd: ServedHouse) -> None:
    odd.tell(1, said("A person has come."), evidence=odd.pictures())
    odd.tell(2, said("A second one has come."), held="hourly")
    with Served(odd) as served:
        assert served.client.get("/").text.count("<article") == 1
        assert texts(served.client.get("/review")) == ["A person has come."]
        page = served.client.get("/review?held=yes")
        assert texts(page) == ["A second one has come.", "A person has come."]
        assert "held: hourly" in page.text
        tile = served.client.get("/").text.partition('id="cameras"')[2].partition("</ul>")[0]
        assert "/picture/" in tile, "the tile shows the newest record with pictures"


@pytest.mark.parametrize("reason", ["overload", "camera_down", "outage", "mask"])
def test_what_was_not_recorded_is_said_in_one_line(odd: ServedHouse, tmp_path: Path, reason: str) -> None:
    odd.tell(100, said("A person has come."))
    since, until = (MIDNIGHT + timedelta(seconds=second) for second in (200, 900))
    gap = {"event": RecordEvent.GAP, "since": since, "until": until, "reason": reason}
    odd.tell(900, sentences=(), **gap)
    line = (
        "ot everything was recorded, so counts are at least: "
        f"yard Wed 2024-05-01 00:03:20 to 00:15:00 ({reason.replace('_', ' ')})"
    )
    with Served(odd) as served:
        for query in ("", "?q=how+many+people", "?day=all"):
            assert line in served.client.get(f"/review{query}").text, query
        assert line not in served.client.get("/review?day=2024-05-03").text
        answer = served.client.post("/export?day=all", data={"x": ""})
    (tmp_path / "export.zip").write_bytes(answer.content)
    with zipfile.ZipFile(tmp_path / "export.zip") as archive:
        assert line in archive.read("index.html").decode()
        assert json.loads(archive.read("export.json"))["gaps"] == [f"n{line}"]


def test_visits_are_shown_with_how_long_they_were(odd: ServedHouse) -> None:
    odd.tell(100, said("A white car has come.", thing="car", action="entered", track="c1"))
    gone = {"action": "left", "track": "c1", "since_s": -59.0, "until_s": 1.0}
    odd.tell(160, said("The white car has left.", "disappeared", "car", **gone))
    with Served(odd) as served:
        page = served.client.get("/review?q=how+long+was+the+car+here").text
        assert "1 minute</td>" in page
        assert "Wed 2024-05-01 00:01:40" in page
        record = served.client.get(f"/record/{odd.records['yard'][1].id}").text
        assert "since 00:01:40" in record


def test_records_lead_to_those_they_are_about(odd: ServedHouse) -> None:
    first = odd.tell(100, said("A person has come."))
    covering = odd.tell(
        160, said("1 person came.", "none", "scene"), event=RecordEvent.SUMMARY, covers=(first.id,)
    )
    completing = odd.tell(170, said("The person was in red."), continues=first.id)
    with Served(odd) as served:
        address = f'<a href="/record/{quote(first.id)}">'
        assert f"Covers: {address}1</a>" in served.client.get(f"/record/{covering.id}").text
        assert (
            f"Completes {address}an earlier narration</a>"
            in served.client.get(f"/record/{completing.id}").text
        )


def test_before_the_first_narration(odd: ServedHouse) -> None:
    odd.folder.mkdir(parents=True)
    with Served(odd) as served:
        assert "Nothing has been narrated yet." in served.client.get("/").text
        assert "Nothing was found" in served.client.get("/review").text
        answer = served.client.get("/review?q=how+many+cars")
        assert answer.status_code == 400
        assert "o narrations yet" in answer.text


def test_one_answer_is_one_narration(served: Served) -> None:
    page = served.client.get("/review?q=when+did+a+person+last+come").text
    assert re.search(r'id="count">1 narration<', page)


class _Health(BaseHTTPRequestHandler):
    """As the daemon's page answers while a camera hangs."""

    def do_GET(self) -> None:
        body = json.dumps({"ok": False, "cameras": {"yard": "streaming", "gate": "backing off"}}).encode()
        self.send_response(503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_the_daemon_is_asked_how_the_cameras_are(odd: ServedHouse, tmp_path: Path) -> None:
    odd.tell(1, camera="yard")
    config = tmp_path / "narrated.yaml"
    with ThreadingHTTPServer(("127.0.0.1", 0), _Health) as health:
        Thread(target=health.serve_forever, daemon=True).start()
        config.write_text(
            f"version: 1\nstate: {odd.state}\nserve: {{listen: '127.0.0.1:0'}}\n"
            f"http: {{listen: '127.0.0.1:{health.server_port}'}}\n"
            "cameras: {yard: {url: y.mp4}, gate: {url: g.mp4}, new: {url: n.mp4}}\n"
        )
        with Served(odd, "--config", str(config)) as served:
            page = served.client.get("/").text
        health.shutdown()
    assert re.findall(r'<li class="tile (\w+)" data-camera="(\w+)"', page) == [
        ("bad", "gate"),
        ("bad", "new"),
        ("good", "yard"),
    ]
    assert "backing off" in page
    assert "not watched by the daemon that runs" in page
    assert "is not known" not in page
