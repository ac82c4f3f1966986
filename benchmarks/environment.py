"""Environments of their own for the peers, made once and kept in benchmarks/envs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENTS = HERE / "envs"
BUFFALO = "buffalo==2.0.6"
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "-q")


class NotInstallableError(Exception):
    """Why an environment cannot be had here, in one line."""


def peers() -> Path:
    """The Python that has implicit, Cornac, lightfm-next and matplotlib."""
    return _environment("peers", sys.executable, lambda python: _install(python, "peers"))


def serving() -> Path:
    """The Python that has FastAPI and implicit."""
    return _environment("serving", sys.executable, lambda python: _install(python, "serving"))


def rectools() -> Path:
    """The Python that has RecTools and PyTorch."""
    return _environment("rectools", sys.executable, lambda python: _install(python, "rectools"))


def buffalo() -> Path:
    """The Python that has Buffalo."""
    base = sys.executable if sys.version_info < (3, 12) else shutil.which("python3.11")
    if base is None:
        raise NotInstallableError("Buffalo needs Python 3.11, and there is no python3.11 here")
    return _environment("buffalo", base, _install_buffalo)


def _environment(name: str, base: str, install) -> Path:
    """The Python of an environment; a stamp says that it is whole."""
    folder = ENVIRONMENTS / name
    stamp = folder / ".installed"
    if not stamp.exists():
        print(f"installing {name} into {folder.relative_to(HERE.parent)}", file=sys.stderr)
        _run(base, "-m", "venv", "--clear", str(folder))
        install(str(folder / "bin" / "python"))
        stamp.touch()
    return folder / "bin" / "python"


def _install(python: str, requirements: str) -> None:
    _run(python, *PIP, "-r", str(HERE / "requirements" / f"{requirements}.txt"))


def _install_buffalo(python: str) -> None:
    """From a wheel where there is one, else built, with the module its archive lacks."""
    _install(python, "buffalo")
    try:
        _run(python, *PIP, "--no-deps", "--only-binary", ":all:", BUFFALO)
    except NotInstallableError:
        _install(python, "buffalo-build")
        _run(python, *PIP, "--no-deps", "--no-build-isolation", BUFFALO, path=HERE / "stubs")


def _run(*command: str, path: Path | None = None) -> None:
    extra = {} if path is None else {"PYTHONPATH": str(path)}
    done = subprocess.run(command, env={**os.environ, **extra}, capture_output=True, text=True)
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if "rror" in line]
        raise NotInstallableError(said[-1] if said else f"{command[0]} failed")
