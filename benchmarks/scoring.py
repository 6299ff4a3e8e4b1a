"""The narration benchmark: what is said of its pairs, how right that is, and what confidence is worth."""

from __future__ import annotations

import importlib.util
import json
import math
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

SHARED = Path(__file__).resolve().parents[2] / "shared"
BENCH, DATA = SHARED / "bench", SHARED / "data"
LABELS = tuple(BENCH / "visible" / name for name in ("pairs.jsonl", "further.jsonl"))
STRICT = (BENCH / "visible" / "strict.jsonl",)
FOOTAGE = (DATA / "clips", DATA / "cameras" / "test")
SEEN = frozenset(("tfl_625", "intel_bottle-detection", "intel_one-by-one-person-detection"))
"""The benchmark's cameras on the training side; all others are for testing only."""

Pair = Mapping[str, Any]
Predictions = dict[str, list[dict[str, Any]]]
"""By a pair's id its sentences, as `score.py` takes them."""


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def write_lines(path: Path, values: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def unseen_pairs(labels: Sequence[Path] = LABELS) -> list[Pair]:
    return [pair for path in labels for pair in read_lines(path) if pair["camera"] not in SEEN]


def absent(labels: Sequence[Path] = LABELS) -> list[str]:
    wanted = (*labels, *FOOTAGE, BENCH / "score.py")
    return [str(path.relative_to(SHARED)) for path in wanted if not path.exists()]


def training_clip(camera: str, name: str) -> Path:
    """A clip of a training camera: in the camera's folder, or beside those of others; exits without it."""
    folders = (DATA / "cameras" / "train", DATA / "clips")
    places = [path for folder in folders for path in (folder / camera / name, folder / name)]
    found = next((path for path in places if path.exists()), None)
    return found or sys.exit(f"no training footage: {name} of {camera} is not in {folders[0]}")


def pictures(pairs: Sequence[Pair], folder: Path) -> dict[str, tuple[Path, Path]]:
    """By id the two pictures of each pair in `folder`, written unless they are there."""
    png = folder / "png"
    names = {p["id"]: (png / f"{p['id']}_before.png", png / f"{p['id']}_after.png") for p in pairs}
    if not all(path.exists() for both in names.values() for path in both):
        wanted = write_lines(folder / "pairs.jsonl", pairs)
        _script("extract.py", wanted, "--clips", *FOOTAGE, "--out", png)
    return names


def baseline(name: str, pairs: Sequence[Pair], folder: Path) -> Predictions:
    """What a baseline of the benchmark says; what `folder` has of these pairs is not made again."""
    out = folder / f"{name}.jsonl"
    ids = {pair["id"] for pair in pairs}
    if not out.exists() or not ids <= predictions(out).keys():
        weights = DATA / "weights" / "yolox_nano_416_coco.onnx"
        wanted = write_lines(folder / "pairs.jsonl", pairs)
        _script("baselines.py", name, wanted, "--out", out, "--clips", *FOOTAGE, "--weights", weights)
    return {name: said for name, said in predictions(out).items() if name in ids}


def described(
    pairs: Sequence[Pair], images: Mapping[str, tuple[Path, Path]], folder: Path, checkpoint: Path | None
) -> Predictions:
    """What `narrated describe --pairs` says; a gap that is not known is not given."""
    lines = []
    for pair in pairs:
        before, after = (str(path.resolve()) for path in images[pair["id"]])
        gap = {"gap_s": pair["gap_s"]} if pair.get("gap_s") is not None else {}
        lines.append({"id": pair["id"], "before": before, "after": after, **gap})
    wanted, out = write_lines(folder / "describe.jsonl", lines), folder / "narrated.jsonl"
    own = ["--captioner-file", checkpoint] if checkpoint else []
    command = [Path(sys.executable).with_name("narrated"), "describe", "--pairs", wanted, "--out", out, *own]
    subprocess.run([str(part) for part in command], check=True)
    return predictions(out)


def predictions(path: Path) -> Predictions:
    return {line["id"]: line["sentences"] for line in read_lines(path)}


def _script(name: str, *arguments: object) -> None:
    subprocess.run([sys.executable, str(BENCH / name), *map(str, arguments)], check=True)


KINDS = ("appeared", "disappeared", "moved")
LEAST_PAIRS = 10
BINS = 10

Verdict = tuple[float, bool]
"""Of one sentence: its confidence 0..1, and whether it is true."""


class Calibration(NamedTuple):
    """What confidence is worth."""

    sentences: int  # how many
    true: float  # their share that is true
    confidence: float  # their mean
    ece: float  # expected calibration error, ten bins of equal width
    auc: float  # chance that a true sentence has more confidence than a false one


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{BENCH / name}.py cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(pairs: Sequence[Pair], rows: Mapping[str, Predictions], *, strict: bool = False) -> str:
    """Tables in Markdown, a row a predictor: figures, what certain labels were told as, confidence.

    Args:
        pairs: with their labels.
        rows: by a predictor's name what it says of them.
        strict: the object counts as right only where its class is.

    What certain changes were told as is by `score.py`, a sentence each, plus what plural ones cover beside.
    """
    scorer = loaded("score")
    figures = [
        "| | F1 [95 %] | camera mean | worst scene, gap | precision | recall | false alarms | missed |",
        "|---" * 8 + "|",
    ]
    confusion = ["| changes that | told by | as appeared | as disappeared | as moved |", "|---" * 5 + "|"]
    confidence = [
        "| | sentences | fully right | mean confidence | ECE | AUC right against wrong |",
        "|---" * 6 + "|",
    ]
    for name, said in rows.items():
        found = scorer.evaluate(pairs, said, by="camera", strict=strict)
        low, high = found["ci95"]["FULL_F1"]
        cells = [f"{short(found['all']['FULL_F1'])} [{short(low)}, {short(high)}]"]
        cells += [short(found["camera mean FULL_F1"]), _worst(found["groups"])]
        cells += [short(found["all"][each]) for each in ("precision", "recall", "false alarms", "missed")]
        figures.append(f"| {name} | {' | '.join(cells)} |")
        together = covered(scorer, pairs, said)
        for kind in KINDS:
            names = [f"{kind} told as {other}" for other in KINDS]
            counts = (f"{found['counts'].get(n, 0)} + {together[n]}" for n in names)
            confusion.append(f"| {kind} | {name} | {' | '.join(map(str, counts))} |")
        judged = [v for pair in pairs for v in verdicts(scorer, pair, said.get(pair["id"], []))]
        if sure := calibration(judged):
            values = map(short, (sure.true, sure.confidence, sure.ece, sure.auc))
            confidence.append(f"| {name} | {sure.sentences} | {' | '.join(values)} |")
    return "\n".join([*figures, "", *confusion, "", *confidence])


def covered(scorer: ModuleType, pairs: Sequence[Pair], said: Predictions) -> Counter[str]:
    """Certain changes told by a sentence about several, beyond the one that `score.py` counts of each."""
    found = Counter[str]()
    for pair in pairs:
        claims = [{"claim": scorer.parse(s["text"]), "box": s.get("box")} for s in said.get(pair["id"], [])]
        claims = [each for each in claims if not each["claim"]["none"]]
        for sentence, (_, more) in zip(claims, scorer.assign(claims, pair["changes"]), strict=True):
            changes = [pair["changes"][k] for k in more]
            kind = sentence["claim"]["type"]
            found.update(f"{c['type']} told as {kind}" for c in changes if c.get("identity") != "unsure")
    return found


def verdicts(scorer: ModuleType, pair: Pair, sentences: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    """Whether each sentence that counts and has a confidence is fully right: type, object family, place."""
    said = [
        {"claim": scorer.parse(s["text"]), "box": s.get("box"), "confidence": s.get("confidence")}
        for s in sentences
    ]
    said = [sentence for sentence in said if not sentence["claim"]["none"]]
    judged = []
    for sentence, (label, _) in zip(said, scorer.assign(said, pair["changes"]), strict=True):
        box, claim = sentence["box"], sentence["claim"]
        if sentence["confidence"] is None:
            continue
        if label is None:
            if box is None or not any(scorer.inside(scorer.centre(box), r) for r in pair.get("ignore", [])):
                judged.append((sentence["confidence"], False))
            continue
        change = pair["changes"][label]
        right = scorer.type_ok(claim, change, box) and scorer.object_ok(claim, change)[1]
        judged.append((sentence["confidence"], bool(right and scorer.pos_strict(sentence, change))))
    return judged


def calibration(judged: Sequence[Verdict]) -> Calibration | None:
    """Whether confidence is a probability (ECE), and separates true from false (AUC; NaN without both)."""
    if not judged:
        return None
    bins: dict[int, list[Verdict]] = defaultdict(list)
    for confidence, true in judged:
        bins[min(int(confidence * BINS), BINS - 1)].append((confidence, true))
    off = [abs(sum(c - t for c, t in each)) for each in bins.values()]
    right = [c for c, true in judged if true]
    wrong = [c for c, true in judged if not true]
    above = sum((r > w) + (r == w) / 2 for r in right for w in wrong)
    return Calibration(
        len(judged),
        len(right) / len(judged),
        statistics.fmean(confidence for confidence, _ in judged),
        sum(off) / len(judged),
        above / (len(right) * len(wrong)) if right and wrong else float("nan"),
    )


def short(value: float) -> str:
    """Three decimals, without the leading zero."""
    return "-" if math.isnan(value) else f"{value:.3f}".removeprefix("0")


def _worst(groups: Mapping[str, Mapping[str, float]]) -> str:
    """The least F1 of a scene and gap with enough pairs to say something."""
    large = [
        (group["FULL_F1"], name.removeprefix("scene, gap: "))
        for name, group in groups.items()
        if name.startswith("scene, gap: ") and group["pairs"] >= LEAST_PAIRS and group["FULL_F1"] >= 0
    ]
    return f"{short(min(large)[0])} ({min(large)[1]})" if large else "-"
