"""The verdict that names a suspicion, and what each context column gives away."""

from dataclasses import replace

import pytest

from fmpair.report.comparison import comparison
from fmpair.report.sections import sections
from fmpair.report.verdict import giveaway_sheet, headline, verdict


def with_context(world, **columns):
    rows = [
        {"column": name, "of_item": 0.1, "of_column": share, "degree": degree}
        for name, (share, degree) in columns.items()
    ]
    return replace(world, manifest={**world.manifest, "context": rows})


def said(results):
    return headline(results, comparison(results, "full ranking"))


def test_without_a_suspicion_the_verdict_stands(world):
    plain = verdict(comparison(world, "full ranking"))
    assert said(world) == plain
    assert said(with_context(world, daytime=(0.4, "none"))) == plain


def test_a_leak_is_named_before_the_gain(world):
    told = said(with_context(world, daytime=(0.97, "certain"), place=(0.1, "none")))
    assert told.startswith(
        "Not to be believed as it stands: context gives the item away "
        "(daytime: the item tells 97% of it). "
    )
    assert told.endswith(verdict(comparison(world, "full ranking")))


def test_a_suspicion_is_named_after_it(world):
    told = said(with_context(world, daytime=(0.65, "suspect")))
    assert told.endswith("Context may give the item away (daytime: the item tells 65% of it): "
                         "see Leakage.")  # fmt: skip


@pytest.mark.parametrize("change", [{"context": ()}, {"kind": "popularity"}])
def test_a_winner_without_context_is_not_suspected(world, change):
    leaking = with_context(world, daytime=(0.97, "certain"))
    models = tuple(replace(model, **change) for model in leaking.experiment.models)
    clean = replace(leaking, experiment=replace(leaking.experiment, models=models))
    assert said(clean) == verdict(comparison(clean, "full ranking"))


def test_the_section_of_leakage_says_what_each_column_gives_away(world):
    results = with_context(world, price=(0.97, "certain"), place=(0.1, "none"))
    tables = [comparison(results, label) for label in results.experiment.protocols]
    [part] = [one for one in sections(results, tables) if one.title == "Leakage"]
    sheet = part.sheets[0]
    assert sheet.title == "What each context column gives away"
    assert [[cell.text for cell in row][:2] for row in sheet.rows] == [
        ["price", "yes: it describes the item"],
        ["place", "no"],
    ]
    assert giveaway_sheet({}) is None
