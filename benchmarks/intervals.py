"""How the statistics of a report behave, by simulation: intervals, power with one seed, the mark =.

    python benchmarks/intervals.py

Users have one list each (as after leave-one-out) or several; a list has a hit with a probability of
its own, and NDCG@10 of a random rank. Two fits of one recipe agree in all but a share of the lists.
"""

from __future__ import annotations

import numpy as np

from fmpair.evaluation import bootstrap, detectable, is_level, t_test

GAINS = 1 / np.log2(np.arange(2, 12))
SAMPLES, FITS = 300, 60
USERS, PEOPLE = (10, 30, 100, 300), (943, 6_040, 30_000, 100_000)


def lists(rng: np.random.Generator, users: int, several: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return (values, user of each) of generated lists, whose expected mean is `truth(several)`."""
    size = np.round(rng.lognormal(2, 0.7, users)).clip(1).astype(int) if several else [1] * users
    user = np.repeat(np.arange(users), size)
    chance = rng.beta(2, 6, users)[user]
    hit = rng.random(len(user)) < chance
    return np.where(hit, GAINS[rng.integers(0, 10, len(user))], 0.0), user


def truth(several: bool) -> float:
    del several  # the chance of a hit does not depend on the number of lists
    return 0.25 * GAINS.mean()


def percentiles(
    rng: np.random.Generator, values: np.ndarray, user: np.ndarray
) -> tuple[float, ...]:
    """The percentile interval over users, for comparison."""
    total, size = np.bincount(user, values), np.bincount(user)
    drawn = rng.integers(0, len(total), (1000, len(total)))
    means = total[drawn].sum(axis=1) / size[drawn].sum(axis=1)
    return tuple(np.quantile(means, [0.025, 0.975]))


def coverage(rng: np.random.Generator) -> None:
    print("share of 95 % intervals that hold the truth")
    print("| users | lists | bootstrap-t | percentiles |\n|--:|---|--:|--:|")
    for several in (False, True):
        for users in USERS:
            inside = np.zeros(2)
            for _ in range(SAMPLES):
                values, user = lists(rng, users, several)
                both = (bootstrap(values, users=user, repeats=1000), percentiles(rng, values, user))
                inside += [low <= truth(several) <= high for low, high in both]
            found = " | ".join(f"{share:.3f}" for share in inside / SAMPLES)
            print(f"| {users} | {'several' if several else 'one'} | {found} |")


def refit(rng: np.random.Generator, values: np.ndarray, changed: float) -> np.ndarray:
    """Return the values of another fit, which ranks a share of the lists anew."""
    again = rng.random(len(values)) < changed
    return np.where(again, rng.permutation(values), values)


def equal(rng: np.random.Generator) -> None:
    print("\ntwo fits of one recipe, margin 1 % of the mean")
    print("| users | lists changed | p < .05 | marked = | detectable |\n|--:|--:|--:|--:|--:|")
    for users in PEOPLE:
        for changed in (0.02, 0.1, 0.4):
            rows = []
            for _ in range(FITS):
                one, _ = lists(rng, users, several=False)
                other = refit(rng, one, changed)
                p = t_test(one, other)
                same = is_level(one, other, 0.01 * one.mean())
                rows.append((p < 0.05, same and p >= 0.05, detectable(one, other) / one.mean()))
            least, marked, found = np.mean(rows, axis=0)
            print(f"| {users:,} | {changed:.0%} | {least:.2f} | {marked:.2f} | {found:.1%} |")


if __name__ == "__main__":
    draws = np.random.default_rng(0)
    equal(draws)
    coverage(draws)
