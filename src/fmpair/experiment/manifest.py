"""Provenance of a run: data, software, machine and times, without names of people or machines."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fmpair.config.experiment import Experiment, Source, as_plain
from fmpair.data import split_leakage
from fmpair.data.columns.context_leakage import context_leakage
from fmpair.data.describe import figures
from fmpair.data.parts import hash_of
from fmpair.experiment.folder import digest
from fmpair.experiment.prepared import PreparedData, files_of, low_ratings, source_files

PACKAGES = ("fmpair", "numpy", "polars", "numba")


def manifest(
    experiment: Experiment, prepared: PreparedData, records: Iterable[Mapping[str, Any]], began: str
) -> dict[str, Any]:
    """Return the provenance as plain values; began: when the run was first started."""
    done = [record for record in records if record["error"] is None]
    return anonymous({
        "experiment": as_plain(experiment),
        "data": {
            "fingerprint": prepared.fingerprint,
            "files": _digests(experiment.data),
            "statistics": figures(prepared.whole()),
            "low_ratings": low_ratings(experiment, prepared.data),
        },
        "split": {"hash": hash_of(prepared.splits), "folds": _folds(prepared)},
        "leakage": _leakage(prepared),
        "context": _context(prepared),
        "versions": _versions(),
        "provenance": {r["cell"]["kind"]: r["provenance"] for r in done if r["provenance"]},
        "machine": _machine(),
        "seeds": list(experiment.seeds),
        "command": " ".join(["fmpair", *sys.argv[1:]]),
        "began": began,
        "ended": now(),
        "seconds": sum(record["train_seconds"] + record["judge_seconds"] for record in done),
        "peak_mb": max((record["peak_mb"] for record in done), default=None),
    })  # fmt: skip


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def anonymous(value: Any) -> Any:
    """Return the value with the home folder, which names its owner, written as ~."""
    if isinstance(value, str):
        home = str(Path.home())
        return value.replace(home, "~") if len(home) > 1 else value
    if isinstance(value, Mapping):
        return {key: anonymous(inner) for key, inner in value.items()}
    return [anonymous(inner) for inner in value] if isinstance(value, list | tuple) else value


def _digests(source: Source) -> dict[str, str]:
    """Return the SHA-256 by name of every file that was read."""
    paths = [Path(path) for path in source_files(source)]
    return {file.name: digest(file) for path in paths if path.exists() for file in files_of(path)}


def _folds(prepared: PreparedData) -> list[dict[str, Any]]:
    return [
        {
            "fold": fold,
            "hash": prepared.hashes[fold],
            "train": len(split.train),
            "validation": len(split.validation),
            "test": len(split.test),
        }
        for fold, (_, split) in enumerate(map(prepared.fold, range(len(prepared.splits))))
    ]


def _leakage(prepared: PreparedData) -> list[dict[str, Any]]:
    rows = []
    for fold in range(len(prepared.splits)):
        data, split = prepared.fold(fold)
        train, validation, test = split.parts(data)
        report = split_leakage.report(train, test, validation if len(validation) else None)
        rows.append({"fold": fold, "lines": report.lines(), "figures": report.frame().to_dicts()})
    return rows


def _context(prepared: PreparedData) -> list[dict[str, Any]]:
    """Return how much each context column reveals of the item, in the first fold's events."""
    data, _ = prepared.fold(0)
    columns = context_leakage(data.user, data.item, data.columns, data.context)
    return [{**asdict(column), "degree": column.degree} for column in columns.values()]


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "unknown"
    return versions


def _machine() -> dict[str, Any]:
    cpuinfo, memory_gb = Path("/proc/cpuinfo"), None
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    with suppress(AttributeError, ValueError, OSError):
        memory_gb = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gb": memory_gb,
    }
