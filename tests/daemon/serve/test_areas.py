"""Zones and lines that the page writes into the configuration file."""

import re

import pytest
from serving_here import Served

from daemon.config.configuration import load_configuration
from daemon.serve.cameras import AreaError, Cameras, write_area

HEAD = "version: 1  # ours\n"
YARD = "cameras:\n  yard:\n    url: y.mp4\n"
GATE = {"kind": "zones", "name": "at the gate", "points": "0.1,0.5 0.4,0.5 0.4,0.9"}
ZONE = '{name: "at the gate", polygon: [[0.1, 0.5], [0.4, 0.5], [0.4, 0.9]]}'
SHAPES = [  # what is added stands between < and >
    "cameras:\n  yard:\n<    zones:\n      - ZONE\n>    url: y.mp4  # the yard\n    # its end\n\nserve: {}\n",
    (
        "cameras:\n  yard: &yard\n<    zones:\n      - ZONE\n>    url: y.mp4\n"
        "    lines:\n    - {name: curb, points: [[0, 0], [1, 1]]}\n  b: {url: b.mp4}\n"
    ),
    (
        "cameras:\n  yard:\n    zones:\n<    - ZONE\n>    - name: in the lot\n"
        "      polygon: [[0, 0], [1, 0], [1, 1]]\n    url: |-\n      y.mp4"
    ),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_zone_is_added_and_all_else_stays(tmp_path, shape):
    path = tmp_path / "narrated.yaml"
    path.write_text(HEAD + re.sub("<[^>]*>", "", shape))
    path.chmod(0o604)
    write_area(path, "yard", GATE)
    assert path.read_text() == HEAD + re.sub("[<>]", "", shape).replace("ZONE", ZONE)
    assert path.stat().st_mode & 0o777 == 0o604
    with pytest.raises(AreaError, match="already has an area called at the gate"):
        write_area(path, "yard", GATE)
    write_area(path, "yard", {"kind": "doors", "name": "the gate", "points": "0,0 1,0 1,1"})
    write_area(path, "yard", {"kind": "lines", "name": "the gate line", "points": "0,0.5 1,0.5"})
    camera = load_configuration(path).cameras["yard"]
    assert (camera.zones[0].name, camera.lines[0].name) == ("at the gate", "the gate line")
    assert [each.name for each in tmp_path.iterdir()] == ["narrated.yaml"]


@pytest.mark.parametrize(
    ("text", "form", "words"),
    [
        (YARD, {"kind": "privacy"}, "only zones, doors and lines"),
        (YARD, {"points": "a,b"}, "cannot be read"),
        (YARD, {"points": "0,0 2,0 1,1"}, "shares"),
        (YARD, {"name": '", polygon: []}, {name: "x'}, "name"),
        ("cameras: {yard: {url: y.mp4}}", {}, "cannot be edited"),
        ("cameras:\n  yard:\n    zones: []\n    url: y.mp4\n", {}, "cannot be edited"),
        ("cameras: {gate: {url: y.mp4}}", {}, "cannot be edited"),
        ("cameras: [", {}, ":2: broken YAML"),
        ("cameras: {yard: {url: y.mp4, }}", {}, "cannot be edited"),
        ("cameras:\n  gate: &same\n    url: y.mp4\n  yard: *same\n", {}, "cannot be edited"),
    ],
)
def test_what_does_not_fit_leaves_the_file_alone(tmp_path, text, form, words):
    path = tmp_path / "narrated.yaml"
    path.write_text(HEAD + text)
    with pytest.raises(AreaError, match=words):
        write_area(path, "yard", GATE | form)
    assert path.read_text() == HEAD + text


def test_a_link_stays_one_and_a_folder_that_cannot_be_written_is_said(tmp_path):
    file, link = tmp_path / "real" / "n.yaml", tmp_path / "n.yaml"
    file.parent.mkdir()
    file.write_text(HEAD + YARD)
    link.symlink_to(file)
    write_area(link, "yard", GATE)
    assert link.is_symlink()
    assert "at the gate" in file.read_text()
    (tmp_path / "real" / "n.yaml.tmp").mkdir()
    with pytest.raises(AreaError, match=r"n\.yaml cannot be written"):
        write_area(link, "yard", GATE | {"name": "at the door"})


def test_the_page_writes_where_it_may(house, tmp_path):
    path = tmp_path / "narrated.yaml"
    served_at = "serve: {listen: '127.0.0.1:0'}"
    text = f"version: 1\nstate: {house.state}\n{served_at}\n{YARD}"
    path.write_text(text)
    house.tell(0, camera="without_pictures")
    for second in range(50):  # a camera at its limit writes records of rules, which have no pictures
        house.tell(90_000 + second)
    with Served(house, "--config", str(path)) as served:
        assert "There is no picture" in served.client.get("/camera/without_pictures").text
        page = served.client.get("/camera/yard").text
        assert "Write to the file" in page
        assert "There is no picture" not in page
        refused = served.send("/camera/yard", **GATE | {"name": "1"})
        assert refused.status_code == 400
        assert 'value="0.1,0.5 0.4,0.5 0.4,0.9"' in refused.text, "the form is filled in again"
        assert path.read_text() == text
        foreign = served.client.post("/camera/yard", data=GATE, headers={"origin": "https://evil.example"})
        assert foreign.status_code == 403
        answer = served.send("/camera/yard", **GATE)
        assert (answer.status_code, answer.headers["location"]) == (303, "/camera/yard?written=yes")
        page = served.client.get(answer.headers["location"]).text
        assert str(path) in page
        assert 'points="0.1,0.5 0.4,0.5 0.4,0.9"' in page, "it is drawn"
        assert '<span class="badge c1">at the gate</span>' in page
        tried = served.client.get("/rules", params={"when": "nobody at the gate for 10 min"})
        assert "no place" not in tried.text
        assert tried.status_code == 200
    assert path.read_text() == text.replace("    url", f"    zones:\n      - {ZONE}\n    url")
    assert '"what":"configure"' in (house.state / "access.log").read_text()


def test_a_page_that_may_not_write_offers_to_copy(served):
    assert "Write to the file" not in served.client.get("/camera/yard").text
    assert served.send("/camera/yard", **GATE).status_code == 400


def test_a_configuration_from_a_pipe_is_kept(tmp_path):
    path = tmp_path / "pipe"
    path.write_text(HEAD + YARD)
    given = load_configuration(path)
    path.write_text("")  # what a pipe has when it is read again
    assert Cameras(path, given).configured() == given.cameras
