"""The roles of the columns of a frame."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fmpair.errors import DataError, named, nearest, unknown

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
