# SPDX-License-Identifier: MIT
"""A headless Chromium, driven over a pipe by the DevTools protocol."""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

# Nothing but loopback can be reached, whatever a page or the browser itself asks for.
FLAGS = [
    "--headless=new",
    "--no-sandbox",  # of no use to root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
]
# What a key press says beside its name: the code of the key, and the text that it types.
KEY_CODES = {"Enter": 13, "Escape": 27, "Tab": 9, "Delete": 46, "End": 35, "Home": 36}
KEY_CODES |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
CONTROL = 2


def find_chromium():
    """The path of a Chromium, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    return None


class Browser:
    """One tab. `requests` and `complaints` hold what it asked for, and the errors it logged."""

    def __init__(self, program):
        self.requests = []
        self.complaints = []
        self.folder = tempfile.TemporaryDirectory(prefix="mnemon-browser.")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        os.set_blocking(self.write_end, True)
        # The protocol is spoken on descriptors 3 and 4. The shell puts them there.
        shell = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$0" "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, program, *FLAGS, f"--user-data-dir={self.folder.name}/profile"]
            + ["about:blank"],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.left = b""
        self.number = 0
        self.session = None
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self):
        targets = self.command("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        attached = self.command("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.command(f"{domain}.enable")

    def close(self):
        with contextlib.suppress(Exception):
            self.session = None
            self.command("Browser.close", timeout=5)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=300)
        os.close(self.write_end)
        os.close(self.read_end)
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def command(self, method, timeout=300, **parameters):
        """Sends a command and returns its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            answer = self._next(deadline, method)
            if answer.get("id") != self.number:
                self._note(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def _next(self, deadline, what):
        while b"\0" not in self.left:
            wait = deadline - time.monotonic()
            if wait <= 0 or not select.select([self.read_end], [], [], wait)[0]:
                raise TimeoutError(f"the browser did not answer {what} in time")
            part = os.read(self.read_end, 1 << 16)
            if not part:
                raise RuntimeError(f"the browser is gone, in {what}")
            self.left += part
        one, self.left = self.left.split(b"\0", 1)
        return json.loads(one)

    def _note(self, event):
        method, values = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            detail = values["exceptionDetails"]
            thrown = detail.get("exception", {}).get("description", "")
            self.complaints.append(f"{detail['text']} {thrown}")
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "assert"):
            said = [a.get("description", a.get("value")) for a in values["args"]]
            self.complaints.append(str(said))
        elif method == "Log.entryAdded" and values["entry"]["level"] == "error":
            entry = values["entry"]
            # Answers of the API that are errors are tested by what the page shows of them.
            if not (entry["source"] == "network" and "/v1/" in entry.get("url", "")):
                self.complaints.append(f"{entry['text']} {entry.get('url', '')}")

    def evaluate(self, expression):
        """The value of an expression of JavaScript; promises are awaited."""
        result = self.command(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression, timeout=300):
        """Waits until an expression is truthy, and returns its value."""
        deadline = time.monotonic() + timeout
        while not (value := self.evaluate(expression)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"this did not become true: {expression}")
            time.sleep(0.02)
        return value

    def open(self, url):
        self.command("Page.navigate", url=url)
        there = f"location.href.startsWith({json.dumps(url)})"
        self.wait(f"{there} && document.readyState == 'complete'")

    def resize(self, width, height, scale=1):
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )

    def prefer(self, **features):
        """Media features, such as prefers_color_scheme="dark"."""
        named = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.command("Emulation.setEmulatedMedia", features=named)

    def press(self, key, modifiers=0):
        code = KEY_CODES[key]
        text = "\r" if key == "Enter" else ""
        down = {"type": "keyDown" if text and not modifiers else "rawKeyDown", "key": key}
        if text and not modifiers:
            down["text"] = text
        for event in (down, {"type": "keyUp", "key": key}):
            self.command(
                "Input.dispatchKeyEvent",
                code=key,
                windowsVirtualKeyCode=code,
                modifiers=modifiers,
                **event,
            )

    def type(self, text):
        """Types into what has the focus."""
        self.command("Input.insertText", text=text)

    def click_at(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.command(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    def click(self, selector):
        """Clicks the middle of an element, which must be what lies there."""
        place = self.evaluate(
            "(() => { const e = document.querySelector(%s); e.scrollIntoView({block: 'nearest'});"
            " const r = e.getBoundingClientRect();"
            " const [x, y] = [r.x + r.width / 2, r.y + r.height / 2];"
            " const top = document.elementFromPoint(x, y);"
            " return e.contains(top) ? [x, y] : null; })()" % json.dumps(selector)
        )
        if place is None:
            raise RuntimeError(f"{selector} cannot be clicked: something covers it")
        self.click_at(*place)

    def screenshot(self, path, width, height):
        """The upper left part of the page, also what lies below the window."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = self.command(
            "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
        )["data"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))
