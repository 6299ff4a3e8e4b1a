"""What the pages show, and what can be said on them."""

import html
import json
import os
import pty
import re
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from houses import MIDNIGHT, House, identity, said
from raw_server import raw_server
from serving_here import Served
from waiting import LIMIT_S, until

from daemon import cli
from daemon.config.configuration import parse_configuration
from daemon.config.settings import ServeSettings
from daemon.search import index
from daemon.serve.cameras import Cameras
from daemon.serve.site import Site
from pipeline.feedback import FILE, FeedbackStore, Remarks
from pipeline.narration.narration import RecordEvent
from pipeline.record import Record


def texts(page: httpx.Response) -> list[str]:
    assert page.status_code == 200, page.text
    return [text.strip() for text in re.findall(r'<span class="text">(.*?)</span>', page.text)]


def test_live_shows_the_newest_and_every_camera(served):
    page = served.client.get("/").text
    shown = re.findall(r'<article class="card.*?data-id="(.*?)-2024', page)
    assert shown == ["gate.2_-x", "gate.2_-x", "yard", "yard", "yard"]
    assert re.findall(r'<li class="tile[^>]*data-camera="(.*?)"', page) == ["gate.2_-x", "yard"]
    assert "00:05:00, Wednesday 1 May 2024" in page.partition('data-camera="yard"')[2]
    assert "Live camera status is unavailable" in page
    assert 'href="/digest?q=today"' in page  # with its pictures and heads
    assert len(re.findall(r'value="before"[^>]* checked>', page)) == 1  # of who has left
    assert "A person has come &lt;b&gt;&amp;amp;&lt;/b&gt;." in page


def test_a_page_that_is_not_there_says_so_and_is_no_other(served):
    answer = served.client.get("/nowhere")
    assert (answer.status_code, "There is no such page." in answer.text) == (404, True)
    assert "aria-current" not in answer.text


def test_a_digest_leads_to_its_records(served, house):
    page = served.client.get("/digest?q=2024-05-01")
    assert page.status_code == 200
    assert "1 car, 1 dog and 1 person" in page.text
    assert f'href="/record/{house.records["yard"][0].id}"' in page.text
    assert house.records["yard"][-1].hash in page.text
    refused = served.client.get("/digest?q=sometime")
    assert refused.status_code == 400
    assert "&#39;sometime&#39; is no time" in refused.text


def test_the_week_begins_with_today(served, house):
    page = served.client.get("/week").text
    days = re.findall(r'href="/digest\?q=(\d{4}-\d\d-\d\d)"', page)
    assert len(days) == 7
    assert days == sorted(days, reverse=True)
    assert page.count("No camera was watched.") == 7  # the house's records are of 2024
    assert "Nobody and nothing came" not in page
    today = served.client.get("/").text
    assert "No camera was watched." in today
    assert all(house.records["yard"][-1].hash in each for each in (page, today))


def test_a_rule_is_tried_on_the_past_and_written_for_the_file(served, house):
    when = f"a+person{52 * '+'}comes"  # a name, of 60 letters, ends with no space
    page = served.client.get(f"/rules?when={when}&hours=0:00-24:00&cooldown=5m&since=").text
    assert "Understood as: People who came." in page
    assert f'href="/record/{house.records["yard"][0].id}"' in page
    lines = html.unescape(re.search(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)[1])  # type: ignore[index]
    parse_configuration(f"version: 1\ncameras: {{yard: {{url: 'rtsp://h/'}}}}\n{lines}")
    refused = served.client.get("/rules?when=a+vna+comes")
    assert refused.status_code == 400
    assert "&#39;vna&#39; is not understood; did you mean van?" in refused.text
    assert served.client.get("/rules?when=a+van&cooldown=soon").status_code == 400
    assert served.client.get("/rules").status_code == 200


def test_review_is_of_the_newest_day_and_leads_to_the_one_before(served):
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
        ("day=all&object=person&kind=left", 1),
        ("day=all&zone=lot", 2),
        ("day=all&confidence=0.95", 0),
        ("day=all&between=00:03-00:06", 2),
        ("since=2024-05-01T00:05&until=2024-05-01T00:06", 1),
        ("q=when+did+a+person+last+come+to+the+entrance", 1),
    ],
)
def test_filters_are_in_the_address(served, query, found):
    assert len(texts(served.client.get(f"/review?{query}"))) == found


def test_a_question_is_said_back_and_counts(served):
    page = served.client.get("/review?q=how+many+people+by+camera").text
    assert "Understood as: People" in page
    assert "median error of at most 12%" in page
    rows = re.findall(r"<tr><td>(\S+?)</td><td>(\d+)</td>", page)
    assert sorted(rows) == [("gate.2_-x", "1"), ("yard", "1")]
    assert len(texts(served.client.get("/review?q=how+many+people+by+camera"))) == 3, "what was counted"
    one = served.client.get("/review?q=when+did+the+last+person+come").text
    assert 'id="count">1 narration<' in one


def test_a_record_has_a_page_with_its_chain(served, house):
    record = house.records["yard"][1]
    page = served.client.get(f"/record/{record.id}?day=all&camera=yard").text
    assert "The person at the entrance has left." in page
    assert 'href="/review?day=all&amp;camera=yard"' in page
    assert "Hash and pictures verified" in page
    assert record.hash in page


def test_pictures_are_whole_or_small_and_never_change(served, house):
    digest = house.records["yard"][0].evidence.after.removeprefix("sha256:")
    whole = served.client.get(f"/picture/{digest}")
    small = served.client.get(f"/picture/{digest}?width=480")
    for answer in (whole, small):
        assert answer.headers["content-type"] == "image/jpeg"
        assert "immutable" in answer.headers["cache-control"]
    assert served.client.get(f"/picture/{digest}?width=481").status_code == 404


def test_feedback_is_kept_beside_the_record(served, house):
    record = house.records["yard"][2]
    journal = (house.folder / "yard.jsonl").read_bytes()
    address = f"/record/{quote(record.id)}"

    def remarks() -> Remarks:
        with closing(FeedbackStore(house.state / FILE, read_only=True)) as store:
            return store.remarks([record.id])[record.id]

    assert served.send(f"{address}/feedback", sentence="0", opinion="right").status_code == 303
    served.send(f"{address}/feedback", sentence="1", opinion="corrected", object="Cat ", type="moved")
    served.send(f"{address}/reviewed", reviewed="yes")
    served.send(f"{address}/note", text="a friend of the house\r\n2")
    kept = remarks()
    assert kept.feedback[0].opinion == "right"
    assert (kept.feedback[1].object, kept.feedback[1].type) == ("cat", "moved")
    assert kept.note.text == "a friend of the house\n2"
    page = served.client.get(address).text
    for shown in ('value="cat"', '<option value="moved" selected>', "Reviewed ✓", "a friend of the house"):
        assert shown in page
    assert '<span class="badge good">reviewed</span>' in served.client.get("/review?day=2024-05-01").text
    served.send(f"{address}/feedback", sentence="1", opinion="")
    served.send(f"{address}/reviewed", reviewed="no")
    assert (remarks().review, list(remarks().feedback)) == (None, [0])
    assert (house.folder / "yard.jsonl").read_bytes() == journal


@pytest.mark.parametrize(
    ("what", "form"),
    [
        ("feedback", {"sentence": "0", "opinion": "maybe"}),
        ("feedback", {"sentence": "٣", "opinion": "right"}),
        ("feedback", {"sentence": "0", "opinion": "corrected"}),
        ("note", {"text": "x" * 20_000}),
        ("nothing", {"text": "x"}),
    ],
)
def test_what_does_not_fit_is_refused(served, house, what, form):
    answer = served.send(f"/record/{house.records['yard'][0].id}/{what}", **form)
    assert answer.status_code == 400, answer.text


@pytest.fixture
def odd(tmp_path) -> Iterator[House]:
    made = House(tmp_path / "state")
    yield made
    made.close()


def test_a_journal_that_does_not_verify_is_shown_as_such(odd):
    for second in range(3):
        odd.tell(second, said(f"Person {second} has come."))
    path = odd.folder / "yard.jsonl"
    odd.close()
    path.write_bytes(path.read_bytes().replace(b"Person 1 has come.", b"Person 9 has come."))
    with Served(odd) as served:
        for address in ("/", "/review"):
            page = served.client.get(address).text
            assert "The record does not verify; it may have been changed." in page
            assert "does not verify: the line was changed" in page
        assert texts(served.client.get("/review?text=9")) == ["Person 9 has come."]
        page = served.client.get(f"/record/{identity('yard', 1)}").text
        assert '<h2 id="chain-title">Does not verify</h2>' in page
        assert "line was changed" in page


GAPS = ("overload", "camera_down", "outage", "mask")
Mixed = tuple[Served, dict[str, Record]]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Iterator[Mixed]:
    """A camera for each oddity, and the records by the names of what they show."""
    house, told = House(tmp_path_factory.mktemp("mixed") / "state"), dict[str, Record]()
    house.tell(1, said("Edited."), camera="edited", id=identity("edited", 5000))
    early = "undated-19700101T000003.000Z-0123456789ab"
    told["undated"] = house.tell(3 - MIDNIGHT.timestamp(), said("Early."), camera="undated", id=early)
    house.tell(1, said("A person has come."), camera="held", evidence=house.pictures())
    house.tell(2, said("A second one has come."), camera="held", held="hourly")
    for camera, newest in (("over", ""), ("vanished", "lost")):  # the limit is, and it holds on
        house.tell(1, said("A person has come."), camera=camera, held="hourly")
        house.tell(2, said("A person has gone."), camera=camera, held=newest)
    told["first"] = first = house.tell(100, said("A person has come."), camera="gap")
    since, until = (MIDNIGHT + timedelta(seconds=second) for second in (200, 900))
    for reason in GAPS:
        missing = {"event": RecordEvent.GAP, "since": since, "until": until, "reason": reason}
        camera = "gap" if reason == "camera_down" else f"gap.{reason}"
        house.tell(900, sentences=(), camera=camera, **missing)
    summary = {"event": RecordEvent.SUMMARY, "covers": (first.id,)}
    told["covering"] = house.tell(960, said("1 person came.", "none", "scene"), camera="gap", **summary)
    told["completing"] = house.tell(970, said("The person was in red."), camera="gap", continues=first.id)
    house.tell(100, said("A white car has come.", thing="car", action="entered", track="c1"), camera="visit")
    gone = {"action": "left", "track": "c1", "since_s": -59.0, "until_s": 1.0}
    left = said("The car has left.", "disappeared", "car", **gone)
    told["left"] = house.tell(160, left, camera="visit", evidence=house.pictures())
    for number in range(120):
        unlike = identity("many", 7)[:-12] + f"{number:012x}"
        house.tell(7, said(f"Number {number}."), camera="many", id=unlike)
    house.close()
    with Served(house) as served:
        yield served, told


@pytest.mark.logs_errors
def test_what_was_read_is_shown_while_the_index_cannot_be_written(tmp_path, monkeypatch):
    house = House(tmp_path / "state")
    first = house.tell(100, said("A person has come."))
    with closing(Site(ServeSettings(), house.folder, tmp_path, None, Cameras(None, None))) as site:
        site.open()
        second = house.tell(200, said("The person has left.", "disappeared"))
        house.close()
        for free, found in ((2**80, False), (0, True)):
            monkeypatch.setattr(index, "_LEAST_FREE", free)
            monkeypatch.setattr(site, "_refreshed", 0.0)
            with site.search() as search:
                assert search.by_id(first.id)
                assert bool(search.by_id(second.id)) == found
            assert ("cannot be written" in str(site.left_out)) == (not found)


def test_a_record_is_found_by_its_id_though_its_time_was_changed(mixed):
    get = mixed[0].client.get
    (address,) = re.findall(r'<li class="row">\s*<a href="(.*?)"', get("/review?camera=edited").text)
    assert "Edited." in get(address.replace("&amp;", "&")).text


def test_footage_without_a_date(mixed):
    page = mixed[0].client.get("/review?camera=undated").text
    assert "Footage without a date" in page
    assert "1970" not in re.sub(r'(href|datetime|value)=".*?"', "", page).replace("Date", "")
    assert "Early." in mixed[0].client.get(f"/record/{mixed[1]['undated'].id}").text


def test_what_limits_held_back_is_behind_a_switch(mixed):
    get = mixed[0].client.get
    first = get("/review?camera=held")
    assert texts(first) == ["A person has come."]
    assert "2 visits, 2 narrations" in first.text, "the plots have them"
    page = get("/review?camera=held&held=yes")
    assert texts(page) == ["A second one has come.", "A person has come."]
    assert "held: hourly" in page.text
    asked = "/review?camera=held&day=all&q=when+did+the+last+person+come"
    assert texts(get(asked)) == ["A second one has come."], "an answer has them"
    tile = get("/").text.partition('data-camera="held"')[2].partition("</li>")[0]
    assert "/picture/" in tile, "the tile shows the newest record with pictures"
    assert 'href="/review?camera=held&amp;held=yes"' in tile, "the first view goes no further"
    assert re.findall(r"camera=(\w+)&amp;held=yes", get("/").text) == ["held", "vanished"]


def test_a_tile_shows_how_it_is_after_somebody_left(mixed):
    served, told = mixed
    tile = served.client.get("/").text.partition('data-camera="visit"')[2].partition("</li>")[0]
    assert told["left"].evidence.after.removeprefix("sha256:") in tile
    viewer = served.client.get(f"/record/{told['left'].id}").text
    labels = re.findall(r'<label><input type="radio".*?>([^<]+)</label>', viewer)
    assert [label.startswith("Before") for label in labels] == ["earlier" in label for label in labels]
    assert len(labels) == 4


def test_what_was_not_recorded_is_said(mixed):
    get, line = mixed[0].client.get, "gap Wed 2024-05-01 00:03:20 to 00:15:00 (camera down)"
    for query in ("camera=gap", "q=how+many+people&camera=gap", "day=all&camera=gap"):
        assert line in get(f"/review?{query}").text, query
    for reason in {*GAPS} - {"camera_down"}:
        assert f"({reason})" in get(f"/review?day=2024-05-01&camera=gap.{reason}").text
    assert line not in get("/review?day=2024-05-03").text
    assert "Nothing was recorded of gap from 1 May 2024, 00:03:20" in get("/review?camera=gap").text


def test_records_lead_to_those_they_are_about(mixed):
    get, told = mixed[0].client.get, mixed[1]
    link = f'<a href="/record/{quote(told["first"].id)}">'
    assert f"Covers: {link}1</a>" in get(f"/record/{told['covering'].id}").text
    assert f"Completes {link}an earlier narration</a>" in get(f"/record/{told['completing'].id}").text


def test_visits_are_shown_with_how_long_they_were(mixed):
    get = mixed[0].client.get
    page = get("/review?q=how+long+was+the+car+here").text
    assert "1 minute</td>" in page
    assert "Wed 2024-05-01 00:01:40" in page
    page = get("/review?q=most+cars+at+once").text
    assert "there</td>" in page
    assert "Nothing was found" not in page
    assert "since 00:01:40" in get(f"/record/{mixed[1]['left'].id}").text
    assert re.search(r'id="count">1 narration<', get("/review?q=when+did+a+car+last+come").text)


def test_a_visit_is_one_card_with_its_stay_and_its_steps(odd):
    here, there = ((0.1, 0.9), (0.3, 0.9)), ((0.6, 0.8), (0.8, 0.7))
    van = {"thing": "van", "track": "v"}
    came = odd.tell(10, said("A van has come.", **van, action="entered", paths=(here,)))
    person = odd.tell(20, said("A person has come.", action="entered", track="p"))
    odd.tell(40, said("The van has stopped.", **van, action="stopped"), held="hourly")
    gone = {"action": "left", "since_s": -89.0, "until_s": 1.0, "moment_s": 1.0, "paths": (there,)}
    left = said("The van has left.", "disappeared", **van, **gone)
    last = odd.tell(100, left, evidence=odd.pictures())
    with Served(odd) as served:
        page = served.client.get("/review?object=van")
        assert texts(page) == ["The van has left."]
        assert re.search(r"00:00:10 came in → *00:01:40 left", page.text)
        assert '<polyline class="c0 between" points="0.3,0.9 0.6,0.8"/>' in page.text
        live = served.client.get("/").text
        assert re.findall(r'<article class="card.*?data-id="(.*?)"', live) == [last.id, person.id]
        record = served.client.get(f"/record/{came.id}").text
        assert re.search(rf'<a href="/record/{last.id}" aria-current="true">00:01:40\s+left</a>', record)
        assert "stopped" not in live  # what a limit held back
        assert "stopped" in served.client.get("/review?object=van&held=yes").text


def test_who_put_a_thing_down_is_named(odd, capsys):
    odd.tell(10, said("A person has come in.", action="entered", track="p"))
    gone = {"action": "left", "track": "p", "since_s": -19.0, "until_s": 1.0}
    left = odd.tell(30, said("The person has left, after 20 s.", "disappeared", **gone))
    bag = said("A bag has been put down.", thing="bag", action="placed", track="b", other="p")
    odd.tell(31, bag, evidence=odd.pictures())
    odd.tell(60, said("The bag has been taken.", "disappeared", "bag", action="removed", track="b"))
    with Served(odd) as served:
        card = served.client.get("/").text.partition("The bag has been taken.")[2].partition("</article>")[0]
        assert f'Put down by: <a href="/record/{left.id}">The person has left, after 20 s.</a>' in card
        assert "Taken by" not in card
        assert "Put down by: The person has left" in served.client.get("/review?object=bag").text
    by = "A bag has been put down. (put down by: The person has left, after 20 s.)"
    for question in ("what was left behind", "who left the bag", "who put down a bag in the last 9000 days"):
        assert cli.main(["query", question, "--journal", str(odd.state), "--timezone", "UTC"]) == 0
        assert by in capsys.readouterr().out, question
    assert cli.main(["query", "who took the bag", "--journal", str(odd.state), "--timezone", "UTC"]) == 0
    answer = capsys.readouterr()
    assert "Bags that were taken away" in answer.err
    assert "The bag has been taken.\n" in answer.out


def test_the_timeline_is_zoomed_from_days_to_minutes(odd):
    for second in (10 * 3600, 10 * 3600 + 60, 12 * 3600, 90 * 3600):
        odd.tell(second, said("A van has come.", thing="van", action="entered", track=f"v{second}"))
    with Served(odd) as served:

        def bars(query: str) -> dict[str, str]:
            """Addresses by their words."""
            page = html.unescape(served.client.get(f"/review?{query}").text)
            found = re.findall(r'<a href="/review\?([^"]*)" aria-label="([^"]*)"><title>', page)
            return {words: address for address, words in found}

        days = bars("day=all")
        day, _ = days
        assert [*days] == ["2024-05-01: 3 visits, 3 narrations", "2024-05-04: 1 visit, 1 narration"]
        hours = bars(days[day])
        hour, _ = hours
        assert [words[11:] for words in hours] == [
            "10:00: 2 visits, 2 narrations",
            "12:00: 1 visit, 1 narration",
        ]
        assert [words[11:16] for words in bars(hours[hour])] == ["10:00", "10:01"]
        page = html.unescape(served.client.get(f"/review?{hours[hour]}").text)
        assert "Wednesday 1 May 2024, 10:00 to 11:00" in page
        assert 'href="?day=2024-05-01">whole day</a>' in page
        assert not bars(re.findall(r'href="\?([^"]*)">← 09:00', page)[0])


def test_how_many_were_there_at_a_place(odd):
    def told(hour: float, text: str, kind: str, track: str, **more: Any) -> None:
        odd.tell(3600 * hour, said(text, kind, "car", track=track, **more))

    told(6, "A car has parked in the lot.", "appeared", "a", action="entered")
    told(8, "A car has come in from the left.", "appeared", "b", action="entered")
    told(9, "The car has parked in the lot.", "moved", "b", action="parked")
    told(12, "The car has driven off.", "disappeared", "a", action="left", until_s=1.0, since_s=-21599.0)
    told(13, "The car has moved on.", "moved", "b", action="resumed")
    told(14, "The car has driven off.", "disappeared", "b", action="left", until_s=1.0, since_s=-21599.0)
    since, until = MIDNIGHT + timedelta(hours=10), MIDNIGHT + timedelta(hours=11)
    away = {"event": RecordEvent.GAP, "since": since, "until": until, "reason": "camera_down"}
    odd.tell(3600 * 11, sentences=(), **away)
    with Served(odd) as served:
        page = served.client.get("/review?day=2024-05-01&zone=lot").text
    (plot,) = re.findall(r'aria-label="yard: at most 2 at the same time">.*?d="(.*?)"', page, re.DOTALL)
    hours = [2 - int(level) for level, end in re.findall(r"V(\d+)H(\d+)", plot) if int(end) % 4 == 2]
    assert hours == [0] * 6 + [1] * 3 + [2] * 3 + [1] + [0] * 11
    dark = re.findall(r'<rect class="dark" x="([\d.]+)" width="([\d.]+)"', page.partition(plot)[2])
    assert dark == [("0.0", "24.0"), ("56.0", "40.0"), ("40.0", "4.0")]  # also before the first record


def test_many_of_one_moment_are_all_reached(mixed):
    pages = [texts(mixed[0].client.get(f"/review?camera=many&page={n}")) for n in (1, 2, 3, 4)]
    assert [len(page) for page in pages] == [50, 50, 20, 0]
    assert len({text for page in pages for text in page}) == 120


def test_before_the_first_narration(odd):
    odd.folder.mkdir(parents=True)
    with Served(odd) as served:
        assert "Nothing has been narrated yet." in served.client.get("/").text
        assert "Nothing was found" in served.client.get("/review").text
        answer = served.client.get("/review?q=how+many+cars")
        assert answer.status_code == 400
        assert "o narrations yet" in answer.text
        odd.tell(1, evidence=odd.pictures())
        page = until(lambda: re.search(r'src="(/picture/[^?"]*)', served.client.get("/").text))
        assert served.client.get(page[1]).status_code == 200


def test_the_daemon_is_asked_how_the_cameras_are(odd, tmp_path):
    odd.tell(1, camera="yard")
    odd.tell(2, camera="old")
    config = tmp_path / "narrated.yaml"
    body = json.dumps({"ok": False, "cameras": {"yard": "streaming", "gate": "backing off"}})
    with raw_server(f"HTTP/1.0 503 A camera hangs\r\n\r\n{body}".encode()) as health:
        text = (
            f"version: 1\nstate: {odd.state}\nserve: {{listen: '127.0.0.1:0'}}\n"
            f"http: {{listen: '{health.removeprefix('http://')}'}}\n"
        )
        yard = "yard: {url: y.mp4, live_url: 'http://nvr.lan:1984/?src=yard'}"
        config.write_text(f"{text}cameras: {{{yard}, gate: {{url: g.mp4}}, new: {{url: n.mp4}}}}\n")
        with Served(odd, "--config", str(config)) as served:

            def tiles() -> list[tuple[str, str]]:
                page = served.client.get("/").text
                return re.findall(r'<li class="tile (\w+)" data-camera="(\w+)"', page)

            page = served.client.get("/").text
            assert tiles() == [("bad", "gate"), ("bad", "new"), ("good", "yard"), ("removed", "old")]
            assert len(texts(served.client.get("/review?camera=old&day=all"))) == 1
            for cameras in ("cameras: {old: {url: o.mp4}}", "cameras: {"):
                config.write_text(text + cameras)
                assert tiles() == [("bad", "old"), ("removed", "yard")], "as the file is, or was when right"
    assert re.findall(r'href="(http[^"]*)".*aria-label="yard live', page) == ["http://nvr.lan:1984/?src=yard"]
    assert page.count(" live, in a new tab") == 1
    for words in ("backing off", "not watched by the running daemon", "nothing narrated yet"):
        assert words in page
    assert "Live camera status" not in page


@pytest.mark.slow
def test_a_demo_ends_in_the_page_at_a_terminal_until_ctrl_c(forked, clip, tmp_path):
    ours, theirs = pty.openpty()
    process = forked("demo", clip, "--out", tmp_path / "demo", into=theirs, err=theirs)
    os.close(theirs)
    told = ""
    with (
        open(ours, encoding="utf-8", errors="replace") as terminal,  # noqa: PTH123 - a descriptor
        suppress(OSError),  # a terminal whose last user has gone
    ):
        for line in terminal:
            told += line
            if address := re.search(r"(http://127\.0\.0\.1:\d+)/  \(Ctrl-C ends it\)", line):
                page = httpx.get(f"{address[1]}/review", trust_env=False, timeout=60)
                assert page.status_code == 200
                assert "Times are those of this machine" in page.text
                process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 0, told
    assert re.search(r"narrations?\b", told)
    assert "Ctrl-C ends it" in told
