"""The sections on evaluation of an experiment file: protocols, metrics, views."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from fmpair.config.node import Node, one_line
from fmpair.config.option_schema import Option, Options, judging, presets
from fmpair.data.read import read_frame
from fmpair.data.roles import find_column
from fmpair.errors import FmpairError
from fmpair.evaluation.protocol import Protocol
from fmpair.evaluation.views import CONTEXT, VIEWS
from fmpair.metrics import Metric


def read_protocols(place: Node) -> dict[str, Protocol]:
    """By label; a list's are labelled by preset or id."""
    if isinstance(place.value, str):
        place = place.holding([place.value])
    found: dict[str, Protocol] = {}
    if isinstance(place.value, list):
        for one in place.items():
            protocol = _protocol(one)
            if protocol is None:
                continue
            label = one.value if isinstance(one.value, str) else protocol.id
            if label in found:
                one.wrong(f"there is a protocol {label!r} already")
            found[label] = protocol
    elif place.is_a(dict):
        made = {label: _protocol(place.at(label)) for label in place.value}
        found = {label: protocol for label, protocol in made.items() if protocol is not None}
    if place.value in ([], {}):
        place.wrong("needs at least one protocol")
    return found


def read_metrics(place: Node) -> tuple[str, ...]:
    """Metrics as they write themselves."""
    found = []
    for one in place.items():
        if not one.is_a(str):
            continue
        try:
            found.append(str(Metric.parse(one.value)))
        except FmpairError as error:
            one.wrong(one_line(error))
    return tuple(dict.fromkeys(found))


def read_views(place: Node) -> tuple[str, ...]:
    """popularity, activity, warmth, context:COLUMN."""
    for one in place.items():
        if one.is_a(str) and not one.value.startswith(CONTEXT):
            one.is_in("view", VIEWS)
    return tuple(place.value) if isinstance(place.value, list) else ()


def check_judging(top: Node, protocols: dict[str, Protocol], metrics: tuple[str, ...]) -> None:
    """Note every metric that is not defined under any protocol."""
    listed = top.at("metrics").items() if "metrics" in top.value else []
    for name in metrics:
        metric = Metric.parse(name)
        lacking = [protocol.lacks(metric) for protocol in protocols.values()]
        if lacking and all(lacking):
            here = next((place for place in listed if place.value == name), top)
            here.wrong(f"{name} needs a protocol with {lacking[0]}")


def _protocol(place: Node) -> Protocol | None:
    """A preset, or options; `kind` then names the preset they change."""
    if isinstance(place.value, str):
        return presets()[place.value] if place.is_in("protocol", presets()) else None
    kind = Option("kind", str, None)
    known = Options({**judging().known, "kind": kind})
    good = place.options(known)
    base = Protocol()
    if "kind" in good:
        if not place.at("kind").is_in("protocol", presets()):
            return None
        base = presets()[good.pop("kind")]
    if isinstance(good.get("items"), str):
        good["items"] = _items(place.at("items"))
    return place.attempt(lambda **options: replace(base, **options), judging(), good)


def _items(place: Node) -> Any:
    """The column item of a file, and user where it has one."""
    try:
        frame = read_frame(place.file() or "")
        names = {role: find_column(role, frame.columns, None) for role in ("user", "item")}
        if names["item"] is None:
            place.wrong(f"{place.value} has no column 'item'")
            return []
        return frame.select(pl.col(name).alias(role) for role, name in names.items() if name)
    except FmpairError as error:
        place.wrong(one_line(error))
        return []
