"""A real Chromium, driven by its DevTools protocol: pages are looked at as people look at them."""

import base64
import json
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--force-prefers-no-reduced-motion", "--remote-debugging-port=0",
)  # fmt: skip
PATIENCE = 60  # seconds until what a page should show counts as missing, on busy machines too
KEYS = {
    "Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), " ": (32, " "), "Backspace": (8, ""),
    "ArrowUp": (38, ""), "ArrowDown": (40, ""), "ArrowLeft": (37, ""), "ArrowRight": (39, ""),
    "Home": (36, ""), "End": (35, ""),
}  # fmt: skip


def program():
    """The browser's path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def browser():
    """A page of a new browser, which ends with the block."""
    from websockets.sync.client import connect

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
        try:
            port, path = _address(process, Path(profile) / "DevToolsActivePort")
            with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _address(process, file):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) == 2:
            return lines
        time.sleep(0.05)
    raise RuntimeError("the browser did not start")


class Page:
    """One tab. errors: what went wrong on the page, as its console tells it."""

    def __init__(self, socket):
        self.socket, self.number, self.session, self.errors = socket, 0, None, []
        self.requests = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.recv(timeout=PATIENCE))
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._heard(answer.get("method"), answer.get("params", {}))

    def _heard(self, method, told):
        if method == "Runtime.exceptionThrown":
            self.errors.append(told["exceptionDetails"]["exception"].get("description"))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
            self.errors.append(str(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.errors.append(f"a dialog: {told['message']}")

    def open(self, address):
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def run(self, code):
        """The value of an expression; promises are waited for."""
        answer = self.send(
            "Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def wait(self, code):
        """Until an expression is true."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.run(f"!!({code})"):
                return
            time.sleep(0.03)
        raise AssertionError(f"never came true: {code}")

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText")

    def texts(self, selector):
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        return self.run(f"{found}.map((one) => one.textContent)")

    def press(self, *keys):
        """Keys as a keyboard sends them: names of keys, or texts to type."""
        for key in keys:
            if key not in KEYS:
                self.send("Input.insertText", text=key)
                continue
            code, text = KEYS[key]
            name = {"key": key, "code": "Space" if key == " " else key, "text": text}
            for kind in ("keyDown", "keyUp"):
                self.send("Input.dispatchKeyEvent", type=kind, windowsVirtualKeyCode=code, **name)

    def click(self, selector):
        """With the pointer, on the middle of the first element that is there."""
        name = json.dumps(selector)
        place = self.run(
            f"(() => {{ const e = document.querySelector({name}); e.scrollIntoView({{block: "
            "'center'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            at = {"x": place[0], "y": place[1]}
            self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def look(self, width, height=900, scheme="light", still=True):
        """The size of the window, and what the person prefers."""
        size = {"width": width, "height": height}
        self.send("Emulation.setDeviceMetricsOverride", deviceScaleFactor=1, mobile=False, **size)
        wishes = [{"name": "prefers-color-scheme", "value": scheme}]
        if still:
            wishes.append({"name": "prefers-reduced-motion", "value": "reduce"})
        self.send("Emulation.setEmulatedMedia", features=wishes)

    def picture(self, path, whole=True):
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(shot["data"]))
