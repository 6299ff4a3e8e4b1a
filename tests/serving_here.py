"""`narrated serve` in a process of its own."""

import os
import re
import ssl
import subprocess
from typing import Self

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
        said = list[str]()
        for line in iter(self._log.readline, ""):  # warnings come first
            said.append(line)
            if address := re.search(r"http://\S+:(\d+)/", line):
                break
        else:
            self.process.kill()
            raise AssertionError("".join(said))
        self.port = int(address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = self.fresh_client()

    def fresh_client(self) -> httpx.Client:
        headers = {"accept": "text/html"}
        return httpx.Client(
            base_url=self.url, headers=headers, trust_env=False, timeout=LIMIT_S, verify=NO_TLS
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> str:
        """End it; what it logged since it serves."""
        self.client.close()
        self.process.terminate()
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("it did not end") from None
        if self._log.closed:
            return ""
        with self._log:
            return self._log.read()

    def send(self, path: str, **form: str) -> httpx.Response:
        """A form of a record's page."""
        return self.client.post(path, data=form)
