"""The runs of a comparison, several at once: each in a process of its own, on one core or one GPU.

A run takes one thread of a CPU however many there are, so that its result depends neither on the machine nor
on how many run beside it. Features are computed before, by one process, and only read by the others.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.queues import Queue

import torch

from pipeline.machines import answer, connected, task
from train.learning.run_options import QUIET, Telling
from train.papers.comparison import CompareOptions, Shelf, chosen_rows, row_config, run_row, shelf_of
from train.papers.results import Result
from train.papers.suites import Suite, System

RUN_BYTES = 4 * 2**30
"""Memory that a run of the small size needs, at most."""

Told = tuple[Result, tuple[str, ...]]
"""A result, and the lines that the user should read."""


def fitting_workers(device: str) -> int:
    """How many runs fit beside each other: one for each GPU, or each core that has the memory for one.

    Args:
        device: torch device; one that names its GPU, like ``cuda:1``, is one.
    """
    if device.startswith("cuda"):
        return max(torch.cuda.device_count(), 1) if device == "cuda" else 1
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(min(len(os.sched_getaffinity(0)), free // RUN_BYTES), 1)


def compare_rows(
    suite: Suite, options: CompareOptions, *, telling: Telling = QUIET
) -> Iterator[tuple[Shelf, list[Result]]]:
    """Train and measure what is not done yet.

    Yields:
        After every seed all results so far, by seed and row, and what they were measured on.

    Raises:
        SampleError, FeatureError, ConfigError, TrainError: see their modules.
    """
    rows = chosen_rows(suite, options)
    shelf, results = shelf_of(suite, options, telling), list[Result]()
    tasks = [(row, seed) for seed in options.seeds for row in rows]
    if options.ray is not None:
        told = _on_cluster(suite, options, tasks, shelf)
    elif options.workers > 1 and len(tasks) > 1:
        told = _in_processes(suite, options, tasks, shelf)
    else:
        told = _here(suite, options, tasks, shelf, telling)
    telling.count("runs", 0, len(tasks))
    for result, notes in told:
        results.append(result)
        for note in notes:
            telling.note(note)
        telling.count("runs", len(results), len(tasks))
        if len(results) % len(rows) == 0:
            yield shelf, list(results)


def _here(
    suite: Suite, options: CompareOptions, tasks: list[tuple[System, int]], shelf: Shelf, telling: Telling
) -> Iterator[Told]:
    for row, seed in tasks:
        with _one_thread(options.device):
            result = run_row(suite, row, seed, options, shelf=shelf, telling=telling)
        yield result, ()


def _in_processes(
    suite: Suite, options: CompareOptions, tasks: list[tuple[System, int]], shelf: Shelf
) -> Iterator[Told]:
    _find_features(options, tasks, shelf)
    context = multiprocessing.get_context("spawn")  # a fork would take the threads' locks along
    devices: Queue[str] = context.Queue()
    for number in range(options.workers):
        devices.put(
            f"cuda:{number % torch.cuda.device_count()}" if options.device == "cuda" else options.device
        )
    start = (suite, options, devices)
    pool = ProcessPoolExecutor(options.workers, context, initializer=_start, initargs=start)
    try:
        for future in [pool.submit(_run, row, seed) for row, seed in tasks]:
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _on_cluster(
    suite: Suite, options: CompareOptions, tasks: list[tuple[System, int]], shelf: Shelf
) -> Iterator[Told]:
    _find_features(options, tasks, shelf)
    with connected(str(options.ray)) as ray:
        run = task(ray, _run_there, gpus=options.device.startswith("cuda"))
        for told in [run(suite, options, row, seed) for row, seed in tasks]:
            yield answer(ray, told)


def _find_features(options: CompareOptions, tasks: list[tuple[System, int]], shelf: Shelf) -> None:
    """Once, for all who read them."""
    from models import CAPTIONERS  # noqa: PLC0415 - the table of classes

    for row, seed in tasks:
        config = row_config(row, options, seed)
        shelf.splits(config, CAPTIONERS[config.captioner]())


_STARTED: list[tuple[Suite, CompareOptions, Shelf]] = []
"""What a process of the pool keeps from run to run."""


def end_with_parent() -> None:
    """This process ends as its parent does, be that killed: nobody waits for its runs any more."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def _start(suite: Suite, options: CompareOptions, devices: Queue[str]) -> None:
    end_with_parent()
    own = replace(options, device=devices.get(), bf16=options.half)
    _STARTED.append((suite, own, shelf_of(suite, own, QUIET)))


def _run_there(suite: Suite, options: CompareOptions, row: System, seed: int) -> Told:
    if not _STARTED:
        own = replace(options, bf16=options.half)
        _STARTED.append((suite, own, shelf_of(suite, own, QUIET)))
    return _run(row, seed)


def _run(row: System, seed: int) -> Told:
    suite, options, shelf = _STARTED[0]
    notes = list[str]()
    with _one_thread(options.device):
        result = run_row(suite, row, seed, options, shelf=shelf, telling=Telling(note=notes.append))
    return result, tuple(notes)


@contextmanager
def _one_thread(device: str) -> Iterator[None]:
    """As the head of this file has it; a GPU is fed by as many as before."""
    threads = torch.get_num_threads()
    if not device.startswith("cuda"):
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
