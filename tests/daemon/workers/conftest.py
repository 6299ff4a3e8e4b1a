"""A server where edges and workers meet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from workers_site import Site

from daemon.service.embedded_redis import EmbeddedServer


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with EmbeddedServer() as server:
        here = Site(server, tmp_path)
        try:
            yield here
        finally:
            here.end()
