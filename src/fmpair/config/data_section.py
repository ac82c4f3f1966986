"""The sections `data`, `filter` and `split` of an experiment file.

Filters and splits are functions by name; they are tried on generated events to check their options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from inspect import signature
from pathlib import Path
from typing import Any, get_args

from fmpair.checks import one_of
from fmpair.config import option_schema as schema
from fmpair.config.experiment import Source, Step
from fmpair.config.node import Node, one_line
from fmpair.config.option_schema import FILTERS, SPLITS, Options, function_of, options_of
from fmpair.data import Dataset, public_sets, synthetic
from fmpair.data.columns.roles import MISSING
from fmpair.data.dataset import ORDERS
from fmpair.data.event_types import REFUNDS, check_event_weights, check_minutes
from fmpair.data.filters import EVENT_BY_EVENT
from fmpair.data.formats.source import find_file, parse_errors
from fmpair.data.read import FORMATS, guess_format
from fmpair.data.synthetic import check_size
from fmpair.errors import DataError, FmpairError, OptionError, UnknownError, listing

FILES = ("path", "train", "validation", "test")
CHECKS = {"event_weights": check_event_weights, "merge_repeats": check_minutes}
CHOICES = {"missing": MISSING, "refunds": REFUNDS, "order": ORDERS}
TABLES = ("users", "items", "impressions")
SOURCES = ("path", "set", "generate", "train and test")
TRIAL_EVENTS = 1000  # generated to try a step on


def read_source(node: Node) -> Source | None:
    """Read `data`; None where it is unclear which source it is."""
    if not node.is_a(dict):
        return None
    ways = [way for way in ("path", "set", "generate") if way in node.value]
    parts = [part for part in ("train", "validation", "test") if part in node.value]
    if len(ways) + bool(parts) != 1:
        node.wrong(f"must have exactly one of {listing(SOURCES)}")
        return None
    if parts and not {"train", "test"} <= set(parts):
        node.wrong("needs both train and test")
        return None
    if "generate" in ways:
        return _generated(node)
    return _public(node) if "set" in ways else _files(node)


def _generated(node: Node) -> Source:
    known = Options({"generate": schema.sources()["generate"]})
    node.holding({**node.value, "generate": {}}).options(known)
    inner = node.at("generate")
    size = inner.options(options_of(synthetic.make))
    checked = {name: value for name, value in size.items() if name != "seed"}
    inner.attempt(check_size, options_of(check_size), checked)
    return Source(generate=size)


def _public(node: Node) -> Source | None:
    name = node.at("set")
    if not (name.is_a(str) and name.is_in("data set", public_sets.names())):
        return None
    options = _options(node, public_sets.find(name.value).format, ("set",))
    return Source(set=name.value, options=options)


def _files(node: Node) -> Source:
    keys = [key for key in FILES if key in node.value]
    files: dict[str, Any] = {key: _existing(node.at(key)) for key in keys}
    first = files[keys[0]]
    format = node.value.get("format")
    if format is None and first is not None:
        try:
            with parse_errors(first):
                format = guess_format(first)
        except DataError as error:
            node.at(keys[0]).wrong(one_line(error))
    if format is not None and format not in FORMATS:
        node.at("format").is_in("format", FORMATS)
        format = None
    return Source(**files, options=_options(node, format, FILES))


def _options(node: Node, format: str | None, skip: tuple[str, ...]) -> dict[str, Any]:
    """Read the options of the reader and of `Dataset.from_frame`, with absolute paths."""
    known = schema.reader_options(format)
    rest = {key: value for key, value in node.value.items() if key not in skip}
    valid = node.holding(rest).options(known)
    for key, value in valid.items():
        inner, hint = node.at(key), known.known[key].hint
        if key in TABLES:
            valid[key] = _table(inner)
        elif key == "vectors":
            valid[key] = _vectors(inner)
        elif value is None:
            continue
        elif key in CHOICES:
            inner.passes(one_of, key, value, CHOICES[key])
        elif key in CHECKS:
            inner.passes(CHECKS[key], value)
        elif Path in (get_args(hint) if schema.is_union(hint) else (hint,)):
            valid[key] = _existing(inner)
    return valid


def _table(node: Node) -> Any:
    """Read a file of attributes, or a mapping of its path and the options of its reader."""
    if not isinstance(node.value, dict):
        return _existing(node)
    if "path" not in node.value:
        node.wrong("a table needs a path")
        return None
    return {**node.value, "path": _existing(node.at("path"))}


def _vectors(node: Node) -> Any:
    """Read a file of vectors, several, or files by the name of their column."""
    if isinstance(node.value, dict):
        return {name: _existing(node.at(name)) for name in node.value}
    if isinstance(node.value, list):
        return [_existing(node.at(number)) for number in range(len(node.value))]
    return _existing(node)


def _existing(node: Node) -> str | None:
    """Return the path of a file or folder; record a mistake if it does not exist."""
    path = node.file()
    if path is None:
        return None
    try:
        with parse_errors(path):  # a name may be longer than the system allows
            if not Path(path).is_dir():
                find_file(Path(path))
    except DataError as error:
        node.wrong(one_line(error))
    return path


def has_own_parts(source: Source) -> bool:
    """Return whether the data come with a training and a test set."""
    if source.set is None:
        return source.train is not None
    try:
        return public_sets.find(source.set).test is not None
    except FmpairError:
        return False


def read_filters(node: Node) -> tuple[Step, ...]:
    """Read `filter`, in order."""
    read = [_step(entry, "filter", schema.filters(), FILTERS) for entry in node.items()]
    steps = [step for step in read if step is not None]
    try:
        around_split(steps)
    except OptionError as error:
        node.wrong(str(error))
    return tuple(steps)


def around_split(steps: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """Return the filters before the split, and those from the first that needs training events."""
    first = next((n for n, step in enumerate(steps) if needs_training(step)), len(steps))
    for step in steps[first:]:
        if not (needs_training(step) or step.kind.replace("-", "_") in EVENT_BY_EVENT):
            after = steps[first].kind
            raise OptionError(
                f"{step.kind} cannot follow {after}, which uses the training part of the split: "
                f"put {step.kind} first, or write {{{after}: {{statistics: all}}}}"
            )
    return list(steps[:first]), list(steps[first:])


def needs_training(step: Step) -> bool:
    """Return whether a filter computes statistics, which must not use test events."""
    takes = "training" in signature(function_of("filter", step)).parameters
    return takes and step.options.get("statistics", "training") == "training"


def read_split(node: Node, source: Source | None) -> Step | None:
    """Read `split`; by default the split of the data, else a random fifth for testing."""
    own_parts = source is not None and has_own_parts(source)
    if node.value is None:
        return Step("given" if own_parts else "holdout")
    given = partial(SPLITS["given"], parts=(TRIAL_EVENTS // 2, 0, TRIAL_EVENTS // 2))
    step = _step(node, "split", schema.splits(), {**SPLITS, "given": given})
    if step is None or source is None:
        return step
    if step.kind == "given" and not own_parts:
        node.wrong("'given' needs data with a split: train and test, or a public set that has one")
    if step.kind == "given" and source.validation is not None and step.options:
        node.wrong("the data have a validation file: remove the options of given")
    if step.kind != "given" and source.train is not None:
        node.wrong(f"the data are already split: use given, not {step.kind}")
    return step


def _step(
    node: Node, what: str, known: Mapping[str, Options], functions: Mapping[str, Any]
) -> Step | None:
    """Read a function: `name`, {kind: name, option: ...}, or {name: {option: ...}}."""
    kind, rest = node, node.holding({})
    if isinstance(node.value, dict) and len(node.value) == 1 and "kind" not in node.value:
        [(name, values)] = node.value.items()
        kind, rest = node.at(name).holding(name), node.at(name).holding(values or {})
    elif isinstance(node.value, dict):
        kind = node.at("kind")
        rest = node.holding({key: value for key, value in node.value.items() if key != "kind"})
    if not kind.is_a(str):
        return None
    name = kind.value.replace("-", "_")
    if not kind.holding(name).is_in(what, known):
        return None

    def attempt(**options: Any) -> None:
        """Try the options; complaints about the generated events themselves do not count."""
        with suppress(DataError, UnknownError):
            functions[name](_trial_events(), **options)

    options = rest.options(known[name])
    rest.attempt(attempt, known[name], options)
    return Step(name, options)


@lru_cache(maxsize=1)
def _trial_events() -> Dataset:
    return synthetic.make(users=20, items=20, events=TRIAL_EVENTS).data
