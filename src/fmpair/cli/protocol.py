"""The flags of `evaluate` that are a protocol's own options, and the protocol they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fmpair.cli.flags import Flag, flag, given_only

if TYPE_CHECKING:
    from fmpair.data import Dataset
    from fmpair.evaluation import Protocol

PANEL = "Protocol"


def _option(name: str, metavar: str, help: str) -> Flag:
    kind: Any = int | None if metavar == "N" else str | None
    return flag(name, kind, None, metavar=metavar, help=help, rich_help_panel=PANEL)


# Each is an option of Protocol under the same name, but for two whose names are taken: --items and
# --domain say how events are read.
PROTOCOL = (
    _option("unit", "NAME", "One list per interaction, user or user-context."),
    _option("candidates", "NAME", "Candidates: all, train, uniform, popularity or first."),
    _option("n", "N", "Number of candidates of uniform, popularity and first."),
    _option(
        "candidates_file", "FILE", "Rank the items of this file; with a column of users, per user."
    ),
    _option("seen", "NAME", "Seen items to exclude: none, train, train+test or context."),
    _option("relevant", "NAME", "Relevant test events: all, distinct, new or next."),
    _option("gain", "COLUMN", "The column of the test events with graded relevance."),
    _option("seed", "N", "The seed of sampled candidates."),
    _option("in_domain", "NAME", "Evaluate in this domain only."),
    _option("after", "WHOSE", "Refuse test events older than training ones of their user, or all."),
)
RENAMED = {"candidates_file": "items", "in_domain": "domain"}


def protocol_from(name: str | None, judging: dict[str, Any], *parts: Dataset) -> Protocol:
    """The preset, changed by the flags; without a name the one that suits the data."""
    from dataclasses import replace

    from fmpair.data.read import read_frame
    from fmpair.evaluation.protocol import preset
    from fmpair.evaluation.repeats import usual_protocol

    options = {RENAMED.get(key, key): value for key, value in given_only(judging).items()}
    if "items" in options:
        options |= {"items": read_frame(options["items"]), "candidates": "file"}
    return replace(usual_protocol(*parts) if name is None else preset(name), **options)
