"""What a protocol makes of users who choose an item again: a warning beside the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fmpair.errors import in_file, spelled
from fmpair.evaluation.repeats import meaning, misleading
from fmpair.experiment.results import Results
from fmpair.text import isolated


def cautions(results: Results) -> list[str]:
    """A line for each protocol whose numbers repeats make too good, and what to write instead."""
    again, events = _repeated(results.manifest)
    return [
        f"{isolated(label)}: {spelled(meaning(again, events, protocol), in_file)}"
        for label, protocol in results.experiment.protocols.items()
        if misleading(again, events, protocol)
    ]


def _repeated(manifest: Mapping[str, Any]) -> tuple[int, int]:
    """(test events that repeat an item their user had in training, test events), of all folds."""
    rows = [row for fold in manifest.get("leakage", []) for row in fold["figures"]]
    counts = [
        row["count"]
        for row in rows
        if (row["before"], row["after"], row["figure"]) == ("train", "test", "same_pair")
    ]
    return sum(counts), sum(fold["test"] for fold in manifest.get("split", {}).get("folds", []))
