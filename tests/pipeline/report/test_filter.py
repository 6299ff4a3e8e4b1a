"""The report's filter in a real browser, without network, by keys as a person presses them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.captioner import Sentence
from pipeline.changes import SceneEvent
from pipeline.narration.narration import FrameStamp, ModelStamp, Narration
from pipeline.record import ChainEnd, build_record
from pipeline.report.facts import ReportFacts
from pipeline.report.writer import ReportWriter
from pipeline.sources import Clock

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
CAR = Sentence("A red car has come in.", "appeared", "car", None, 0.9, 0.95)
GONE = replace(CAR, text="A red car has driven off.", type="disappeared")
PERSON = Sentence("A person has left.", "disappeared", "person", None, 0.5, 0.5)
ODD = replace(CAR, text='Ein "Käfer" & <b> kam.', object='<i>"b&c=d"#e')
LIGHT = Sentence("The light has changed.", "none", "scene", None, 1, 1)
TOLD = [
    ("yard", (CAR, PERSON), SceneEvent.NONE),  # n1
    ("lot", (GONE,), SceneEvent.NONE),  # n2
    ("lot", (LIGHT,), SceneEvent.LIGHT),  # n3
    ("yard", (ODD,), SceneEvent.NONE),  # n4
]


class Browser:
    """Chromium by its DevTools protocol on a pair of pipes."""

    def __init__(self, profile: Path, page: Path) -> None:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        moved = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash"]
        self._process = subprocess.Popen(
            [*moved, *command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self._unread, self._session, self._number, self.page = b"", None, 0, page.as_uri()
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Page.enable")

    def close(self) -> None:
        self._out.close()
        self._process.terminate()
        self._process.wait(30)
        self._in.close()

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            part = os.read(self._in.fileno(), 1 << 20)
            assert part, "Chromium has ended"
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        return dict(json.loads(message))

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        question = {"id": self._number, "method": method, "params": params, **session}
        self._out.write(json.dumps(question).encode() + b"\0")
        self._out.flush()
        while (message := self._message()).get("id") != self._number:
            pass
        assert "error" not in message, message
        return dict(message["result"])

    def open(self, fragment: str = "", *, script: bool = True) -> None:
        self.ask("Emulation.setScriptExecutionDisabled", value=not script)
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=self.page + fragment)
        while not self.value("document.readyState === 'complete' && location.protocol === 'file:'"):
            pass

    def value(self, expression: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        codes = {"Tab": 9, "Enter": 13}
        for key in keys:
            text = {"text": "\r" if key == "Enter" else key} if key != "Tab" else {}
            code = {"windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()) if key.isalpha() else 0)}
            self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
            self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, **code)
        self.value("new Promise((done) => setTimeout(() => requestAnimationFrame(() => done(1))))")

    @property
    def shown(self) -> list[str]:
        seen = "[...document.querySelectorAll('article')].filter((a) => a.checkVisibility()).map((a) => a.id)"
        return list(self.value(seen))

    @property
    def said(self) -> str:
        return str(self.value("document.getElementById('shown').textContent"))

    @property
    def fragment(self) -> str:
        return str(self.value("location.hash"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    grey, ends = np.full((90, 160, 3), 120, np.uint8), dict[str, ChainEnd]()
    folder = tmp_path_factory.mktemp("report")
    with closing(ReportWriter(folder)) as writer:
        for second, (camera, sentences, event) in enumerate(TOLD):
            after = START + timedelta(seconds=second)
            stamps = (FrameStamp(after - timedelta(seconds=1), 0, "a" * 64), FrameStamp(after, 1, "b" * 64))
            model = ModelStamp("ddla", "c" * 64)
            told = Narration(
                f"{camera}-{second}", camera, *stamps, Clock.FILE, event, sentences, 12.3, model, "d" * 64
            )
            record = build_record(told, ends.get(camera, ChainEnd()))
            ends[camera] = ChainEnd.of(record)
            writer.add(record, grey, grey)
        writer.finish(ReportFacts())
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"), page)
    yield opened
    opened.close()


ALL = ["n1", "n2", "n3", "n4"]


@pytest.mark.parametrize(
    ("fragment", "shown"),
    [
        ("", ALL),
        ("#camera=lot", ["n2", "n3"]),
        ("#type=disappeared", ["n1", "n2"]),
        ("#type=disappeared&object=car", ["n2"]),  # n1 tells of a car and of leaving, in two sentences
        ("#type=light_changed", ["n3"]),
        ("#text=car+RED", ["n1", "n2"]),
        ("#camera=yard&text=driven", []),
        ("#text=%22k%C3%A4fer%22+%26+%3Cb%3E", ["n4"]),
        ("#object=%3Ci%3E%22b%26c%3Dd%22%23e", ["n4"]),
        ("#camera=nowhere&nonsense=1", ALL),  # of another report
        ("#n2", ALL),
        ("#%E0%A4%A", ALL),
    ],
)
def test_the_fragment_says_what_is_shown(browser: Browser, fragment: str, shown: list[str]) -> None:
    browser.open(fragment)
    assert browser.shown == shown
    assert browser.said == f"{len(shown)} of 4 shown"
    empty = "[...document.querySelectorAll('#filter select')].filter((s) => s.selectedIndex === -1).length"
    assert browser.value(empty) == 0


def test_the_keyboard_is_enough_and_what_it_chose_can_be_shared(browser: Browser) -> None:
    browser.open()
    browser.value("document.querySelector('#filter select').focus()")
    browser.press("l")  # the camera "lot"
    assert (browser.shown, browser.fragment) == (["n2", "n3"], "#camera=lot")
    browser.press("Tab", "Tab", "Tab", *"red &", "Enter")
    assert browser.shown == []
    assert browser.said == "0 of 4 shown"
    shared = browser.fragment
    assert shared == "#camera=lot&text=red+%26"
    browser.press("Tab", "Enter")  # Show all
    assert (browser.shown, browser.fragment, browser.said) == (ALL, "", "4 of 4 shown")
    browser.open(shared)
    assert browser.shown == []
    assert browser.value("[...document.querySelectorAll('#filter [name]')].map((c) => c.value)") == [
        *("lot", "", "", "red &"),
    ]


def test_the_summary_chooses_and_a_link_to_a_hidden_narration_shows_it(browser: Browser) -> None:
    browser.open("#camera=yard")
    browser.value(
        "[...document.querySelectorAll('.happenings a')].find((a) => a.text === '1 car left').focus()"
    )
    browser.press("Enter")
    assert browser.shown == ["n2"]
    browser.value("new Promise((d) => { window.onhashchange = () => setTimeout(d); location.hash = 'n4'; })")
    assert browser.shown == ALL


def test_without_javascript_everything_is_shown(browser: Browser) -> None:
    browser.open("#camera=lot", script=False)
    assert browser.shown == ALL
    assert browser.value("document.getElementById('filter').checkVisibility()") is False


def test_nothing_is_asked_of_the_network_and_nothing_fails(browser: Browser) -> None:
    browser.open("#text=red")
    asked = browser.value("performance.getEntriesByType('resource').map((e) => e.name.slice(0, 5))")
    assert set(asked) <= {"data:"}
    assert browser.value("document.querySelectorAll('script').length") == 1
