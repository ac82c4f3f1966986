"""An environment of its own for a library that cannot live beside fmpair, made on demand."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pooch

from fmpair.errors import FmpairError, MachineError, TrainingError, UnknownError
from fmpair.files import make_folder

LOG = logging.getLogger(__name__)
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "-q")


@dataclass(frozen=True)
class Environment:
    """name: the library's; python: the version it needs, such as 3.11; pins: what is installed.

    It stands in fmpair's folder for caches and is made when first asked for; other pins make
    another one.
    """

    name: str
    python: str
    pins: tuple[str, ...]

    def check(self) -> None:
        """Raise where it is not there and cannot be made."""
        if not self.executable.exists():
            self._base()

    def provenance(self) -> dict[str, str]:
        """What the report says of the library: its name and version."""
        version = next(p.partition("==")[2] for p in self.pins if p.startswith(f"{self.name}=="))
        return {"library": self.name, "version": version}

    @property
    def folder(self) -> Path:
        text = "\n".join((self.python, *self.pins))
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return caches() / f"{self.name}-{digest}"

    @property
    def executable(self) -> Path:
        """Its Python."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def ready(self) -> Path:
        """Its Python, after installing what is needed where that was not done before."""
        if not self.executable.exists():
            LOG.warning(
                "installing %s into an environment of its own, once: this takes minutes", self.name
            )
            self._make()
        return self.executable

    def _make(self) -> None:
        """Made beside its place and moved there when whole: half an environment is never used."""
        make_folder(caches())
        part = self.folder.with_name(f"{self.folder.name}.{secrets.token_hex(4)}.part")
        log = self.folder.with_suffix(".log")
        try:
            venv = (self._base(), "-m", "venv", str(part))
            run(venv, log, f"making {self.name}'s environment", MachineError)
            own = str(part / self.executable.relative_to(self.folder))
            run((own, *PIP, *self.pins), log, f"installing {self.name}", MachineError)
            if not self.executable.exists():  # another process may have been quicker
                part.rename(self.folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _base(self) -> str:
        """A Python of the version needed."""
        if self.python == f"{sys.version_info.major}.{sys.version_info.minor}":
            return sys.executable
        found = shutil.which(f"python{self.python}")
        if found is None:
            raise UnknownError(
                f"{self.name} needs Python {self.python}, and there is no python{self.python} on "
                "the path: install it, fmpair does the rest"
            )
        return found


def caches() -> Path:
    """Where environments and their logs stand."""
    return Path(pooch.os_cache("fmpair")) / "environments"


def run(
    command: tuple[str, ...], log: Path, doing: str,
    failure: type[FmpairError] = TrainingError, **options: object,
) -> None:  # fmt: skip
    """Run a command to its end; what it says goes into the log, which is kept.

    failure: what is raised where the command fails; one that is killed is a MachineError.
    """
    with log.open("wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, **options)  # type: ignore[call-overload]
    if done.returncode < 0:
        raise MachineError(f"{doing} was ended by signal {-done.returncode} (its words in {log})")
    if done.returncode:
        said = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
        wrong = [line for line in said if "rror" in line] or said or ["no word of why"]
        short = "MemoryError" in wrong[-1] or "[Errno" in wrong[-1]  # of memory, or of disk
        kind = MachineError if short else failure
        raise kind(f"{doing} failed: {wrong[-1].strip()} (all of it in {log})")
