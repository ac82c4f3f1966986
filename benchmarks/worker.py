"""Libraries as subprocesses that wait for work, so that measurements can take turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from environment import HERE, NotInstallableError, buffalo, peers

# Every library brings its own threads: those of BLAS, and waiting in a loop, only get in the way.
QUIET = {"OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "MKL_NUM_THREADS": "1"}

# Name in the tables -> (worker, the Python it needs). The first is the one that is judged.
LIBRARIES = {
    "fmpair": ("fm_pair", lambda: Path(sys.executable)),
    "implicit": ("implicit_bpr", peers),
    "cornac": ("cornac_bpr", peers),
    "buffalo": ("buffalo_bpr", buffalo),
    "lightfm-next": ("lightfm_bpr", peers),
}


class WorkerError(Exception):
    """What a worker could not do."""


class Worker:
    """One library in a process of its own."""

    def __init__(self, name: str) -> None:
        script, python = LIBRARIES[name]
        self.name = name
        self.log = (HERE / "envs" / f"{script}.log").open("w")
        self.process = subprocess.Popen(
            [str(python()), str(HERE / "workers" / f"{script}.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env={**os.environ, **QUIET},
        )  # fmt: skip

    def ask(self, do: str, **options: Any) -> dict[str, Any]:
        """The answer to one request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            print(json.dumps({"do": do, **options}), file=self.process.stdin, flush=True)
            answer = json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            raise WorkerError(f"{self.name} stopped: see {self.log.name}") from None
        if "error" in answer:
            raise WorkerError(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.log.close()


def start_all() -> tuple[dict[str, Worker], dict[str, str]]:
    """(the workers that run here, why the others do not)."""
    running, missing = {}, {}
    for name in LIBRARIES:
        try:
            running[name] = Worker(name)
        except NotInstallableError as error:
            missing[name] = f"not installable here: {error}"
    return running, missing
