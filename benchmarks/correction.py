"""Estimators of a metric among all items from samples: their bias and spread, by simulation.

    python benchmarks/correction.py [--write]

True ranks are drawn from six shapes, from a random order to a very good model; each item's rank in
a sample is a draw from its true rank. Least squares are those of Krichene and Rendle (2020) with
weight gamma on the variance and a prior of 1/rank; EM is what fmpair does, with more or fewer
steps. --write puts the table into docs/evaluation.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fmpair.evaluation.derived_metrics import STEPS, possible_ranks, sampled_chances, true_ranks
from fmpair.metrics import Metric

PAGE = Path(__file__).parent.parent / "docs" / "evaluation.md"
BEGIN, END = "<!-- correction -->", "<!-- /correction -->"
REPEATS = 40
SETTINGS = ((2000, 100, 1000), (2000, 100, 20_000), (20_000, 100, 20_000), (2000, 500, 1000))
METRICS = ("recall@10", "ndcg@10")
GAMMAS = (0.1, 0.01)
EM_STEPS = (20, STEPS, 500)
NAMES = ("as sampled", *(f"least squares {g:g}" for g in GAMMAS), *(f"EM {s}" for s in EM_STEPS))

Draw = Callable[[np.random.Generator, int, int], np.ndarray]


def of_power(power: float) -> Draw:
    """True ranks last * u^power: 1 is a random order, more is better."""
    return lambda rng, units, last: 1 + (last * rng.random(units) ** power).astype(np.int64)


def half_near_the_top(rng: np.random.Generator, units: int, last: int) -> np.ndarray:
    near = np.minimum(rng.geometric(0.1, units), last)
    return np.where(rng.random(units) < 0.5, near, rng.integers(1, last + 1, units))


def by_reciprocal(rng: np.random.Generator, units: int, last: int) -> np.ndarray:
    return np.exp(rng.random(units) * np.log(last + 1)).astype(np.int64)


SHAPES: dict[str, Draw] = {
    "u^2": of_power(2),
    "u^4": of_power(4),
    "u^8": of_power(8),
    "1/rank": by_reciprocal,
    "half near the top": half_near_the_top,
}


def least_squares(others: int, n: int, gamma: float) -> np.ndarray:
    """float64 [n + 1, ranks]: minimises p(R) [bias(R)^2 + gamma variance(R)] over true ranks R."""
    _, prior = possible_ranks(others + 1)
    chance = sampled_chances(others, n)
    seen = prior @ chance
    left = (1 - gamma) * (chance.T * prior) @ chance + gamma * np.diag(seen)
    left[np.diag_indices_from(left)] += 1e-12 * seen.max()  # some ranks are never seen
    return np.linalg.solve(left, chance.T) * prior


def errors(others: int, n: int, units: int, metric: Metric, draw: Draw) -> np.ndarray:
    """float64 [REPEATS, estimators]: estimate minus truth, as a share of the truth."""
    rng = np.random.default_rng(0)
    worth = metric.worth(possible_ranks(others + 1)[0])
    weights = [least_squares(others, n, gamma) @ worth for gamma in GAMMAS]
    found = []
    for _ in range(REPEATS):
        true = draw(rng, units, others + 1)
        sampled = 1 + rng.hypergeometric(true - 1, others - (true - 1), n)
        seen = np.bincount(sampled - 1, minlength=n + 1).astype(np.float64)
        truth = metric.values(true).mean()
        made = [metric.values(sampled).mean(), *(seen @ weight / units for weight in weights)]
        made += [true_ranks(seen, others, steps)[1] @ worth for steps in EM_STEPS]
        found.append(np.array(made) / truth - 1)
    return np.array(found)


def table() -> str:
    """By setting and metric: the worst bias of all shapes, and the mean spread."""
    lines = [
        f"| items | sample | lists | metric | {' | '.join(NAMES)} |",
        f"|--:|--:|--:|---|{'--:|' * len(NAMES)}",
    ]
    whole = []
    for others, n, units in SETTINGS:
        for name in METRICS:
            every = [errors(others, n, units, Metric.parse(name), d) for d in SHAPES.values()]
            bias, sd = (np.stack([f(one, axis=0) for one in every]) for f in (np.mean, np.std))
            worst = np.take_along_axis(bias, np.abs(bias).argmax(axis=0)[None], 0)[0]
            shown = " | ".join(f"{w:+.0%} ± {s:.0%}" for w, s in zip(worst, sd.mean(axis=0)))
            lines.append(f"| {others:,} | {n} | {units:,} | {name} | {shown} |")
            whole.append(np.sqrt((np.stack(every) ** 2).mean(axis=(0, 1))))
    ends = " | ".join(f"{error:.1%}" for error in np.mean(whole, axis=0))
    return "\n".join([*lines, f"| root mean square error, mean | | | | {ends} |"])


def main() -> None:
    made = table()
    print(made)
    if "--write" in sys.argv[1:]:
        text = PAGE.read_text("utf-8")
        head, _, rest = text.partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n\n{made}\n\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
