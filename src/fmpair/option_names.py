"""Error texts for unknown options and attributes, with hints for names of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from fmpair.errors import OptionError, listing, named, nearest

P = ParamSpec("P")
R = TypeVar("R")

# Names of other libraries -> fmpair's name.
FOREIGN_OPTIONS = {
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
FOREIGN_METHODS = {
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
