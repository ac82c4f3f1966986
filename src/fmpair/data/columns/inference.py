"""Column inference: decide what each column of the events is, by name, type and contents."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from fmpair.data.columns.context_leakage import (
    REPEATED_ITEMS,
    ContextLeakage,
    context_leakage,
    has_one_each,
)
from fmpair.data.columns.roles import (
    IDS,
    STANDARD,
    SURE_EVENT_TYPE,
    check_types,
    find_column,
    find_roles,
    is_empty,
    leak,
    name_list,
)
from fmpair.data.event_types import MAX_EVENT_TYPES, event_types
from fmpair.data.frame import decimal_commas, has_bars
from fmpair.data.times import days, has_dates, named_like_time, parse_times, time_form
from fmpair.data.vocabulary import Vocabulary, as_plain
from fmpair.errors import DataError, named, unknown

LOG = logging.getLogger("fmpair")

CONTEXT, ATTRIBUTE, LEFT_OUT = "context", "item attribute", "left out"
DISPLAY = "display only"  # an item column for rules and display, not learned from
MAX_CONTEXTS = 1_000
FEW_EVENTS, FEW_ITEMS = 100, 5  # a price is judged from more events, and this many repeated items
MAX_ROWS = 200_000  # more events are sampled, with all events of an item or none

FEW_ROWS = 20  # so few events prove nothing about a column
NEARLY_ALL = 0.5  # a column with a larger share of distinct values hardly repeats
ID_SHARE = 0.02  # the same for a column that is named like an id
EMPTY = "no values"
COMMAS = "text: numbers with a decimal comma"
WORDS = 4  # text with more words on average is free text

ID_NAME = re.compile(r"(^|_)(id|ids|uuid|guid|hash|key|token|ip|index|row|nr|no|number)$|Id$|ID$")
TITLE_NAME = re.compile(
    r"(^|_)(title|headline|description|url|link|image|picture|photo|thumbnail)$"
    r"|^(item_|product_|article_)?name$"
)
PRICE_NAME = re.compile(r"(^|_)(price|cost|msrp|prices|costs)($|_)")
AFTERWARDS = re.compile(
    r"(^|_)(quantity|qty|revenue|dwell|playtime|watchtime|(dwell|watch|play|listen|read)_?"
    r"(time|ms|seconds|duration))($|_)"
)


@dataclass(frozen=True)
class Decision:
    """The role of one column, and why.

    role: user, item, a standard column, context, item attribute, display only or left out.
    change: the option that changes the decision, written by `named`.
    expected: whether the caller or the column's name asked for this role.
    """

    column: str
    role: str
    reason: str
    change: str = ""
    expected: bool = False


@dataclass(frozen=True)
class Decisions:
    """The roles of all columns of a frame, in the frame's order."""

    columns: tuple[Decision, ...]

    @property
    def roles(self) -> dict[str, str]:
        """Role -> column, for user, item and standard columns."""
        return {d.role: d.column for d in self.columns if d.role in ("user", "item", *STANDARD)}

    def named(self, role: str) -> list[str]:
        """Return the columns that are context, item attributes, display only, or left out."""
        return [decision.column for decision in self.columns if decision.role == role]

    @property
    def options(self) -> dict[str, Any]:
        """The options of `Dataset.from_frame` that repeat these decisions."""
        return self.keeping(self.named(CONTEXT))

    def keeping(self, context: Sequence[str]) -> dict[str, Any]:
        """Return the same options with only these columns as context, if the frame has them."""
        columns = [d.column for d in self.columns if d.column in context]
        return {
            **{role: column for role, column in self.roles.items() if column not in columns},
            "context": columns,
            "item_columns": [name for name in self.named(ATTRIBUTE) if name not in columns],
            "display": [name for name in self.named(DISPLAY) if name not in columns],
            "leaks": columns,
        }

    @property
    def lossless(self) -> dict[str, Any]:
        """The same options with all unexpected item columns and left-out columns as context."""
        moved = [d.column for d in self.columns if d.role == ATTRIBUTE and d.expected]
        out = [d.column for d in self.columns if d.role == LEFT_OUT and d.expected]
        placed = [*self.roles.values(), *moved, *out]
        context = [d.column for d in self.columns if d.column not in placed]
        others = {"item_columns": moved, "display": []}
        return {**self.options, "context": context, "leaks": context, **others}

    @property
    def surprises(self) -> str:
        """One line on the columns whose contents rule them out as context; may be empty."""
        others = [d for d in self.columns if d.role != CONTEXT and not d.expected]
        if not others:
            return ""
        reasons = "; ".join(f"{d.column!r} ({d.role}: {d.reason})" for d in others)
        timed = next((d.column for d in others if d.change == named("timestamp", d.column)), None)
        placed = {timed, *self.roles.values()}  # an event type or a time is no context
        asked = [d.column for d in others if d.column not in placed and d.reason != EMPTY]
        text = f"not used as context: {reasons}"
        if timed is not None:
            text += f". If {timed!r} is the time of the events, give {named('timestamp', timed)}"
        return f"{text}. To use these as context, give {named('leaks', asked)}" if asked else text


def without(events: pl.DataFrame, ignored: Sequence[str]) -> pl.DataFrame:
    """Return the events without the columns to ignore, which must exist."""
    ignored = name_list(ignored)
    _check_known(ignored, events)
    return events.drop(ignored)


def decide(
    events: pl.DataFrame,
    given: Mapping[str, str | None],
    context: Sequence[str] | None = None,
    item_columns: Sequence[str] = (),
    leaks: Sequence[str] = (),
    display: Sequence[str] = (),
    table: Sequence[str] = (),
) -> Decisions:
    """Decide what each column is: given by the caller, else inferred from name, type and contents.

    given: columns by role. context, item_columns, leaks, display: as in `Dataset.from_frame`.
    table: the columns of the item table, which describe items in the events too. Requested context
    that certainly identifies the item is refused, except for `leaks`.
    """
    context = None if context is None else name_list(context)
    leaks, of_items = name_list(leaks), [*name_list(item_columns), *name_list(display)]
    _check_known((*(context or ()), *leaks), events)
    _check_known([name for name in of_items if name not in table], events, table)
    item_columns, display = (_among(names, events) for names in (item_columns, display))
    if context is not None:
        context = [*context, *(name for name in leaks if name not in context)]
    taken = {*(context or ()), *item_columns, *leaks, *display}
    found = _roles(events, given, taken)
    kept = (*given.values(), *(d.column for d in found if d.role in IDS))  # also without values
    decisions = {d.column: d for d in found if d.column in kept or not is_empty(events[d.column])}
    rest = [name for name in events.columns if name not in decisions]
    requested = [(name, ATTRIBUTE) for name in item_columns] + [(name, DISPLAY) for name in display]
    decisions |= {name: Decision(name, role, "as asked", expected=True) for name, role in requested}
    if context is None:
        for name in (n for n in rest if n in table and n not in {*leaks, *decisions}):
            decisions[name] = Decision(name, ATTRIBUTE, "in the item table too", expected=True)
    roles = {decision.role: column for column, decision in decisions.items()}
    if context is None:
        free = [name for name in rest if name not in decisions]
        _check_number(free)
        decisions |= {d.column: d for d in _by_contents(events, roles, free, leaks)}
    else:
        for name in rest:
            role = CONTEXT if name in context else LEFT_OUT
            decisions.setdefault(name, Decision(name, role, "as asked", expected=True))
        _check_number(context)
        check_types(events.select(context))
        checked = [name for name in context if name not in leaks]
        _refuse_leaks(_leakage(events, roles, checked), checked)
    return Decisions(tuple(decisions[name] for name in events.columns))


def role_columns(
    events: pl.DataFrame, given: Mapping[str, str | None], taken: Collection[str] = ()
) -> dict[str, str]:
    """Return role -> column for ids and standard columns; taken: columns with another role."""
    return {decision.role: decision.column for decision in _roles(events, given, set(taken))}


def _check_known(names: Sequence[str], events: pl.DataFrame, more: Sequence[str] = ()) -> None:
    for name in (name for name in names if name not in events.columns):
        raise DataError(unknown("column", name, dict.fromkeys([*events.columns, *more])))


def _among(names: Sequence[str], events: pl.DataFrame) -> list[str]:
    return [name for name in name_list(names) if name in events.columns]


def _check_number(names: Sequence[str]) -> None:
    if len(names) > MAX_CONTEXTS:
        raise DataError(
            f"{len(names):,} columns would be context, at most {MAX_CONTEXTS:,} are allowed: "
            f"select columns with {named('context', ...)}"
        )


# Ids and standard columns.


def _roles(
    events: pl.DataFrame, given: Mapping[str, str | None], taken: set[str]
) -> list[Decision]:
    """Find the ids and standard columns, by name first, then by contents."""
    names = [name for name in events.columns if name not in taken or name in given.values()]
    wanted = given.get("session")
    session = find_column("session", names if wanted is None else events.columns, wanted)
    roles = find_roles(names, given)
    check_types(events.select(roles["user"], roles["item"]))
    others = [name for name in names if name not in roles.values()]

    def by_contents(role: str) -> str | None:
        if role == "timestamp":
            return _time(events, roles, others)
        if role == "event_type":
            return _event_type(events, others)
        is_one = session is not None and is_session(events[session], events[roles["user"]])
        return session if is_one else None

    for role in ("timestamp", "session", "event_type"):
        name = None if role in roles else by_contents(role)
        if name is not None and name not in roles.values():
            roles[role] = name
    return [Decision(name, role, *_why(events, role, name, given)) for role, name in roles.items()]


def _why(
    events: pl.DataFrame, role: str, name: str, given: Mapping[str, str | None]
) -> tuple[str, str, bool]:
    """Return (reason, option that changes it, whether the caller or the name asked for it)."""
    other = named(role, ...)
    if given.get(role) is not None:
        return "as asked", "", True
    if role == "timestamp":
        by_name = find_column(role, [name], None) is not None
        form = time_form(events[name])
        is_order = by_name and form is None and not has_dates(parse_times(events[name]))
        return (
            f"{form or 'its name'}{'; numbers in order, no dates' if is_order else ''}",
            other,
            by_name,
        )
    if role == "event_type":
        return f"event types: {', '.join(event_types(events[name])[:6])}", other, False
    if role == "session":
        return f"{events[name].n_unique():,} sessions", other, False
    return "its name", other, True


def _time(events: pl.DataFrame, roles: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the first column of times that is not an attribute of the item or user (birthday)."""
    for name in names:
        if time_form(events[name]) is None:
            continue
        leakage = _leakage(events.with_columns(days(events[name])), roles, [name]).get(name)
        of_item = leakage is not None and leakage.degree in ("likely", "certain")
        if not of_item and not has_one_each(events[roles["user"]], events[name]):
            return name
    return None


def _event_type(events: pl.DataFrame, names: Sequence[str]) -> str | None:
    by_name = find_column("event_type", names, None)
    ordered = [*([by_name] if by_name else []), *names]
    sure = by_name is not None and SURE_EVENT_TYPE.search(by_name.lower()) is not None
    return next((n for n in ordered if event_types(events[n], sure and n == by_name)), None)


def is_session(values: pl.Series, user: pl.Series) -> bool:
    """Return whether a column that is named like a session holds many values of one user each."""
    if values.dtype.is_nested() or values.dtype.is_float():
        return False
    if len(values) <= FEW_ROWS:
        return True
    return values.n_unique() > MAX_EVENT_TYPES or has_one_each(values, user)


# All other columns: context, item attribute, or left out.


def _by_contents(
    events: pl.DataFrame, roles: Mapping[str, str], names: Sequence[str], leaks: Sequence[str]
) -> list[Decision]:
    """Decide about columns without a role: context, unless their contents say otherwise."""
    check_types(events.select(names))
    user, decisions = events[roles["user"]], []
    for name in names:
        if name in leaks:
            decisions.append(Decision(name, CONTEXT, "as asked", expected=True))
            continue
        why = why_left_out(events[name], user, timed="timestamp" in roles)
        titled = TITLE_NAME.search(name.lower()) is not None  # also if items are few
        if (why or titled) and _is_text_of_items(events[name], events[roles["item"]]):
            moved = named("item_columns", [name])
            decisions.append(Decision(name, DISPLAY, "one text per item", moved))
        elif why is not None:
            timed = time_form(events[name]) is not None
            timed |= "timestamp" not in roles and named_like_time(events[name])
            other = named("timestamp", name) if timed else named("leaks", [name])
            decisions.append(Decision(name, LEFT_OUT, why, "" if why == EMPTY else other))
    done = {decision.column for decision in decisions}
    rest = [name for name in names if name not in done]
    priced = [name for name in rest if is_price(name) and len(events) > FEW_EVENTS]
    leakage = _leakage(events, roles, priced, FEW_ITEMS) | _leakage(events, roles, rest)
    return decisions + [_of_item_or_context(events[name], leakage.get(name)) for name in rest]


def _of_item_or_context(values: pl.Series, leakage: ContextLeakage | None) -> Decision:
    """Decide by how well the column and the item explain each other; prices belong to items."""
    ignored = named("ignore", [values.name])
    if leakage is None or leakage.degree in ("none", "suspect"):
        related = leakage is None or leakage.of_column > 0.2
        if is_price(values.name) and len(values) > FEW_ROWS and related:
            return Decision(values.name, ATTRIBUTE, "prices describe items", ignored)
        figure = f"; {leakage.line}" if leakage is not None and leakage.degree != "none" else ""
        return Decision(values.name, CONTEXT, f"{described(values)}{figure}", ignored)
    if values.dtype == pl.String and min(leakage.of_item, leakage.of_column) >= 0.9:
        moved = named("item_columns", [values.name])
        if described(values) == COMMAS:
            return Decision(values.name, LEFT_OUT, COMMAS, moved)
        return Decision(values.name, DISPLAY, "one-to-one with the item", moved)
    return Decision(values.name, ATTRIBUTE, leakage.line, ignored)


def described(values: pl.Series) -> str:
    """Summarise the values of a column in a few words."""
    if values.dtype.is_nested():
        return "lists"
    if decimal_commas(values) is not None:
        return COMMAS
    if has_bars(values):
        return "values between bars"
    return "numbers" if values.dtype.is_float() else f"{values.drop_nulls().n_unique():,} values"


def is_price(name: str) -> bool:
    """Return whether a column is named like a price."""
    return PRICE_NAME.search(name.lower()) is not None


def why_left_out(values: pl.Series, user: pl.Series, timed: bool) -> str | None:
    """Return why a column cannot be context, whatever the items are; None if it can.

    user: the users of the events; timed: whether another column holds the time.
    """
    if is_empty(values):
        return EMPTY
    if values.dtype.is_nested() or len(values) <= FEW_ROWS:
        return None
    if AFTERWARDS.search(values.name.lower()) and values.dtype.is_numeric():
        return "known only after the choice"
    distinct = values.n_unique()
    if distinct < 2:
        return "one value only"
    if time_form(values) is not None:
        return "another time" if timed else "a time that belongs to the user or the item"
    if values.dtype.is_float():
        return None
    share = distinct / len(values)
    if values.dtype == pl.String and _is_free_text(values):
        return "free text"
    if share > NEARLY_ALL:
        return f"{distinct:,} distinct values in {len(values):,} events"
    if share > ID_SHARE and distinct > MAX_EVENT_TYPES and ID_NAME.search(values.name):
        return f"an id with {distinct:,} values"
    more = distinct > max(MAX_EVENT_TYPES, 1.5 * user.n_unique())
    if more and has_one_each(values, user):
        return "each value belongs to one user, like a session"
    return None


def _is_text_of_items(values: pl.Series, item: pl.Series) -> bool:
    """Return whether each item has one text in the column, and most texts differ."""
    if values.dtype != pl.String or len(values) <= FEW_ROWS:
        return False
    return values.n_unique() > NEARLY_ALL * item.n_unique() and has_one_each(item, values)


def why_display(values: pl.Series) -> str | None:
    """Return why a column of the item table is for display only; None if it is learned from.

    Text is for display if its name says so, if more than half of its values differ, or if it is
    free text. Text with several values between bars is learned from.
    """
    if values.dtype != pl.String:
        return None
    if TITLE_NAME.search(values.name.lower()):
        return "its name"
    known = values.drop_nulls()
    if len(known) <= FEW_ROWS or has_bars(known):
        return None
    distinct = known.n_unique()
    if distinct > NEARLY_ALL * len(known):
        return f"{distinct:,} different texts of {len(known):,} items"
    return "free text" if _is_free_text(known) else None


def _is_free_text(values: pl.Series) -> bool:
    text = values.drop_nulls().head(1000)
    words = text.str.count_matches(r"\S+").mean()
    return isinstance(words, float) and words >= WORDS and 5 * text.n_unique() > len(text)


def _refuse_leaks(leakage: Mapping[str, ContextLeakage], names: Sequence[str]) -> None:
    """Refuse certain leaks, log likely ones."""
    for name in names:
        if name in leakage and leakage[name].degree == "certain":
            raise leak(name, leakage[name].line)
        if name in leakage and leakage[name].degree == "likely":
            LOG.warning("context column %r may identify the item: %s", name, leakage[name].line)


def _leakage(
    events: pl.DataFrame,
    roles: Mapping[str, str],
    names: Sequence[str],
    least: int = REPEATED_ITEMS,
) -> dict[str, ContextLeakage]:
    """Compute the context leakage of columns, of a sample of the items if there are many events."""
    if not names or not len(events):
        return {}
    ids = events.select(pl.col(roles[side]).alias(side) for side in ("user", "item"))
    sampled = np.ones(len(events), bool)
    if len(events) > MAX_ROWS:
        every = len(events) // MAX_ROWS + 1
        sampled = (ids["item"].hash(0) % every == 0).to_numpy()
    ids = ids.select(as_plain(ids[side]) for side in ("user", "item"))
    known = pl.Series(sampled) & ids["user"].is_not_null() & ids["item"].is_not_null()
    ids, columns = ids.filter(known), events.select(names).filter(known)
    user, item = (Vocabulary.of(ids[side]).numbers(ids[side]) for side in ("user", "item"))
    return context_leakage(user, item, columns, names, least)
