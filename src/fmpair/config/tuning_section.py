"""Read the option `tune` of models: its budget, and the options that are tuned by default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fmpair.config.experiment import Candidate
from fmpair.config.node import Node, shown
from fmpair.config.option_schema import options_of
from fmpair.errors import OptionError
from fmpair.training.search import Budget, Range
from fmpair.training.tuning import FACTORS_TIMES

# Options that are tuned by default: from a tenth to ten times their default, or in these ranges
# where it depends on the data. FMPair has a search of its own, see `training.tuning`.
USUAL = (
    "k", "shrinkage", "smoothing", "alpha", "regularization", "factors", "learning_rate",
)  # fmt: skip
SPREAD = 10
WITHOUT_DEFAULT = {
    "regularization": Range(low=0.001, high=0.3, log=True),
    "factors": Range((32, 64, 128, 256)),
}


def read_budget(
    node: Node, recipe: Any, search: Mapping[str, Range], options: Mapping[str, Any]
) -> Budget | None:
    """Read `tune`: a time such as 5m, or {trials: 40}; recipe: None if it cannot be imported."""
    given = node.value
    trials = given.get("trials") if isinstance(given, dict) and set(given) == {"trials"} else None
    if not (isinstance(given, str) or trials is not None):
        node.wrong(f"must be a time such as 5m, or {{trials: 40}}, not {shown(given)}")
        return None
    if not (recipe is None or search or tunes_itself(recipe) or usual_ranges(recipe, options)):
        node.wrong("the model has no option that is tuned by default: give some as {search: ...}")
    try:
        return Budget.of(given if trials is None else None, trials)
    except OptionError as error:
        node.wrong(error.spelled(lambda name, *value: "tune" if name == "budget" else name))
        return None


def check_budgets(models: Iterable[tuple[Candidate, Node]], trials: int) -> None:
    """Record a mistake if models are tuned with different budgets; trials: without their own."""
    budgets = [(budget_of(model, trials), node) for model, node in models if model.tuned]
    for budget, node in budgets:
        if budget != budgets[0][0]:
            node.wrong(
                f"tuned models must have the same budget, not {budgets[0][0]} and {budget}: give "
                "all of them the same tune"
            )
            return


def budget_of(model: Candidate, trials: int) -> Budget:
    """Return what the search of a model may spend."""
    return model.tune or Budget(trials=trials)


def tunes_itself(recipe: Any) -> bool:
    """Return whether a recipe has its own search, as FMPair does."""
    return hasattr(recipe, "tune")


def usual_ranges(recipe: Any, given: Mapping[str, Any]) -> dict[str, Range]:
    """Return the ranges of the options of a recipe that are tuned by default and not given."""
    ranges = {}
    for name, option in options_of(recipe).known.items():
        if name not in USUAL or name in given:
            continue
        default = option.default
        number = isinstance(default, int | float) and not isinstance(default, bool)
        if name == "factors" and number:  # each length is compiled anew
            ranges[name] = Range(tuple(max(int(default * times), 1) for times in FACTORS_TIMES))
        elif number and default > 0:
            whole = isinstance(default, int)
            low = max(default // SPREAD, 1) if whole else default / SPREAD
            ranges[name] = Range(low=low, high=default * SPREAD, log=True)
        elif name in WITHOUT_DEFAULT:
            ranges[name] = WITHOUT_DEFAULT[name]
    return ranges
