"""Roles of columns (user, item, rating, ...): found by name, and checked before use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import polars as pl

from fmpair.checks import one_of
from fmpair.errors import DataError, named, nearest, notice, unknown

# Recognised names of the roles, the surest first. An id may have a prefix: `hashed_user_id`.
ALIASES: dict[str, tuple[str, ...]] = {
    "user": (
        *("user", "user_id", "userid", "uid", "user_idx", "customer", "customer_id"),
        *("visitor", "visitor_id", "client", "client_id", "member", "member_id", "account"),
        *("account_id", "buyer", "buyer_id", "reviewer", "reviewer_id", "listener", "listener_id"),
        *("reader_id", "viewer_id", "subscriber_id", "person_id", "shopper_id", "household_id"),
    ),
    "item": (
        *("item", "item_id", "itemid", "iid", "item_idx", "product", "product_id", "sku"),
        *("sku_id", "asin", "parent_asin", "isbn", "track", "track_id", "song", "song_id"),
        *("movie", "movie_id", "film", "film_id", "article", "article_id", "book", "book_id"),
        *("video", "video_id", "news_id", "content_id", "business_id", "listing_id", "offer_id"),
        *("recipe_id", "game_id", "app_id", "podcast_id", "episode_id", "course_id", "job_id"),
        *("goods_id", "venue_id", "poi_id", "hotel_id", "stock_code"),
    ),
    "rating": ("rating", "ratings", "stars", "star_rating", "overall"),
    "weight": ("weight", "count", "cnt"),
    "timestamp": ("timestamp", "ts", "unix_timestamp", "datetime"),
    "domain": ("domain",),
    "session": ("session", "session_id", "user_session", "visit", "visit_id"),
    "event_type": (
        *("event_type", "event", "event_name", "action", "action_type", "behavior"),
        *("behavior_type", "behaviour", "behaviour_type", "interaction_type", "feedback_type"),
    ),
}
IDS = ("user", "item")
# Ids by another word than id: `Customer No`, `product_code`. They come after all other names.
NUMBERED = {
    "user": ("user", "customer", "client", "member", "account", "buyer", "visitor"),
    "item": ("item", "product", "article", "sku"),
}
NUMBER_WORDS = ("no", "nr", "number", "num", "code", "key")
# Columns of events besides ids and context; every Dataset uses these names.
STANDARD = ("rating", "weight", "timestamp", "domain", "session", "event_type")
SURE_EVENT_TYPE = re.compile(r"(type|name)$")  # `event` needs known event types as values too
BY_CONTENT = ("session", "event_type")  # roles that need more than a name
UNTIMED = "drop-untimed"
MISSING = ("drop", UNTIMED, "error")
SIGNS = str.maketrans("", "", "_- .#")  # do not matter in names: user_id, User ID


def name_list(names: Sequence[str]) -> list[str]:
    """Return names as a list; a single string, which is a sequence too, is one name."""
    return [names] if isinstance(names, str) else list(names)


def find_column(role: str, columns: Sequence[str], given: str | None) -> str | None:
    """Return the column of a role: the given one, else one with a recognised name, else None."""
    if given is not None:
        if given not in columns:
            raise DataError(unknown(f"column for {role}", given, columns))
        return given
    by_plain = {_plain(name): name for name in reversed(columns)}
    aliases = [_plain(alias) for alias in ALIASES[role]]
    aliases += [noun + word for noun in NUMBERED.get(role, ()) for word in NUMBER_WORDS]
    column = next((by_plain[alias] for alias in aliases if alias in by_plain), None)
    if column is not None or role not in IDS:
        return column
    endings = tuple(alias for alias in aliases if alias.endswith("id") and len(alias) > 4)
    return next((name for plain, name in by_plain.items() if plain.endswith(endings)), None)


def find_roles(columns: Sequence[str], given: Mapping[str, str | None]) -> dict[str, str]:
    """Return role -> column for all roles found by name; user and item are required."""
    roles: dict[str, str] = {}
    for role in ALIASES:
        if role not in BY_CONTENT or given.get(role) is not None:
            column = find_column(role, columns, given.get(role))
            if column is not None:
                roles[role] = column
    for role in IDS:
        if role not in roles:
            guess = nearest(role, columns)
            hint = f" Is it {guess!r}? Then give {named(role, guess)}." if guess else ""
            session = find_column("session", columns, None) if role == "user" else None
            if session is not None and not hint:
                hint = f" To recommend to sessions, give {named(role, session)}."
            raise DataError(
                f"no {role} column found among {', '.join(columns)}: name it with "
                f"{named(role, ...)}, or rename it to {role!r}.{hint}"
            )
    by_column: dict[str, str] = {}
    for role, name in roles.items():
        if name in by_column:
            raise DataError(
                f"column {name!r} cannot be both {by_column[name]} and {role}: give another one as "
                f"{named(role, ...)}"
            )
        by_column[name] = role
    return roles


def _plain(name: str) -> str:
    return name.lower().translate(SIGNS)


def with_ids(events: pl.DataFrame, roles: Mapping[str, str], missing: str) -> pl.DataFrame:
    """Return the events that have both ids, and report the others; missing='error' keeps all.

    missing='drop-untimed' leaves out events without a time too.
    """
    one_of("missing", missing, MISSING)
    timed = missing == UNTIMED and "timestamp" in roles
    lacking = "user, item or time" if timed else "user or item"
    needed = (*IDS, "timestamp") if timed else IDS
    absent = {role: is_missing(events[roles[role]]) for role in needed}
    either = pl.DataFrame(absent).select(pl.any_horizontal(pl.all())).to_series()
    count = int(either.sum())
    if missing == "error" or not count:
        return events
    where = " and ".join(
        f"{int(cells.sum()):,} in {roles[role]!r}" for role, cells in absent.items() if cells.any()
    )
    if count == len(events):
        raise DataError(
            f"all {count:,} rows lack a {lacking} ({where}): name other columns with "
            f"{named('user', ...)} and {named('item', ...)}"
        )
    refusal = "" if timed else f"; {named('missing', 'error')} refuses them"
    notice(f"left out {count:,} of {len(events):,} rows without a {lacking} ({where}){refusal}")
    return events.filter(~either)


def is_missing(values: pl.Series) -> pl.Series:
    """Boolean [values]: null or NaN."""
    return values.is_null() | (
        values.is_nan().fill_null(True) if values.dtype.is_float() else False
    )


def is_empty(values: pl.Series) -> bool:
    """Return whether a column has no value, such as one of ratings that nobody gave."""
    return len(values) > 0 and values.null_count() == len(values)


def check_events(events: pl.DataFrame, roles: dict[str, str], context: Sequence[str]) -> None:
    """Raise DataError if the events cannot be used."""
    if not len(events):
        raise DataError("there are no events: the table has a header but no rows")
    check_types(events.select({*roles.values(), *context}))
    for role in IDS:
        _check_ids(events[roles[role]], role)
    if "rating" in roles:
        _check_numbers(events[roles["rating"]], "rating")
    if "weight" in roles:
        check_weights(events[roles["weight"]])


def check_weights(weights: pl.Series) -> None:
    """Raise DataError if event weights cannot be used."""
    _check_numbers(weights, "weight")
    if (weights < 0).any():
        raise DataError(f"column {weights.name!r} has negative weights: weights must be 0 or more")


def check_types(frame: pl.DataFrame) -> None:
    """Refuse columns of Python objects, which can be neither compared nor written."""
    for name, dtype in frame.schema.items():
        if dtype == pl.Object:
            raise DataError(
                f"column {name!r} holds Python objects: convert them to text, numbers or lists, "
                "or leave the column out"
            )


def _check_ids(ids: pl.Series, role: str) -> None:
    missing = is_missing(ids)
    if missing.any():
        raise DataError(
            f"column {ids.name!r} has {missing.sum()} missing {role} ids "
            f"(the first in row {missing.arg_max()}, counted from 0): leave them out with "
            f"{named('missing', 'drop')}"
        )
    if ids.dtype.is_nested():
        raise DataError(f"column {ids.name!r} holds {ids.dtype}, which cannot be {role} ids")


def _check_numbers(values: pl.Series, role: str) -> None:
    if not values.dtype.is_numeric():
        known = values.drop_nulls()
        example = f", such as {known[0]!r}" if len(known) else ""
        raise DataError(
            f"column {values.name!r} is the {role} but holds {values.dtype}{example}: "
            "it must hold numbers"
        )
    if values.null_count():
        raise DataError(
            f"column {values.name!r} ({role}) has {values.null_count()} missing values: drop or "
            f"fill those rows, or leave the column out with {named('ignore', [values.name])}"
        )
    if values.dtype.is_float() and not values.is_finite().all():
        raise DataError(f"column {values.name!r} ({role}) has infinite or NaN values")


def check_no_leak(context: Sequence[str], item_table: pl.DataFrame, allowed: Sequence[str]) -> None:
    """Refuse context columns that are in the item table too, except those allowed."""
    for name in context:
        if name in item_table.columns and name not in allowed:
            raise leak(name, "it is in the item table too")


def leak(name: str, why: str) -> DataError:
    """Return the error for a context column that describes the item."""
    return DataError(
        f"column {name!r} describes the item, not the context: {why}. As context every candidate "
        "would get the positive item's value, and the answer would leak into the query. Give it "
        f"with {named('item_columns', [name])}, or drop it with {named('ignore', [name])}"
    )
