from dataclasses import replace

import pytest
from tiny_run import FM, POPULARITY, STOPPING, TUNED, experiment

from fmpair.config.experiment import Step, Tuning
from fmpair.errors import OptionError
from fmpair.evaluation import Protocol
from fmpair.experiment import plan
from fmpair.experiment.cell import VALIDATION
from fmpair.experiment.prepared import prepare


def bench_of(asked):
    return prepare(asked.data, asked.filters, asked.split)


def test_every_model_meets_every_fold_with_every_seed():
    asked = experiment("", POPULARITY, FM, seeds=(3, 5))
    cells = plan.cells(asked, bench_of(asked), {})
    assert [(cell.model.name, cell.fold, cell.seed) for cell in cells] == [
        (name, fold, seed) for name in ("popularity", "FM") for fold in (0, 1) for seed in (3, 5)
    ]
    assert plan.size(asked, folds=2) == len(cells) == len({cell.id for cell in cells})


def test_a_model_may_have_seeds_of_its_own():
    asked = experiment("", POPULARITY, replace(FM, seeds=(1, 2, 4)), seeds=(3,))
    cells = plan.cells(asked, bench_of(asked), {})
    made = [(cell.model.name, cell.seed) for cell in cells if cell.fold == 0]
    assert made == [("popularity", 3), ("FM", 1), ("FM", 2), ("FM", 4)]
    assert plan.size(asked, folds=2) == len(cells) == 8
    same = next(cell for cell in cells if cell.model.name == "FM")
    assert same.id == replace(same, model=FM).id  # what is done stays done


def test_trials_count_among_the_cells_of_a_run():
    asked = experiment("", POPULARITY, TUNED, tune=Tuning(trials=5))
    assert plan.size(asked, folds=2) == 4 + 10
    assert plan.sizes(asked, folds=2) == {"popularity": 2, "tuned": 2 + 10}


def test_what_tuning_chose_for_a_fold_is_used_there_only():
    asked = experiment("", TUNED)
    first, second = plan.cells(asked, bench_of(asked), {("tuned", 0): {"learning_rate": 0.2}})
    assert first.model.options == {"factors": 2, "epochs": 2, "learning_rate": 0.2}
    assert second.model.options == {"factors": 2, "epochs": 2}


def test_a_trial_sees_one_metric_under_the_first_protocol_only():
    protocols = {"all": Protocol(), "few": Protocol(candidates="uniform", n=5)}
    asked = experiment("", protocols=protocols, tune=Tuning(metric="recall@5"))
    trial = plan.cell_of(asked, bench_of(asked), TUNED, 0, 0, VALIDATION)
    assert (trial.metrics, trial.protocols, trial.views) == (("recall@5",), (Protocol(),), ())


@pytest.mark.parametrize("model", [TUNED, STOPPING])
def test_tuning_and_stopping_need_a_validation_part(model):
    asked = experiment("", model, split=Step("holdout"))
    with pytest.raises(OptionError, match=rf"{model.name} .*validation: 0\.1"):
        plan.check(asked, bench_of(asked))


@pytest.mark.parametrize(
    "metrics, metric",
    [(("auc", "mrr@5"), "mrr@5"), (("coverage@10",), "ndcg@10"), (("recall@5", "auc"), "recall@5")],
)
def test_early_stopping_watches_a_metric_that_one_rank_decides(metrics, metric):
    asked = replace(experiment(""), metrics=metrics)
    assert plan.stopping_metric(asked) == metric
