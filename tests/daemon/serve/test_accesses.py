"""Who has looked at what on the page stands in the access log."""

import json
import re

import pytest
from houses import House
from serving_here import Served
from waiting import until

from daemon.serve.access import password_line
from pipeline.journal.access_log import FILE, verify_access

from .conftest import furnish

PASSWORD = "correct horse battery"


@pytest.fixture
def guarded(tmp_path):
    house = House(tmp_path / "state")
    furnish(house)
    (tmp_path / "passwords").write_text(password_line("anna", PASSWORD) + "\n")
    with Served(house, "--passwords", str(tmp_path / "passwords")) as running:
        yield house, running
    house.close()


def test_every_look_is_recorded_with_who_and_what(guarded) -> None:
    house, served = guarded
    record = house.records["yard"][0]
    assert served.client.post("/login", data={"name": "anna", "password": "wrong"}).status_code == 403
    assert served.client.post("/login", data={"name": "anna", "password": PASSWORD}).status_code == 303
    for path in (
        "/",
        "/digest?q=yesterday",
        "/review?object=person",
        f"/record/{record.id}",
        "/feed?seen=guessed",
        "/static/page.css",
    ):
        served.client.get(path)
    page = served.client.get("/").text
    house.tell(500)
    seen = re.search(r'data-seen="(.*?)"', page)[1]
    until(lambda: served.client.get(f"/feed?seen={seen}").status_code == 200)
    served.send(f"/record/{record.id}/note", text="seen")
    served.client.post("/logout")
    log = house.state / FILE
    until(lambda: b"logout" in log.read_bytes())
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert [(line["what"], line["detail"]) for line in lines] == [
        ("refused", ""),
        ("login", ""),
        ("view", "/"),
        ("query", "q=yesterday"),
        ("query", "object=person"),
        ("view", record.id),
        ("view", "/"),
        ("view", "/"),
        ("mark", f"{record.id}/note"),
        ("logout", ""),
    ]
    assert {line["who"] for line in lines} == {"anna"}
    assert PASSWORD not in log.read_text()
    assert verify_access(log)[0] == 10


def test_a_page_is_shown_where_its_access_cannot_be_recorded(guarded) -> None:
    house, served = guarded
    (house.state / FILE).write_text("somebody has changed this\n")
    served.client.post("/login", data={"name": "anna", "password": PASSWORD})
    assert served.client.get("/").status_code == 200
    assert "accesses are not recorded" in served.stop()
