r"""Does `narrated-train score` say what the field's own scorer says of the same two files?

    python benchmarks/field_scores.py REFERENCES PREDICTIONS

The files are those that `score` takes. What Spot-the-diff's authors released of DDLA's test set is
code/predictions/ddla_rerun_gtfile.json and ddla_rerun_predfile.json in their repository. Needs Java.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer
from rich.console import Console
from rich.table import Table

from train.metrics.caption_files import read_captions
from train.metrics.file_scores import score_files


def theirs(references: Path, predictions: Path) -> dict[str, float]:
    """The figures of pycocoevalcap."""
    gold, said = (
        {name: [{"caption": text} for text in texts] for name, texts in read_captions(path).texts.items()}
        for path in (references, predictions)
    )
    tokenizer = PTBTokenizer()
    texts = tokenizer.tokenize(gold), tokenizer.tokenize(said)
    bleu, _ = Bleu(4).compute_score(*texts, verbose=0)
    further = {"ROUGE-L": Rouge(), "CIDEr": Cider(), "METEOR": Meteor()}
    found = {name: float(scorer.compute_score(*texts)[0]) for name, scorer in further.items()}
    return {f"BLEU-{n}": float(value) for n, value in enumerate(bleu, start=1)} | found


def main() -> None:
    """Score the files both ways, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("references", type=Path)
    parser.add_argument("predictions", type=Path)
    files = parser.parse_args()
    row = score_files(files.references, files.predictions).rows[0]
    ours = {f"BLEU-{n}": value for n, value in enumerate(row.scores.bleu, start=1)}
    ours |= {"ROUGE-L": row.scores.rouge_l, "CIDEr": row.scores.cider}
    ours |= {} if row.meteor is None else {"METEOR": row.meteor}
    table = Table("", f"score, {row.scores.pairs} pairs", "pycocoevalcap", "difference")
    for name, value in theirs(files.references, files.predictions).items():
        own = ours.get(name)
        cells = ("-", "-") if own is None else (f"{own:.6f}", f"{own - value:.1e}")
        table.add_row(name, cells[0], f"{value:.6f}", cells[1])
    Console().print(table)


if __name__ == "__main__":
    main()
