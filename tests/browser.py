"""A headless Chromium for tests of pages, driven over its debugging port."""

import contextlib
import itertools
import json
import subprocess
import time
from pathlib import Path

WAIT_S = 60.0


class Browser:
    """Headless Chromium over its debugging port: one tab, what it logged and what it asked the network for."""

    def __init__(self, program: str, folder: Path):
        import websocket

        self._count = itertools.count(1)
        self._process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
            + ["--no-first-run", "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        port, path = self._address(folder / "DevToolsActivePort")
        self._socket = websocket.create_connection(f"ws://127.0.0.1:{port}{path}", timeout=WAIT_S, suppress_origin=True)
        self._page = self.attach("page")

    def attach(self, kind: str) -> str:
        """Talk to the tab (page) or to the frame in it that has a process of its own (iframe)."""
        self._session, self.complaints, self.requests = None, [], []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == kind)
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self._session

    def _address(self, file: Path) -> list[str]:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if len(lines := file.read_text().splitlines()) == 2:
                    return lines
            time.sleep(0.05)
        raise TimeoutError(f"chromium did not open its debugging port in {WAIT_S:.0f} s")

    def call(self, method: str, **params) -> dict:
        number = next(self._count)
        message = {"id": number, "method": method, "params": params}
        self._socket.send(json.dumps(message | ({"sessionId": self._session} if self._session else {})))
        while (answer := json.loads(self._socket.recv())).get("id") != number:
            self._note(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _note(self, event: dict):
        if event.get("sessionId") != self._session:
            return
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])
        elif event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.complaints.append(event["params"])

    def open(self, path: Path, width: int = 1400):
        self._session = self._page
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url="about:blank")
        self.complaints, self.requests = [], []
        self.call("Page.navigate", url=path.as_uri())
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")

    def run(self, script: str):
        """Value of a JavaScript expression; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, script: str):
        deadline = time.monotonic() + WAIT_S
        while not self.run(script):
            assert time.monotonic() < deadline, f"never true in {WAIT_S:.0f} s: {script}"
            time.sleep(0.02)

    def search(self, text: str):
        """Type into the search box and wait for its verdict."""
        self.run(f"found.textContent = 'waiting', query.value = {json.dumps(text)}, query.dispatchEvent(new Event('input')), 0")
        self.until("found.textContent !== 'waiting'")

    def press(self, key: str, modifiers: int = 0):
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)

    def open_all(self):
        """Open every node there is, and those that appear as others open."""
        self.until("[...document.querySelectorAll('details:not([open])')].filter(d => d.open = true).length === 0")

    def close(self):
        self._socket.close()
        self._process.kill()
        self._process.wait(timeout=WAIT_S)
