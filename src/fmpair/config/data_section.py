"""Functions by name, as the sections filter and split have them, tried before there are data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from inspect import signature
from pathlib import Path
from typing import Any

from fmpair.config.experiment import Source, Step
from fmpair.config.node import Node, one_line
from fmpair.config.option_schema import (
    FILTERS,
    SPLITS,
    Options,
    filters,
    function_of,
    generating,
    options_of,
    parts_of,
    reading,
    sources,
    splits,
)
from fmpair.data import Dataset, public_sets, synthetic
from fmpair.data.filters import EVENT_BY_EVENT
from fmpair.data.formats.source import find_file, parse_errors
from fmpair.data.read import FORMATS, guess_format
from fmpair.data.synthetic import check_size
from fmpair.errors import DataError, FmpairError, OptionError, UnknownError, listing

# The section `data` of an experiment file: where events come from and how they are read.


FILES = ("path", "train", "validation", "test")
TABLES = ("users", "items", "impressions")
WAYS = ("path", "set", "generate", "train and test")


def read_source(place: Node) -> Source | None:
    """The source, None where it is not even clear which it is."""
    if not place.is_a(dict):
        return None
    ways = [way for way in ("path", "set", "generate") if way in place.value]
    parts = [part for part in ("train", "validation", "test") if part in place.value]
    if len(ways) + bool(parts) != 1:
        place.wrong(f"must have exactly one of {listing(WAYS)}")
        return None
    if parts and not {"train", "test"} <= set(parts):
        place.wrong("train and test go together: give both files")
        return None
    if "generate" in ways:
        return _generated(place)
    return _public(place) if "set" in ways else _files(place)


def _generated(place: Node) -> Source:
    place.holding({**place.value, "generate": {}}).options(
        Options({"generate": sources()["generate"]})
    )
    here = place.at("generate")
    size = here.options(generating())
    here.attempt(check_size, options_of(check_size), {k: v for k, v in size.items() if k != "seed"})
    return Source(generate=size)


def _public(place: Node) -> Source | None:
    name = place.at("set")
    if not (name.is_a(str) and name.is_in("data set", public_sets.names())):
        return None
    options = _options(place, public_sets.find(name.value).format, ("set",))
    return Source(set=name.value, options=options)


def _files(place: Node) -> Source:
    named = [name for name in FILES if name in place.value]
    files: dict[str, Any] = {name: _existing(place.at(name)) for name in named}
    first = files[named[0]]
    format = place.value.get("format")
    if format is None and first is not None:
        try:
            with parse_errors(first):
                format = guess_format(first)
        except DataError as error:
            place.at(named[0]).wrong(one_line(error))
    if format is not None and format not in FORMATS:
        place.at("format").is_in("format", FORMATS)
        format = None
    return Source(**files, options=_options(place, format, FILES))


def _options(place: Node, format: str | None, skip: tuple[str, ...]) -> dict[str, Any]:
    """Those of the reader and of `Dataset.from_frame`, with the paths among them resolved."""
    known = reading(format)
    rest = {key: value for key, value in place.value.items() if key not in skip}
    good = place.holding(rest).options(known)
    for key in good:
        if key in TABLES:
            good[key] = _table(place.at(key))
        elif Path in parts_of(known.known[key].hint) and good[key] is not None:
            good[key] = _existing(place.at(key))
    return good


def _table(place: Node) -> Any:
    """A file of attributes, or a mapping of a path and the options of its reader."""
    if not isinstance(place.value, dict):
        return _existing(place)
    if "path" not in place.value:
        place.wrong("a table needs a path")
        return None
    return {**place.value, "path": _existing(place.at("path"))}


def _existing(place: Node) -> str | None:
    """The path of a file or folder that is there."""
    path = place.file()
    if path is None:
        return None
    try:
        with parse_errors(path):  # a name may be longer than the system allows
            return path if Path(path).is_dir() else str(find_file(Path(path)) and path)
    except DataError as error:
        place.wrong(one_line(error))
        return path


def has_own_parts(source: Source) -> bool:
    """Whether the data come with a training and a test set."""
    if source.set is None:
        return source.train is not None
    try:
        return public_sets.find(source.set).test is not None
    except FmpairError:
        return False


EVENTS = 1000  # made up to try a step on


def read_filters(place: Node) -> tuple[Step, ...]:
    """What is done to the events, in its order."""
    found = [_step(one, "filter", filters(), FILTERS) for one in place.items()]
    steps = [step for step in found if step is not None]
    try:
        by_place(steps)
    except OptionError as error:
        place.wrong(str(error))
    return tuple(steps)


def by_place(steps: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """The filters before the split, and those after it: from the first that needs training on."""
    first = next((n for n, step in enumerate(steps) if needs_training(step)), len(steps))
    for step in steps[first:]:
        if not (needs_training(step) or step.kind.replace("-", "_") in EVENT_BY_EVENT):
            needs = steps[first].kind
            raise OptionError(
                f"{step.kind} comes after {needs}, which needs the training part of a split: put "
                f"{step.kind} first, or say {{{needs}: {{statistics: all}}}}"
            )
    return list(steps[:first]), list(steps[first:])


def needs_training(step: Step) -> bool:
    """Whether a filter computes statistics, which must not be of test events."""
    takes = "training" in signature(function_of("filter", step)).parameters
    return takes and step.options.get("statistics", "training") == "training"


def read_split(place: Node, source: Source | None) -> Step | None:
    """By default the split of the data, else a random fifth of the events for testing."""
    own_parts = source is not None and has_own_parts(source)
    if place.value is None:
        return Step("given" if own_parts else "holdout")
    given = partial(SPLITS["given"], parts=(EVENTS // 2, 0, EVENTS // 2))
    step = _step(place, "split", splits(), {**SPLITS, "given": given})
    if step is None or source is None:
        return step
    if step.kind == "given" and not own_parts:
        place.wrong("'given' needs data with a split: train and test, or a public set that has one")
    if step.kind == "given" and source.validation is not None and step.options:
        place.wrong("the data have a validation file: leave the options of given out")
    if step.kind != "given" and source.train is not None:
        place.wrong(f"the data are split already: use given, not {step.kind}")
    return step


def _step(
    place: Node, what: str, known: Mapping[str, Options], functions: Mapping[str, Any]
) -> Step | None:
    """A function by name: `name`, {kind: name, option: ...}, or {name: {option: ...}}."""
    kind, rest = place, place.holding({})
    if isinstance(place.value, dict) and len(place.value) == 1 and "kind" not in place.value:
        [(name, options)] = place.value.items()
        kind, rest = place.at(name).holding(name), place.at(name).holding(options or {})
    elif isinstance(place.value, dict):
        kind = place.at("kind")
        rest = place.holding({key: one for key, one in place.value.items() if key != "kind"})
    if not kind.is_a(str):
        return None
    name = kind.value.replace("-", "_")
    if not kind.holding(name).is_in(what, known):
        return None
    options = rest.options(known[name])
    rest.attempt(_rehearsal(functions[name]), known[name], options)
    return Step(name, options)


def _rehearsal(function: Callable[..., Any]) -> Callable[..., None]:
    """The function on made-up events: what it then says is about its options.

    Complaints about the events themselves are left for the real ones.
    """

    def rehearse(**options: Any) -> None:
        with suppress(DataError, UnknownError):
            function(_made_up(), **options)

    return rehearse


@lru_cache(maxsize=1)
def _made_up() -> Dataset:
    return synthetic.make(users=20, items=20, events=EVENTS).data
