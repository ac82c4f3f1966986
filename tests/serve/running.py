"""A service as people start it: a process of its own, at an address that it tells."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager

ADDRESS = re.compile(r"http://\S+")


@contextmanager
def service(model, *flags):
    """The address of `fmpair serve MODEL` on a free port, which ends with the block."""
    command = [sys.executable, "-m", "fmpair", "serve", str(model), "--port", "0", *flags]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        yield _address(process)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _address(process):
    said = []
    for line in process.stdout:
        said.append(line)
        found = ADDRESS.search(line)
        if found:
            return found[0]
    raise RuntimeError("the service did not start: " + "".join(said))
