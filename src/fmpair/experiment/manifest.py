"""Provenance: what a run was made of, where and when; no name of a person or a machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Mapping
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
from fmpair.experiment.prepared import PreparedData, files_of, source_files

PACKAGES = ("fmpair", "numpy", "polars", "numba")


def manifest(
    experiment: Experiment, bench: PreparedData, records: Iterable[Mapping[str, Any]], began: str
) -> dict[str, Any]:
    """All of it as plain values; began: as `now` gave it when the run first started."""
    done = [record for record in records if record["error"] is None]
    found = {
        "experiment": as_plain(experiment),
        "data": {
            "fingerprint": bench.fingerprint,
            "files": _digests(experiment.data),
            "statistics": figures(bench.whole()),
        },
        "split": {"hash": hash_of(bench.splits), "folds": _folds(bench)},
        "leakage": _leakage(bench),
        "context": _context(bench),
        "versions": _versions(experiment),
        "provenance": {r["cell"]["kind"]: r["provenance"] for r in done if r["provenance"]},
        "machine": _machine(),
        "seeds": list(experiment.seeds),
        "command": " ".join(["fmpair", *sys.argv[1:]]),
        "began": began,
        "ended": now(),
        "seconds": sum(record["train_seconds"] + record["judge_seconds"] for record in done),
        "peak_mb": max((record["peak_mb"] for record in done), default=None),
    }
    return discreet(found)


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def discreet(value: Any) -> Any:
    """The same with the home folder, which names its owner, written as ~."""
    if isinstance(value, str):
        home = str(Path.home())
        return value.replace(home, "~") if len(home) > 1 else value
    if isinstance(value, Mapping):
        return {key: discreet(inner) for key, inner in value.items()}
    return [discreet(inner) for inner in value] if isinstance(value, list | tuple) else value


def _digests(source: Source) -> dict[str, str]:
    """SHA-256 by name of every file that was read."""
    paths = [Path(path) for path in source_files(source)]
    return {file.name: digest(file) for path in paths if path.exists() for file in files_of(path)}


def _folds(bench: PreparedData) -> list[dict[str, Any]]:
    return [
        {
            "fold": fold,
            "hash": bench.hashes[fold],
            "train": len(split.train),
            "validation": len(split.validation),
            "test": len(split.test),
        }
        for fold, (_, split) in enumerate(map(bench.fold, range(len(bench.splits))))
    ]


def _leakage(bench: PreparedData) -> list[dict[str, Any]]:
    found = []
    for fold in range(len(bench.splits)):
        data, split = bench.fold(fold)
        train, validation, test = split.parts(data)
        report = split_leakage.report(train, test, validation if len(validation) else None)
        found.append({"fold": fold, "lines": report.lines(), "figures": report.frame().to_dicts()})
    return found


def _context(bench: PreparedData) -> list[dict[str, Any]]:
    """What each context column gives away of the item, in the first fold's events."""
    data, _ = bench.fold(0)
    found = context_leakage(data.user, data.item, data.columns, data.context)
    return [{**asdict(one), "degree": one.degree} for one in found.values()]


def _versions(experiment: Experiment) -> dict[str, str]:
    tuned = any(model.search for model in experiment.models)
    found = {"python": platform.python_version()}
    for name in (*PACKAGES, *(["optuna"] if tuned else [])):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def _machine() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None
