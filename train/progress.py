"""Callbacks of progress."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]  # what is done, how much of it, and how much there is
Count = Callable[[int, int], None]  # called with how much is done, and how much there is
