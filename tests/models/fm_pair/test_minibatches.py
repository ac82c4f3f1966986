"""FM-Pair by minibatches: what the CPU engine learns, to the same quality."""

import numpy as np
import pytest

pytest.importorskip("torch")

from fmpair import FMPair, device
from fmpair.data.splits import holdout
from fmpair.data.synthetic import make
from fmpair.errors import OptionError
from fmpair.evaluation import evaluate
from fmpair.models import FPMC, SVDPlusPlus
from fmpair.testing import ModelContract, day_and_night, two_tastes

# What learns is another engine; the model it leaves is of the same class, whose other rules
# tests/models/test_contract.py checks.
OF_LEARNING = (
    "a_frame_fits_as_a_dataset_does", "one_seed_gives_the_same_scores",
    "no_score_depends_on_the_number_of_threads", "every_pair_has_a_finite_score",
    "a_saved_model_gives_the_same_scores", "taste_decides", "the_data_are_not_changed_by_fitting",
    "items_without_events_and_users_with_one_are_welcome",
    "further_events_are_learned_from_or_refused", "a_new_user_is_folded_in_or_refused",
)  # fmt: skip


PLAIN = {"history": 0, "times": False, "order": 2}  # what trials decide is another test's
CONTRACT = ModelContract(lambda: FMPair(factors=8, epochs=8, device="torch", **PLAIN))


@pytest.mark.slow
@pytest.mark.parametrize("rule", OF_LEARNING)
def test_fm_pair_by_minibatches_keeps_the_contract_of_models(rule):
    CONTRACT.check(rule)


@pytest.fixture(scope="module")
def world():
    data = make(users=300, items=150, events=12_000).data
    split = holdout(data, test=0.2, seed=1)
    return data.take(split.train), data.take(split.test)


@pytest.mark.thorough
@pytest.mark.parametrize("loss", ["softmax", "bpr", "warp"])
def test_rankings_are_those_of_the_cpu_engine_within_noise(world, loss):
    train, test = world
    options = {"factors": 8, "loss": loss, "history": 0, "epochs": 20}
    models = [
        FMPair(device=where, order=2, times=False, **options).fit(train)
        for where in ("cpu", "torch")
    ]
    cpu, ours = (evaluate(model, train, test).means["ndcg@10"] for model in models)
    assert ours > 0.93 * cpu
    lists = [model.recommend(n=10).select("user", "item") for model in models]
    both = lists[0].join(lists[1], on=["user", "item"], how="semi")
    assert len(both) > 0.5 * len(lists[0])


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "bpr"}, {"loss": "warp"}, {"loss": "hinge"}, {"loss": "logistic"},
        {"temperature": 0.2}, {"n_negatives": 8}, {"dropout": 0.3}, {"optimizer": "adagrad"},
        {"negative_sampler": "adaptive", "loss": "bpr"}, {"positives": "user"},
        {"negative_sampler": "batch", "n_negatives": 8, "logq_correction": True},
        {"own_share": 0.3, "loss": "bpr"}, {"regularization_power": 0.5},
    ],
)  # fmt: skip
def test_every_option_of_learning_is_one_of_minibatches_too(options):
    recipe = FMPair(factors=4, epochs=2, order=2, device="torch", **options)
    model = recipe.fit(day_and_night())
    assert np.isfinite(model.item_vectors).all()
    again = recipe.fit(day_and_night())
    assert model.item_vectors.tobytes() == again.item_vectors.tobytes()


def test_context_decides_by_minibatches_too():
    model = FMPair(factors=4, epochs=12, order=2, device="torch").fit(day_and_night())
    found = [
        model.recommend("u0", 1, context={"time": when}, exclude_seen=False)["item"].item()
        for when in ("day", "night")
    ]
    assert found[0] != found[1]


def test_other_recipes_of_the_family_take_a_device():
    timed = two_tastes().frame().with_row_index("timestamp")
    for recipe in (
        FPMC(factors=4, epochs=2, device="torch"),
        SVDPlusPlus(factors=4, epochs=2, device="torch"),
    ):
        model = recipe.fit(timed if isinstance(recipe, FPMC) else two_tastes())
        assert np.isfinite(model.item_vectors).all()


def test_levels_are_learned_by_minibatches():
    frame = (
        two_tastes()
        .frame()
        .with_columns(event_type=np.where(np.arange(len(two_tastes())) % 3, "view", "buy"))
    )
    model = FMPair(factors=4, epochs=3, levels=["view", "buy"], device="torch").fit(frame)
    assert np.isfinite(model.item_vectors).all()


@pytest.mark.parametrize(
    ("where", "optimizer", "allowed"),
    [("cpu", "adam", "sgd or adagrad"), ("torch", "sgd", "adam or adagrad")],
)
def test_an_optimizer_of_the_other_engine_is_refused(where, optimizer, allowed):
    with pytest.raises(OptionError, match=f"optimizer must be {allowed} with device='{where}'"):
        FMPair(device=where, optimizer=optimizer).fit(two_tastes())


def test_too_many_items_share_negatives(monkeypatch):
    from fmpair.training import problem
    from fmpair.training.loop import Task

    recipe = FMPair(device="torch", history=0)
    assert Task.of(recipe, recipe, two_tastes()).settings.all_items
    monkeypatch.setattr(problem, "MAX_ITEMS", 10)
    settings = Task.of(recipe, recipe, two_tastes()).settings
    assert not settings.all_items and settings.n_negatives == problem.SHARED


def test_auto_takes_the_cpu_where_no_gpu_can_be_used(monkeypatch):
    monkeypatch.setattr(device, "gpu_problem", lambda: "no GPU is found")
    auto, cpu = (
        FMPair(factors=4, epochs=2, device=where).fit(two_tastes()) for where in ("auto", "cpu")
    )
    assert auto.item_vectors.tobytes() == cpu.item_vectors.tobytes()
