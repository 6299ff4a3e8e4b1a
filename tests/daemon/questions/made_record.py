"""A made record of known visits, in local time of Berlin, that the table of questions is asked of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from chained import write_chained

from pipeline.record import format_time

BERLIN = ZoneInfo("Europe/Berlin")
ARRIVALS = {"entered", "appeared", "placed", "got_out"}
DEPARTURES = {"left", "disappeared", "removed", "got_in"}

# camera, track, object, arrived, left (- is still there), what the sentences call it, where it is
VISITS = """
yard | c1 | car | 2026-11-22T08:10:00 | 2026-11-22T17:30:00 | red car | in the lot
yard | t1 | truck | 2026-11-22T09:40:00 | 2026-11-22T09:52:00 | white lorry | at the gate
yard | p1 | person | 2026-11-22T10:05:00 | 2026-11-22T10:06:00 | person | in the lot
yard | c2 | car | 2026-11-22T22:15:00 | 2026-11-23T07:40:00 | blue car | in the lot
lobby | p5 | person | 2026-11-22T11:00:00 | 2026-11-22T11:45:00 | person | at the desk
door | p2 | person | 2026-11-22T18:20:10 | 2026-11-22T18:24:10 | person in dark clothes | at the entrance
door | p3 | person | 2026-11-22T22:30:00 | 2026-11-22T22:31:30 | person | near the left edge
door | p4 | person | 2026-11-22T23:10:00 | 2026-11-22T23:12:00 | person | on the right
door | p6 | person | 2026-11-23T06:30:00 | 2026-11-23T06:31:00 | person | at the entrance
yard | c3 | car | 2026-11-23T08:05:00 | 2026-11-23T17:05:00 | white car | in the lot
door | p7 | person | 2026-11-23T09:02:00 | 2026-11-23T09:03:00 | person | on the left
door | p8 | person | 2026-11-23T09:30:00 | 2026-11-23T09:50:00 | person in red | at the entrance
yard | v1 | van | 2026-11-23T10:00:00 | 2026-11-23T10:25:00 | white van | at the gate
door | p9 | person | 2026-11-23T12:00:20 | 2026-11-23T12:05:00 | person | on the right
lobby | d1 | dog | 2026-11-23T13:00:00 | 2026-11-23T13:02:00 | dog | in the middle
yard | v2 | van | 2026-11-23T14:10:00 | 2026-11-23T14:14:00 | van | on the left
yard | c4 | car | 2026-11-23T15:45:00 | - | red car | in the lot
yard | p12 | person | 2026-11-23T15:46:30 | 2026-11-23T15:47:30 | person | on the left
door | p10 | person | 2026-11-23T16:20:00 | 2026-11-23T16:25:00 | person | on the left
lobby | p14 | person | 2026-11-23T16:58:00 | 2026-11-23T17:10:00 | person | in the middle
yard | b1 | cyclist | 2026-11-23T17:20:00 | 2026-11-23T17:21:00 | cyclist | on the right
door | p11 | person | 2026-11-23T18:19:05 | 2026-11-23T18:19:40 | person | on the right
yard | c5 | car | 2026-11-23T18:20:30 | 2026-11-23T18:30:00 | black car | on the left
door | p15 | person | 2026-11-23T18:21:00 | 2026-11-23T18:22:00 | person | on the left
yard | m1 | motorcyclist | 2026-11-23T18:32:00 | 2026-11-23T18:33:00 | motorcyclist | on the right
lobby | p13 | person | 2026-11-23T18:40:00 | - | person | in the middle
lobby | g1 | bag | 2026-11-23T18:41:00 | - | bag | at the desk
yard | x3 | car | 2026-10-24T22:30:00 | 2026-10-25T06:30:00 | car | in the lot
yard | x1 | person | 2026-10-25T02:30:00 | 2026-10-25T02:40:00 | person | on the left
yard | x2 | person | 2026-10-25T01:30:00Z | 2026-10-25T03:00:00Z | person | on the right
yard | y1 | person | 2026-03-29T01:50:00 | 2026-03-29T03:10:00 | person | on the left
door | y2 | person | 2026-11-01T05:30:00Z | 2026-11-01T06:30:00Z | person | on the right
"""
SITE = """
yard | v1 | van | 2026-06-18T08:00 | - | white van | in the loading dock
yard | p1 | person | 2026-06-18T07:00 | 2026-06-18T07:10 | person | at the bins
gate | c1 | car | 2026-06-18T09:00 | 2026-06-18T09:05 | black car | at the barrier
gate | p2 | person | 2026-06-17T22:15 | 2026-06-17T22:20 | person | by the fence
lobby | p3 | person | 2026-06-18T08:30 | 2026-06-18T08:40 | person | at the desk
lobby | b1 | bag | 2026-06-18T10:30 | - | bag | at the entrance
street | m1 | motorcycle | 2026-06-13T19:00 | 2026-06-13T19:03 | motorcycle | on the right
"""
"""Of a depot with other cameras."""
RAMP = """
yard | v1 | van | 2026-06-18T08:05 | 2026-06-18T09:20 | white van | at the loading dock
yard | v2 | van | 2026-06-18T14:20 | - | blue van | at the loading dock
yard | t1 | truck | 2026-06-17T09:40 | 2026-06-17T10:35 | red lorry | at the loading dock
yard | t2 | truck | 2026-06-09T11:00 | 2026-06-09T11:30 | lorry | at the loading dock
yard | c1 | car | 2026-06-16T09:00 | 2026-06-16T18:00 | silver car | on the left
yard | x1 | box | 2026-06-12T12:00 | 2026-06-16T11:00 | box | at the loading dock
yard | x2 | box | 2026-06-14T21:00 | - | box | at the bins
yard | p1 | person | 2026-06-17T23:30 | 2026-06-17T23:36 | person in grey | at the bins
yard | b1 | bicycle | 2026-06-15T10:00 | 2026-06-15T17:00 | green bicycle | by the fence
yard | y1 | cyclist | 2026-06-18T09:30 | 2026-06-18T09:31 | cyclist | on the left
ramp | t3 | truck | 2026-06-17T16:02 | 2026-06-17T16:20 | lorry | at the barrier
ramp | c2 | car | 2026-06-17T19:00 | 2026-06-17T19:45 | red car | on the left
ramp | c3 | car | 2026-06-18T15:00 | - | black car | at the barrier
lobby | p2 | person | 2026-06-18T08:40 | 2026-06-18T08:55 | person | at the desk
lobby | p3 | person | 2026-06-17T18:10 | 2026-06-17T18:31 | person in red | at the desk
lobby | p4 | person | 2026-06-18T15:20 | - | person | at the desk
lobby | g1 | bag | 2026-06-18T12:30 | - | bag | at the desk
yard | d1 | gate | 2026-06-17T23:10 | 2026-06-17T23:50 | gate | -
yard | d2 | gate | 2026-06-18T08:00 | 2026-06-18T08:04 | gate | -
"""
"""Of the depot of sets q and r: a gate that is watched, and a ramp."""
SHOP = """
yard | c1 | car | 2026-05-14T06:40 | 2026-05-14T09:30 | red car | in the lot
yard | c2 | car | 2026-05-13T21:30 | - | blue car | in the lot
yard | c3 | car | 2026-05-13T23:20 | 2026-05-14T03:10 | black car | in the lot
yard | c4 | car | 2026-05-13T15:31 | 2026-05-13T15:33 | white car | at the gate
yard | v1 | van | - | 2026-05-14T07:15 | white van | at the gate
yard | v2 | van | 2026-05-12T10:00 | 2026-05-12T10:02 | van | at the gate
yard | n1 | person | 2026-05-10T21:30 | 2026-05-10T21:50 | person | in the middle
yard | k1 | cat | 2026-05-12T05:00 | 2026-05-12T05:04 | cat | in the middle
yard | k2 | dog | 2026-05-10T14:00 | 2026-05-10T14:20 | dog | in the middle
yard | g1 | gate | 2026-05-13T18:00 | 2026-05-13T20:30 | gate | -
yard | g2 | gate | 2026-05-14T02:50 | 2026-05-14T03:20 | gate | -
dock | v3 | van | 2026-05-14T08:30 | 2026-05-14T08:50 | white van | at the loading bay
dock | t1 | truck | 2026-05-12T13:10 | 2026-05-12T14:25 | lorry | at the loading bay
dock | t2 | truck | 2026-05-13T09:00 | 2026-05-13T09:40 | lorry | at the loading bay
dock | x1 | box | 2026-05-12T14:00 | - | box | at the loading bay
dock | x2 | box | 2026-05-13T22:30 | 2026-05-14T07:00 | box | at the loading bay
dock | d1 | door | 2026-05-13T08:55 | 2026-05-13T09:45 | loading bay door | -
lobby | p1 | person | 2026-05-13T08:30 | 2026-05-13T08:50 | person | at the desk
lobby | p2 | person | 2026-05-13T14:30 | 2026-05-13T15:00 | person | at the desk
lobby | p3 | person | 2026-05-14T00:50 | 2026-05-14T01:30 | person | in the middle
lobby | p4 | person | 2026-05-14T10:15 | 2026-05-14T10:18 | person in red | at the desk
lobby | b1 | bag | 2026-05-12T11:00 | 2026-05-12T12:00 | bag | at the desk
front_door | q1 | person | 2026-05-14T07:58 | 2026-05-14T08:00 | person in dark clothes | at the entrance
front_door | q2 | person | 2026-05-13T09:10 | 2026-05-13T09:12 | person | at the entrance
front_door | q3 | person | 2026-05-13T09:40 | 2026-05-13T09:55 | person | at the entrance
front_door | q4 | person | 2026-05-13T18:30 | 2026-05-13T18:45 | person | at the entrance
front_door | q5 | person | 2026-05-09T12:00 | 2026-05-09T12:10 | person | at the entrance
front_door | q6 | person | - | 2026-05-14T09:05 | person | at the entrance
front_door | x3 | box | 2026-05-14T11:00 | - | box | at the entrance
front_door | d2 | door | 2026-05-13T23:30 | 2026-05-13T23:31 | front door | -
front_door | d3 | door | 2026-05-14T07:57 | 2026-05-14T08:01 | front door | -
"""
"""Of a shop with a yard, whose doors are watched; two were not seen to come."""
STORE = """
shop | p1 | person | 2026-11-18T08:10 | 2026-11-18T08:30 | person in green | at the till
shop | p2 | person | 2026-11-17T18:40 | 2026-11-17T19:05 | person | at the till
shop | p3 | person | 2026-11-14T11:00 | 2026-11-14T11:20 | person | in the middle
shop | p4 | person | 2026-11-18T15:30 | - | person in dark clothes | at the till
shop | g1 | bag | 2026-11-17T10:00 | - | bag | at the till
shop | x1 | box | 2026-11-16T09:00 | 2026-11-16T12:00 | box | on the left
lobby | p5 | person | 2026-11-18T09:00 | 2026-11-18T09:40 | person | at the desk
lobby | p6 | person | 2026-11-12T18:30 | 2026-11-12T18:45 | person in grey | at the desk
lobby | p7 | person | 2026-11-17T12:00 | 2026-11-17T12:30 | person | in the middle
lobby | g2 | bag | 2026-11-17T09:00 | 2026-11-17T09:05 | bag | at the desk
gate | p8 | person | 2026-11-18T02:00 | 2026-11-18T02:10 | person in black | at the kerb
gate | b1 | bus | 2026-11-17T08:00 | 2026-11-17T08:05 | bus | at the kerb
gate | b2 | bus | 2026-11-17T16:30 | 2026-11-17T16:35 | bus | at the kerb
gate | c1 | car | 2026-11-17T19:00 | 2026-11-17T19:10 | black car | at the kerb
gate | c2 | car | 2026-11-10T10:00 | 2026-11-10T10:05 | car | at the kerb
gate | y1 | bicycle | 2026-11-18T13:00 | 2026-11-18T13:20 | bicycle | at the kerb
gate | d1 | gate | 2026-11-18T00:30 | 2026-11-18T00:35 | gate | -
gate | p9 | person | 2026-11-14T23:30 | 2026-11-14T23:40 | person | at the kerb
yard | c3 | car | 2026-11-17T07:00 | - | red car | in the car park
yard | c4 | car | 2026-11-18T09:00 | - | blue car | in the car park
yard | c5 | car | 2026-11-18T05:30 | 2026-11-18T14:00 | car | in the car park
yard | v1 | van | 2026-11-18T10:00 | 2026-11-18T10:45 | white van | in the loading bay
yard | v2 | van | 2026-11-11T09:00 | 2026-11-11T10:00 | grey van | in the loading bay
yard | t1 | truck | 2026-11-18T06:00 | 2026-11-18T10:15 | red lorry | in the loading bay
yard | m1 | motorcycle | 2026-10-10T12:00 | 2026-10-10T12:05 | motorcycle | in the car park
yard | k1 | cat | 2026-11-17T23:00 | 2026-11-17T23:10 | cat | in the middle
yard | k2 | dog | 2026-11-18T11:00 | 2026-11-18T11:02 | dog | in the middle
yard | x2 | box | 2026-11-18T12:00 | - | box | in the loading bay
lobby | d2 | door | 2026-11-18T01:00 | 2026-11-18T01:01 | door | -
"""
"""Of a shop with a lobby, a car park and a loading bay; the bus stops at a line."""
CORNER = """
till | p1 | person | 2026-11-25T09:20 | 2026-11-25T09:31 | person in red | at the till
till | p2 | person | 2026-11-24T16:05 | 2026-11-24T16:20 | person | at the shelf
till | x1 | box | 2026-11-24T12:30 | 2026-11-24T15:40 | box | at the shelf
lobby | p3 | person | 2026-11-25T02:05 | 2026-11-25T02:20 | person in dark clothes | at the desk
lobby | p4 | person | 2026-11-24T08:40 | 2026-11-24T08:55 | person | at the desk
lobby | g1 | bag | 2026-11-23T09:05 | 2026-11-23T11:40 | bag | on the bench
lobby | d1 | door | 2026-11-25T05:52 | 2026-11-25T05:53 | lobby door | -
gate | p5 | person | 2026-11-24T23:40 | 2026-11-24T23:48 | person | on the left
gate | d2 | gate | 2026-11-22T10:00 | 2026-11-22T10:20 | gate | -
gate | v1 | van | 2026-11-25T07:10 | 2026-11-25T07:12 | white van | in the middle
yard | c1 | car | 2026-11-24T18:30 | - | grey car | on the left
yard | c2 | car | 2026-11-21T23:45 | 2026-11-22T02:07 | black car | on the right
yard | y1 | bicycle | 2026-11-24T10:00 | 2026-11-24T17:00 | bicycle | at the bench
yard | k1 | dog | 2026-11-23T14:00 | 2026-11-23T14:03 | dog | in the middle
street | c3 | car | 2026-11-25T08:15 | 2026-11-25T08:40 | blue car | on the right
street | m1 | motorcycle | 2026-11-17T12:00 | 2026-11-17T12:02 | motorcycle | on the left
street | p6 | person | 2026-11-22T01:50 | 2026-11-22T01:52 | person | on the left
loading-bay | t1 | truck | 2026-11-25T06:50 | 2026-11-25T08:10 | lorry | in bay 2
loading-bay | v2 | van | 2026-11-23T11:00 | - | blue van | in bay 2
loading-bay | x2 | box | 2026-11-25T08:00 | - | box | in the middle
"""
"""Of a corner shop with a lobby, a yard and a loading bay; its doors are watched."""
PARKED = {"c1", "c2", "c3", "c4", "x3"}
HELD = {"p15"}
PEOPLE = ("person", "cyclist", "motorcyclist", "dog", "cat")


def moment(text: str) -> datetime:
    """A UTC time; without a zone it is of Berlin."""
    read = datetime.fromisoformat(text)
    return (read if read.tzinfo else read.replace(tzinfo=BERLIN)).astimezone(UTC)


Further = tuple[str, datetime, dict[str, Any]]  # camera, time and members of a record


def write_record(
    folder: Path, visits: str = VISITS, *, others: bool = True, more: Iterable[Further] = ()
) -> dict[str, str]:
    """Write the journals; gives the name of each record by its id: its track, or a name for those without."""
    told = defaultdict[str, list[tuple[datetime, str, dict[str, Any]]]](list)
    for camera, at, members in more:
        told[camera].append((at, "", members))
    for line in visits.strip().splitlines():
        camera, track, *visit = line.split(" | ")
        for at, record in _visit(track, *visit):
            told[camera].append((at, track, record))
    for camera, at, name, record in _others() if others and visits == VISITS else ():
        told[camera].append((moment(at), name, record))
    names = {}
    for camera, records in told.items():
        records.sort(key=lambda each: each[0])
        write_chained(folder, camera, ((at, record) for at, _, record in records))
        names |= {f"{camera}-{seq}": name for seq, (_, name, _) in enumerate(records, 1)}
    return names


def _visit(
    track: str, thing: str, came: str, went: str, called: str, place: str
) -> Iterator[tuple[datetime, dict[str, Any]]]:
    begun, walks = moment(came if came != "-" else went), thing in PEOPLE
    if thing in ("gate", "door"):
        for at, does in ((came, "opened"), (went, "closed")):
            text = f"The {called} has {does}."
            yield moment(at), _record(_sentence(text, "unknown", thing, moment(at), action=does, track=track))
        return
    first = "got_out" if track == "p12" else "placed" if thing in ("bag", "box") else "entered"
    does = {"got_out": "has got out of a car", "placed": "has been put down"}
    verb = does.get(first, "has come in" if walks else "has driven in")
    held = {"held": "hourly"} if track in HELD else {}
    track_of = {"track": track} | ({"other": "c4"} if first == "got_out" else {})
    said = _sentence(f"A {called} {verb} {place}.", "appeared", thing, begun, action=first, **track_of)
    if came != "-":
        yield begun, _record(said, **held)
    if track in PARKED:
        parked = begun + timedelta(minutes=1)
        text = f"The {called} has parked {place}."
        said = _sentence(text, "moved", thing, parked, action="parked", track=track)
        yield parked, _record(said, continues=f"{track}-stopped")
    if went != "-":
        ended = moment(went)
        span = {"since": format_time(begun), "until": format_time(ended)}
        aside = " to the left" if track == "p10" else ""
        action, away = "left", f"{'walked' if walks else 'driven'} off{aside}"
        if first == "placed":
            action, away = "removed", "been taken away"
        stay = {"action": action, "track": track, "duration_s": (ended - begun).total_seconds()}
        text = f"The {called} {place} has {away}."
        yield ended, _record(_sentence(text, "disappeared", thing, ended, **stay, **span), **held)


def _others() -> list[tuple[str, str, str, dict[str, Any]]]:
    """Camera, time, name, record: scenes, gaps, doors, summaries, and a day of narrated/1 without tracks."""
    made = list[tuple[str, str, str, dict[str, Any]]]()

    def add(camera: str, at: str, name: str, text: str, kind: str, thing: str, **more: Any) -> None:
        members = {
            key: more.pop(key) for key in ("event", "since", "until", "reason", "schema") if key in more
        }
        sentence = _sentence(text, kind, thing, moment(at), **more)
        made.append((camera, at, name, _record(sentence, **members)))

    day = "2026-11-23T"
    gate = {"kind": "unknown", "thing": "gate", "track": "g1-gate"}
    add("yard", f"{day}08:04", "gate-opened", "The gate has opened.", action="opened", **gate)
    add("yard", f"{day}08:06", "gate-closed", "The gate has closed.", action="closed", duration_s=120, **gate)
    for camera, at, name, event, text in (
        ("door", "12:30", "view", "view_changed", "The camera now shows another view."),
        ("lobby", "13:30", "covered", "obstructed", "The view is blocked."),
        ("yard", "17:00", "light", "light_changed", "The light has changed."),
    ):
        add(camera, day + at, name, text, "none", "scene", event=event)
    gap = {"since": format_time(moment(f"{day}18:52")), "until": format_time(moment(f"{day}18:55"))}
    text = "Nothing was recorded: overload."
    add("yard", f"{day}18:54:59", "gap", text, "none", "scene", event="gap", reason="overload", **gap)
    summary = {"event": "summary", "count": 6}
    add("lobby", "2026-11-22T12:00", "summary", "Six people have crossed.", "moved", "person", **summary)
    done = ("door", f"{day}09:51", "p8-more", "The person in red was there for 20 minutes.", "disappeared")
    add(*done, "person", track="p8", action="left")
    made[-1][3]["continues"] = "p8"
    old = "2026-11-14T"
    for at, name, text, kind, thing, more in (
        ("10:00", "old-car-came", "A car has come in.", "appeared", "car", {}),
        ("10:30", "old-car-left", "The car has driven off.", "disappeared", "car", {}),
        ("11:00", "old-truck-came", "A lorry has come in.", "appeared", "truck", {}),
        ("11:30", "old-truck-left", "The lorry has driven off.", "disappeared", "truck", {}),
        ("12:00", "old-people", "Two people have come in.", "appeared", "person", {"count": 2}),
        ("13:00", "cap", "60 records within an hour.", "none", "scene", {"event": "cap_reached"}),
    ):
        add("yard", old + at, name, text, kind, thing, schema="narrated/1", **more)
    made[-1][3]["until"] = format_time(moment(f"{old}14:00"))
    return made


def _sentence(text: str, kind: str, thing: str, at: datetime, **more: Any) -> dict[str, Any]:
    box, time = ((0.4, 0.2, 0.1, 0.5), {"time": format_time(at)}) if thing != "scene" else (None, {})
    members = {"text": text, "type": kind, "object": thing, "box": box, "salience": 0.7, "confidence": 0.95}
    return members | time | more


def _record(sentence: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"event": "change", "text": sentence["text"], "sentences": [sentence]} | more
