"""What deploy/ starts is started: another user, read-only packages, no home, a small /tmp.

Without Docker, image.sh runs the steps of the Dockerfile in a namespace. Start-up is measured in
time of the processor, which a busy machine does not stretch.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from test_deploy import exec_start, steps
from under_load import PATIENCE, fitted, free_port, until

import fmpair
from fmpair import kernel_cache

KEY = "0123456789abcdef0123"
START = 3.0  # seconds of the processor per worker until the first answer
NEEDED = ("unshare", "setpriv", "chroot", "mount")
COMPILE = "/opt/fmpair/bin/fmpair compile"
IN_IMAGE = ["unshare", "--mount", "bash", str(Path(__file__).with_name("image.sh"))]


def allowed():
    tools = all(map(shutil.which, NEEDED)) and hasattr(os, "geteuid") and os.geteuid() == 0
    tried = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return tools and subprocess.run(tried, capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not allowed(), reason="only root can make namespaces, and not everywhere"),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """What image.sh is told: where things are, and a model and a key for the command."""
    folder = tmp_path_factory.mktemp("image")
    keys, built, root = folder / "keys", folder / "built", folder / "root"
    keys.write_text(KEY)
    for one in (built, root):
        one.mkdir()
    names = {
        "BASE": sys.base_prefix,
        "PACKAGES": sysconfig.get_path("purelib"),
        "SOURCE": Path(fmpair.__file__).parent,
        "PYTHON": os.path.realpath(sys.executable),
        "BUILT": built,
        "MODEL": fitted(folder),  # the folder of kernels is there now
        "KEYS": keys,
        "PATH": os.environ["PATH"],
    }
    kept = [one for one in kernel_cache.folders() if one.grows and kernel_cache.writable(one)]
    [compiling] = [step for step in steps("RUN") if step.startswith(COMPILE)]
    own = {"ROOT": root, "WRITABLE": "/models", "KERNELS": kept[0].path, "COMPILE": compiling}
    subprocess.run([*IN_IMAGE, "build"], env=texts(names | own), check=True, timeout=PATIENCE)
    return names


def texts(names):
    return {name: str(value) for name, value in names.items()}


class Container:
    """A command in the image; it ends with the block."""

    def __init__(self, folder, image, writable, command):
        self.root, self.log = folder / "root", folder / "log"
        self.root.mkdir()
        self.command = [*IN_IMAGE, *command]
        self.environment = texts(image | {"ROOT": self.root, "WRITABLE": writable})

    def __enter__(self):
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, stderr=log, stdout=log, start_new_session=True
            )
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)

    def await_line(self, text):
        until(lambda: text in self.log.read_text() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()

    def seconds(self):
        """Time of the processor that all its processes have taken."""
        ticks = 0
        for place in Path("/proc").glob("[0-9]*/stat"):
            try:
                values = place.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(values[3]) == self.process.pid:  # the session
                ticks += int(values[11]) + int(values[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def ask(port, path, body=None, key=KEY):
    content = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", content, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def check(container, port, writable):
    """Start-up, answers, events, a new worker, an orderly end; nothing written elsewhere."""
    container.await_line("image made")
    before = container.seconds()
    container.await_line("http://")
    assert ask(port, "/v1/recommend", {"user": "user-001", "n": 3})[0] == 200
    took = container.seconds() - before
    event = {"events": [{"user": "user-001", "item": "book-001"}]}
    assert ask(port, "/v1/events", event)[1]["position"] == 1
    inside = Path(f"/proc/{container.process.pid}/root")
    assert sorted(one.name for one in (inside / writable[1:]).iterdir())[:2] == [
        "model.events.db",
        "model.events.db-queue",
    ]
    health = re.search(r"CMD (\[.*\])", steps("HEALTHCHECK")[0])[1].replace("8000", str(port))
    subprocess.run([sys.executable, *json.loads(health)[1:]], check=True, timeout=60)
    children = Path(f"/proc/{container.process.pid}/task/{container.process.pid}/children")
    workers = [int(one) for one in children.read_text().split() if is_worker(one)]
    os.kill(workers[0], signal.SIGKILL)
    container.await_line("restarting it")
    until(lambda: [one for one in children.read_text().split() if is_worker(one)] != workers)
    until(lambda: answered(port))
    assert list((inside / "tmp").iterdir()) == []
    container.process.terminate()
    assert container.process.wait(60) == 0
    said = container.log.read_text().partition("image made")[2]
    assert "cannot be cached" not in said and "Traceback" not in said
    print(f"{took:.1f} s of the processor until the first answer")
    assert took < START * len(workers)


def is_worker(process):
    return b"resource_tracker" not in Path(f"/proc/{process}/cmdline").read_bytes()


def answered(port):
    try:
        return ask(port, "/v1/recommend", {"user": "user-001", "n": 3})[0] == 200
    except OSError:
        return False


def test_the_image_of_the_dockerfile_serves_a_model(tmp_path, image):
    entry, command = json.loads(steps("ENTRYPOINT")[-1]), json.loads(steps("CMD")[-1])
    port, writable = free_port(), steps("WORKDIR")[-1]
    command = [f"/opt/fmpair/bin/{entry[0]}", *command, "--port", str(port)]
    with Container(tmp_path, image, writable, command) as container:
        check(container, port, writable)


def test_the_unit_serves_a_model_with_two_workers(tmp_path, image):
    port, writable = free_port(), "/var/lib/fmpair"
    with Container(tmp_path, image, writable, [*exec_start(), "--port", str(port)]) as container:
        check(container, port, writable)
