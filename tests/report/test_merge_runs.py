from dataclasses import replace

import numpy as np
import pytest
from toy_results import results_of

from fmpair.errors import DataError
from fmpair.evaluation import Protocol
from fmpair.report.model_comparison import comparison, merged

STEADY = np.tile([0.4, 0.6], 50)


def run(models, protocol=None, **manifest):
    units = {(name, 0, 0): {"ndcg@10": STEADY + gain} for name, gain in models.items()}
    made = results_of(units, protocol)
    cells = made.cells.with_columns(cell=made.cells["model"] + "-" + str(sum(models.values())))
    values = made.values.with_columns(cell=made.values["model"] + "-" + str(sum(models.values())))
    known = {"data": {"fingerprint": "d"}, "split": {"hash": "s"}} | manifest
    return replace(made, cells=cells, values=values, manifest=known)


def test_models_of_two_runs_are_tested_against_each_other():
    both = merged({"one": run({"a": 0.0}), "two": run({"b": 0.1})})
    rows = {row["model"]: row for row in comparison(both, "full ranking").of("ndcg@10")}
    assert rows["b"]["best"]
    assert (rows["a"]["mark"], rows["a"]["difference"]) == ("-", pytest.approx(-0.1))


def test_a_name_that_two_runs_have_gets_the_name_of_its_run():
    both = merged({"one": run({"a": 0.0, "b": 0.1}), "two": run({"a": 0.2})})
    assert [m.name for m in both.experiment.models] == ["a (one)", "b", "a (two)"]


def test_the_very_same_cells_stand_in_the_table_once():
    both = merged({"one": run({"a": 0.0, "b": 0.1}), "two": run({"a": 0.0, "c": 0.1})})
    assert [m.name for m in both.experiment.models] == ["a", "b", "c"]
    assert len(comparison(both, "full ranking").of("ndcg@10")) == 3


def test_protocols_go_by_their_id_and_not_by_their_label():
    other = run({"b": 0.1})
    experiment = replace(other.experiment, protocols={"everything": Protocol()})
    relabelled = replace(
        other, experiment=experiment,
        values=other.values.with_columns(protocol=other.values["protocol"].replace(
            "full ranking", "everything")),
        units={"everything": other.units["full ranking"]},
    )  # fmt: skip
    both = merged({"one": run({"a": 0.0}), "two": relabelled})
    assert len(comparison(both, "full ranking").of("ndcg@10")) == 2


def test_runs_that_were_not_judged_alike_cannot_share_a_table():
    first = run({"a": 0.0})
    others = {
        "data fingerprint": run({"b": 0.1}, data={"fingerprint": "x"}),
        "split hash": run({"b": 0.1}, split={"hash": "x"}),
        "protocol id": run({"b": 0.1}, Protocol(seen="none")),
    }
    for what, other in others.items():
        with pytest.raises(DataError) as refused:
            merged({"one": first, "two": other})
        assert "cannot compare one and two: different" in str(refused.value)
        assert [name for name in others if name in str(refused.value)] == [what]


def test_one_run_has_nothing_to_be_compared_with():
    with pytest.raises(DataError, match="at least two runs"):
        merged({"one": run({"a": 0.0})})


def test_a_run_that_does_not_say_what_it_was_judged_on_is_refused():
    with pytest.raises(DataError, match="has no split hash"):
        merged({"one": run({"a": 0.0}, split={}), "two": run({"b": 0.0})})
