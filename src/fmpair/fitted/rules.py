"""Rules of a list: which items may be in it, how many of a kind, and what moves them up.

`Rules` parses and checks the options of a request. `BoundRules.of` turns them into arrays over the
items of a catalogue. The catalogue keeps these arrays, so a condition is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import starts
from fmpair.checks import number
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import OptionError, in_file, named, notice
from fmpair.features.field import duration
from fmpair.fitted.catalogue import Catalogue
from fmpair.fitted.conditions import (
    BOOST,
    EXAMPLES,
    Condition,
    check_column,
    condition,
    matching,
    nearest_value,
)

MAX_BOOST = 1_000_000_000  # either way; scores are float32
NONE_LEFT = "no item is left by"
NO_CANDIDATES = f"{NONE_LEFT} candidates: none is given or known"
ALL_HIDDEN = "excluded, removed or were seen before"


@dataclass(frozen=True)
class Rules:
    """What a list must obey. Immutable, and checked when it is made; see `rules_of`.

    where: conditions, which all must hold; limit: (column, most items per value); boost: (column,
    value, number added to the score); diversity: from 0 to 1, None if it is not given; shown: items
    to leave out; shown_within: leave out what the user was shown within this time, such as 7d.
    file, name: where named rules come from; parts: the rules that these were combined from.
    """

    where: tuple[str, ...] = ()
    limit: tuple[tuple[str, int], ...] = ()
    boost: tuple[tuple[str, str, float], ...] = ()
    diversity: float | None = None
    shown: tuple[Any, ...] = ()
    shown_within: str = ""
    file: str = field(default="", compare=False)
    name: str = field(default="", compare=False)
    parts: tuple[Rules, ...] = field(default=(), compare=False, repr=False)

    def __bool__(self) -> bool:
        given = self.where, self.limit, self.boost, self.diversity, self.shown, self.shown_within
        return any(given)

    def __add__(self, other: Rules) -> Rules:
        """Combine rules: all conditions and items; otherwise those of `other` take precedence."""
        boost = {entry[:2]: entry for entry in (*self.boost, *other.boost)}
        return Rules(
            tuple(dict.fromkeys((*self.where, *other.where))),
            tuple((dict(self.limit) | dict(other.limit)).items()),
            tuple(boost.values()),
            self.diversity if other.diversity is None else other.diversity,
            (*self.shown, *other.shown),
            other.shown_within or self.shown_within,
            parts=(*(self.parts or (self,)), *(other.parts or (other,))),
        )

    def options(self) -> dict[str, Any]:
        """Return the rules as options of `recommend`, without those that are not set."""
        boost: dict[str, dict[str, float]] = {}
        for column, value, amount in self.boost:
            boost.setdefault(column, {})[value] = amount
        values = {"where": list(self.where), "limit": dict(self.limit), "boost": boost}
        shown = self.shown_within or list(self.shown)
        more = {"diversity": self.diversity, "exclude_shown": shown}
        return {name: value for name, value in (values | more).items() if value}

    def check(self, catalogue: Catalogue | None) -> None:
        """Raise OptionError if the rules do not fit the columns of a catalogue.

        The error names the file of named rules.
        """
        for part in self.parts or (self,):
            try:
                part._check(catalogue)
            except OptionError as error:
                if not part.file:
                    raise
                raise OptionError(f"{part.source}: {error.spelled(in_file)}") from None

    @property
    def source(self) -> str:
        """The file and the name of named rules."""
        return f"{self.file}: {self.name}"

    def owner(self, text: str) -> str:
        """Return ``where 'price<=50'``, with the name of the rules that have the condition."""
        names = (part.name for part in self.parts or (self,) if text in part.where)
        name = next(names, "")
        return f"where {text!r}{f' of the rules {name!r}' if name else ''}"

    def _check(self, catalogue: Catalogue | None) -> None:
        columns = [("where", condition(text).column) for text in self.where]
        columns += [("limit", column) for column, _ in self.limit]
        columns += [("boost", column) for column, *_ in self.boost]
        for option, column in columns:
            check_column(option, column, catalogue)
        if catalogue is not None:
            for rule in (*map(condition, self.where), *self.boosted()):
                matching(catalogue, rule)

    def boosted(self) -> list[Condition]:
        """Return for each boost the condition of the items that it moves."""
        return [
            Condition(f"{BOOST}{column}={value}", column, "=", (value,))
            for column, value, _ in self.boost
        ]

    def boost_terms(self, catalogue: Catalogue | None, item: int) -> list[tuple[str, str, float]]:
        """Return the terms that boosts add to the score of an item."""
        return [
            ("", rule.text, amount)
            for rule, (*_, amount) in zip(self.boosted(), self.boost)
            if catalogue is not None and matching(catalogue, rule)[item]
        ]


def rules_of(
    where: Any = None,
    limit: Any = None,
    boost: Any = None,
    diversity: Any = None,
    exclude_shown: Any = None,
    rules: Rules | None = None,
) -> Rules | None:
    """Return options of `recommend` as rules, None if there are none; raise OptionError.

    rules: named rules, which the options extend; `exclude_shown` replaces that of the rules.
    """
    if rules is not None and not isinstance(rules, Rules):
        raise OptionError(
            f"{named('rules')} must be Rules, as fmpair.config.read_rules returns them "
            f"by name, not {rules!r}"
        )
    options = (where, limit, boost, diversity, exclude_shown, rules)
    if all(option is None for option in options):  # as in most questions
        return None
    given = Rules(
        _conditions(where),
        tuple(_limits(limit)),
        tuple(_boosts(boost)),
        _diversity(diversity),
        *_shown(exclude_shown),
    )
    if rules is None:
        return given or None
    named_time = rules.shown_within if exclude_shown is None else ""
    return replace(rules, shown_within=named_time) + given or None


def _conditions(where: Any) -> tuple[str, ...]:
    texts = [where] if isinstance(where, str) else [] if where is None else where
    if isinstance(texts, Mapping) or not hasattr(texts, "__iter__"):
        raise OptionError(f"{named('where', where)} is no list of conditions: write {EXAMPLES}")
    for text in texts:
        if not isinstance(text, str):
            raise OptionError(f"{named('where', text)} is not a condition: write {EXAMPLES}")
        condition(text)
    return tuple(texts)


def _limits(limit: Any) -> list[tuple[str, int]]:
    if not isinstance(limit, Mapping | None):
        example = named("limit", {"brand": 2})
        raise OptionError(f"{named('limit', limit)} gives no number per column: write {example}")
    for column, most in (limit or {}).items():
        if isinstance(most, bool) or not hasattr(most, "__index__") or most < 1:
            given = named("limit", {column: most})
            raise OptionError(f"{given}: the number must be whole and at least 1")
    return [(str(column), int(most)) for column, most in (limit or {}).items()]


def _boosts(boost: Any) -> list[tuple[str, str, float]]:
    entries = []
    for column, values in _mapping(boost, boost).items():
        for value, amount in _mapping(values, boost).items():
            real = isinstance(amount, int | float | np.number) and not isinstance(amount, bool)
            if not real or not abs(amount) <= MAX_BOOST:
                shown = named("boost", {column: {value: amount}})
                raise OptionError(
                    f"{shown}: the number must be from -{MAX_BOOST:,} to {MAX_BOOST:,}"
                )
            text = str(value).lower() if isinstance(value, bool) else str(value)
            entries.append((str(column), text, float(amount)))
    return entries


def _mapping(value: Any, given: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping | None):
        example = named("boost", {"brand": {"ACME": 0.3}})
        raise OptionError(f"{named('boost', given)} gives no number per value: write {example}")
    return value or {}


def _diversity(diversity: Any) -> float | None:
    if diversity is None:
        return None
    number("diversity", diversity)
    if not 0 <= diversity <= 1:
        raise OptionError(f"{named('diversity')} must be from 0 to 1, not {diversity!r}")
    return float(diversity)


def _shown(items: Any) -> tuple[tuple[Any, ...], str]:
    """Return the items to leave out, and the time within which they were shown, if that is given.

    Who knows what users were shown replaces the time by the items of a user.
    """
    if items is None:
        return (), ""
    if isinstance(items, str):
        duration(items, "exclude_shown")
        return (), items
    if not hasattr(items, "__iter__") or hasattr(items, "columns"):
        given = named("exclude_shown", items)
        raise OptionError(f"{given} is neither a list of items nor a time such as 7d")
    return tuple(items), ""


# Rules as arrays over the items of a model


class LimitGroups(NamedTuple):
    """The values of a limited column. code: int32, those of item i at start[i] to start[i + 1]."""

    start: np.ndarray
    code: np.ndarray
    most: int


class BoundRules(NamedTuple):
    """Rules as arrays over a model's items, of which there are `items`.

    offset: float32 [items], what is added to every score, -inf for items that must not be listed;
    None for zeros. shown: int32, further items to leave out of this list. groups: of the limits.
    key: under which the catalogue keeps what depends on the offset. idle: the boosts that match no
    item, such as brand=ACME.
    """

    rules: Rules
    catalogue: Catalogue | None
    items: int
    offset: np.ndarray | None
    shown: np.ndarray
    groups: tuple[LimitGroups, ...]
    key: Rules
    idle: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, rules: Rules, catalogue: Catalogue | None, items: int, shown: np.ndarray
    ) -> BoundRules:
        """Return the arrays of rules; raise OptionError if they do not fit the catalogue.

        items: of the model, the first of the catalogue; shown: the numbers of `rules.shown`.
        """
        if rules.shown_within:
            raise OptionError(
                f"{named('exclude_shown', rules.shown_within)} needs the lists that users were "
                "shown, which the events of a service hold: give the items, or users with items as "
                "fmpair.events.shown_lists returns them"
            )
        key = replace(rules, shown=(), diversity=None)
        if catalogue is None:
            rules.check(None)
            return cls(rules, None, items, None, shown, (), key)
        offset, groups, idle = catalogue.cached(key, lambda: _arrays(key, catalogue, items))
        return cls(rules, catalogue, items, offset, shown, groups, key, idle)

    def why_empty(self, chosen: np.ndarray | None) -> str:
        """Return which rule left no item; chosen: the candidates, None for all."""
        allowed = np.zeros(self.items, bool)
        allowed[slice(None) if chosen is None else chosen] = True
        if not allowed.any():
            return NO_CANDIDATES
        left = allowed.copy()
        for place, text in enumerate(self.rules.where):
            assert self.catalogue is not None
            rule = condition(text)
            matches = matching(self.catalogue, rule)[: self.items]
            left &= matches
            if not left.any():
                before = self.rules.where[:place] if (allowed & matches).any() else ()
                after = " and ".join(map(self.rules.owner, before))
                hint = nearest_value(self.catalogue.table[rule.column], rule)
                after = f" after {after}" if after else ""
                return f"{NONE_LEFT} {self.rules.owner(text)}{after}{hint}"
        left[self.shown] = False
        if not left.any():
            return f"{NONE_LEFT} exclude_shown"
        return f"all items that the rules allow are {ALL_HIDDEN}"

    def issue_notices(self, filled: np.ndarray, chosen: np.ndarray | None) -> None:
        """Issue notices about boosts of no item and empty lists; filled: [lists], their lengths."""
        for rule in self.rules.boosted() if self.idle else ():
            text = rule.text.removeprefix(BOOST)
            if text in self.idle and self.catalogue is not None:
                hint = nearest_value(self.catalogue.table[rule.column], rule)
                notice(f"{named('boost')} {text}: no item has this value{hint}")
        empty = int((filled == 0).sum())
        if empty:
            why = self.why_empty(chosen)
            notice(f"{empty:,} of {len(filled):,} lists are empty: {why}")


def _arrays(
    rules: Rules, catalogue: Catalogue, items: int
) -> tuple[np.ndarray | None, tuple[LimitGroups, ...], tuple[str, ...]]:
    """Return offset, groups and idle boosts of rules."""
    rules.check(catalogue)
    offset, idle = None, []
    if rules.where or rules.boost:
        offset = np.zeros(items, np.float32)
        for rule, (*_, amount) in zip(rules.boosted(), rules.boost):
            matches = matching(catalogue, rule)[:items]
            offset[matches] += np.float32(amount)
            if not matches.any():
                idle.append(rule.text.removeprefix(BOOST))
        for text in rules.where:
            offset[~matching(catalogue, condition(text))[:items]] = -np.inf
    groups = tuple(
        LimitGroups(*_codes(catalogue.table[column][:items]), most) for column, most in rules.limit
    )
    return offset, groups, tuple(idle)


def _codes(values: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return the starts of each row's values and a number for each; none for a missing value."""
    if isinstance(values.dtype, pl.List):
        lengths = values.list.len().fill_null(0).to_numpy()
        members = values.explode(empty_as_null=False, keep_nulls=False)
    else:
        lengths, members = values.is_not_null().to_numpy(), values.drop_nulls()
    return starts(lengths.astype(np.int64)), Vocabulary.of(members).numbers(members)
