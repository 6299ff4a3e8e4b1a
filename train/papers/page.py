"""A page of what a captioner says about random pairs, beside what changed in them, to be read by eye."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from models.captioner import Captioner
from pipeline.changes import find_changes
from pipeline.disk import replace_file
from pipeline.narration.narration import narrate
from pipeline.record import ChainEnd, build_record
from pipeline.report.card import SIDES, Card
from pipeline.report.pages import Head, data_url, records_page
from pipeline.report.picture import encode
from pipeline.sources.picture import shrink
from train.checkpoints import trained_changes
from train.frame_pairs import frame_pair
from train.samples import Sample, SampleError

_SEED = 1
_WIDTH = 600


def write_page(
    samples: Sequence[Sample], captioner: Captioner, path: Path, source: str, number: int = 100
) -> int:
    """Narrate `number` random pairs on a page that is one file; gives how many there are.

    Raises:
        SampleError: a picture cannot be read, or the page cannot be written.
    """
    order = np.random.default_rng(_SEED).permutation(len(samples))[:number].tolist()
    facts = [
        ("Captioner", f"{captioner.name} (sha256 {captioner.sha256})"),
        ("Pairs", f"{len(order)} of {len(samples)} of {source}, drawn with seed {_SEED}"),
    ]
    cards = _cards([samples[i] for i in order], captioner)
    try:
        page = "".join(records_page(Head("What it says, and what changed", facts), cards))
        replace_file(path, page.encode(), durable=False)
    except OSError as error:
        raise SampleError(f"{path} cannot be written ({error.strerror}); choose another --page") from error
    return len(order)


def _cards(samples: Sequence[Sample], captioner: Captioner) -> Iterator[Card]:
    changes = trained_changes(captioner)
    for sample in samples:
        pair = frame_pair(sample)
        (found,) = find_changes([pair], changes, captioner.salience)
        (narration,) = narrate([found], captioner)
        record = build_record(replace(narration, id=sample.id), ChainEnd())
        pictures: dict[str, str] = {
            side: data_url(encode(shrink(frame.image, _WIDTH)))
            for side, frame in zip(SIDES, (pair.before, pair.after), strict=True)
        }
        yield Card(record, pictures=pictures, notes=[f"Truth: {text}" for text in sample.sentences])
