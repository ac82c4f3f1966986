"""`evaluate`: a model file, or lists of recommendations, on test events."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.flags import Flag, flag, given_only, in_flags, with_flags
from fmpair.cli.input import READING, opened, plain_options, read_events
from fmpair.cli.output import Output, emit, note
from fmpair.errors import OptionError, spelled

if TYPE_CHECKING:
    import polars as pl

    from fmpair.data import Dataset
    from fmpair.evaluation import Evaluation, Protocol
    from fmpair.features import FeatureSpace


# The flags of `evaluate` that are a protocol's own options, and the protocol they make.


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
    from fmpair.evaluation.protocol import default_protocol, preset

    options = {RENAMED.get(key, key): value for key, value in given_only(judging).items()}
    if "items" in options:
        options |= {"items": read_frame(options["items"]), "candidates": "file"}
    return replace(default_protocol(*parts) if name is None else preset(name), **options)


METRICS = ("recall@10", "ndcg@10")

Judged = Annotated[
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
        help="Events among --train that the model has not learned from, but is to know of.",
    ),
]
Set = Annotated[
    str | None, typer.Option(metavar="NAME", help="A public set with a published split.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="full, full-user, full-context, one-plus-random, legacy, next-item or "
        "next-item-in-time; the flags of the protocol change it. By default full, with seen items "
        "ranked where users repeat them.",
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
        help="Break down by popularity, activity, warmth or context:COLUMN (repeat).",
    ),
]
PerUnit = Annotated[
    str | None, typer.Option(metavar="FILE", help="Where to write the values of every unit.")
]
Overlap = Annotated[
    str | None,
    typer.Option(metavar="LISTS", help="Compare two files of lists instead; needs no events."),
]


def evaluate(
    source: Judged,
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
    judging: Any = None,
    reading: Any = None,
) -> None:
    """Evaluate a saved model, or lists from a file, on test events."""
    if overlap is not None:
        from fmpair.evaluation import given_lists

        one, other = (_lists(path, reading) for path in (source, overlap))
        emit(given_lists.overlap(one, other), output)
        return
    judged = _judged(source, shown, reading)
    parts = _parts(train, test, set, reading, getattr(judged, "space", None))
    how = protocol_from(protocol, judging, *parts)
    found = _result(judged, parts, how, metric or METRICS)
    if per_unit is not None:
        from fmpair.data.write import write

        write(found.units, per_unit)
    emit(_views(found, parts, by) if by else _table(found), output)
    note(f"protocol {found.protocol}: {len(found.units):,} units, {found.coverage:.1%} with a list")
    note(f"corrected: {found.estimator}" if found.estimator else "")
    note("\n".join(_told(parts, how, protocol is None and not judging["seen"])))


def command() -> Any:
    """The verb with all its flags."""
    return with_flags(evaluate, judging=PROTOCOL, reading=READING)


def _told(parts: tuple[Dataset, Dataset], how: Protocol, chosen: bool) -> list[str]:
    """Why the protocol was chosen, where it was, and what numbers mean where users repeat."""
    from fmpair.evaluation.protocol import (
        default_protocol_reason,
        repeat_note,
        repeated_events,
        repeats_inflate,
    )

    again, events = repeated_events(*parts), len(parts[1])
    warning = "warning: " if repeats_inflate(again, events, how) else ""
    told = repeat_note(again, events, how)
    said = [f"by default: {default_protocol_reason(*parts)}" if chosen else "", f"{warning}{told}"]
    return [spelled(line, in_flags(PROTOCOL)) for line in said if line]


def _parts(
    train: str | None,
    test: str | None,
    public: str | None,
    reading: dict[str, Any],
    space: FeatureSpace | None,
) -> tuple[Dataset, Dataset]:
    """The events of training and test, with the context that the model knows in both."""
    if public is not None and train is None and test is None:
        from fmpair.data.public_sets import load_parts

        return load_parts(public)
    if public is not None or train is None or test is None:
        raise OptionError("give --train EVENTS and --test EVENTS, or --set NAME in place of both")
    first, second = opened(train, reading), opened(test, reading)
    note(first.surprises())
    if first.decisions is None or second.decisions is None:
        return first.dataset(), second.dataset()
    asked = reading["context"] or reading["no_context"]
    known = [] if space is None or asked else space.context
    context = [*first.decisions.options["context"], *known]
    return (
        first.dataset(**first.decisions.keeping(context)),
        second.dataset(**second.decisions.keeping(context)),
    )


def _judged(source: str, shown: str | None, reading: dict[str, Any]) -> Any:
    """A fitted model, with the events shown to it, or lists as a frame."""
    from fmpair.experiment.folder import PLAN, model_of
    from fmpair.models.catalog import load

    if (Path(source) / PLAN).is_file():
        source = str(model_of(source))
    if _is_model(source):
        model = load(source)
        return model if shown is None else model.extended(read_events(shown, reading))
    if shown is not None:
        raise OptionError(f"--shown goes with a model, and {source} holds lists")
    return _lists(source, reading)


def _result(
    judged: Any, parts: tuple[Dataset, Dataset], protocol: Protocol, metrics: Sequence[str]
) -> Evaluation:
    import polars as pl

    from fmpair.evaluation import evaluate, given_lists

    way = given_lists.judge if isinstance(judged, pl.DataFrame) else evaluate
    return way(judged, *parts, protocol, metrics)


def _lists(path: str, reading: dict[str, Any]) -> pl.DataFrame:
    """Lists of a file, read as the flags say."""
    from fmpair.evaluation.given_lists import read_lists

    called = {role: reading[role] for role in ("user", "item")}
    return read_lists(path, **called, **plain_options(path, reading))


def _is_model(source: str) -> bool:
    """Whether the file begins as a model does: the length of a header, then the header."""
    path = Path(source)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(9)
    return head[8:] == b"{" and int.from_bytes(head[:8], "little") < path.stat().st_size


def _table(found: Evaluation) -> pl.DataFrame:
    import polars as pl

    from fmpair.evaluation.tables import summary

    frame = summary(found)
    return frame.with_columns(
        pl.lit(len(found.units)).alias("units"),
        pl.lit(found.coverage).alias("coverage"),
        pl.lit(found.protocol).alias("protocol"),
    )


def _views(found: Evaluation, parts: tuple[Dataset, Dataset], names: Sequence[str]) -> pl.DataFrame:
    """(view, group, units, one column per metric)."""
    import polars as pl

    from fmpair.evaluation.views import groups, view

    frames = [
        view(found, groups(name, found, *parts).cast(pl.String)).insert_column(
            0, pl.lit(name).alias("view")
        )
        for name in names
    ]
    return pl.concat(frames)
