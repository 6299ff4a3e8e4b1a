"""Which files of a folder are journals, and which folder is meant."""

from __future__ import annotations

from daemon.questions.local_time import LocalTime
from daemon.search.folders import default_state, journal_folder
from daemon.search.search import Search

UTC_ZONE = LocalTime.named("UTC")


def test_copies_and_merged_files_are_left_out(house):
    for camera in ("front", "yard"):
        house.tell(0, camera=camera)
        house.tell(1, camera=camera)
    content = {camera: (house.folder / f"{camera}.jsonl").read_bytes() for camera in ("front", "yard")}
    (house.folder / "narrations.jsonl").write_bytes(content["yard"] + content["front"])
    (house.folder / "zz_backup.jsonl").write_bytes(content["yard"])
    with Search(house.folder, UTC_ZONE) as search:
        update = search.index.update()
        assert update.records == 4
        assert set(update.left_out) == {"narrations.jsonl", "zz_backup.jsonl"}


def test_a_replays_folder_and_a_merged_file_alone(house, tmp_path):
    for camera in ("front", "yard"):
        for second in range(3):
            house.tell(second, camera=camera)
    assert journal_folder(house.state) == house.folder
    out = tmp_path / "copied"
    out.mkdir()
    content = b"".join((house.folder / f"{camera}.jsonl").read_bytes() for camera in ("front", "yard"))
    (out / "narrations.jsonl").write_bytes(content)
    with Search(journal_folder(out), UTC_ZONE) as search:
        assert search.index.update().records == 6
        assert search.index.faults() == []
        assert search.selection.cameras() == ["front", "yard"]


def test_the_installed_state_is_asked_where_the_user_has_none(tmp_path, monkeypatch):
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    installed = tmp_path / "installed"
    (installed / "journal").mkdir(parents=True)
    monkeypatch.setattr("daemon.search.folders.INSTALLED", installed)
    assert default_state(tmp_path / "mine") == installed
    (tmp_path / "mine" / "journal").mkdir(parents=True)
    assert default_state(tmp_path / "mine") == tmp_path / "mine"
