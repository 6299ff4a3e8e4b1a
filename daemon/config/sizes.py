"""Sizes on the disk that carry their unit: ``500MB``, ``10GB``; decimal, as disks are sold.

Not pydantic's `ByteSize`: it reads 8.2GB as a byte less, takes a number without a unit, and writes 1.55GB as
1.6GB.
"""

from __future__ import annotations

import re

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
"""Bytes in each unit."""

SIZE_PATTERN = r"^\d+(\.\d+)?(B|kB|MB|GB|TB)$"


def parse_size(value: object) -> int:
    """Bytes of a size such as ``500MB`` or ``1.5GB``.

    Raises:
        ValueError: it has no unit, or is no size.
    """
    text = str(value).strip()
    if not re.match(SIZE_PATTERN, text):
        raise ValueError(f"{text!r} is not a size: write a number and its unit, such as 500MB or 10GB")
    number = text.rstrip("kMGTB")
    return round(float(number) * UNITS[text[len(number) :]])


def format_size(size: int) -> str:
    """The shortest exact spelling that `parse_size` reads back."""
    unit = next(unit for unit in ("TB", "GB", "MB", "kB", "B") if size % UNITS[unit] == 0 or unit == "B")
    return f"{size // UNITS[unit]}{unit if size else 'B'}"
