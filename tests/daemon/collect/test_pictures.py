"""Pictures, fetched from real pages of `narrated serve`."""

import logging

import pytest
from houses import House
from raw_server import raw_server
from running_daemon import unused_port
from serving_here import Served
from waiting import LIMIT_S, until

from daemon.collect.collector import PictureFetcher, PictureSource, PictureSourceError
from daemon.serve.access import password_line
from pipeline.evidence import EvidenceStore

PASSWORD = "correct horse: b@ttery"
QUOTED = "correct%20horse%3A%20b%40ttery"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    made = House(tmp_path_factory.mktemp("house") / "state")
    for second in range(3):
        made.tell(second, evidence=made.pictures(second))
    yield made
    made.close()


@pytest.fixture(scope="module")
def guarded(house):
    """A page that asks for a password."""
    passwords = house.state / "passwords"
    passwords.write_text(password_line("anna", PASSWORD) + "\n")
    with Served(house, "--passwords", str(passwords)) as running:
        yield running


@pytest.fixture
def there(guarded):
    """The page's address with the password in it."""
    return guarded.url.replace("://", f"://anna:{QUOTED}@")


def pictures(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*/*")}


def fetcher(tmp_path, *urls):
    return PictureFetcher(EvidenceStore(tmp_path / "evidence"), [PictureSource(url) for url in urls])


def test_pictures_are_fetched_with_a_login(house, there, tmp_path):
    fetching = fetcher(tmp_path, there)
    fetching.want(house.records["yard"][0].line())
    fetching.loop.start()
    until(lambda: not fetching.wanted)
    fetching.loop.stop()
    assert fetching.loop.join(LIMIT_S)
    restarted = fetcher(tmp_path, there)
    restarted.want_missing(house.folder)  # of recent journals
    restarted.fetch_wanted()
    assert (restarted.fetched, restarted.wanted, restarted.missing) == (4, 0, 0)
    assert pictures(tmp_path / "evidence") == pictures(house.state / "evidence")


def test_a_wrong_password_is_told_without_it(house, guarded):
    source = PictureSource(guarded.url.replace("://", "://anna:wrong-word@"))
    digest = house.records["yard"][0].evidence.before.removeprefix("sha256:")
    with pytest.raises(PictureSourceError, match="403") as refused:
        source.fetch(digest)
    assert "wrong-word" not in str(refused.value)


def test_a_page_that_is_away_does_not_hide_another(house, there, tmp_path, caplog):
    away = f"http://127.0.0.1:{unused_port()}"
    fetching = fetcher(tmp_path, away, there)
    with caplog.at_level(logging.WARNING):
        fetching.want(house.records["yard"][0].line())
        fetching.fetch_wanted()
    assert (fetching.fetched, fetching.wanted) == (2, 0)
    assert caplog.text.count(away) == 1


def test_what_no_page_has_is_given_up_unless_one_is_away(house, there, tmp_path):
    record = house.records["yard"][0]
    gone = record.evidence.model_copy(update={"before": "sha256:" + "0" * 64, "after": None})
    unknown, away = record.model_copy(update={"evidence": gone}), f"http://127.0.0.1:{unused_port()}"
    for urls, counts in (((there,), (1, 0)), ((there, away), (0, 1))):
        fetching = fetcher(tmp_path, *urls)
        fetching.want(unknown.line())
        fetching.fetch_wanted()
        assert (fetching.missing, fetching.wanted) == counts


@pytest.mark.parametrize(
    "response", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\npart of it"]
)
def test_what_broke_off_is_asked_for_again(house, tmp_path, response):
    with raw_server(response) as url:
        fetching = fetcher(tmp_path, url)
        fetching.want(house.records["yard"][0].line())
        fetching.fetch_wanted()
    assert (fetching.fetched, fetching.wanted, fetching.missing) == (0, 2, 0)


def test_of_what_is_too_long_for_a_picture_no_more_is_read(monkeypatch):
    monkeypatch.setattr("daemon.collect.collector._LARGEST_BYTES", 4)
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"
    with raw_server(whole) as url, pytest.raises(PictureSourceError, match="4 bytes read, 6 more expected"):
        PictureSource(url).fetch("0" * 64)


def test_a_password_is_not_for_whom_a_page_redirects_to(house):
    here, there = list[bytes](), list[bytes]()
    with raw_server(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", there) as elsewhere:
        redirect = f"HTTP/1.1 302 Found\r\nLocation: {elsewhere}/\r\nContent-Length: 0\r\n\r\n"
        with raw_server(redirect.encode(), here) as url:
            assert PictureSource(url.replace("://", f"://anna:{QUOTED}@")).fetch("0" * 64) is None
    assert [b"authorization: basic" in asked[0].lower() for asked in (here, there)] == [True, False]


def test_other_bytes_than_the_record_names_are_never_stored(house, there):
    record = house.records["yard"][1]
    digest = record.evidence.before.removeprefix("sha256:")
    path = house.state / "evidence" / digest[:2] / f"{digest}.jpg"
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:-9])
        assert PictureSource(there).fetch(digest) is None
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "edge:8080", "ftp://edge", "http://"])
def test_only_addresses_of_pages_are_taken(url):
    with pytest.raises(ValueError, match="write the address of a page"):
        PictureSource(url)
