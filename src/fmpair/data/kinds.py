"""Kinds of events, such as view, cart and buy: which there are, their order, their weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from fmpair.errors import DataError, OptionError, listing, named

MOST_KINDS = 20

# What a kind may be called, the weakest sign of interest first.
SIGNS: tuple[tuple[str, ...], ...] = (
    ("impression", "shown", "show"),
    ("view", "click", "pv", "page_view", "pageview", "detail", "visit", "open", "read"),
    ("play", "listen", "watch", "stream"),
    ("like", "fav", "favorite", "favourite", "wishlist", "bookmark", "save", "share", "follow"),
    ("cart", "add_to_cart", "addtocart", "basket", "add", "install", "download"),
    ("checkout", "reserve"),
    ("buy", "purchase", "transaction", "order", "book", "apply", "subscribe", "conversion"),
)
PLACE = {name: place for place, names in enumerate(SIGNS) for name in names}


class EventWeights(NamedTuple):
    """How much events of each kind count, and the column that tells their kinds."""

    column: str
    weights: tuple[tuple[str, float], ...]


def event_kinds(values: pl.Series, named_so: bool = True) -> list[str]:
    """The kinds of events that a column tells, the weakest first where all are known; else none.

    Under a name that does not say so for sure most of the values must be known kinds.
    """
    text = isinstance(values.dtype, pl.String | pl.Categorical | pl.Enum)
    if not text and not (named_so and values.dtype.is_integer()):
        return []
    found = values.drop_nulls().unique(maintain_order=True)
    if not (1 if named_so else 2) <= len(found) <= MOST_KINDS:
        return []
    kinds = found.cast(pl.String).to_list()
    places = [PLACE.get(_plain(kind)) for kind in kinds]
    known = sum(place is not None for place in places)
    if not named_so and 2 * known <= len(kinds):
        return []
    if known < len(kinds):
        return kinds
    return [kind for _, kind in sorted(zip(places, kinds), key=lambda pair: pair[0] or 0)]


def ordered_kinds(values: pl.Series) -> list[str] | None:
    """The kinds from the weakest to the strongest, None where the order of some is not known."""
    kinds = event_kinds(values)
    places = [PLACE.get(_plain(kind)) for kind in kinds]
    distinct = len(set(places)) == len(places)
    return kinds if kinds and None not in places and distinct else None


def kind_weights(kinds: pl.Series, weights: Mapping[str, Any]) -> pl.Series:
    """Float64 [events]: the weight of each event's kind; every kind must have one."""
    for kind, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight >= 0:
            raise OptionError(
                f"{named('event_weights')} must be 0 or more, not {weight!r} for {kind!r}"
            )
    by_kind = {str(kind): float(weight) for kind, weight in weights.items()}
    found = kinds.cast(pl.String)
    lacking = found.filter(~found.is_in(list(by_kind)).fill_null(False)).unique().sort()
    if len(lacking):
        names = ["(missing)" if kind is None else kind for kind in lacking]
        strange = [kind for kind in by_kind if kind not in found]
        beside = f", and no event is of kind {listing(map(repr, strange))}" if strange else ""
        raise DataError(
            f"{named('event_weights')}: no weight for {listing(names)}{beside}: give each kind "
            "one, 0 for those that do not count"
        )
    return found.replace_strict(by_kind, return_dtype=pl.Float64)


def _plain(kind: str) -> str:
    return kind.lower().strip().replace("-", "_").replace(" ", "_")
