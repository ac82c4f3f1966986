"""The file of a search's fits: one line each, so that a killed search continues.

A line that was cut off by a kill is ignored; fits of another search are refused.
"""

from __future__ import annotations

import json
import os
import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fmpair.errors import DataError
from fmpair.files import check_writable, shown
from fmpair.training.checkpoint import difference_of

KIND = "fmpair trials 1"
START = json.dumps({"kind": KIND})[:-1].encode()  # of every such file


class FitResult(NamedTuple):
    """values: float32 [held-out events], None if it failed; work: seconds without compiling."""

    values: np.ndarray | None
    seconds: float
    work: float
    error: str | None = None


@dataclass(eq=False)
class TrialFile:
    """The fits so far by key; path: None keeps them in memory only."""

    path: Path | None
    fits: dict[str, FitResult] = field(default_factory=dict)

    @classmethod
    def open(cls, path: str | Path | None, search: dict[str, Any]) -> TrialFile:
        """Read the fits of the same search, or begin a file; search: what results depend on."""
        if path is None:
            return cls(None)
        check_writable(path)
        file = cls(Path(path))
        saved = _read(Path(path)) if Path(path).exists() else None
        if saved is None:
            file._append({"kind": KIND, "search": search}, "wb")
            return file
        if difference := difference_of(saved[0], search):
            raise DataError(
                f"{shown(path)} has the trials of {difference}: remove it to start again, or "
                "write to another file"
            )
        file.fits = saved[1]
        return file

    def add(self, key: str, fit: FitResult) -> None:
        """Store a fit; after this it survives a kill."""
        self.fits[key] = fit
        values = fit.values
        text = None if values is None else b64encode(zlib.compress(values.tobytes())).decode()
        mean = None if values is None else float(values.mean())
        self._append({"key": key, "mean": mean, **fit._asdict(), "values": text}, "ab")

    def _append(self, line: dict[str, Any], mode: str) -> None:
        if self.path is None:
            return
        with self.path.open(mode) as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _read(path: Path) -> tuple[dict[str, Any], dict[str, FitResult]] | None:
    """Return the search and the fits of a file, and cut off what a kill left after them.

    None if not even the first line is complete.
    """
    try:
        content = path.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if not content[: len(START)] == START[: len(content)]:
            raise ValueError("not a file of trials")
        head, *lines = [json.loads(line) for line in complete.splitlines()] or [None]
        saved = None if head is None else (head["search"], {f["key"]: _fit(f) for f in lines})
    except OSError as error:
        raise DataError(f"cannot read {shown(path)}: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, zlib.error) as error:
        raise DataError(
            f"{shown(path)} is not a file of trials, or damaged: remove it to start again"
        ) from error
    if len(complete) < len(content):
        os.truncate(path, len(complete))
    return saved


def _fit(line: dict[str, Any]) -> FitResult:
    text = line["values"]
    values = None if text is None else np.frombuffer(zlib.decompress(b64decode(text)), np.float32)
    return FitResult(values, line["seconds"], line["work"], line["error"])
