"""Names that were others in fmpair 0.1, and the line that says so to who still uses them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from fmpair.errors import OptionError, listing, named, nearest

P = ParamSpec("P")
R = TypeVar("R")

OPTIONS = {
    "candidates": "n_negatives",
    "negatives": "negative_sampler",
    "correction": "logq_correction",
    "power": "popularity_power",
    "last_rate": "final_rate_share",
    "initial_sd": "init_std",
    "shown_share": "impression_share",
    "shown": "impressions",
}
# What other libraries call our options.
ELSEWHERE = {
    "n_factors": "factors",
    "num_factors": "factors",
    "no_components": "factors",
    "n_components": "factors",
    "embedding_dim": "factors",
    "embedding_size": "factors",
    "latent_dim": "factors",
    "dim": "factors",
    "n_epochs": "epochs",
    "num_epochs": "epochs",
    "max_iter": "epochs",
    "n_iter": "epochs",
    "iterations": "epochs",
    "lr": "learning_rate",
    "reg": "regularization",
    "lambda_": "regularization",
    "weight_decay": "regularization",
    "regularisation": "regularization",
    "random_state": "seed",
    "random_seed": "seed",
    "n_jobs": "threads",
    "num_threads": "threads",
    "num_workers": "threads",
    "num_negatives": "n_negatives",
    "neg_samples": "n_negatives",
    "k": "n",
    "top_k": "n",
    "topk": "n",
    "top": "n",
    "n_items": "n",
    "num_items": "n",
    "n_recommendations": "n",
    "user": "users",
    "user_id": "users",
    "user_ids": "users",
    "items": "candidates",
    "item_ids": "candidates",
    "filter_items": "exclude",
    "filter_already_liked_items": "exclude_seen",
    "remove_seen": "exclude_seen",
    "session": "history",
    "user_col": "user",
    "item_col": "item",
    "user_column": "user",
    "item_column": "item",
    "time": "timestamp",
    "sep": "separator",
    "delimiter": "separator",
    "early_stopping": "patience",
    "verbose": "progress",
}
METHODS_ELSEWHERE = {
    "predict": "score",
    "recommend_items": "recommend",
    "similar": "similar_items",
    "partial_fit": "update",
    "fit_partial": "update",
    "item_factors": "item_vectors",
    "user_factors": "user_vectors",
    "item_embeddings": "item_vectors",
    "user_embeddings": "user_vectors",
    "to_file": "save",
}
ATTRIBUTES = {
    "with_shown": "with_impressions",
    "shown": "impressions",
    "usual_user": "mean_user",
    "strangers": "scores_unknown_users",
}


def now(name: str, known: Collection[str]) -> str | None:
    """Today's name of an option, where it had another one and what reads it knows the new one."""
    new = OPTIONS.get(name)
    return new if name not in known and new in known else None


def unknown_option(name: str, known: Collection[str], what: str = "option") -> str:
    """What is said of an option that what reads it does not know."""
    new = now(name, known)
    if new is not None:
        return f"{named(name)} is now {named(new)}"
    usual = ELSEWHERE.get(name)
    guess = usual if usual in known else nearest(name, known)
    hint = f" Did you mean '{named(guess)}'?" if guess else ""
    names = listing(named(str(one)) for one in known) or "none"
    return f"unknown {what} '{named(name)}'.{hint} Known: {names}"


def with_new_names(options: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Options that were written by fmpair 0.1, by the names they have today."""
    return {now(name, known) or name: value for name, value in options.items()}


def known_options_only(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with a line about a keyword that it does not know in place of a TypeError."""
    known = [name for name in signature(function).parameters if name not in ("self", "cls")]

    @wraps(function)
    def call(*given: P.args, **options: P.kwargs) -> R:
        for name in options:
            if name not in known:
                raise OptionError(_own_option(name, given) or unknown_option(name, known))
        return function(*given, **options)

    return call


def _own_option(name: str, given: tuple[Any, ...]) -> str | None:
    """What is said of an option of the recipe that is given to one of its functions."""
    kind = type(given[0]) if given else None
    if kind is None or not is_dataclass(kind):
        return None
    own = [field.name for field in fields(kind) if field.init]
    option = ELSEWHERE.get(name, name)
    if name in own or option in own:
        right = name if name in own else option
        return f"{name} is an option of the model: {kind.__name__}({right}=...)"
    return None


def no_attribute(owner: object, name: str) -> AttributeError:
    """What is said of an attribute that is not there."""
    kind, new = type(owner).__name__, ATTRIBUTES.get(name)
    if new is not None and hasattr(owner, new):
        return AttributeError(f"{kind}.{name} is now {kind}.{new}")
    known = [one for one in dir(owner) if not one.startswith("_")]
    guess = METHODS_ELSEWHERE.get(name)
    guess = guess if guess in known else nearest(name, known)
    hint = f". Did you mean {guess!r}?" if guess and not name.startswith("_") else ""
    return AttributeError(f"{kind!r} object has no attribute {name!r}{hint}")
