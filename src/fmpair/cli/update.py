"""`update` and `fold-in`: a model that is there, and what happened since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.flags import with_flags
from fmpair.cli.model import Model, load_model, model_file
from fmpair.cli.show import busy, note, size_of
from fmpair.cli.source import READING, Events, read_further, reading_options
from fmpair.errors import OptionError, named

if TYPE_CHECKING:
    from fmpair.data import Dataset
    from fmpair.models.saved import Model as Fitted

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
    from fmpair.cli.events import opened
    from fmpair.events.learning import news_for, note_learned

    fitted = load_model(model)
    check_target(output)
    with opened(url) as store:
        news = news_for(store, model_file(model), fitted.space, after)
        quiet = learn["quiet"]
        note("" if quiet else f"read {len(news.events):,} events after position {news.after:,}")
        _put(fitted, _learned(fitted, news.events, **learn), output, quiet)
        note_learned(store, output, news)


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
