"""Functions by name, as the sections filter and split have them, tried before there are data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from inspect import signature
from typing import Any

from fmpair.config.experiment import Source, Step
from fmpair.config.node import Node
from fmpair.config.option_schema import (
    FILTERS,
    SPLITS,
    Options,
    filters,
    function_of,
    splits,
)
from fmpair.config.source import has_own_parts
from fmpair.data import Dataset, synthetic
from fmpair.data.filter import EVENT_BY_EVENT
from fmpair.errors import DataError, OptionError, UnknownError

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
