"""`fit`: from a file of events to a model file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from fmpair.cli.flags import Flag, flag, pairs, with_flags
from fmpair.cli.input import (
    READING,
    Events,
    Model,
    load_model,
    model_file,
    opened,
    read_further,
    reading_options,
)
from fmpair.cli.output import busy, note, only_errors, size_of
from fmpair.errors import OptionError, named
from fmpair.features.field import Field
from fmpair.files import shown
from fmpair.models.catalog import grouped
from fmpair.models.fm_pair.fm_pair import FMPair
from fmpair.text import descriptions, harmless, whole

if TYPE_CHECKING:
    from fmpair.data import Dataset
    from fmpair.models.catalog import Model as Fitted


# The flags of `fit` that are FMPair's own options, and the recipe they make.


PANEL = "Model"
# Flags of mappings are repeated, one entry each.
SPELLINGS = {"fields": "--field", "fm_order": "--fm-order"}
# Options whose flags have another name: --order is that of rows.
NAMES = {"order": "fm_order"}
METAVARS = {
    "fields": "NAME=KIND",
    "regularization": "[NAME=]X",
    "history": "N|auto|NAME=X,...",
    "levels": "KIND,KIND,...",
    "pairs": "FIELD:FIELD,...",
}
TEXTS = ("history", "levels", "pairs")  # options of several types that are given as one text


def recipe_flags() -> list[Flag]:
    """One flag per option of FMPair, with its type, default and description; groups are panels."""
    kinds = get_type_hints(FMPair)
    texts = descriptions(whole(FMPair), kinds)
    return [
        _flag(option, kinds[option.name], texts.get(option.name), group)
        for option, group in grouped(FMPair)
    ]


def recipe_from(values: Mapping[str, Any]) -> FMPair:
    """The recipe the flags describe."""
    known = {flag: option for option, flag in NAMES.items()}
    options = {known.get(name, name): value for name, value in values.items()}
    regularization, columns = options.pop("regularization"), options.pop("fields")
    if regularization:
        options["regularization"] = _regularization(regularization)
    options["history"] = _history(options["history"])
    if options["levels"] is not None:
        options["levels"] = [level.strip() for level in options["levels"].split(",")]
    if options["pairs"] is not None:
        options["pairs"] = [pair.strip().split(":") for pair in options["pairs"].split(",")]
    return FMPair(**options, fields=_fields(columns))


def _flag(option: Any, kind: Any, text: str | None, group: str) -> Flag:
    mapping = _is_mapping(kind) and option.name not in TEXTS
    kind = list[str] if mapping else str | None if option.name in TEXTS else kind
    default = [] if mapping or option.default is MISSING else option.default
    name = NAMES.get(option.name, option.name)
    spelling = [SPELLINGS[name]] if name in SPELLINGS else []
    return flag(
        name,
        kind,
        default,
        *spelling,
        help=text,
        rich_help_panel=f"{PANEL}: {group.lower()}" if group else PANEL,
        metavar=METAVARS.get(option.name),
    )


def _is_mapping(kind: Any) -> bool:
    """Whether an option's type is a mapping, or may be one."""
    return any(get_origin(part) is Mapping for part in (kind, *get_args(kind)))


def _history(given: str) -> Any:
    """`10` and `auto` as they are, `last=10,fade=0.7` by name."""
    if "=" not in given:
        return _value(given)
    return {name: _value(text) for name, text in pairs(given.split(","), "--history").items()}


def _regularization(given: Sequence[str]) -> Any:
    """One number, or numbers by name."""
    if len(given) == 1 and "=" not in given[0]:
        return _value(given[0])
    return {name: _value(text) for name, text in pairs(given, "--regularization").items()}


def _fields(given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """`age=binned` is a kind, `age.bins=5` any other option of a field."""
    own = [option.name for option in fields(Field)]
    found: dict[str, dict[str, Any]] = {}
    for name, text in pairs(given, "--field").items():
        column, _, option = name.rpartition(".")
        if column and option in own:
            found.setdefault(column, {})[option] = _value(text)
        else:
            found.setdefault(name, {})["kind"] = text
    return found


def _value(text: str) -> Any:
    """A number or truth value where the text is one, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


# `update` and `fold-in`: a model that is there, and what happened since.


Target = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The model file to write.")
]
Epochs = Annotated[
    int | None, typer.Option(metavar="N", help="How often to go through the events.")
]
Replay = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|N",
        help="Earlier events to learn again: a file of them, or how many for each new one.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Where to learn: cpu, cuda, torch or auto, in place of the model's."
    ),
]
File = Annotated[
    str | None,
    typer.Argument(
        metavar="[EVENTS]",
        help="A file (CSV, Parquet, JSON lines, ...; gz and zip too), a folder, the name of a "
        "public set, or - for standard input.",
    ),
]
Kept = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Learn what a service keeps there, from where the model's own knowledge ends: "
        "sqlite:PATH, a path, or postgresql://...",
    ),
]
After = Annotated[
    int | None,
    typer.Option(
        metavar="POSITION", min=0, help="With --events: begin after this one, whatever is known."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")]
Unknown = Annotated[
    str,
    typer.Option(metavar="NAME", help="Events of unknown items: ignore (and count them) or error."),
]


def update(
    model: Model,
    output: Target,
    file: File = None,
    events: Kept = None,
    after: After = None,
    epochs: Epochs = None,
    replay: Replay = None,
    device: Device = None,
    quiet: Quiet = False,
    reading: Any = None,
) -> None:
    """Go on learning from new events, with their new users, items and values."""
    if (file is None) == (events is None):
        raise OptionError("give either a file of events, or --events URL of those a service keeps")
    if after is not None and events is None:
        raise OptionError("--after is a position in a store of events: give --events URL too")
    of_files = [] if events is None or replay is not None else list(reading_options(reading))
    if of_files:
        raise OptionError(
            f"{named(of_files[0])} says how a file is read, and --events has none: "
            "fmpair events export writes one"
        )
    learn: dict[str, Any] = {"epochs": epochs, "replay": replay, "quiet": quiet}
    learn |= {"reading": reading, "device": device}
    if events is not None:
        _update_from_store(model, events, output, after, learn)
        return
    fitted, data = _both(model, str(file), output, reading, quiet)
    _put(fitted, _learned(fitted, data, **learn), output, quiet)


def _update_from_store(
    model: str, url: str, output: Path, after: int | None, learn: dict[str, Any]
) -> None:
    """Learn what a service kept since the model was made, and note how far the new one knows."""
    from fmpair.cli.service_commands import opened
    from fmpair.events.frame import mark_learned, unlearned_events

    fitted = load_model(model)
    check_target(output)
    with opened(url) as store:
        news = unlearned_events(store, model_file(model), fitted.space, after)
        quiet = learn["quiet"]
        note("" if quiet else f"read {len(news.events):,} events after position {news.after:,}")
        _put(fitted, _learned(fitted, news.events, **learn), output, quiet)
        mark_learned(store, output, news)


def _learned(
    fitted: Fitted,
    data: Any,
    epochs: int | None,
    replay: str | None,
    quiet: bool,
    reading: dict[str, Any],
    device: str | None,
) -> Fitted:
    earlier = _earlier(replay, reading, fitted)
    with busy("" if quiet else f"learning from {len(data):,} events"):
        return _located(fitted, device).update(data, epochs=epochs, replay=earlier)


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
    """Add new users from a few events of theirs; nothing else in the model changes."""
    fitted, data = _both(model, events, output, reading, quiet)
    fitted = _located(fitted, device)
    with busy("" if quiet else f"folding in {len(data.compact().users):,} users"):
        grown = fitted.fold_in(data, epochs=epochs, unknown=unknown)
    _put(fitted, grown, output, quiet)


def _located(model: Fitted, device: str | None) -> Fitted:
    """The model that goes on learning there, where the flag says so."""
    if device is None:
        return model
    recipe: Any = model.recipe
    if not hasattr(recipe, "device"):
        raise OptionError(f"{named('device', device)} is of models that learn from pairs")
    return model.replaced(recipe=replace(recipe, device=device))


def commands() -> dict[str, Any]:
    """The verbs by name, with all their flags."""
    verbs: dict[str, Callable[..., None]] = {"update": update, "fold-in": fold_in}
    return {name: with_flags(verb, reading=READING) for name, verb in verbs.items()}


def check_target(target: Path) -> None:
    """Before the hours of training, not after."""
    from fmpair.files import check_writable

    if str(target) == "-":
        raise OptionError("a model cannot go to standard output: name a file with -o FILE")
    check_writable(target)


def _both(
    model: str, events: str, output: Path, reading: dict[str, Any], quiet: bool
) -> tuple[Fitted, Dataset]:
    fitted = load_model(model)
    check_target(output)
    data = read_further(events, reading, fitted)
    note("" if quiet else f"read {data!r}"[:-1].replace("Dataset(", ""))
    return fitted, data


def _earlier(given: str | None, reading: dict[str, Any], fitted: Fitted) -> Dataset | float:
    """A number, or the events of a file."""
    try:
        return 0.0 if given is None else float(given)
    except ValueError:
        return read_further(str(given), reading, fitted)


def _put(before: Fitted, after: Fitted, output: Path, quiet: bool) -> None:
    """Write the model and say how it grew."""
    after.save(output)
    grown = [
        f"{len(after.user_ids) - len(before.user_ids):,} new users",
        f"{len(after.item_ids) - len(before.item_ids):,} new items",
    ]
    note("" if quiet else f"wrote {output} ({size_of(output)}) with {', '.join(grown)}")


VALIDATION = "Validation"


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
KeptIn = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Keep what is learned so far in this file, every few seconds: interrupted, the same "
        "command goes on from there. Removed when the model is written.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only print what the columns are taken for.")
]


def fit(
    events: Events,
    output: Target = Path("model.fmpair"),
    validation: Share = None,
    metric: MetricName = "ndcg@10",
    patience: Patience = 5,
    checkpoint: KeptIn = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    reading: Any = None,
    recipe: Any = None,
) -> None:
    """Train on a file of events and write a model."""

    model, kept = recipe_from(recipe), _kept_in(checkpoint, output)
    if not dry_run:
        check_target(output)
    found = opened(events, reading)
    if dry_run:
        typer.echo(harmless("\n".join(found.lines())))
        if found.decisions is not None:
            found.dataset()  # which says what rows it leaves out
        return
    data = found.dataset()
    note("" if quiet else "\n".join(found.lines()))
    note("" if quiet else f"read {data!r}"[:-1].replace("Dataset(", ""))
    if checkpoint is not None and checkpoint.exists() and not quiet:
        note(f"going on from {shown(checkpoint)}")
    began = time.perf_counter()
    told = {"validation": validation, "metric": metric, "patience": patience, **kept}
    with only_errors(quiet):
        fitted = model.fit(data, progress=not quiet, **told)
    fitted.save(output)
    for place in kept.values():
        place.remove()
    seconds = time.perf_counter() - began
    note("" if quiet else f"wrote {output} ({size_of(output)}) after {seconds:.1f} s")


def _kept_in(path: Path | None, output: Path) -> dict[str, Any]:
    """What `fit` is told of a checkpoint: it stays until the model is written."""
    if path is None:
        return {}
    if path.absolute() == output.absolute():
        raise OptionError(f"{named('checkpoint')} and {named('output')} must be two files")
    from fmpair.training.checkpoint import Checkpoint

    return {"checkpoint": Checkpoint(path, stays=True)}


def command() -> Any:
    """The command with all its flags."""

    app = typer.Typer(add_completion=False)
    app.command()(with_flags(fit, reading=READING, recipe=recipe_flags()))
    return typer.main.get_command(app)
