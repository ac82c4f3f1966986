"""A claim is judged by means and p-values, under each protocol for itself."""

import pytest
from paper_runs import by_factors, judged, timed

from fmpair.reproduction.claims import claims

METHODS = {"Most-Popular": 0.12, "FM-Map": 0.07, "FM on ratings": 0.001, "GPFM": 0.16,
           "BPR-MF": 0.22, "FM-Pair": 0.23}  # fmt: skip


def verdicts(found):
    return {claim.number: claim.verdict for claim in claims(found)}


def test_without_a_run_nothing_is_said():
    assert set(verdicts({}).values()) == {"not run"}


def test_the_papers_own_numbers_make_its_claims_about_methods_hold():
    found = {f"table2-{name}-{way}": judged("FM-Pair", METHODS)
             for name in ("movielens", "frappe") for way in ("legacy", "clean")}  # fmt: skip
    told = verdicts(found)
    assert [told[number] for number in (1, 2, 3, 8)] == ["holds"] * 4


def test_a_claim_that_only_legacy_bears_out_says_so():
    level = {**METHODS, "FM-Map": 0.20}
    found = {
        "table2-movielens-legacy": judged("FM-Pair", METHODS),
        "table2-movielens-clean": judged("FM-Pair", level),
    }
    assert verdicts(found)[2] == "only under legacy"


def test_a_difference_that_may_be_chance_decides_nothing():
    better = {**METHODS, "BPR-MF": 0.24}
    sure = {"table2-frappe-clean": judged("FM-Pair", better)}
    unsure = {"table2-frappe-clean": judged("FM-Pair", better, p=0.4)}
    assert verdicts(sure)[1] == "does not hold"
    assert verdicts(unsure)[1] == "holds"
    assert verdicts(unsure)[8] == "does not hold"


@pytest.mark.parametrize(
    ("with_context", "p", "verdict"),
    [(0.21, 0.001, "holds"), (0.21, 0.3, "does not hold"), (0.17, 0.001, "does not hold")],
)
def test_context_must_be_significantly_better(with_context, p, verdict):
    means = {"FM-Pair": 0.18, "FM-Pair-Context": with_context}
    assert verdicts({"table3-frappe-clean": judged("FM-Pair", means, p)})[4] == verdict


@pytest.mark.parametrize(("mixed", "verdict"), [(0.08, "holds"), (0.11, "does not hold")])
def test_other_domains_must_help_as_features_and_harm_as_samples(mixed, verdict):
    means = {"Target only": 0.10, "All domains": mixed, "FM-Pair-CD": 0.12}
    found = {f"table4-{name}-clean": judged("Target only", means) for name in ("books", "music")}
    assert verdicts(found)[5] == verdict


def test_users_with_few_events_are_told_beside_the_claim_and_do_not_decide_it():
    level = {"Target only": 0.10, "All domains": 0.08, "FM-Pair-CD": 0.10}
    found = {f"table4-{name}-clean": judged("Target only", level) for name in ("books", "music")}
    few = judged("Target only", {**level, "FM-Pair-CD": 0.12})
    claim = claims({**found, "ablation-sparse-music-5": few})[4]
    assert "Music, CD, at most 5 events per user 0.1200 against 0.1000" in claim.clean.text
    assert claim.verdict == "does not hold" and claim.legacy is None


@pytest.mark.parametrize(("bend", "verdict"), [(0.0, "holds"), (1e-6, "does not hold")])
def test_cost_is_linear_where_a_straight_line_fits(bend, verdict):
    assert verdicts({"complexity-xing": by_factors(0.001, bend=bend)})[6] == verdict


@pytest.mark.parametrize(("seconds", "verdict"), [(0.5, "holds"), (0.05, "does not hold")])
def test_gaussian_processes_must_be_slower_by_far(seconds, verdict):
    found = {
        "table2-frappe-clean": judged("FM-Pair", METHODS),
        "epoch-time-frappe": timed({"FM-Pair": 0.01, "GPFM": seconds}),
    }
    assert verdicts(found)[7] == verdict


def test_the_numbers_of_a_claim_stand_beside_it():
    found = {"table2-frappe-clean": judged("FM-Pair", METHODS, p=0.02)}
    text = claims(found)[0].clean.text
    assert "0.2200 against 0.2300" in text and ".020" in text
