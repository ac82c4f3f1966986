"""The roles of the columns of a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fmpair.errors import DataError, nearest, unknown

ALIASES: dict[str, tuple[str, ...]] = {
    "user": ("user", "user_id", "userid", "uid", "user_idx", "customer", "customer_id"),
    "item": ("item", "item_id", "itemid", "iid", "item_idx", "product", "product_id"),
    "rating": ("rating", "ratings", "stars"),
    "weight": ("weight", "count", "cnt"),
    "timestamp": ("timestamp", "ts", "unix_timestamp", "datetime"),
    "domain": ("domain",),
}


def find_column(role: str, columns: Sequence[str], given: str | None) -> str | None:
    """The column of a role: the one given, else one with a recognised name, else None."""
    if given is not None:
        if given not in columns:
            raise DataError(unknown(f"column for {role}", given, columns))
        return given
    by_plain = {_plain(name): name for name in reversed(columns)}
    return next((by_plain[_plain(a)] for a in ALIASES[role] if _plain(a) in by_plain), None)


def find_roles(columns: Sequence[str], given: Mapping[str, str | None]) -> dict[str, str]:
    """Role -> column name for every role the frame has; user and item must be there."""
    roles: dict[str, str] = {}
    for role in ALIASES:
        column = find_column(role, columns, given.get(role))
        if column is not None:
            roles[role] = column
    for role in ("user", "item"):
        if role not in roles:
            guess = nearest(role, columns)
            hint = f" Is it {guess!r}? Then say {role}={guess!r}." if guess else ""
            raise DataError(
                f"no column for {role}: none of {', '.join(columns)} is named like "
                f"{', '.join(ALIASES[role][:3])}; name it with {role}='...'.{hint}"
            )
    if len(set(roles.values())) < len(roles):
        raise DataError(f"one column cannot have two roles: {roles}")
    return roles


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")
