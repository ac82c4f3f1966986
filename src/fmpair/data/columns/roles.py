"""Events without a user or an item, which no model can learn from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import polars as pl

from fmpair.checks import one_of
from fmpair.errors import DataError, named, nearest, notice, unknown

# The roles of the columns of a frame.


# What roles are called, the surest name first. An id may have more before it: `hashed_user_id`.
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
# Columns of events beside the ids and the context, by these names in every Dataset.
STANDARD = ("rating", "weight", "timestamp", "domain", "session", "event_type")
SURE_KINDS = re.compile(r"(type|name)$")  # `event_type` tells kinds, `event` only with such values
BY_CONTENT = ("session", "event_type")  # roles that a name alone does not give


def find_column(role: str, columns: Sequence[str], given: str | None) -> str | None:
    """The column of a role: the one given, else one with a recognised name, else None."""
    if given is not None:
        if given not in columns:
            raise DataError(unknown(f"column for {role}", given, columns))
        return given
    by_plain = {_plain(name): name for name in reversed(columns)}
    usual = [_plain(alias) for alias in ALIASES[role]]
    found = next((by_plain[alias] for alias in usual if alias in by_plain), None)
    if found is not None or role not in IDS:
        return found
    longer = tuple(alias for alias in usual if alias.endswith("id") and len(alias) > 4)
    return next((name for plain, name in by_plain.items() if plain.endswith(longer)), None)


def find_roles(columns: Sequence[str], given: Mapping[str, str | None]) -> dict[str, str]:
    """Role -> column name for the roles that names tell; user and item must be there."""
    roles: dict[str, str] = {}
    for role in ALIASES:
        if role not in BY_CONTENT or given.get(role) is not None:
            column = find_column(role, columns, given.get(role))
            if column is not None:
                roles[role] = column
    for role in IDS:
        if role not in roles:
            guess = nearest(role, columns)
            hint = f" Is it {guess!r}? Then say {named(role, guess)}." if guess else ""
            raise DataError(
                f"no column for {role}: none of {', '.join(columns)} is named like "
                f"{', '.join(ALIASES[role][:3])}; name it with {named(role, ...)}.{hint}"
            )
    if len(set(roles.values())) < len(roles):
        raise DataError(f"one column cannot have two roles: {roles}")
    return roles


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


# Checks of a frame of events before it is used.


def check_events(events: pl.DataFrame, roles: dict[str, str], context: Sequence[str]) -> None:
    """Raise DataError at the first thing that makes the events unusable."""
    if not len(events):
        raise DataError("there are no events: the table has a header but no rows")
    check_types(events.select({*roles.values(), *context}))
    for role in ("user", "item"):
        _check_ids(events[roles[role]], role)
    for role in ("rating", "weight"):
        if role in roles:
            _check_numbers(events[roles[role]], role)
    if "weight" in roles and (events[roles["weight"]] < 0).any():
        raise DataError(
            f"column {roles['weight']!r} has negative weights: weights must be 0 or more"
        )


def check_types(frame: pl.DataFrame) -> None:
    """Refuse columns of Python objects, which can be neither compared nor written."""
    for name, dtype in frame.schema.items():
        if dtype == pl.Object:
            raise DataError(
                f"column {name!r} holds Python objects: make them text, numbers or lists, "
                f"or leave the column out"
            )


def _check_ids(ids: pl.Series, role: str) -> None:
    missing = ids.is_null() | (ids.is_nan() if ids.dtype.is_float() else False)
    if missing.any():
        first = missing.arg_max()
        raise DataError(
            f"column {ids.name!r} has {missing.sum()} missing {role} ids "
            f"(the first in row {first}, counted from 0): leave them out with "
            f"{named('missing', 'drop')}"
        )
    if ids.dtype.is_nested():
        raise DataError(f"column {ids.name!r} holds {ids.dtype}, which cannot be {role} ids")


def _check_numbers(values: pl.Series, role: str) -> None:
    if not values.dtype.is_numeric():
        sample = values.drop_nulls()
        shown = f", such as {sample[0]!r}" if len(sample) else ""
        raise DataError(
            f"column {values.name!r} is the {role} but holds {values.dtype}{shown}: "
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
    """Refuse context columns that the item table has too, but for those allowed."""
    for name in context:
        if name in item_table.columns and name not in allowed:
            raise leak(name, "it is in the item table too")


def leak(name: str, why: str) -> DataError:
    """What is said of a context column that belongs to the item."""
    return DataError(
        f"column {name!r} describes the item, not the context: {why}. As context every candidate "
        "would get the positive item's value, and the answer would leak into the query. Give it "
        f"with {named('item_columns', [name])}, or drop it with {named('ignore', [name])}"
    )


MISSING = ("drop", "error")


def with_ids(events: pl.DataFrame, roles: Mapping[str, str], missing: str) -> pl.DataFrame:
    """The events with both ids; the others are left out and counted, or stay, to be refused."""
    one_of("missing", missing, MISSING)
    user, item = (_absent(events[roles[role]]) for role in ("user", "item"))
    gone = user | item
    count = int(gone.sum())
    if missing == "error" or not count:
        return events
    what = " and ".join(
        f"{int(absent.sum()):,} in {roles[role]!r}"
        for role, absent in (("user", user), ("item", item))
        if absent.any()
    )
    if count == len(events):
        raise DataError(
            f"all {count:,} rows lack a user or an item ({what}): name other columns with "
            f"{named('user', ...)} and {named('item', ...)}"
        )
    notice(
        f"left out {count:,} of {len(events):,} rows without a user or item ({what}); "
        f"{named('missing', 'error')} refuses them"
    )
    return events.filter(~gone)


def _absent(ids: pl.Series) -> pl.Series:
    """Whether each is null or no number."""
    return ids.is_null() | ids.is_nan().fill_null(True) if ids.dtype.is_float() else ids.is_null()
