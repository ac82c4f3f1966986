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
from under_load import fitted, free_port, until

import fmpair
from fmpair import kernel_cache

KEY = "0123456789abcdef0123"
START = 3.0  # seconds of the processor per worker until the first answer
NEEDED = ("unshare", "setpriv", "chroot", "mount")


def allowed():
    tools = all(map(shutil.which, NEEDED)) and hasattr(os, "geteuid") and os.geteuid() == 0
    tried = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return tools and subprocess.run(tried, capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not allowed(), reason="only root can make namespaces, and not everywhere"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """(A model, a file with a key, code that was compiled for the tests)."""
    folder = tmp_path_factory.mktemp("files")
    keys = folder / "keys"
    keys.write_text(KEY)
    made = [one.path for one in kernel_cache.folders() if kernel_cache.count(one)]
    kernels = folder / "kernels"
    kernels.mkdir()
    return fitted(folder), keys, made[0] if made else kernels


class Container:
    """A command in the image; it ends with the block."""

    def __init__(self, folder, files, writable, command):
        model, keys, kernels = files
        self.root, self.log = folder / "root", folder / "log"
        self.root.mkdir()
        names = {
            "ROOT": self.root,
            "BASE": sys.base_prefix,
            "PACKAGES": sysconfig.get_path("purelib"),
            "SOURCE": Path(fmpair.__file__).parent,
            "PYTHON": os.path.realpath(sys.executable),
            "KERNELS": kernels,
            "WRITABLE": writable,
            "MODEL": model,
            "KEYS": keys,
            "PATH": os.environ["PATH"],
        }
        script = Path(__file__).with_name("image.sh")
        self.command = ["unshare", "--mount", "bash", str(script), *command]
        self.environment = {name: str(value) for name, value in names.items()}

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


def test_the_image_of_the_dockerfile_serves_a_model(tmp_path, files):
    entry, command = json.loads(steps("ENTRYPOINT")[-1]), json.loads(steps("CMD")[-1])
    port, writable = free_port(), steps("WORKDIR")[-1]
    command = [f"/opt/fmpair/bin/{entry[0]}", *command, "--port", str(port)]
    with Container(tmp_path, files, writable, command) as container:
        check(container, port, writable)


def test_the_unit_serves_a_model_with_two_workers(tmp_path, files):
    port, writable = free_port(), "/var/lib/fmpair"
    with Container(tmp_path, files, writable, [*exec_start(), "--port", str(port)]) as container:
        check(container, port, writable)
