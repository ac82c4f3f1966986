"""A claim is judged by effect sizes and tests, under each protocol by the same rules."""

import pytest
from paper_runs import by_factors, judged, timed

from fmpair.config.experiment import Candidate
from fmpair.reproduction.paper import claims
from fmpair.reproduction.summary import BaselineDifference, contexts, factors, linear_fit

METHODS = {"Most-Popular": 0.12, "FM-Map": 0.07, "FM on ratings": 0.001, "GPFM": 0.16,
           "BPR-MF": 0.22, "FM-Pair": 0.23}  # fmt: skip


def verdicts(found):
    return {claim.number: claim.verdict for claim in claims(found)}


def both(name, *made, **options):
    """The same run under both protocols."""
    return {f"{name}-{way}": judged(*made, **options) for way in ("legacy", "clean")}


def test_without_a_run_nothing_is_said():
    assert set(verdicts({}).values()) == {"not run"}


@pytest.mark.parametrize(
    ("other", "p", "options", "outcome"),
    [
        (0.21, 0.001, {}, "better"),
        (0.19, 0.001, {}, "worse"),
        (0.21, 0.2, {}, "undecided"),
        (0.201, 0.2, {"equivalent": True}, "equivalent"),
        (0.2019, 0.001, {}, "equivalent"),  # certain, and less than a hundredth
        (0.20, 1.0, {"equivalent": True, "detectable": 0.0}, "the same model"),
        # seeds may differ from each other, but not one model from the other
        (0.20, 1.0, {"equivalent": True, "detectable": 0.001}, "the same model"),
        (0.2001, 1.0, {"equivalent": True, "detectable": 0.001}, "equivalent"),
    ],
)
def test_one_rule_says_what_a_difference_is(other, p, options, outcome):
    assert BaselineDifference(other, 0.2, p, **options).outcome == outcome


def test_the_papers_own_numbers_make_its_claims_about_methods_hold():
    found = both("table2-movielens", "FM-Pair", METHODS) | both("table2-frappe", "FM-Pair", METHODS)
    told = verdicts(found)
    assert [told[number] for number in (1, 2, 3, 8)] == ["holds"] * 4


def test_a_claim_that_only_legacy_bears_out_says_so():
    level = {**METHODS, "FM-Map": 0.20}
    found = {
        "table2-movielens-legacy": judged("FM-Pair", METHODS),
        "table2-movielens-clean": judged("FM-Pair", level),
    }
    assert verdicts(found)[2] == "holds under legacy, does not hold under clean"


def test_a_difference_that_may_be_chance_leaves_a_claim_undecided():
    better = {**METHODS, "BPR-MF": 0.24}
    sure = both("table2-frappe", "FM-Pair", better)
    unsure = both("table2-frappe", "FM-Pair", better, p=0.4)
    level = both("table2-frappe", "FM-Pair", {**METHODS, "BPR-MF": 0.2301}, p=0.4, same=True)
    assert verdicts(sure)[1] == "does not hold"
    assert verdicts(unsure)[1] == verdicts(unsure)[8] == "undecided"
    assert verdicts(level)[1] == "holds" and verdicts(level)[8] == "does not hold"


def test_what_is_far_above_must_be_shown_to_be_above_at_all():
    vague = both("table2-movielens", "FM-Pair", METHODS, p=0.3)
    assert [verdicts(vague)[number] for number in (2, 3)] == ["undecided"] * 2


def test_a_set_where_both_are_the_same_model_decides_nothing():
    same = {**METHODS, "BPR-MF": 0.23}
    alone = both("table2-xing", "FM-Pair", same, p=1.0, same=True, detectable=0.0)
    assert verdicts(alone)[1] == "undecided"
    evidence = claims(alone)[0].clean.evidence
    assert evidence == {"BPR-MF vs FM-Pair: XING": "0.2300, the same model"}
    worse = both("table2-frappe", "FM-Pair", {**METHODS, "BPR-MF": 0.26})
    assert verdicts(alone | worse)[1] == "does not hold"


def test_legacy_counts_as_clean_does():
    better = {**METHODS, "BPR-MF": 0.26}
    found = {
        "table2-movielens-legacy": judged("FM-Pair", better),
        "table2-movielens-clean": judged("FM-Pair", METHODS),
    }
    assert verdicts(found)[1] == "does not hold under legacy, holds under clean"


def test_fewer_than_six_seeds_decide_nothing_where_a_verdict_turns():
    means = {"FM-Pair": 0.18, "FM-Pair-Context": 0.21}
    few = both("table3-frappe", "FM-Pair", means, seeds=2)
    assert verdicts(few)[4] == "undecided"
    assert verdicts(both("table3-frappe", "FM-Pair", means))[4] == "holds"


@pytest.mark.parametrize(
    ("with_context", "p", "verdict"),
    [
        (0.21, 0.001, "holds"),
        (0.21, 0.3, "undecided"),
        (0.17, 0.001, "does not hold"),
        (0.1805, 0.001, "does not hold"),  # seed noise made of a gain of .1 % a claim that holds
    ],
)
def test_context_must_be_better_by_enough(with_context, p, verdict):
    means = {"FM-Pair": 0.18, "FM-Pair-Context": with_context}
    assert verdicts(both("table3-frappe", "FM-Pair", means, p))[4] == verdict


@pytest.mark.parametrize(("mixed", "verdict"), [(0.08, "holds"), (0.11, "does not hold")])
def test_other_domains_must_help_as_features_and_harm_as_samples(mixed, verdict):
    means = {"Target only": 0.10, "All domains": mixed, "FM-Pair-CD": 0.12}
    found = both("table4-books", "Target only", means) | both("table4-music", "Target only", means)
    assert verdicts(found)[5] == verdict


def test_users_with_few_events_are_told_beside_the_claim_and_do_not_decide_it():
    level = {"Target only": 0.10, "All domains": 0.08, "FM-Pair-CD": 0.10}
    found = {
        f"table4-{name}-clean": judged("Target only", level, p=0.9, same=True)
        for name in ("books", "music")
    }
    few = judged("Target only", {**level, "FM-Pair-CD": 0.12})
    claim = claims({**found, "ablation-sparse-music-5": few})[4]
    few_events = "vs target only: Music, FM-Pair-CD, at most 5 events per user"
    assert claim.clean.evidence[few_events].startswith("0.1200 vs 0.1000")
    assert claim.verdict == "does not hold under clean" and claim.legacy is None


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, "holds"),
        ({"bend": 1e-5}, "does not hold"),
        ({"sizes": (16, 32, 64, 128)}, "undecided"),  # four points lie on many lines
        ({"start": 0.001}, "undecided"),  # an epoch of 17 ms is measured badly
    ],
)
def test_cost_is_linear_where_enough_points_do_not_bend(options, verdict):
    assert verdicts({"complexity-xing": by_factors(0.001, **options)})[6] == verdict


@pytest.mark.parametrize(("seconds", "verdict"), [(0.5, "holds"), (0.05, "does not hold")])
def test_gaussian_processes_must_be_slower_by_far(seconds, verdict):
    found = both("table2-frappe", "FM-Pair", METHODS) | {
        "epoch-time-frappe": timed({"FM-Pair": 0.01, "GPFM": seconds}),
    }
    assert verdicts(found)[7] == verdict


def test_the_numbers_of_a_claim_stand_beside_it():
    found = {"table2-frappe-clean": judged("FM-Pair", METHODS, p=0.02)}
    assert _frappe(found) == "0.2200 vs 0.2300 (−4.3 %, p = .020): worse"
    vague = {"table2-frappe-clean": judged("FM-Pair", METHODS, p=0.3, detectable=0.0115)}
    assert _frappe(vague).endswith("p = .300, detectable 5.0 %): undecided")


def _frappe(found):
    evidence = claims(found)[0].clean.evidence
    return evidence["BPR-MF vs FM-Pair: Frappe"].replace("\N{NO-BREAK SPACE}", " ")


def test_a_straight_line_is_found_with_slope_start_and_a_perfect_fit():
    found = linear_fit(by_factors(0.002, start=0.05, sizes=(16, 32, 64, 128)), factors)
    assert (found.slope, found.intercept, found.r2) == pytest.approx((0.002, 0.05, 1.0))
    assert found.points["x"].to_list() == [16, 32, 64, 128]
    assert found.shortest == pytest.approx(0.082)


def test_times_that_bend_are_told_from_noise():
    cubed = linear_fit(by_factors(0.0, bend=1e-6, start=0.0), factors)
    assert cubed.bend - cubed.within > 0.25
    straight = linear_fit(by_factors(0.002, start=0.05), factors)
    assert straight.bend == pytest.approx(0, abs=1e-9)


def test_the_first_epoch_of_a_fit_does_not_count():
    assert timed({"FM-Pair": 0.25}).epoch_seconds()["seconds"].to_list() == [0.25]


def test_contexts_are_counted_by_what_a_model_is_shown():
    models = [Candidate(str(n), "fm-pair", context=("a", "b", "c")[:n]) for n in range(4)]
    found = linear_fit(timed({str(n): 0.1 + 0.03 * n for n in range(4)}, models), contexts)
    assert found.slope == pytest.approx(0.03)
