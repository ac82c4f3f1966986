"""What each column of a frame of events is taken for, and why; all who read events ask here."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from fmpair.data.columns.leakage import REPEATED_ITEMS, Information, information
from fmpair.data.columns.roles import (
    STANDARD,
    SURE_KINDS,
    check_types,
    find_column,
    find_roles,
    leak,
)
from fmpair.data.event_types import MOST_KINDS, event_kinds
from fmpair.data.frame import decimal_commas
from fmpair.data.times import days, has_dates, parse_times, time_form
from fmpair.data.vocabulary import Vocabulary, as_plain
from fmpair.errors import DataError, named, unknown

# What the values of a column look like: ids, sessions, free text, prices.


FEW_ROWS = 20  # so few events prove nothing about a column
NEARLY_ALL = 0.5  # share of distinct values among the events, from which hardly any repeats
ID_SHARE = 0.02  # the same for a column that is named like an id
COMMAS = "text: numbers with a decimal comma"
WORDS = 4  # on average, from which text is free

ID_NAME = re.compile(r"(^|_)(id|ids|uuid|guid|hash|key|token|ip|index|row|nr|no|number)$|Id$|ID$")
PRICE_NAME = re.compile(r"(^|_)(price|cost|msrp|prices|costs)($|_)")
AFTERWARDS = re.compile(
    r"(^|_)(quantity|qty|revenue|dwell|playtime|watchtime|(dwell|watch|play|listen|read)_?"
    r"(time|ms|seconds|duration))($|_)"
)


def described(values: pl.Series) -> str:
    """The values in short."""
    if values.dtype.is_nested():
        return "lists"
    if decimal_commas(values) is not None:
        return COMMAS
    return "numbers" if values.dtype.is_float() else f"{values.drop_nulls().n_unique():,} values"


def is_price(name: str) -> bool:
    """Whether a column is named like a price."""
    return PRICE_NAME.search(name.lower()) is not None


def is_session(values: pl.Series, user: pl.Series) -> bool:
    """Whether a column that is named like a session tells them: many, each of one user."""
    if values.dtype.is_nested() or values.dtype.is_float():
        return False
    if len(values) <= FEW_ROWS:
        return True
    return values.n_unique() > MOST_KINDS or has_one_each(values, user)


def why_left_out(values: pl.Series, user: pl.Series, timed: bool) -> str | None:
    """Why a column cannot be context, whatever the item; None where it can.

    user: the users of the events; timed: whether another column tells the time.
    """
    if values.dtype.is_nested() or len(values) <= FEW_ROWS:
        return None
    if AFTERWARDS.search(values.name.lower()) and values.dtype.is_numeric():
        return "known only after the choice"
    if values.n_unique() < 2:
        return "one value only"
    if time_form(values) is not None:
        return "another time" if timed else "a time that belongs to the user or the item"
    if values.dtype.is_float():
        return None
    share = values.n_unique() / len(values)
    if values.dtype == pl.String and _is_free_text(values):
        return "free text"
    if share > NEARLY_ALL:
        return f"another value in {share:.0%} of the events"
    if share > ID_SHARE and values.n_unique() > MOST_KINDS and ID_NAME.search(values.name):
        return f"an id with {values.n_unique():,} values"
    more = values.n_unique() > max(MOST_KINDS, 1.5 * user.n_unique())
    if more and has_one_each(values, user):
        return "each value belongs to one user, as those of sessions do"
    return None


def _is_free_text(values: pl.Series) -> bool:
    text = values.drop_nulls().head(1000)
    words = text.str.count_matches(r"\S+").mean()
    return isinstance(words, float) and words >= WORDS and 5 * text.n_unique() > len(text)


def has_one_each(values: pl.Series, other: pl.Series) -> bool:
    """Whether every value that occurs more than once has one value of the other column."""
    if values.dtype.is_nested() or other.dtype.is_nested():
        return False
    frame = pl.DataFrame({"value": values, "other": other}).drop_nulls()
    each = frame.group_by("value").agg(
        pl.len().alias("events"), pl.col("other").n_unique().alias("others")
    )
    several = each.filter(pl.col("events") > 1)
    return len(several) > 0 and int((several["others"] == 1).sum()) >= 0.99 * len(several)


LOG = logging.getLogger("fmpair")

CONTEXT, ATTRIBUTE, LEFT_OUT = "context", "item attribute", "left out"
MOST_CONTEXTS = 1_000  # columns of context
FEW_EVENTS, FEW_ITEMS = 100, 5  # more events, and so many items with two, tell whose a price is
MOST_ROWS = 200_000  # of more events all of some items stand for the rest


@dataclass(frozen=True)
class Decision:
    """What one column is taken for.

    role: user, item, a standard column, context, item attribute or left out. change: the option
    that decides otherwise, written by `named`. expected: whether the caller or the column's name
    said so.
    """

    column: str
    role: str
    reason: str
    change: str = ""
    expected: bool = False


@dataclass(frozen=True)
class Decisions:
    """What every column of a frame is taken for, in the frame's order."""

    columns: tuple[Decision, ...]

    @property
    def roles(self) -> dict[str, str]:
        """Role -> column, for user, item and standard columns."""
        return {d.role: d.column for d in self.columns if d.role in ("user", "item", *STANDARD)}

    def named(self, role: str) -> list[str]:
        """The columns that are context, an item attribute, or left out."""
        return [decision.column for decision in self.columns if decision.role == role]

    @property
    def options(self) -> dict[str, Any]:
        """What `Dataset.from_frame` has to be told for the same decisions."""
        return self.keeping(self.named(CONTEXT))

    def keeping(self, context: Sequence[str]) -> dict[str, Any]:
        """The same with these columns as context, where the frame has them, and no others."""
        kept = [d.column for d in self.columns if d.column in context]
        return {
            **{role: column for role, column in self.roles.items() if column not in kept},
            "context": kept,
            "item_columns": [name for name in self.named(ATTRIBUTE) if name not in kept],
            "leaks": kept,
        }

    @property
    def lossless(self) -> dict[str, Any]:
        """The same with every column kept: what is no context is some all the same."""
        moved = [d.column for d in self.columns if d.role == ATTRIBUTE and d.expected]
        out = [d.column for d in self.columns if d.role == LEFT_OUT and d.expected]
        named = [*self.roles.values(), *moved, *out]
        kept = [d.column for d in self.columns if d.column not in named]
        return {**self.options, "context": kept, "leaks": kept, "item_columns": moved}

    @property
    def surprises(self) -> str:
        """What would have been context if names alone counted, in one line; empty without any."""
        others = [d for d in self.columns if d.role != CONTEXT and not d.expected]
        told = "; ".join(f"{d.column!r} ({d.role}: {d.reason})" for d in others)
        wish = named("leaks", [d.column for d in others])
        if not told:
            return ""
        return f"not taken as context: {told}. To have them as context all the same say {wish}"


def without(events: pl.DataFrame, ignored: Sequence[str]) -> pl.DataFrame:
    """The events without the columns to ignore, which must be there."""
    for name in ignored:
        if name not in events.columns:
            raise DataError(unknown("column", name, events.columns))
    return events.drop(list(ignored))


def decide(
    events: pl.DataFrame,
    given: Mapping[str, str | None],
    context: Sequence[str] | None = None,
    item_columns: Sequence[str] = (),
    leaks: Sequence[str] = (),
) -> Decisions:
    """What each column is: as the caller says, else by names, types and contents.

    given: columns by role. context, item_columns, leaks: as in `Dataset.from_frame`. Columns that
    the caller wants as context and that certainly give the item away are refused, but for leaks.
    """
    for name in (*(context or ()), *item_columns, *leaks):
        if name not in events.columns:
            raise DataError(unknown("column", name, events.columns))
    if context is not None:
        context = [*context, *(name for name in leaks if name not in context)]
    taken = {*(context or ()), *item_columns, *leaks}
    found = {d.column: d for d in _roles(events, given, taken)}
    rest = [name for name in events.columns if name not in found]
    for name in item_columns:
        found[name] = Decision(name, ATTRIBUTE, "as asked", expected=True)
    roles = {decision.role: column for column, decision in found.items()}
    if context is None:
        free = [name for name in rest if name not in item_columns]
        _check_number(free)
        found |= {d.column: d for d in _free(events, roles, free, leaks)}
    else:
        for name in rest:
            role = CONTEXT if name in context else LEFT_OUT
            found.setdefault(name, Decision(name, role, "as asked", expected=True))
        _check_number(context)
        check_types(events.select(context))
        asked = [name for name in context if name not in leaks]
        _refuse_leaks(_told(events, roles, asked), asked)
    return Decisions(tuple(found[name] for name in events.columns))


def role_columns(
    events: pl.DataFrame, given: Mapping[str, str | None], taken: Collection[str] = ()
) -> dict[str, str]:
    """Role -> column, for ids and standard columns; taken: columns that are something else."""
    return {decision.role: decision.column for decision in _roles(events, given, set(taken))}


def _check_number(names: Sequence[str]) -> None:
    if len(names) > MOST_CONTEXTS:
        raise DataError(
            f"{len(names):,} columns would be context, and {MOST_CONTEXTS:,} are the most: name "
            f"those that matter with {named('context', ...)}"
        )


def _roles(
    events: pl.DataFrame, given: Mapping[str, str | None], taken: set[str]
) -> list[Decision]:
    """The columns that are ids or standard columns."""
    open_columns = [name for name in events.columns if name not in taken or name in given.values()]
    session = _by_name("session", events, given, open_columns)
    try:
        roles = find_roles(open_columns, given)
    except DataError:
        if session is None or given.get("user") is not None:
            raise
        # Data of sessions alone: each is a user who never comes back.
        roles = find_roles(open_columns, {**given, "user": session})
    check_types(events.select(roles["user"], roles["item"]))
    others = [name for name in open_columns if name not in roles.values()]
    kinds = {
        "timestamp": lambda: _time(events, roles, others),
        "session": lambda: session if _is_session(events, roles, session) else None,
        "event_type": lambda: _event_type(events, others),
    }
    for role, find in kinds.items():
        name = None if role in roles else find()
        if name is not None and name not in roles.values():
            roles[role] = name
    return [Decision(name, role, *_why(events, role, name, given)) for role, name in roles.items()]


def _why(
    events: pl.DataFrame, role: str, name: str, given: Mapping[str, str | None]
) -> tuple[str, str, bool]:
    """(reason, the option that changes it, whether the caller or its name said so)."""
    other = named(role, ...)
    if given.get(role) is not None:
        return "as asked", "", True
    if role == "timestamp":
        by_name = find_column(role, [name], None) is not None
        form = time_form(events[name]) or "its name"
        dated = by_name and not has_dates(parse_times(events[name]))
        order = "; numbers in order, no dates" if dated else ""
        return f"{form}{order}", other, by_name
    if role == "event_type":
        return f"kinds: {', '.join(event_kinds(events[name])[:6])}", other, False
    if role == "session":
        return f"{events[name].n_unique():,} sessions", other, False
    if role == "user" and find_column("session", [name], None):
        return "there are no users: each session is one", other, False
    return "its name", other, True


def _by_name(
    role: str, events: pl.DataFrame, given: Mapping[str, str | None], names: Sequence[str]
) -> str | None:
    return find_column(role, names if given.get(role) is None else events.columns, given.get(role))


def _time(events: pl.DataFrame, roles: Mapping[str, str], names: Sequence[str]) -> str | None:
    """The first column of times that is neither the item's nor the user's, such as a birthday."""
    for name in names:
        if time_form(events[name]) is None:
            continue
        values = days(events[name])
        told = _told(events.with_columns(values), roles, [name]).get(name)
        of_item = told is not None and told.degree in ("likely", "certain")
        if not of_item and not has_one_each(events[roles["user"]], events[name]):
            return name
    return None


def _is_session(events: pl.DataFrame, roles: Mapping[str, str], name: str | None) -> bool:
    return name is not None and is_session(events[name], events[roles["user"]])


def _event_type(events: pl.DataFrame, names: Sequence[str]) -> str | None:
    by_name = find_column("event_type", names, None)
    ordered = [*([by_name] if by_name else []), *names]
    sure = by_name is not None and SURE_KINDS.search(by_name.lower()) is not None
    return next((n for n in ordered if event_kinds(events[n], sure and n == by_name)), None)


def _free(
    events: pl.DataFrame, roles: Mapping[str, str], names: Sequence[str], leaks: Sequence[str]
) -> list[Decision]:
    """Columns nobody spoke of: context, unless their contents say otherwise."""
    check_types(events.select(names))
    user, found = events[roles["user"]], []
    for name in names:
        if name in leaks:
            found.append(Decision(name, CONTEXT, "as asked", expected=True))
            continue
        why = why_left_out(events[name], user, timed="timestamp" in roles)
        if why is not None:
            timed = time_form(events[name]) is not None
            other = named("timestamp", name) if timed else named("leaks", [name])
            found.append(Decision(name, LEFT_OUT, why, other))
    done = {decision.column for decision in found}
    rest = [name for name in names if name not in done]
    priced = [name for name in rest if is_price(name) and len(events) > FEW_EVENTS]
    told = _told(events, roles, priced, FEW_ITEMS) | _told(events, roles, rest)
    return found + [_of_item_or_context(events[name], told.get(name)) for name in rest]


def _of_item_or_context(values: pl.Series, told: Information | None) -> Decision:
    """By how much the column and the item tell of each other; a price is the item's by its name."""
    ignored = named("ignore", [values.name])
    if told is None or told.degree in ("none", "suspect"):
        if (
            is_price(values.name)
            and len(values) > FEW_ROWS
            and (told is None or told.of_column > 0.2)
        ):
            return Decision(values.name, ATTRIBUTE, "a price is the item's", ignored)
        figure = f"; {told.line}" if told is not None and told.degree == "suspect" else ""
        return Decision(values.name, CONTEXT, f"{described(values)}{figure}", ignored)
    if values.dtype == pl.String and min(told.of_item, told.of_column) >= 0.9:
        moved = named("item_columns", [values.name])
        why = COMMAS if described(values) == COMMAS else "another name of the item"
        return Decision(values.name, LEFT_OUT, why, moved)
    return Decision(values.name, ATTRIBUTE, told.line, ignored)


def _refuse_leaks(told: Mapping[str, Information], names: Sequence[str]) -> None:
    """Refuse what is certain, log what is likely."""
    for name in names:
        if name in told and told[name].degree == "certain":
            raise leak(name, told[name].line)
        if name in told and told[name].degree == "likely":
            LOG.warning("context column %r may give the item away: %s", name, told[name].line)


def _told(
    events: pl.DataFrame,
    roles: Mapping[str, str],
    names: Sequence[str],
    least: int = REPEATED_ITEMS,
) -> dict[str, Information]:
    """What columns give away of the item; of many events those of some items are asked."""
    if not names or not len(events):
        return {}
    item = roles["item"]
    chosen = events.select(pl.col(roles["user"]).alias("user"), pl.col(item).alias("item"))
    some = np.ones(len(events), bool)
    if len(events) > MOST_ROWS:
        every = len(events) // MOST_ROWS + 1
        some = (chosen["item"].hash(0) % every == 0).to_numpy()
    chosen = chosen.select(as_plain(chosen[side]) for side in ("user", "item"))
    known = pl.Series(some) & chosen["user"].is_not_null() & chosen["item"].is_not_null()
    chosen, columns = chosen.filter(known), events.select(names).filter(known)
    user, number = (Vocabulary.of(chosen[side]).numbers(chosen[side]) for side in ("user", "item"))
    return information(user, number, columns, names, least)
