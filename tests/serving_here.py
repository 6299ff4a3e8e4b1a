"""`narrated serve` in a process of its own."""

import os
import re
import ssl
import subprocess
from typing import Any, Self

import httpx
from forked_commands import forker
from houses import House
from waiting import LIMIT_S

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to read the authorities takes longer than a page


class Served:
    """`narrated serve`, until the context ends.

    Attributes:
        url: of the page, without a slash at its end.
        client: keeps cookies, follows no redirect.
    """

    def __init__(self, house: House, *options: str) -> None:
        command = ["serve", "--journal", house.state, "--timezone", "UTC", *options]
        where = [] if "--config" in options else ["--listen", "127.0.0.1:0"]
        ours, theirs = os.pipe()
        self.process = forker().start([*command, *where], house.state, err=theirs)
        os.close(theirs)
        self._log = open(ours)  # noqa: PTH123, SIM115 - a descriptor, read until `stop`
        self.said = ""
        while (address := re.search(r"(https?://\S+):(\d+)/", self.said)) is None:
            line = self._log.readline()  # warnings come first
            self.said += line
            if not line:
                break
        if address is None:
            self.process.kill()
            raise AssertionError(self.said + self._rest())
        self.port = int(address[2])
        self.url = f"{address[1].replace('0.0.0.0', '127.0.0.1')}:{self.port}"
        self.client = self.fresh_client()

    def fresh_client(self, **more: Any) -> httpx.Client:
        own = {"headers": {"accept": "text/html"}, "trust_env": False, "timeout": LIMIT_S, "verify": NO_TLS}
        return httpx.Client(base_url=self.url, **own, **more)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> str:
        """End it; what it logged."""
        self.client.close()
        self.process.terminate()
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("it did not end: " + self._rest()) from None
        return self._rest()

    def _rest(self) -> str:
        """What it logged since."""
        if self._log.closed:
            return ""
        with self._log:
            return self._log.read()

    def send(self, path: str, **form: str) -> httpx.Response:
        """A form of a record's page."""
        return self.client.post(path, data=form)
