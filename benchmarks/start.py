"""How long until something happens: import, --help, a first fit, a second one?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial

from environment import NotInstallableError, peers
from measure import Answer, Bench, in_turn, median

FIT = """
from fmpair import FMPair
from fmpair.data.synthetic import make
FMPair(epochs=1).fit(make(users=200, items=150, events=5000).data)
"""
HELP = "from fmpair.cli import run; raise SystemExit(run(['--help']))"


def run(bench: Bench) -> Answer:
    own = {
        "Python itself": "pass",
        "import fmpair": "import fmpair",
        "fmpair --help": HELP,
    }
    cases = {name: partial(_seconds, sys.executable, code) for name, code in own.items()}
    try:
        python = str(peers())
        for name in ("implicit", "cornac", "lightfm"):
            cases[f"import {name}"] = partial(_seconds, python, f"import {name}")
    except NotInstallableError:
        pass  # run.py has said so
    took = {name: median(values) for name, values in in_turn(cases, bench.repeats).items()}
    with tempfile.TemporaryDirectory() as cache:
        empty = dict.fromkeys(("FMPAIR_CACHE", "XDG_CACHE_HOME", "TMPDIR"), cache)
        fit = partial(_seconds, sys.executable, FIT, **empty)
        took["first fit on a machine, compiling"] = fit()
        took["every later first fit of a process"] = median(fit() for _ in range(bench.repeats))
    return Answer({"start": [{"what": name, "seconds": value} for name, value in took.items()]})


def _seconds(python: str, code: str, **environment: str) -> float:
    """Seconds of a whole process; NaN where it fails."""
    began = time.perf_counter()
    done = subprocess.run(
        [python, "-c", code], env={**os.environ, **environment}, capture_output=True
    )
    return time.perf_counter() - began if done.returncode == 0 else float("nan")
