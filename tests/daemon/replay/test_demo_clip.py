"""The demo's clip is the right one, or there is a message that says what to do."""

import shutil

import pytest
from raw_server import raw_server

from daemon.replay import demo


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), (b"<html>", "sha256 differs")])
def test_a_failed_download_leaves_nothing(tmp_path, monkeypatch, content, reason):
    mirror, cache = tmp_path / "mirror.avi", tmp_path / "cache"
    if content is not None:
        mirror.write_bytes(content)
    monkeypatch.setattr(demo, "CLIP_URL", mirror.as_uri())
    with pytest.raises(demo.ReplayError, match=f"{reason}.*VIDEO="):
        demo.demo_clip(cache)
    assert list(cache.iterdir()) == []


def test_what_is_no_web_server_is_told_likewise(tmp_path, monkeypatch):
    with raw_server(b"SSH-2.0-OpenSSH_9.2\r\n") as url:
        monkeypatch.setattr(demo, "CLIP_URL", url)
        with pytest.raises(demo.ReplayError, match=r"SSH-2\.0.*VIDEO="):
            demo.demo_clip(tmp_path)


def test_a_damaged_clip_is_downloaded_again_and_kept(tmp_path, clips, monkeypatch):
    mirror, clip = tmp_path / "mirror.avi", tmp_path / demo.CLIP_NAME
    shutil.copyfile(clips / "opencv_vtest.avi", mirror)
    clip.write_bytes(b"half a file")
    monkeypatch.setattr(demo, "CLIP_URL", mirror.as_uri())
    assert demo.demo_clip(tmp_path) == clip
    mirror.unlink()
    assert demo.demo_clip(tmp_path) == clip
