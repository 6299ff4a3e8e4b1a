"""Pictures, signatures and comparisons, from the configuration to `narrated verify`."""

import json
import shutil
import stat
from pathlib import Path

import cv2
import numpy as np
import pytest
from still import frame, pair

from daemon.config.plan import CameraPlan
from daemon.config.settings import EvidenceSettings
from daemon.threads.camera_narrator import EvidenceKeeper
from daemon.threads.narrator import Narrator
from daemon.threads.publication import JournalSigning
from daemon.threads.work_queue import Work
from models.captioner import Captioner
from pipeline.evidence import EvidenceStore
from pipeline.journal import Journal
from pipeline.journal.signatures import Signature, SigningKey, new_key
from pipeline.journal.verification import VerifyOptions, verify
from pipeline.record import Record, read_record


def proposed(second: float, *, comes: bool) -> Work:
    return Work(pair(second, comes=comes))


def tell(
    captioner: Captioner, folder: Path, keeper: EvidenceKeeper, settings: EvidenceSettings
) -> list[Record]:
    with Journal(folder / "journal", "room", fsync=False) as journal:
        plan = CameraPlan("room", "room.mp4", evidence=settings)
        narrator = Narrator(captioner, [plan], {"room": journal}, live=False, evidence=keeper)
        return [*narrator.process([proposed(0, comes=True), proposed(100, comes=False)])]


def test_the_pictures_are_those_of_the_pair(captioner, tmp_path):
    keeper = EvidenceKeeper(EvidenceStore(tmp_path / "evidence"))
    record, _ = tell(captioner, tmp_path, keeper, EvidenceSettings(keep="all"))
    assert keeper.kept == 2
    assert read_record(record.line()) == record
    paths = {side: keeper.store.find(reference) for side, reference in record.evidence}
    for side, box in (("before", False), ("after", True)):
        shown = cv2.cvtColor(cv2.imread(str(paths[side])), cv2.COLOR_BGR2RGB)
        assert shown.shape == (240, 320, 3)
        assert np.abs(shown.astype(float) - frame(0, box=box).image).mean() < 3
    assert cv2.imread(str(paths["overlay"])).shape[1] > 2 * 320
    assert verify([tmp_path / "journal"]).pictures == 4  # each frame is in both


@pytest.mark.parametrize(
    ("keep", "sides"), [("none", set()), ("frames", {"before", "after"}), ("overlay", {"overlay"})]
)
def test_only_what_is_wanted_is_kept(captioner, tmp_path, keep, sides):
    keeper = EvidenceKeeper(EvidenceStore(tmp_path / "evidence"))
    records = tell(captioner, tmp_path, keeper, EvidenceSettings(keep=keep))
    for record in records:
        assert set(json.loads(record.line()).get("evidence", ())) == sides
    assert (tmp_path / "evidence").exists() == bool(sides)
    assert verify([tmp_path]).ok


@pytest.mark.logs_errors
def test_a_disk_that_fails_costs_the_pictures_not_the_narration(captioner, tmp_path, caplog):
    evidence = tmp_path / "second" / "evidence"
    evidence.mkdir(parents=True)
    for number in range(256):
        (evidence / f"{number:02x}").write_text("a file is in the way")
    keeper = EvidenceKeeper(EvidenceStore(evidence))
    records = tell(captioner, tmp_path / "first", keeper, EvidenceSettings(keep="all"))
    assert [record.evidence for record in records] == [None, None]
    assert (keeper.kept, keeper.failed) == (0, 2)
    assert len([r for r in caplog.records if "cannot be stored" in r.message]) == 1
    shutil.rmtree(evidence)
    assert all(r.evidence for r in tell(captioner, tmp_path / "second", keeper, EvidenceSettings(keep="all")))
    assert (keeper.kept, keeper.failed, keeper.errors) == (2, 2, {})
    assert verify([tmp_path / "second"]).ok


def test_a_signed_live_run_tells_what_its_replay_tells(start, narrated, clip, checkpoint, tmp_path):
    made = narrated("verify", "--new-key", tmp_path / "key")
    assert made.code == 0, made.err
    public, private = made.out.strip(), (tmp_path / "key").read_text().strip()
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert narrated("verify", "--new-key", tmp_path / "key").code == 1  # a key is never overwritten
    process = start(f"  room: {{url: {clip}}}\n", more=f"signing: {{key: '${{file:{tmp_path}/key}}'}}\n")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert public in err
    assert private not in out + err
    state = tmp_path / "state"
    signed = narrated("verify", state, "--public-key", public, "--json")
    assert signed.code == 0, signed.err
    told = json.loads(signed.out)
    assert [(end["seq"], end["signed"]) for end in told["ends"]] == [(2, 2)]
    assert told["pictures"] == 4
    stranger = narrated("verify", state, "--public-key", SigningKey(new_key()).public)
    assert stranger.code == 1
    assert "room.signatures:1: signed with the key" in stranger.err

    config = ["-c", tmp_path / "narrated.yaml"]
    replay = ["replay", clip, *config, "--camera", "room", "--force", "--out", tmp_path / "told"]
    assert narrated(*replay).code == 0
    unlimited = narrated("verify", state, "--against", tmp_path / "told")
    assert unlimited.code == 1
    assert [line for line in unlimited.err.splitlines() if "--limits" in line] == unlimited.err.splitlines()
    assert narrated(*replay, "--limits").code == 0
    same = narrated("verify", state, "--against", tmp_path / "told")
    assert same.code == 0, same.err
    assert "room: 2 matching records" in same.out

    live, again = (
        [json.loads(line) for line in (folder / "journal" / "room.jsonl").read_bytes().splitlines()]
        for folder in (state, tmp_path / "told")
    )
    for record in (*live, *again):
        record.pop("latency_ms", None)
        del record["hash"], record["prev"]
    assert live == again  # the pictures, too

    journal = tmp_path / "told" / "journal" / "room.jsonl"
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    other = narrated("verify", state, "--against", tmp_path / "told")
    assert other.code == 1
    assert "only in" in other.err
    assert "The box is gone." in other.err
    journal.write_bytes(b"{}\n")
    damaged = narrated("verify", state, "--against", tmp_path / "told")
    assert (damaged.code, "room: 2 records" in damaged.out) == (1, True)
    assert "room.jsonl:1: the hash does not match" in damaged.err


@pytest.mark.logs_errors
def test_journals_are_signed_as_they_grow_and_failures_are_logged_once(captioner, tmp_path, caplog):
    key, signatures = SigningKey(new_key()), tmp_path / "room.signatures"
    with Journal(tmp_path, "room", fsync=False) as journal:
        signing = JournalSigning(key, {"room": journal})
        signing.loop.start()
        signing.sign()
        assert not signatures.exists()
        narrator = Narrator(captioner, [CameraPlan("room", "x")], {"room": journal}, live=False)
        narrator.process([proposed(0, comes=True)])
        signatures.mkdir()
        signing.sign()
        signing.sign()
        assert "room signed" in signing.errors
        assert len([r for r in caplog.records if "is not signed" in r.message]) == 1
        signatures.rmdir()
        signing.sign()
        signing.sign()
        assert not signing.errors
        JournalSigning(key, {"room": journal}).sign()  # after a restart
        narrator.process([proposed(100, comes=False)])
        assert signing.loop.end(20)
        assert len(signatures.read_text().splitlines()) == 2
        JournalSigning(another := SigningKey(new_key()), {"room": journal}).sign()
    found = verify([tmp_path], VerifyOptions(keys=[key.public, another.public]))
    assert found.ok
    assert [(signed.seq, len(signed.keys)) for signed in found.attested.values()] == [(2, 2)]
    with Journal(tmp_path, "room", fsync=False, hold=9) as journal:
        signing = JournalSigning(key, {"room": journal})
        signing.sign()
        for path in (journal.path, signatures):  # somebody moves both away, to begin anew
            path.rename(f"{path}.old")
        narrator = Narrator(captioner, [CameraPlan("room", "x")], {"room": journal}, live=False)
        narrator.process([proposed(200, comes=True)])
        signing.sign()
    assert [each.seq for each in Signature.load(tmp_path, "room")] == [1]
