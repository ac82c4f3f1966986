"""The paper's eight claims, each decided by the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fmpair.reproduction.line import contexts, factors, line
from fmpair.reproduction.paper import DOMAINS, FEW, SETS
from fmpair.reproduction.significance import Difference, difference, factor, told
from fmpair.reproduction.summary import Summary

Found = Mapping[str, Summary]  # by the name of the experiment
LEGACY, CLEAN = "legacy", "clean"
FULL = "full ranking"  # the label of clean's second protocol
FAR = 1.5  # "far above" is half as much again
ORDERS = 10.0  # "orders of magnitude" is at least this many times
STRAIGHT = 0.98  # the least R2 of a linear fit
GPFM_SETS = ("movielens", "frappe")


@dataclass(frozen=True)
class Finding:
    """Whether a claim holds under one protocol, and the numbers that say so."""

    holds: bool
    text: str


@dataclass(frozen=True)
class Claim:
    """What the paper says; None where nothing was run that could tell."""

    number: int
    text: str
    legacy: Finding | None
    clean: Finding | None

    @property
    def verdict(self) -> str:
        if self.clean is None and self.legacy is None:
            return "not run"
        if self.clean is not None and self.clean.holds:
            return "holds"
        if self.legacy is not None and self.legacy.holds:
            return "only under legacy" if self.clean is not None else "holds under legacy"
        return "does not hold"


def claims(found: Found) -> list[Claim]:
    """All eight, in the paper's order; those about time are the same under both protocols."""
    judges: list[tuple[str, Callable[[Found, str], Finding | None]]] = [
        ("FM-Pair is at least as good as BPR-MF", _as_good),
        ("Both are far above FM-Map", _far_above),
        ("Ranking by predicted ratings fails", _ratings_fail),
        ("Context improves FM-Pair", _context),
        ("CD beats target-only, which beats All", _domains),
        ("FM-Pair's cost is linear in k and in the number of contexts", _linear),
        ("GPFM is slower by orders of magnitude and not better", _gaussian),
        ("Item bias matters on popularity-skewed Frappe", _bias),
    ]
    return [
        Claim(number, text, judge(found, LEGACY), judge(found, CLEAN))
        for number, (text, judge) in enumerate(judges, 1)
    ]


def _differences(
    found: Found, protocol: str, other: str, names: Mapping[str, str], table: str = "table2"
) -> dict[str, Difference]:
    """By set the difference of a model from the table's baseline, where it was run."""
    made = {
        title: difference(found.get(f"{table}-{name}-{protocol}"), other)
        for name, title in names.items()
    }
    return {title: one for title, one in made.items() if one is not None}


def _finding(holds: bool, what: str, differences: Mapping[str, Difference]) -> Finding | None:
    """what: who is compared with whom."""
    if not differences:
        return None
    numbers = "; ".join(f"{name} {told(one)}" for name, one in differences.items())
    return Finding(holds, f"{what}: {numbers}")


def _as_good(found: Found, protocol: str) -> Finding | None:
    made = _differences(found, protocol, "BPR-MF", SETS)
    return _finding(
        not any(one.other_better for one in made.values()), "BPR-MF against FM-Pair", made
    )


def _far_above(found: Found, protocol: str) -> Finding | None:
    made = _differences(found, protocol, "FM-Map", SETS)
    rivals = _differences(found, protocol, "BPR-MF", SETS)
    far = all(
        one.base_better and min(one.base, rivals[name].other) >= FAR * one.other
        for name, one in made.items()
    )
    return _finding(far, "FM-Map against FM-Pair", made)


def _ratings_fail(found: Found, protocol: str) -> Finding | None:
    made = _differences(found, protocol, "FM on ratings", SETS)
    popular = _differences(found, protocol, "Most-Popular", SETS)
    fails = all(one.base_better and one.other < popular[name].other for name, one in made.items())
    return _finding(fails, "FM on ratings against FM-Pair", made)


def _context(found: Found, protocol: str) -> Finding | None:
    names = {"frappe": SETS["frappe"]}
    made = _differences(found, protocol, "FM-Pair-Context", names, "table3")
    genres = {"movielens": "own genres on MovieLens"}
    beside = _differences(found, protocol, "FM-Pair, own genres", genres, "table3")
    holds = all(one.other_better for one in made.values())
    whole = difference(found.get(f"table3-frappe-{protocol}"), "FM-Pair-Context", FULL)
    beside |= {"Frappe with full ranking": whole} if whole else {}
    return _finding(holds, "with against without", {**made, **beside})


def _domains(found: Found, protocol: str) -> Finding | None:
    crossed = _differences(found, protocol, "FM-Pair-CD", DOMAINS, "table4")
    mixed = _differences(found, protocol, "All domains", DOMAINS, "table4")
    holds = all(one.other_better for one in crossed.values())
    holds &= all(one.base_better for one in mixed.values())
    named = {f"{name}, CD": one for name, one in crossed.items()}
    named |= {f"{name}, All": one for name, one in mixed.items()}
    if protocol == CLEAN:
        named |= _thinned(found)
    return _finding(holds, "against target only", named)


def _thinned(found: Found) -> dict[str, Difference]:
    """FM-Pair-CD where users have few events of the target domain, as the paper's had."""
    made = {
        f"{title}, CD, at most {most} events per user": difference(
            found.get(f"ablation-sparse-{name}-{most}"), "FM-Pair-CD"
        )
        for name, title in DOMAINS.items()
        for most in FEW
    }
    return {name: one for name, one in made.items() if one is not None}


def _linear(found: Found, protocol: str) -> Finding | None:
    lines = {
        f"k on {title}": line(found[f"complexity-{name}"], factors).r2
        for name, title in SETS.items()
        if f"complexity-{name}" in found
    }
    if "complexity-contexts" in found:
        lines["contexts"] = line(found["complexity-contexts"], contexts).r2
    if not lines:
        return None
    text = "; ".join(f"{name}: R2 {value:.3f}" for name, value in lines.items())
    return Finding(min(lines.values()) >= STRAIGHT, text)


def _gaussian(found: Found, protocol: str) -> Finding | None:
    names = {name: SETS[name] for name in GPFM_SETS}
    made = _differences(found, protocol, "GPFM", names)
    slower = {
        SETS[name]: factor(found[f"epoch-time-{name}"], "GPFM", "FM-Pair")
        for name in GPFM_SETS
        if f"epoch-time-{name}" in found
    }
    worse = not any(one.other_better for one in made.values())
    finding = _finding(worse, "GPFM against FM-Pair", made)
    if finding is None or not slower:
        return None
    times = "; ".join(f"an epoch on {name} {value:.0f} times" for name, value in slower.items())
    return Finding(finding.holds and min(slower.values()) >= ORDERS, f"{finding.text}; {times}")


def _bias(found: Found, protocol: str) -> Finding | None:
    made = _differences(found, protocol, "BPR-MF", {"frappe": SETS["frappe"]})
    holds = all(one.base_better for one in made.values())
    return _finding(holds, "without (BPR-MF) against with (FM-Pair)", made)
