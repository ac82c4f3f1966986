"""The paper's eight claims, each decided by the results, by rules that are the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fmpair.reproduction.paper import DOMAINS, FEW, SETS
from fmpair.reproduction.summary import (
    EFFECT,
    LEVEL,
    SEEDS,
    Difference,
    Line,
    Outcome,
    Summary,
    contexts,
    difference,
    factor,
    factors,
    line,
    told,
)

Found = Mapping[str, Summary]  # by the name of the experiment
LEGACY, CLEAN = "legacy", "clean"
FULL = "full ranking"  # the label of clean's second protocol
FAR = 1.5  # "far above" is half as much again
ORDERS = 10.0  # "orders of magnitude" is at least this many times
STRAIGHT = 0.98  # the least R2 of a linear fit
POINTS, SHORTEST = 10, 0.1  # of a fit that may decide: the fewest, and seconds of the fastest
GPFM_SETS = ("movielens", "frappe")
ORDER_THREE = "FM-Pair-Context, order three"
Word = Literal["holds", "does not hold", "undecided"]

RULES = (
    f"A model is better or worse where p < {LEVEL:g} (over users and fits, after Holm) and the "
    f"difference is at least {EFFECT:.0%} of the baseline; level where it was shown to be within "
    f"{EFFECT:.0%}, or is certain and smaller; else undecided, and the difference that would have "
    "shown stands beside it. Where both are the same model, a set does not count. A claim holds "
    "under a protocol where all its sets say so, does not hold where one says the contrary, and is "
    "undecided otherwise; legacy and clean are judged by the same rules.",
    f"1: FM-Pair is better than BPR-MF or level with it. 2: FM-Pair and BPR-MF have {FAR:g} times "
    "the recall of FM-Map. 3: ranking by predicted ratings is worse than FM-Pair and than "
    "popularity. 4: context makes FM-Pair better on Frappe. 5: on both domains FM-Pair-CD is "
    "better than target only, and All is worse. 6: R2 of a straight line is at least "
    f"{STRAIGHT:g}, of {POINTS} points or more, with epochs of {1000 * SHORTEST:.0f} ms or more. "
    f"7: an epoch of GPFM takes {ORDERS:.0f} times as long, and it is not better. 8: BPR-MF, which "
    f"has no item bias, is worse on Frappe. Claims 1, 4, 5 and 8 are decided by {SEEDS} seeds or "
    "more of either model.",
)


@dataclass(frozen=True)
class Finding:
    """What one protocol says of a claim, and the numbers that say so."""

    word: Word
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
        words = {
            name: one.word for name, one in ((LEGACY, self.legacy), (CLEAN, self.clean)) if one
        }
        if not words:
            return "not run"
        if len(words) == 2 and len(set(words.values())) == 1:
            return words[CLEAN]
        return ", ".join(f"{word} under {name}" for name, word in words.items())


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


def _counted(
    differences: Mapping[str, Difference], good: Sequence[Outcome], bad: Sequence[Outcome]
) -> list[bool | None]:
    """For every set that counts whether it bears the claim out; None: it cannot say.

    good, bad: the outcomes that do, and that do the contrary.
    """
    answers: dict[Outcome, bool] = dict.fromkeys(good, True) | dict.fromkeys(bad, False)
    return [
        answers.get(one.outcome) if one.seeds >= SEEDS else None
        for one in differences.values()
        if one.outcome != "the same model"
    ]


def _if_known(one: Difference, also: bool) -> bool | None:
    """Whether the baseline is better and something else is true; None where the test cannot say."""
    return None if one.outcome == "undecided" else one.base_better and also


def _word(answers: Iterable[bool | None]) -> Word:
    known = list(answers)
    if False in known:
        return "does not hold"
    return "undecided" if None in known or not known else "holds"


def _finding(word: Word, what: str, differences: Mapping[str, Difference]) -> Finding | None:
    """what: who is compared with whom."""
    if not differences:
        return None
    numbers = "; ".join(f"{name} {told(one)}" for name, one in differences.items())
    return Finding(word, f"{what}: {numbers}")


def _as_good(found: Found, protocol: str) -> Finding | None:
    made = _differences(found, protocol, "BPR-MF", SETS)
    answers = _counted(made, ("worse", "level"), ("better",))
    return _finding(_word(answers), "BPR-MF against FM-Pair", made)


def _far_above(found: Found, protocol: str) -> Finding | None:
    made = _differences(found, protocol, "FM-Map", SETS)
    rivals = _differences(found, protocol, "BPR-MF", SETS)
    far = [
        _if_known(one, min(one.base, rivals[name].other) >= FAR * one.other)
        for name, one in made.items()
        if name in rivals
    ]
    return _finding(_word(far), "FM-Map against FM-Pair", made)


def _ratings_fail(found: Found, protocol: str) -> Finding | None:
    made = _differences(found, protocol, "FM on ratings", SETS)
    popular = _differences(found, protocol, "Most-Popular", SETS)
    fails = [
        _if_known(one, one.other <= (1 - EFFECT) * popular[name].other)
        for name, one in made.items()
        if name in popular
    ]
    return _finding(_word(fails), "FM on ratings against FM-Pair", made)


def _context(found: Found, protocol: str) -> Finding | None:
    names = {"frappe": SETS["frappe"]}
    made = _differences(found, protocol, "FM-Pair-Context", names, "table3")
    genres = {"movielens": "own genres on MovieLens"}
    beside = _differences(found, protocol, "FM-Pair, own genres", genres, "table3")
    frappe = found.get(f"table3-frappe-{protocol}")
    more = {
        "Frappe with full ranking": difference(frappe, "FM-Pair-Context", FULL),
        "Frappe with order three, which the paper does not have,": difference(frappe, ORDER_THREE),
        "and with full ranking": difference(frappe, ORDER_THREE, FULL),
    }
    beside |= {name: one for name, one in more.items() if one is not None}
    word = _word(_counted(made, ("better",), ("level", "worse")))
    return _finding(word, "with against without", {**made, **beside})


def _domains(found: Found, protocol: str) -> Finding | None:
    crossed = _differences(found, protocol, "FM-Pair-CD", DOMAINS, "table4")
    mixed = _differences(found, protocol, "All domains", DOMAINS, "table4")
    answers = _counted(crossed, ("better",), ("level", "worse"))
    answers += _counted(mixed, ("worse",), ("level", "better"))
    named = {f"{name}, CD": one for name, one in crossed.items()}
    named |= {f"{name}, All": one for name, one in mixed.items()}
    if protocol == CLEAN:
        named |= _thinned(found)
    return _finding(_word(answers), "against target only", named)


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
        f"k on {title}": line(found[f"complexity-{name}"], factors)
        for name, title in SETS.items()
        if f"complexity-{name}" in found
    }
    if "complexity-contexts" in found:
        lines["contexts"] = line(found["complexity-contexts"], contexts)
    if not lines:
        return None
    text = "; ".join(
        f"{name}: R2 {one.r2:.3f} of {len(one.points)} points, epochs from "
        f"{1000 * one.shortest:.0f} ms"
        for name, one in lines.items()
    )
    return Finding(_word(_straight(one) for one in lines.values()), text)


def _straight(one: Line) -> bool | None:
    """None where there are too few points, or epochs too short, to say."""
    if len(one.points) < POINTS or one.shortest < SHORTEST:
        return None
    return one.r2 >= STRAIGHT


def _gaussian(found: Found, protocol: str) -> Finding | None:
    names = {name: SETS[name] for name in GPFM_SETS}
    made = _differences(found, protocol, "GPFM", names)
    slower = {
        SETS[name]: factor(found[f"epoch-time-{name}"], "GPFM", "FM-Pair")
        for name in GPFM_SETS
        if f"epoch-time-{name}" in found
    }
    answers: list[bool | None] = [value >= ORDERS for value in slower.values()]
    for one in made.values():
        answers.append({"better": False, "undecided": None}.get(one.outcome, True))
    finding = _finding(_word(answers), "GPFM against FM-Pair", made)
    if finding is None or not slower:
        return None
    times = "; ".join(f"an epoch on {name} {value:.0f} times" for name, value in slower.items())
    return Finding(finding.word, f"{finding.text}; {times}")


def _bias(found: Found, protocol: str) -> Finding | None:
    made = _differences(found, protocol, "BPR-MF", {"frappe": SETS["frappe"]})
    word = _word(_counted(made, ("worse",), ("level", "better")))
    return _finding(word, "without (BPR-MF) against with (FM-Pair)", made)
