"""Headless Chromium over its debugging pipe: no port, no driver, no library."""

import base64
import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Browser:
    """One page of a Chromium of our own. `problems`: console errors, warnings and exceptions."""

    def __init__(self, program: str, profile: Path) -> None:
        (reads, self._commands), (self._answers, writes) = os.pipe(), os.pipe()

        def place_pipes() -> None:
            # Chromium wants them at 3 and 4; high copies first, lest one overwrite the other.
            high = (os.dup2(reads, 90), os.dup2(writes, 91))
            for number, place in zip(high, (3, 4), strict=True):
                os.dup2(number, place, inheritable=True)

        self._child = subprocess.Popen(
            (program, *FLAGS, f"--user-data-dir={profile}", "about:blank"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=place_pipes,
            close_fds=False,
        )
        os.close(reads)
        os.close(writes)
        self._buffer, self._number, self._session = b"", 0, ""
        self.problems: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.terminate()
        self._child.wait(120)
        os.close(self._commands)
        os.close(self._answers)

    def call(self, method: str, **params: Any) -> Any:
        """Send a command of the DevTools protocol and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        number = self._number
        answer = self._until(lambda reply: reply.get("id") == number)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, url: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a page at a window's size (CSS pixels) and wait until it has loaded."""
        screen: dict[str, Any] = {"width": width, "height": height, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", deviceScaleFactor=1, **screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=url)
        self._until(lambda reply: reply.get("method") == "Page.loadEventFired")
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")

    def wait_for_timeline(self) -> None:
        """Wait until the page's script has unpacked the timeline."""
        self.run("""new Promise((done) => {
          const look = () => document.querySelector(".time").dataset.ready ? done()
            : setTimeout(look, 30);
          look();
        })""")

    def wait_until(self, condition: str) -> None:
        """Wait until an expression in the page is true."""
        self.run(f"""new Promise((done) => {{
          const look = () => ({condition}) ? done() : setTimeout(look, 10);
          look();
        }})""")

    def run(self, script: str) -> Any:
        """Evaluate a script in the page; its value (awaited)."""
        result = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def key(self, key: str, code: int = 0) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """A PNG of the page, of all of it or of the window."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {**size, "scale": 1}
            shot = self.call(
                "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
            )
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, path: Path) -> None:
        """The page as it would be printed."""
        data = self.call("Page.printToPDF", printBackground=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def _until(self, wanted: Callable[[dict[str, Any]], bool], timeout_s: float = 120) -> Any:
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            while b"\0" in self._buffer:
                line, self._buffer = self._buffer.split(b"\0", 1)
                reply = json.loads(line)
                self._note(reply)
                if wanted(reply):
                    return reply
            if select.select([self._answers], [], [], 1)[0]:
                self._buffer += os.read(self._answers, 1 << 20)
        raise TimeoutError("chromium did not answer")

    def _note(self, reply: dict[str, Any]) -> None:
        params = reply.get("params", {})
        if reply.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif reply.get("method") == "Runtime.consoleAPICalled" and params["type"] != "log":
            self.problems.append(str(params["args"]))
        elif reply.get("method") == "Log.entryAdded":
            self.problems.append(params["entry"]["text"])
