"""The command `evaluate`: a model file, or lists of recommendations, on test events."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.flags import Flag, flag, given_only, in_flags, with_flags
from fmpair.cli.input import READ_FLAGS, open_events, plain_options, read_events
from fmpair.cli.output import Output, emit, note
from fmpair.errors import OptionError, spelled

if TYPE_CHECKING:
    import polars as pl

    from fmpair.data import Dataset
    from fmpair.evaluation import Evaluation, Protocol
    from fmpair.features import FeatureSpace

METRICS = ("recall@10", "ndcg@10")


def _option(name: str, metavar: str, help: str) -> Flag:
    kind: Any = int | None if metavar == "N" else str | None
    return flag(name, kind, None, metavar=metavar, help=help, rich_help_panel="Protocol")


# Flags named like the options of Protocol. Two differ: --items and --domain already read events.
PROTOCOL = (
    _option("unit", "NAME", "One list per interaction, user or user-context."),
    _option("candidates", "NAME", "Candidates: all, train, cold, uniform, popularity or first."),
    _option("n", "N", "Number of candidates of uniform, popularity and first."),
    _option(
        "candidates_file", "FILE", "Rank the items of this file; per user if it has a user column."
    ),
    _option("seen", "NAME", "Seen items to exclude: none, train, train+test, context or earlier."),
    _option("relevant", "NAME", "Relevant test events: all, distinct, new, next, warm or cold."),
    _option("gain", "COLUMN", "The column of graded relevance of the test events."),
    _option("seed", "N", "The seed of sampled candidates."),
    _option("in_domain", "NAME", "Evaluate in this domain only."),
    _option(
        "after",
        "WHOSE",
        "Reject test events older than training events: of their user (user), or of all (all).",
    ),
    _option(
        "history",
        "PART",
        "What is known of a user: the training events (train), the earlier test events (test), or "
        "all events before the one to predict (known).",
    ),
    _option("targets", "WHICH", "Predict all test events, or each user's first or last."),
)
RENAMED = {"candidates_file": "items", "in_domain": "domain"}

Source = Annotated[
    str,
    typer.Argument(
        metavar="MODEL_OR_LISTS",
        help="A model file or a run folder; or lists: a table (user, item, score or rank) or a "
        "TREC run.",
    ),
]
Train = Annotated[str | None, typer.Option(metavar="EVENTS", help="The training events.")]
Test = Annotated[str | None, typer.Option(metavar="EVENTS", help="The test events.")]
Shown = Annotated[
    str | None,
    typer.Option(
        metavar="EVENTS",
        help="Events of --train that the model has not learned from, but should know.",
    ),
]
Set = Annotated[
    str | None, typer.Option(metavar="NAME", help="A public set with a published split.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="full, full-user, full-context, one-plus-random, legacy, next-item, "
        "next-item-in-time, sessions, global-time, warm or cold; the flags of the protocol change "
        "it. By default full, with seen items ranked if users repeat them.",
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Such as ndcg@10 (repeat); by default recall and ndcg."),
]
By = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VIEW",
        help="Break down by popularity, activity, warmth, events or context:COLUMN (repeat).",
    ),
]
PerUnit = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write the values of every unit to this file.")
]
Overlap = Annotated[
    str | None,
    typer.Option(metavar="LISTS", help="Compare two files of lists instead; needs no events."),
]


def evaluate(
    source: Source,
    train: Train = None,
    test: Test = None,
    shown: Shown = None,
    set: Set = None,
    protocol: Preset = None,
    metric: Metrics = None,
    by: By = None,
    per_unit: PerUnit = None,
    overlap: Overlap = None,
    output: Output = None,
    protocol_flags: Any = None,
    reading: Any = None,
) -> None:
    """Evaluate a saved model, or lists from a file, on test events."""
    import polars as pl

    from fmpair.evaluation import evaluate, given_lists

    if overlap is not None:
        first, second = _lists(source, reading), _lists(overlap, reading)
        emit(given_lists.overlap(first, second), output)
        return
    subject = _subject(source, shown, reading)
    parts = _parts(train, test, set, reading, getattr(subject, "space", None))
    chosen = protocol_from(protocol, protocol_flags, *parts)
    method = given_lists.judge if isinstance(subject, pl.DataFrame) else evaluate
    result = method(subject, *parts, chosen, metric or METRICS)
    if per_unit is not None:
        from fmpair.data.write import write

        write(result.units, per_unit)
    emit(_views(result, parts, by) if by else _table(result), output, noted=["protocol"])
    note(f"protocol {result.protocol}: {_counts(result)}")
    note(f"corrected: {result.estimator}" if result.estimator else "")
    note("\n".join(_remarks(parts, chosen, protocol is None and not protocol_flags["seen"])))


def _counts(result: Evaluation) -> str:
    """Describe the units: their number, the share with a list, unknown users and items."""
    cold = [
        f"{count:,} of {what} without training events"
        for count, what in ((result.cold_users, "users"), (result.cold_items, "items"))
        if count
    ]
    units = f"{len(result.units):,} units, {result.coverage:.1%} with a list"
    return "; ".join([units, ", ".join(cold)]) if cold else units


def command() -> Any:
    return with_flags(evaluate, protocol_flags=PROTOCOL, reading=READ_FLAGS)


def protocol_from(name: str | None, flags: dict[str, Any], *parts: Dataset) -> Protocol:
    """Return a preset changed by the flags; without a name the default for the data."""
    from dataclasses import replace

    from fmpair.data.read import read_frame
    from fmpair.evaluation.protocol import default_protocol, preset

    options = {RENAMED.get(key, key): value for key, value in given_only(flags).items()}
    if "items" in options:
        options |= {"items": read_frame(options["items"]), "candidates": "file"}
    return replace(default_protocol(*parts) if name is None else preset(name), **options)


def _remarks(parts: tuple[Dataset, Dataset], protocol: Protocol, by_default: bool) -> list[str]:
    """Return the reason for a default protocol, and what repeated items mean for the result."""
    from fmpair.evaluation.protocol import (
        default_protocol_reason,
        repeat_note,
        repeated_events,
        repeats_inflate,
    )

    repeats, events = repeated_events(*parts), len(parts[1])
    warning = "warning: " if repeats_inflate(repeats, events, protocol) else ""
    remark = repeat_note(repeats, events, protocol)
    lines = [
        f"by default: {default_protocol_reason(*parts)}" if by_default else "",
        f"{warning}{remark}",
    ]
    return [spelled(line, in_flags(PROTOCOL)) for line in lines if line]


def _parts(
    train: str | None,
    test: str | None,
    public: str | None,
    reading: dict[str, Any],
    space: FeatureSpace | None,
) -> tuple[Dataset, Dataset]:
    """Return the training and test events, with the ids and context columns of the model."""
    if public is not None and train is None and test is None:
        from fmpair.data.public_sets import load_parts

        return load_parts(public)
    if public is not None or train is None or test is None:
        raise OptionError("give --train EVENTS and --test EVENTS, or --set NAME instead of both")
    first, second = (open_events(source, reading, space) for source in (train, test))
    if first.decisions is None or second.decisions is None:
        return first.dataset(), second.dataset()
    chosen = reading["context"] or reading["no_context"]
    known = [] if space is None or chosen else space.context
    context = [*first.decisions.options["context"], *known]
    return (
        first.dataset(**first.decisions.keeping(context)),
        second.dataset(**second.decisions.keeping(context)),
    )


def _subject(source: str, shown: str | None, reading: dict[str, Any]) -> Any:
    """Return what to evaluate: a fitted model with the shown events, or a frame of lists."""
    from fmpair.experiment.folder import PLAN, model_of
    from fmpair.models.catalog import load

    if (Path(source) / PLAN).is_file():
        source = str(model_of(source))
    if _is_model(source):
        model = load(source)
        return model if shown is None else model.extended(read_events(shown, reading))
    if shown is not None:
        raise OptionError(f"--shown needs a model, but {source} has lists")
    return _lists(source, reading)


def _lists(path: str, reading: dict[str, Any]) -> pl.DataFrame:
    from fmpair.evaluation.given_lists import read_lists

    roles = {role: reading[role] for role in ("user", "item")}
    return read_lists(path, **roles, **plain_options(path, reading))


def _is_model(source: str) -> bool:
    """Return whether a file starts like a model: the length of a header, then the header."""
    path = Path(source)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(9)
    return head[8:] == b"{" and int.from_bytes(head[:8], "little") < path.stat().st_size


def _table(result: Evaluation) -> pl.DataFrame:
    import polars as pl

    from fmpair.evaluation.evaluation import summary

    return summary(result).with_columns(
        pl.lit(len(result.units)).alias("units"),
        pl.lit(result.coverage).alias("coverage"),
        pl.lit(result.protocol).alias("protocol"),
    )


def _views(
    result: Evaluation, parts: tuple[Dataset, Dataset], names: Sequence[str]
) -> pl.DataFrame:
    """Return (view, group, units, one column per metric)."""
    import polars as pl

    from fmpair.evaluation.views import groups, view

    frames = [
        view(result, groups(name, result, *parts).cast(pl.String)).insert_column(
            0, pl.lit(name).alias("view")
        )
        for name in names
    ]
    return pl.concat(frames)
