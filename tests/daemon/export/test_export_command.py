"""What `narrated export` writes, and what `narrated verify` finds in it and says of it."""

import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import av
import numpy as np
import pytest
from time_stamps import make_authority, serve_authority

from daemon import cli
from daemon.export.clips import Footage, Mask
from daemon.export.export import Export, Manifest
from daemon.questions.question import Filters, LocalTime, Measure, Question
from daemon.search.search import Search
from pipeline.journal import read_camera
from pipeline.journal.custody import record_access, verify_access
from pipeline.journal.signatures import request_timestamp
from pipeline.record_format import ACCESS_LOG
from pipeline.sources.frame import rgb_of

from .conftest import House

PERSONS = ("people",)
"""Records 3, 6 and 9 of the yard."""


def verify(path: Path, *options: str) -> int:
    return cli.main(["verify", str(path), *options])


@pytest.fixture(scope="module")
def exported(house, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("exports") / "persons"
    assert house.export(out, *PERSONS, "--clips", str(house.clip)) == 0
    return out


@pytest.fixture
def copy(exported, tmp_path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "copy"))


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_an_export_holds_what_was_selected_and_nothing_else(house, exported):
    records = [json.loads(line) for line in (exported / "records.jsonl").read_bytes().splitlines()]
    assert [(r["camera"], r["seq"]) for r in records] == [("yard", 3), ("yard", 6), ("yard", 9)]
    lines = b"".join(path.read_bytes() for path in sorted(house.journals.glob("yard*.jsonl")))
    assert all(line + b"\n" in lines for line in (exported / "chain/yard.jsonl").read_bytes().splitlines())
    named = {digest[7:] for r in records for digest in r["evidence"].values()}
    assert {path.stem for path in (exported / "pictures").iterdir()} == named
    assert [name for name in files(exported) if name.startswith("clips/")] == [
        f"clips/yard-{n}.mp4" for n in (3, 6, 9)
    ]
    page = (exported / "index.html").read_text(encoding="utf-8")
    sources = re.findall(r'src="([^"]+)"', page)
    assert len(sources) == 9  # before, after and the recording
    assert page.count('<article class="card"') == 3
    assert all((exported / source).is_file() for source in sources)
    assert not re.search(r"https?:", page)
    for name in files(exported):  # no path of the machine
        assert str(house.state.parent).encode() not in (exported / name).read_bytes(), name
    access = json.loads((house.state / ACCESS_LOG).read_bytes().splitlines()[0])
    assert (access["what"], access["detail"]) == ("export", f"People to {exported}")
    assert access["who"]


def test_recordings_are_copied_not_encoded(house, exported):
    def packets(path: Path) -> list[bytes]:
        with av.open(str(path)) as container:
            return [bytes(packet) for packet in container.demux(video=0) if packet.size]

    whole = packets(house.clip)
    cut = packets(exported / "clips/yard-6.mp4")
    assert cut
    assert all(packet in whole for packet in cut)
    clips = json.loads((exported / "export.json").read_bytes())["clips"]
    assert clips["clips/yard-6.mp4"] == {"camera": "yard", "record": 6, "source": "yard.mp4"}
    digest = json.loads((exported / "records.jsonl").read_bytes().splitlines()[1])["after"]["sha256"]
    with av.open(str(exported / "clips/yard-6.mp4")) as container:
        frames = [rgb_of(frame) for frame in container.decode(video=0)]
    assert digest in [hashlib.sha256(np.ascontiguousarray(frame).data).hexdigest() for frame in frames]


def test_a_folder_and_a_zip_verify_and_say_what_they_prove(house, exported, tmp_path, capsys):
    out = tmp_path / "persons.zip"
    assert house.export(out, *PERSONS, "--clips", str(house.clip)) == 0
    told = capsys.readouterr().out
    for path in (exported, out):
        assert verify(path) == 0
        said = capsys.readouterr().out
        assert "yard: records 3, 6, 9: none of them signed" in said
        assert "2 gaps: nothing shows what lies between" in said
        assert "3 could have been rewritten" in said
        assert "3 records, 6 pictures, 3 recordings" in said
    assert house.export(out.parent / "nope" / "x.zip", *PERSONS) == 1
    assert not (out.parent / "nope").exists()
    (noted,) = re.findall(r"checksum of the whole export: ([0-9a-f]{64})", told)
    assert noted in said
    assert verify(out, "--json") == 0
    (member,) = json.loads(capsys.readouterr().out)["exports"]
    assert (member["records"], member["pictures"], member["sum"]) == (3, 6, noted)


def test_linked_records_are_one_piece_up_to_a_signature(house, tmp_path, capsys):
    out = tmp_path / "linked"
    assert house.export(out, *PERSONS, "--until", "2024-05-01T12:00:07", "--linked") == 0
    assert verify(out, "--public-key", house.key) == 0
    said = capsys.readouterr().out
    assert "yard: records 3-8: 6 of 6 signed" in said
    assert "gaps" not in said
    assert "could have been rewritten" not in said
    assert len((out / "records.jsonl").read_bytes().splitlines()) == 2
    assert len(list((out / "pictures").iterdir())) == 4  # of the records that were asked for alone
    assert verify(out, "--public-key", "0" * 64) == 1
    assert "not among the keys given" in capsys.readouterr().err
    signature = recipes(out)[3]
    assert "Verified Successfully" in shell(out, signature).stdout
    path = out / "chain/yard.signatures"
    path.write_bytes(path.read_bytes().replace(b'"seq":4', b'"seq":5'))
    assert "Verified Successfully" not in shell(out, signature).stdout


def test_any_changed_byte_of_any_file_is_found(exported, copy, capsys):
    chance = random.Random(1)
    for name in files(exported):
        content = (exported / name).read_bytes()
        changed = bytearray(content)
        changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        (copy / name).write_bytes(changed)
        assert verify(copy) == 1, name
        assert name in capsys.readouterr().err or name == "SHA256SUMS"
        (copy / name).write_bytes(content)
    assert verify(copy) == 0


def resum(folder: Path) -> None:
    """What somebody does who changes a file and knows of the sums."""
    lines = [
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
        for name in files(folder)
        if name != "SHA256SUMS"
    ]
    (folder / "SHA256SUMS").write_text("".join(lines))


@pytest.mark.parametrize("name", ["records.jsonl", "chain/yard.jsonl", "pictures"])
def test_a_change_is_found_though_the_sums_were_made_anew(copy, name, capsys):
    path = copy / name
    path = min(path.iterdir()) if path.is_dir() else path
    path.write_bytes(path.read_bytes().replace(b"person", b"lorry.").replace(b"picture", b"PICTURE"))
    resum(copy)
    assert verify(copy) == 1
    assert path.name in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["missing", "more", "link", "twice", "cut"])
def test_files_that_are_missing_or_were_put_in_are_found(copy, tmp_path, kind, capsys):
    path = copy
    if kind == "missing":
        min((copy / "pictures").iterdir()).unlink()
    elif kind == "more":
        (copy / "pictures" / "another.jpg").write_bytes(b"x")
    elif kind == "link":
        (copy / "link").symlink_to("/etc/hostname")
    else:
        path = tmp_path / "twice.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name in files(copy):
                archive.write(copy / name, name)
            with pytest.warns(UserWarning, match="Duplicate"):
                archive.write(copy / "records.jsonl", "records.jsonl")
        if kind == "cut":
            path.write_bytes(path.read_bytes()[:-1000])
    assert verify(path) == 1
    assert re.search(r"missing|put in|link|twice|copy it again", capsys.readouterr().err)


def recipes(folder: Path) -> list[str]:
    """The shell commands of an export's README, one after the other, for the yard."""
    text = (folder / "README.md").read_text(encoding="utf-8").replace("CAMERA", "yard")
    return [
        "\n".join(block.split("\n    "))
        for block in re.findall(r"^    ((?:.+\n(?:    )?)+)$", text, re.MULTILINE)
    ]


def shell(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)


def test_the_readmes_recipes_hold_and_find_a_change(copy):
    """Without a line of ours: what the README tells to type is typed."""
    sums, check, record, *_ = recipes(copy)
    assert sums.startswith("sha256sum -c")
    assert shell(copy, sums).returncode == 0
    found, stated = shell(copy, record).stdout.splitlines()
    assert found.split()[0] == stated
    assert check.strip() == "python3 check.py"
    whole = shell(copy, check.replace("python3", sys.executable))
    assert (whole.returncode, whole.stdout) == (0, "all holds\n")
    chain = copy / "chain/yard.jsonl"
    chain.write_bytes(chain.read_bytes().replace(b"person", b"lorry."))
    assert shell(copy, sums).returncode != 0
    resum(copy)
    found, stated = shell(copy, record).stdout.splitlines()
    assert found.split()[0] != stated
    changed = shell(copy, check.replace("python3", sys.executable))
    assert changed.returncode == 1
    assert "record 3 was changed" in changed.stdout
    assert "is in no chain" in changed.stdout


def test_footage_of_another_time_or_camera_gives_no_recording(house, tmp_path, capsys):
    for name in ("gate/2024-05-01_12", "yard/2024-05-01_18", "yard/2024-05-01_19"):
        path = tmp_path / f"{name}-00-00.mp4"
        path.parent.mkdir(exist_ok=True)
        shutil.copy(house.clip, path)
        os.utime(path, (0, 0))
    assert house.export(tmp_path / "out", *PERSONS, "--clips", str(tmp_path)) == 0
    assert "3 without a recording: no recording of yard covers that time" in capsys.readouterr().err
    assert not (tmp_path / "out" / "clips").exists()


@pytest.mark.parametrize("suffix", ["mkv", "ts"])
@pytest.mark.parametrize("mask", [Mask(), Mask(areas={"yard": [((0.0, 0.0), (0.1, 0.0), (0.1, 0.1))]})])
def test_a_recording_begins_before_what_is_told(house, tmp_path, suffix, mask):
    """Matroska gives no dts of the first packets behind a keyframe, a seek in MPEG-TS ends behind it."""
    recorder = tmp_path / "yard" / f"2024-05-01_12-00-00.{suffix}"
    recorder.parent.mkdir()
    with av.open(str(house.clip)) as clip, av.open(str(recorder), "w") as file:
        stream = file.add_stream("libx264", rate=4, options={"g": "20", "bf": "2"})
        stream.width, stream.height, stream.pix_fmt = 256, 192, "yuv420p"
        for frame in clip.decode(video=0):
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    for record in read_camera(house.journals, "yard"):
        cut = Footage([str(tmp_path)], LocalTime.named("UTC")).cut(record, tmp_path, mask)
        assert not isinstance(cut, str), record.seq
        with av.open(str(cut[0])) as container:
            frames = sum(1 for _ in container.decode(video=0))
        told = 4 * min(record.seq, 3 + 1) + 1  # from 3 s before the before frame on
        assert frames >= told, record.seq


def test_a_recording_of_a_live_camera_is_found_by_its_clock(house, tmp_path):
    """Stamps differ there: the time in the file's name counts."""
    recorder = tmp_path / "yard" / "2024-05-01_12-00-01.mp4"
    recorder.parent.mkdir()
    shutil.copy(house.clip, recorder)
    with Search(house.journals, LocalTime.named("UTC")) as search:
        search.index.update()
        (found,) = search.answer(Question(Filters(cameras=("yard",)), measure=Measure("last"))).results
    after = found.record.after.model_copy(update={"pts": 7})
    live = found.record.model_copy(update={"clock": "rtcp", "after": after})
    cut = Footage([str(tmp_path)], LocalTime.named("UTC")).cut(live, tmp_path, Mask())
    assert not isinstance(cut, str)
    assert cut[1] == recorder.name
    with av.open(str(cut[0])) as container:
        assert container.duration
        assert container.duration / 1e6 > 3


@pytest.fixture
def own(house, tmp_path) -> House:
    """A copy, whose files a test may change."""
    return House(Path(shutil.copytree(house.state, tmp_path / "state")), house.clip, house.key)


def test_pictures_that_retention_deleted_are_told(own, tmp_path, capsys):
    gone = json.loads((own.journals / "yard.jsonl").read_bytes().splitlines()[-1])["evidence"]["after"][7:]
    path, out = next((own.state / "evidence").rglob(f"{gone}*")), tmp_path / "out"
    path.unlink()
    path.symlink_to(path)  # as a picture on a disk that fails, it is not gone, and cannot be opened
    assert own.export(out, "--camera", "yard") == 1
    assert f"symbolic links: '{path}'" in capsys.readouterr().err
    path.unlink()
    assert own.export(out, "--camera", "yard") == 0
    assert "1 picture not there" in capsys.readouterr().err
    assert gone in json.loads((out / "export.json").read_bytes())["gone"]
    assert verify(out) == 0


def test_a_journal_that_was_changed_is_exported_and_named(own, tmp_path, capsys):
    path, out = own.journals / "gate.jsonl", tmp_path / "out"
    path.write_bytes(path.read_bytes().replace(b"A car", b"A cat", 1))
    assert own.export(out, "--camera", "gate") == 3
    assert "gate, record 1: does not verify: the line was changed" in capsys.readouterr().err
    assert verify(out) == 1
    assert "chain/gate.jsonl: record 1 was changed" in capsys.readouterr().err


def test_a_line_that_is_no_record_does_not_keep_the_others_from_an_export(own, tmp_path, capsys):
    path, out = own.journals / "yard.000000000004.jsonl", tmp_path / "out"
    first, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([b"no record\n", *others]))
    assert own.export(out, "--camera", "yard", "--linked") == 0
    assert "yard.000000000004.jsonl:1: no record" in capsys.readouterr().err
    assert verify(out) == 0
    assert "yard: records 1-3, 5-10: 4 of 9 signed" in capsys.readouterr().out
    assert first not in (out / "chain/yard.jsonl").read_bytes()


def test_what_is_there_is_not_replaced_unasked_and_nothing_is_left_half(house, tmp_path, capsys):
    out = tmp_path / "out.zip"
    assert house.export(out, *PERSONS) == 0
    whole = out.read_bytes()
    assert house.export(out, "--camera", "gate") == 1
    assert "--force" in capsys.readouterr().err
    assert out.read_bytes() == whole
    assert house.export(out, "--camera", "gate", "--force") == 0
    assert out.read_bytes() != whole
    assert verify(out) == 0

    def found():
        raise RuntimeError("the disk went")
        yield

    for name in ("out.zip", "folder"):
        with pytest.raises(RuntimeError):
            Export(Manifest(), house.journals).write(found(), tmp_path / name, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.zip"]
    assert verify(out) == 0


def test_a_zip_that_is_replaced_is_there_all_the_time(house, tmp_path):
    out, there = tmp_path / "out.zip", set[bool]()
    assert house.export(out, *PERSONS) == 0
    sys.setprofile(lambda _frame, event, _arg: there.add(out.exists()) if event == "c_return" else None)
    try:
        assert house.export(out, "--camera", "gate", "--force") == 0
    finally:
        sys.setprofile(None)
    assert there == {True}


def test_only_an_export_is_replaced(house, tmp_path, capsys):
    """A folder of exports, say, that was meant to get another one, or a zip of somebody's photographs."""
    mine = tmp_path / "exports" / "photos.zip"
    mine.parent.mkdir()
    with zipfile.ZipFile(mine, "w") as archive:
        archive.writestr("cat.jpg", "a cat")
    content = mine.read_bytes()
    for taken in (mine.parent, mine):
        assert house.export(taken, *PERSONS, "--force") == 1
        assert f"{taken.name} is not an export, and is not replaced" in capsys.readouterr().err
    assert mine.read_bytes() == content
    out = mine.parent / "case8"
    for options in ([], ["--force"]):
        assert house.export(out, *PERSONS, *options) == 0
    assert verify(out) == 0


def test_names_need_not_be_utf8(house, tmp_path):
    """Those of a recorder, say."""
    recorded, out = (tmp_path / os.fsdecode(name) for name in (b"caf\xe9.mp4", b"caf\xe9.zip"))
    shutil.copy(house.clip, recorded)
    assert house.export(out, *PERSONS, "--clips", f"yard={recorded}", "--json") == 0
    assert verify(out) == 0


def test_what_cannot_be_exported_is_said(house, tmp_path, capsys):
    out = tmp_path / "out"
    assert house.export(out, "dogs") == 2
    assert house.export(out, "how many cars by hour") == 2
    assert "counts cannot be exported" in capsys.readouterr().err
    assert house.export(out, "--clips", str(tmp_path / "nowhere")) == 1
    assert not out.exists()


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl")
def test_time_stamps_go_with_the_records_and_openssl_checks_them(house, own, tmp_path, capsys):
    authority, out = make_authority(tmp_path / "authority"), tmp_path / "linked"
    records = {record.seq: record for record in read_camera(own.journals, "yard")}
    with serve_authority(authority.parent) as url:
        request_timestamp(url, records[9]).append(own.journals)
    assert own.export(out, *PERSONS, "--until", "2024-05-01T12:00:07", "--linked") == 0
    assert json.loads((out / "export.json").read_bytes())["chains"]["yard"]["pieces"] == [[3, 9]]
    assert verify(out, "--timestamp-ca", str(authority)) == 0
    check = [sys.executable, out / "check.py", authority]
    assert subprocess.run(check, capture_output=True, text=True, check=False).stdout == "all holds\n"
    other = make_authority(tmp_path / "other")
    refused = subprocess.run([*check[:2], other], capture_output=True, text=True, check=False)
    assert "does not hold" in refused.stdout
    path = out / "chain/yard.timestamps"
    path.write_bytes(path.read_bytes().replace(b'"seq":9', b'"seq":8'))
    resum(out)
    capsys.readouterr()
    assert verify(out, "--timestamp-ca", str(authority)) == 1
    assert "record 8 is not the one that was stamped" in capsys.readouterr().err
    path.unlink()
    resum(out)
    assert verify(out, "--timestamp-ca", str(authority)) == 1
    assert "no time stamp covers these records" in capsys.readouterr().err
    for journals, code in ((house.journals, 1), (own.journals / "yard.jsonl", 0)):
        assert verify(journals, "--timestamp-ca", str(authority)) == code
    assert "yard.timestamps: no time stamp" in capsys.readouterr().err


def test_mistakes_in_what_was_noted_are_told(house, tmp_path, capsys):
    (tmp_path / "none.pem").write_text("no certificate")
    assert verify(house.journals, "--head", "cafe") == 2
    assert verify(house.journals, "--timestamp-ca", str(tmp_path / "none.pem")) == 2
    assert "--timestamp-ca" in capsys.readouterr().err
    assert verify(house.journals, "--head", "0" * 64) == 1
    assert "was noted" in capsys.readouterr().err
    log = tmp_path / ACCESS_LOG
    for name in ("anna", "ben"):
        record_access(log, "view", who=name, address="local")
    noted = "--head", verify_access(log)[-1]
    assert verify(log, *noted) == 0
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    assert verify(log, *noted) == 1
    assert "was noted" in capsys.readouterr().err
    assert verify(log, "--public-key", "0" * 64) == 2
