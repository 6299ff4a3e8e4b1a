"""Training: footage in, samples and checkpoints out."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]  # called with what is done, how much of it, and how much there is
