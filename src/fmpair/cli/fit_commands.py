"""Commands that train: fit, update, fold-in."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from fmpair.cli.flags import DryRun, Flag, flag, in_flags, pairs, with_flags
from fmpair.cli.input import (
    EVENTS_HELP,
    READ_FLAGS,
    Events,
    Model,
    OpenedEvents,
    load_model,
    model_file,
    open_events,
    read_new_events,
    reading_options,
    table_lines,
)
from fmpair.cli.output import busy, note, only_errors, size_of
from fmpair.cli.tuning import Trials, TuningTime, data_section, tuned, tuning_options
from fmpair.errors import OptionError, named
from fmpair.text import descriptions, harmless, whole

if TYPE_CHECKING:
    from fmpair.data import Dataset
    from fmpair.models.catalog import Model as Fitted
    from fmpair.models.fm_pair.fm_pair import FMPair

VALIDATION = "Validation"
# FMPair's options whose flags differ. `order` is --fm-order, because --order is the order of rows.
FLAG_NAMES = {"order": "fm_order"}
FM_ORDERS = ("2", "3", "auto")
SPELLINGS = {"fields": "--field", "fm_order": "--fm-order"}
METAVARS = {
    "fields": "NAME=KIND",
    "regularization": "[NAME=]X",
    "history": "N|auto|NAME=X,...",
    "levels": "TYPE,TYPE,...",
    "pairs": "FIELD:FIELD,...",
    "order": "2|3|auto",
    "times": "true|false|auto",
}
# Options of several types, which the command line takes as text.
TEXTS = ("history", "order", "times", "levels", "pairs")

Target = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The model file to write.")
]
Share = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Early stopping: hold out this share of the events and keep the best epoch.",
        rich_help_panel=VALIDATION,
    ),
]
MetricName = Annotated[
    str, typer.Option(help="The metric of early stopping.", rich_help_panel=VALIDATION)
]
Patience = Annotated[
    int,
    typer.Option(
        help="Epochs without improvement before training stops.", rich_help_panel=VALIDATION
    ),
]
CheckpointFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Save the state of training to this file every few seconds; after an interrupt the "
        "same command continues from it. Removed when the model is written.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Epochs = Annotated[
    int | None, typer.Option(metavar="N", help="Number of passes over the new events.")
]
Replay = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|N",
        help="Earlier events to learn again: a file, or their number per new event.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Where to train: cpu, cuda, torch or auto, instead of the model's."
    ),
]
OptionalEvents = Annotated[str | None, typer.Argument(metavar="[EVENTS]", help=EVENTS_HELP)]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Learn the events in this store that the model has not learned yet: sqlite:PATH, "
        "a path, or postgresql://...",
    ),
]
After = Annotated[
    int | None,
    typer.Option(metavar="POSITION", min=0, help="With --events: start after this position."),
]
Unknown = Annotated[
    str,
    typer.Option(metavar="NAME", help="Events of unknown items: ignore (and count them) or error."),
]


def fit(
    events: Events,
    output: Target = Path("model.fmpair"),
    validation: Share = None,
    metric: MetricName = "ndcg@10",
    patience: Patience = 5,
    checkpoint: CheckpointFile = None,
    budget: TuningTime = None,
    trials: Trials = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    reading: Any = None,
    recipe: Any = None,
) -> None:
    """Train on a file of events and write a model."""
    from fmpair.files import shown

    model: Any = recipe_from(recipe)
    _check_order(reading["order"])
    saved_state, tuning = _checkpoint(checkpoint, output), tuning_options(budget, trials)
    if not dry_run:
        check_target(output)
    opened = open_events(events, reading)
    if dry_run:
        model.check_levels(_print_roles(opened))
        return
    data = opened.dataset()
    _note_read(data, quiet, [*opened.lines(), *_lines_of_tables(opened, data)])
    if checkpoint is not None and checkpoint.exists() and not quiet:
        note(f"continuing from {shown(checkpoint)}")
    if tuning:
        model = tuned(model, data, output, quiet, tuning, data_section(events, reading))
    start = time.perf_counter()
    options = {"validation": validation, "metric": metric, "patience": patience, **saved_state}
    with only_errors(quiet):
        fitted = model.fit(data, progress=not quiet, **options)
    fitted.save(output)
    for state in saved_state.values():
        state.remove()
    seconds = time.perf_counter() - start
    note("" if quiet else f"wrote {output} ({size_of(output)}) after {seconds:.1f} s")


def update(
    model: Model,
    output: Target,
    file: OptionalEvents = None,
    events: StoreUrl = None,
    after: After = None,
    epochs: Epochs = None,
    replay: Replay = None,
    device: Device = None,
    quiet: Quiet = False,
    reading: Any = None,
) -> None:
    """Continue training with new events, including their new users, items and values."""
    if (file is None) == (events is None):
        raise OptionError("give either a file of events, or --events URL of an event store")
    if after is not None and events is None:
        raise OptionError("--after is a position in an event store: it requires --events URL")
    file_flags = [] if events is None or replay is not None else list(reading_options(reading))
    if file_flags:
        raise OptionError(
            f"{named(file_flags[0])} is for files, not for --events: fmpair events export writes a "
            "file"
        )
    learn: dict[str, Any] = {"epochs": epochs, "replay": replay, "quiet": quiet}
    learn |= {"reading": reading, "device": device}
    if events is not None:
        _update_from_store(model, events, output, after, learn)
        return
    fitted, data = _model_and_data(model, str(file), output, reading, quiet)
    _save(fitted, _updated(fitted, data, **learn), output, quiet)


def fold_in(
    model: Model,
    events: Events,
    output: Target,
    epochs: Epochs = None,
    unknown: Unknown = "ignore",
    device: Device = None,
    quiet: Quiet = False,
    reading: Any = None,
) -> None:
    """Add new users from their events; nothing else in the model changes."""
    fitted, data = _model_and_data(model, events, output, reading, quiet)
    fitted = _on_device(fitted, device)
    with busy("" if quiet else f"folding in {len(data.compact().users):,} users"):
        grown = fitted.fold_in(data, epochs=epochs, unknown=unknown)
    _save(fitted, grown, output, quiet)


def fit_command() -> Any:
    app = typer.Typer(add_completion=False)
    app.command()(with_flags(fit, reading=READ_FLAGS, recipe=recipe_flags()))
    return typer.main.get_command(app)


def update_command() -> Any:
    return with_flags(update, reading=READ_FLAGS)


def fold_in_command() -> Any:
    return with_flags(fold_in, reading=READ_FLAGS)


def _print_roles(opened: OpenedEvents) -> Dataset:
    """Print the roles of all columns; return the data, whose notices count dropped rows."""
    typer.echo(harmless("\n".join(opened.lines())))
    data = opened.dataset()
    lines = _lines_of_tables(opened, data)
    if lines:
        typer.echo(harmless("\n".join(lines)))
    return data


def _lines_of_tables(opened: OpenedEvents, data: Dataset) -> list[str]:
    """Return the roles of the columns of tables and vectors, after an empty line."""
    lines = table_lines(data, opened.decisions, in_flags(READ_FLAGS))
    return ["", *lines] if lines else []


def check_target(target: Path) -> None:
    """Raise an error before training if the model file cannot be written."""
    from fmpair.files import check_writable

    if str(target) == "-":
        raise OptionError("a model cannot be written to standard output: use -o FILE")
    check_writable(target)


def _check_order(order: str | None) -> None:
    """Raise OptionError if --order, the order of rows, has a value of --fm-order."""
    if order in FM_ORDERS:
        raise OptionError(
            f"{named('order', order)} is not an order of rows. "
            f"Did you mean {named('fm_order', order)}?"
        )


def _checkpoint(path: Path | None, output: Path) -> dict[str, Any]:
    """Return the option `checkpoint` of `fit`; its file is kept until the model is written."""
    if path is None:
        return {}
    if path.absolute() == output.absolute():
        raise OptionError(f"{named('checkpoint')} and {named('output')} must be different files")
    from fmpair.training.checkpoint import Checkpoint

    return {"checkpoint": Checkpoint(path, stays=True)}


def _update_from_store(
    model: str, url: str, output: Path, after: int | None, learn: dict[str, Any]
) -> None:
    """Train on the new events of a store, and record there which events the model has learned."""
    from fmpair.cli.service_commands import open_existing
    from fmpair.events.frame import mark_learned, unlearned_events

    fitted = load_model(model)
    check_target(output)
    with open_existing(url) as store:
        new = unlearned_events(store, model_file(model), fitted, after)
        quiet = learn["quiet"]
        note("" if quiet else f"read {len(new.events):,} events after position {new.after:,}")
        _save(fitted, _updated(fitted, new.events, **learn), output, quiet)
        mark_learned(store, output, new)


def _updated(
    fitted: Fitted,
    data: Any,
    epochs: int | None,
    replay: str | None,
    quiet: bool,
    reading: dict[str, Any],
    device: str | None,
) -> Fitted:
    earlier: Dataset | float
    try:
        earlier = 0.0 if replay is None else float(replay)
    except ValueError:
        earlier = read_new_events(str(replay), reading, fitted)
    with busy("" if quiet else f"learning from {len(data):,} events"):
        return _on_device(fitted, device).update(data, epochs=epochs, replay=earlier)


def _on_device(model: Fitted, device: str | None) -> Fitted:
    """Return the model with the device of the flag."""
    if device is None:
        return model
    recipe: Any = model.recipe
    if not hasattr(recipe, "device"):
        raise OptionError(f"{named('device')} cannot be used: this model has no such option")
    return model.replaced(recipe=replace(recipe, device=device))


def _model_and_data(
    model: str, events: str, output: Path, reading: dict[str, Any], quiet: bool
) -> tuple[Fitted, Dataset]:
    fitted = load_model(model)
    check_target(output)
    data = read_new_events(events, reading, fitted)
    _note_read(data, quiet)
    return fitted, data


def _note_read(data: Dataset, quiet: bool, lines: Sequence[str] = ()) -> None:
    """Print the lines and what was read, and that low ratings count as positive."""
    from fmpair.data.describe import low_ratings_note

    read = f"read {data!r}"[:-1].replace("Dataset(", "")
    remedy = "leave them out of the file if they are dislikes; fmpair init compares models without"
    low = low_ratings_note(data, remedy)
    note("" if quiet else "\n".join([*lines, read, *([low] if low else [])]))


def _save(before: Fitted, after: Fitted, output: Path, quiet: bool) -> None:
    """Write the model and print how it grew."""
    after.save(output)
    users = len(after.user_ids) - len(before.user_ids)
    items = len(after.item_ids) - len(before.item_ids)
    grown = f"{users:,} new users, {items:,} new items"
    note("" if quiet else f"wrote {output} ({size_of(output)}) with {grown}")


def recipe_flags() -> list[Flag]:
    """Return one flag per option of FMPair, with its type, default and description."""
    from fmpair.models.catalog import grouped
    from fmpair.models.fm_pair.fm_pair import FMPair

    kinds = get_type_hints(FMPair)
    texts = descriptions(whole(FMPair), kinds)
    return [
        _recipe_flag(option, kinds[option.name], texts.get(option.name), group)
        for option, group in grouped(FMPair)
    ]


def _recipe_flag(option: Any, kind: Any, text: str | None, group: str) -> Flag:
    is_mapping = any(get_origin(part) is Mapping for part in (kind, *get_args(kind)))
    is_mapping = is_mapping and option.name not in TEXTS
    kind = list[str] if is_mapping else str | None if option.name in TEXTS else kind
    default = [] if is_mapping or option.default is MISSING else option.default
    name = FLAG_NAMES.get(option.name, option.name)
    return flag(
        name,
        kind,
        default,
        *([SPELLINGS[name]] if name in SPELLINGS else []),
        help=text,
        rich_help_panel=f"Model: {group.lower()}" if group else "Model",
        metavar=METAVARS.get(option.name),
    )


def recipe_from(values: Mapping[str, Any]) -> FMPair:
    """Return the recipe that the flags describe."""
    from fmpair.models.fm_pair.fm_pair import FMPair

    option_of = {flag: option for option, flag in FLAG_NAMES.items()}
    options = {option_of.get(name, name): value for name, value in values.items()}
    regularization = options.pop("regularization")
    if len(regularization) == 1 and "=" not in regularization[0]:
        options["regularization"] = _value(regularization[0])
    elif regularization:
        options["regularization"] = _values(regularization, "--regularization")
    if "=" in options["history"]:  # such as last=10,fade=0.7
        options["history"] = _values(options["history"].split(","), "--history")
    else:
        options["history"] = _value(options["history"])
    options["order"], options["times"] = _value(options["order"]), _value(options["times"])
    if options["levels"] is not None:
        options["levels"] = [level.strip() for level in options["levels"].split(",")]
    if options["pairs"] is not None:
        options["pairs"] = [pair.strip().split(":") for pair in options["pairs"].split(",")]
    try:
        return FMPair(**{**options, "fields": _fields(options["fields"])})
    except OptionError as error:
        text = str(error.args[0])
        for option, flag_name in FLAG_NAMES.items():
            text = text.replace(named(option), named(flag_name))
        raise OptionError(text) from None


def _fields(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parse fields: `age=binned` is a kind, `age.bins=5` any other option of a field."""
    from fmpair.features.field import Field

    names = [option.name for option in fields(Field)]
    result: dict[str, dict[str, Any]] = {}
    for name, text in pairs(texts, "--field").items():
        column, _, option = name.rpartition(".")
        if column and option in names:
            result.setdefault(column, {})[option] = _value(text)
        else:
            result.setdefault(name, {})["kind"] = text
    return result


def _values(texts: Sequence[str], flag_name: str) -> dict[str, Any]:
    return {name: _value(text) for name, text in pairs(texts, flag_name).items()}


def _value(text: str) -> Any:
    """Return a number or truth value if the text is one, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
