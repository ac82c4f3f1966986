"""Checks of arguments, and of sizes before memory is allocated; error texts with hints.

A hint translates names of other libraries, such as `n_factors`, to ours.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from fmpair.errors import OptionError, listing, named, nearest

P = ParamSpec("P")
R = TypeVar("R")
VECTOR_COPIES = 3  # of every vector during training: itself, its optimizer state, the best model
LARGEST_SHOWN = 1 << 100  # bytes, shown at most; options may have any number of digits
UNKNOWN_MEMORY = 8 << 30  # bytes, if the system does not report it
GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container


def whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise OptionError(
            f"{named(name)} must be a whole number of at least {least}, not {value!r}"
        )


def positive(name: str, value: Any) -> None:
    if not (_is_number(value) and math.isfinite(value) and value > 0):
        raise OptionError(f"{named(name)} must be a number above 0, not {value!r}")


def not_negative(name: str, value: Any) -> None:
    if not (_is_number(value) and math.isfinite(value) and value >= 0):
        raise OptionError(f"{named(name)} must be a number of at least 0, not {value!r}")


def number(name: str, value: Any) -> None:
    if not (_is_number(value) and math.isfinite(value)):
        raise OptionError(f"{named(name)} must be a number, not {value!r}")


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        guess = nearest(value, allowed) if isinstance(value, str) else None
        hint = f". Did you mean {guess!r}?" if guess else ""
        raise OptionError(f"{named(name)} must be one of {listing(allowed)}, not {value!r}{hint}")


def regularization(value: Any) -> None:
    """Check a number, or a mapping of numbers; field names are checked against the data later."""
    if value is None:
        return
    if isinstance(value, Mapping):
        for name, number in value.items():
            not_negative(f"regularization of {name!r}", number)
    else:
        not_negative("regularization", value)


def threads(value: Any) -> None:
    if value is not None:
        whole("threads", value, 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or hasattr(value, "__float__")


# Unknown options and attributes.


def _by_foreign_name(names: dict[str, str]) -> dict[str, str]:
    """Return our name by each foreign name; names: our name -> foreign names, with spaces."""
    return {foreign: ours for ours, text in names.items() for foreign in text.split()}


# Option names of other libraries -> ours. Errors about an unknown option suggest ours.
FOREIGN_OPTIONS = _by_foreign_name(
    {
        "factors": "n_factors num_factors no_components n_components embedding_dim embedding_size "
        "latent_dim dim",
        "epochs": "n_epochs num_epochs max_iter n_iter iterations",
        "learning_rate": "lr",
        "regularization": "reg lambda_ weight_decay regularisation",
        "seed": "random_state random_seed",
        "threads": "n_jobs num_threads num_workers",
        "n_negatives": "num_negatives neg_samples",
        "n": "k top_k topk top n_items num_items n_recommendations",
        "users": "user user_id user_ids",
        "candidates": "items item_ids",
        "exclude": "filter_items",
        "exclude_seen": "filter_already_liked_items remove_seen",
        "history": "session",
        "user": "user_col user_column",
        "item": "item_col item_column",
        "timestamp": "time",
        "separator": "sep delimiter",
        "patience": "early_stopping",
        "progress": "verbose",
    }
)
# Method and attribute names of other libraries -> ours, for errors about a missing attribute.
FOREIGN_METHODS = _by_foreign_name(
    {
        "score": "predict",
        "recommend": "recommend_items",
        "similar_items": "similar",
        "update": "partial_fit fit_partial",
        "item_vectors": "item_factors item_embeddings",
        "user_vectors": "user_factors user_embeddings",
        "save": "to_file",
    }
)


def unknown_option(name: str, known: Collection[str], what: str = "option") -> str:
    """Return the error text for an unknown option."""
    foreign = FOREIGN_OPTIONS.get(name)
    guess = foreign if foreign in known else nearest(name, known)
    hint = f" Did you mean '{named(guess)}'?" if guess else ""
    names = listing(named(str(option)) for option in known) or "none"
    return f"unknown {what} '{named(name)}'.{hint} Known: {names}"


def known_options_only(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that an unknown keyword raises an OptionError with a hint."""
    known = [name for name in signature(function).parameters if name not in ("self", "cls")]

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        for name in options:
            if name not in known:
                raise OptionError(_model_option(name, args) or unknown_option(name, known))
        return function(*args, **options)

    return call


def _model_option(name: str, args: tuple[Any, ...]) -> str | None:
    """Return the error text for an option of the model that was passed to one of its methods."""
    kind = type(args[0]) if args else None
    if kind is None or not is_dataclass(kind):
        return None
    options = [field.name for field in fields(kind) if field.init]
    right = name if name in options else FOREIGN_OPTIONS.get(name)
    if right not in options:
        return None
    return f"{name} is an option of the model: {kind.__name__}({right}=...)"


def no_attribute(owner: object, name: str) -> AttributeError:
    """Return the error for a missing attribute."""
    known = [attribute for attribute in dir(owner) if not attribute.startswith("_")]
    guess = FOREIGN_METHODS.get(name)
    guess = guess if guess in known else nearest(name, known)
    hint = f". Did you mean {guess!r}?" if guess and not name.startswith("_") else ""
    return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}{hint}")


# Sizes.


def memory() -> int:
    """Return the bytes of memory this process may use: of the machine, or a lower limit."""
    limits = [UNKNOWN_MEMORY]
    with suppress(AttributeError, ValueError, OSError):
        limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(ValueError, OSError):  # "max" where there is no limit
        limits.append(int(GROUP_LIMIT.read_text()))
    with suppress(ImportError):  # Windows
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        limits += [limit] if limit != resource.RLIM_INFINITY else []
    return min(limits)


def check_memory(what: str, size: str, needed: int, most_gb: float | None, remedy: str) -> None:
    """Raise if `needed` bytes exceed most_gb, or without most_gb the memory of this process.

    size: what needs the bytes, for the message, such as `20,000 items`.
    """
    allowed = memory() / 2**30 if most_gb is None else most_gb
    gigabytes = min(needed, LARGEST_SHOWN) / 2**30
    if gigabytes > allowed:
        limit = f"{allowed:,.3g} GB are {'available' if most_gb is None else 'allowed'}"
        raise OptionError(f"{what} needs {gigabytes:,.1f} GB for {size}, but {limit}: {remedy}")


def check_vectors(rows: int, factors: int, models: int = 1) -> None:
    """Raise if the vectors of training do not fit into memory.

    rows: the number of ids and values with a vector. models: how many sets of vectors are kept at
    once, if predictions are a mean over several models.
    """
    needed = 4 * (VECTOR_COPIES + models - 1) * rows * (factors + 1)
    size = f"{rows:,} vectors of {factors:,} factors" + f", {models:,} times" * (models > 1)
    remedy = "lower factors" + ", starts or samples" * (models > 1)
    check_memory("training", size, needed, None, remedy)


def check_negatives(n_negatives: int, factors: int, threads: int) -> None:
    """Raise if the lists of negatives do not fit into memory."""
    needed = 4 * threads * n_negatives * (factors + 10)
    size = f"{n_negatives:,} negatives of {factors:,} factors on {threads:,} threads"
    check_memory("training", size, needed, None, "lower n_negatives or factors")


def check_item_pairs(what: str, items: int, bytes_each: int, max_gb: float) -> None:
    """Raise if a table of all pairs of items is larger than allowed."""
    remedy = "raise max_gb, or filter the events to a denser core first"
    check_memory(what, f"{items:,} items", bytes_each * items**2, max_gb, remedy)
