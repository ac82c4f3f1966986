"""Rules of a list: which items may be in it, how many of a kind, and what moves them up.

`Rules` parses and checks the options of a request. `BoundRules.of` turns them into arrays over the
items of a catalogue. The catalogue keeps these arrays, so a condition is computed once.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import starts
from fmpair.checks import number, whole
from fmpair.data.vocabulary import Vocabulary, comparable
from fmpair.errors import OptionError, named, nearest, notice, unknown
from fmpair.fitted.catalogue import Catalogue

SIGN = re.compile("<=|>=|!=|==|=|<|>")
NOT = re.compile(r"not\s+")
EXAMPLES = "'category=shoes,bags', 'price<=50' or 'not brand=ACME'"
MAX_SEARCHED, MAX_GUESSED = 100_000, 1_000  # items and values in which a similar value is sought
MAX_BOOST = 1_000_000_000  # either way; scores are float32
BOOST = "boost "  # before the condition of a boost, in terms of scores
NONE_LEFT = "no item is left by"
NO_CANDIDATES = f"{NONE_LEFT} candidates: none is given or known"
ALL_HIDDEN = "excluded, removed or were seen before"
TRUTH = {"true": True, "false": False}


class Condition(NamedTuple):
    """A parsed condition: column, sign (=, <, <=, >, >=), values, and whether it must not hold."""

    text: str
    column: str
    sign: str
    values: tuple[str, ...]
    negated: bool = False


@lru_cache(1024)
def condition(text: str) -> Condition:
    """Parse a condition; raise OptionError if it is not valid."""
    sign = SIGN.search(text)  # no backtracking: texts come from clients
    column = text[: sign.start()].strip() if sign else ""
    negation = NOT.match(column)
    column = column[negation.end() :] if negation else column
    values = _listed(text[sign.end() :].strip()) if sign else []
    if sign is None or not column or not values or "" in values:
        raise OptionError(f"{named('where')} {text!r} is not a condition: write {EXAMPLES}")
    if sign[0][0] in "<>" and len(values) > 1:
        count = len(values)
        raise OptionError(f"{named('where')} {text!r}: {sign[0]} takes one value, not {count}")
    negated = bool(negation) != (sign[0] == "!=")
    kind = "=" if sign[0] in ("!=", "==") else sign[0]
    return Condition(text, column, kind, tuple(values), negated)


def check_column(option: str, column: str, catalogue: Catalogue | None) -> None:
    """Raise OptionError if a catalogue has no such column; option: the one that names it."""
    if catalogue is None or not catalogue.columns:
        raise OptionError(
            f"{named(option)}: the model knows no columns of items: fit it with "
            f"{named('items', ...)}"
        )
    if column not in catalogue.columns:
        known = unknown("item column", column, catalogue.columns)
        raise OptionError(f"{named(option)}: {known}")


def _listed(text: str) -> list[str]:
    """Return values that are separated by commas; none if quotes or line ends are misplaced."""
    try:
        values = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        return []
    return [value.strip() for value in values]


@dataclass(frozen=True)
class Rules:
    """What a list must obey. Immutable, and checked when it is made; see `rules_of`.

    where: conditions, which all must hold; limit: (column, most items per value); boost: (column,
    value, number added to the score); diversity: from 0 to 1; shown: items to leave out.
    """

    where: tuple[str, ...] = ()
    limit: tuple[tuple[str, int], ...] = ()
    boost: tuple[tuple[str, str, float], ...] = ()
    diversity: float = 0.0
    shown: tuple[Any, ...] = ()

    def __bool__(self) -> bool:
        return self != Rules()

    def __add__(self, other: Rules) -> Rules:
        """Combine rules: all conditions; limits and boosts of `other` take precedence."""
        boost = {entry[:2]: entry for entry in (*self.boost, *other.boost)}
        return Rules(
            tuple(dict.fromkeys((*self.where, *other.where))),
            tuple((dict(self.limit) | dict(other.limit)).items()),
            tuple(boost.values()),
            other.diversity or self.diversity,
            (*self.shown, *other.shown),
        )

    def options(self) -> dict[str, Any]:
        """Return the rules as options of `recommend`, without those that are not set."""
        boost: dict[str, dict[str, float]] = {}
        for column, value, amount in self.boost:
            boost.setdefault(column, {})[value] = amount
        values = {"where": list(self.where), "limit": dict(self.limit), "boost": boost}
        more = {"diversity": self.diversity, "exclude_shown": list(self.shown)}
        return {name: value for name, value in (values | more).items() if value}

    def check(self, catalogue: Catalogue | None) -> None:
        """Raise OptionError if the rules do not fit the columns of a catalogue."""
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

    rules: named rules, which the options extend.
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
        _shown(exclude_shown),
    )
    both = given if rules is None else rules + given
    return both or None


def _conditions(where: Any) -> tuple[str, ...]:
    texts = [where] if isinstance(where, str) else list(where or ())
    for text in texts:
        if not isinstance(text, str):
            raise OptionError(f"{named('where')} takes texts such as {EXAMPLES}, not {text!r}")
        condition(text)
    return tuple(texts)


def _limits(limit: Any) -> list[tuple[str, int]]:
    if not isinstance(limit, Mapping | None):
        raise OptionError(f"{named('limit')} takes columns such as {{'brand': 2}}, not {limit!r}")
    for most in (limit or {}).values():
        whole("limit", most, 1)
    return [(str(column), int(most)) for column, most in (limit or {}).items()]


def _boosts(boost: Any) -> list[tuple[str, str, float]]:
    entries = []
    for column, values in _mapping(boost, boost).items():
        for value, amount in _mapping(values, boost).items():
            number("boost", amount)
            if not abs(amount) <= MAX_BOOST:
                raise OptionError(
                    f"{named('boost')} must be a number up to {MAX_BOOST:,}, not {amount!r}"
                )
            text = str(value).lower() if isinstance(value, bool) else str(value)
            entries.append((str(column), text, float(amount)))
    return entries


def _mapping(value: Any, given: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping | None):
        example = "{'brand': {'ACME': 0.3}}"
        raise OptionError(f"{named('boost')} takes values such as {example}, not {given!r}")
    return value or {}


def _diversity(diversity: Any) -> float:
    if diversity is None:
        return 0.0
    number("diversity", diversity)
    if not 0 <= diversity <= 1:
        raise OptionError(f"{named('diversity')} must be from 0 to 1, not {diversity!r}")
    return float(diversity)


def _shown(items: Any) -> tuple[Any, ...]:
    if items is None:
        return ()
    if isinstance(items, str) or not hasattr(items, "__iter__"):
        raise OptionError(
            f"{named('exclude_shown')} takes items, not {items!r}: only a service, which knows "
            "what it showed, takes a time such as 7d"
        )
    return tuple(items)


# Conditions as arrays


def matching(catalogue: Catalogue, rule: Condition) -> np.ndarray:
    """Return whether a condition holds: bool [rows of the catalogue]; False for missing values."""
    return catalogue.cached(rule, lambda: _matching(catalogue.table[rule.column], rule))


def _matching(values: pl.Series, rule: Condition) -> np.ndarray:
    dtype = values.dtype
    if rule.sign == "=":
        if isinstance(dtype, pl.List):
            wanted = [_value(text, dtype.inner, rule) for text in rule.values]  # type: ignore[arg-type]
            matches = pl.Series(np.zeros(len(values), bool))
            if dtype.inner.is_numeric():
                values, wanted = (
                    values.cast(pl.List(pl.Float64)),
                    [float(value) for value in wanted],
                )
            for value in wanted:
                matches = matches | values.list.contains(value).fill_null(False)
        else:
            wanted = [_value(text, dtype, rule) for text in rule.values]
            if dtype.is_numeric():  # 5 equals 5.0
                values, wanted = values.cast(pl.Float64), [float(value) for value in wanted]
            matches = values.is_in(wanted)
    else:
        if not (dtype.is_numeric() or dtype.is_temporal()):
            raise OptionError(
                f"{named('where')} {rule.text!r}: {rule.column!r} holds "
                f"{'lists' if dtype.is_nested() else 'text'}, and {rule.sign} compares numbers and "
                f"times; write '{rule.column}={rule.values[0]}'"
            )
        value = _value(rule.values[0], dtype, rule)
        signs = {"<": values < value, "<=": values <= value}
        matches = (
            signs[rule.sign] if rule.sign in signs else ~signs["<=" if rule.sign == ">" else "<"]
        )
    holds = (~matches if rule.negated else matches) & values.is_not_null()
    return holds.fill_null(False).to_numpy()


def _value(text: str, dtype: pl.DataType, rule: Condition) -> Any:
    """Return a value of a condition in the type of its column; raise OptionError."""
    value: Any
    if dtype == pl.String:
        return text
    if dtype == pl.Boolean:
        value, wanted = TRUTH.get(text.lower()), "true or false"
    elif dtype.is_numeric():
        value, wanted = _number(text), "a number"
    else:
        full = f"{text}T00:00:00" if len(text) == 10 and isinstance(dtype, pl.Datetime) else text
        read = comparable(pl.Series([full]), dtype)
        value = None if read is None else read[0]
        wanted = "a time such as 2024-01-31"
    if value is None:
        option = "where" if not rule.text.startswith(BOOST) else "boost"
        text_shown = "" if option == "boost" else f" {rule.text!r}"
        raise OptionError(
            f"{named(option)}{text_shown}: {rule.column!r} takes {wanted}, not {text!r}"
        )
    return value


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            value = kind(text)
            finite = math.isfinite(value)
        except (ValueError, OverflowError):
            continue
        return value if finite else None
    return None


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
        key = replace(rules, shown=(), diversity=0.0)
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
                after = " and ".join(f"where {other!r}" for other in before)
                hint = _nearest_value(self.catalogue.table[rule.column], rule)
                return f"{NONE_LEFT} where {text!r}{f' after {after}' if after else ''}{hint}"
        left[self.shown] = False
        if not left.any():
            return f"{NONE_LEFT} exclude_shown"
        return f"all items that the rules allow are {ALL_HIDDEN}"

    def issue_notices(self, filled: np.ndarray, chosen: np.ndarray | None) -> None:
        """Issue notices about boosts of no item and empty lists; filled: [lists], their lengths."""
        for rule in self.rules.boosted() if self.idle else ():
            text = rule.text.removeprefix(BOOST)
            if text in self.idle and self.catalogue is not None:
                hint = _nearest_value(self.catalogue.table[rule.column], rule)
                notice(f"{named('boost')} {text}: no item has this value{hint}")
        empty = int((filled == 0).sum())
        if empty:
            why = self.why_empty(chosen)
            notice(f"{empty:,} of {len(filled):,} lists are empty: {why}")


def _nearest_value(values: pl.Series, rule: Condition) -> str:
    """Return a hint at the value that was meant, if a column of texts does not have the given."""
    if isinstance(values.dtype, pl.List):
        values = values.head(MAX_SEARCHED + 1).explode()
    if rule.sign != "=" or rule.negated or values.dtype != pl.String or len(values) > MAX_SEARCHED:
        return ""
    known = set(values.drop_nulls().unique())
    if len(known) > MAX_GUESSED:
        return ""
    absent = next((value for value in rule.values if value not in known), None)
    guess = None if absent is None else nearest(absent, sorted(known))
    return f". Did you mean {rule.column}={guess}?" if guess else ""


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
