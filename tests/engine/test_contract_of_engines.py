"""Every engine keeps one contract: it learns what the reference learns, and gives the same bits."""

from importlib.util import find_spec

import numpy as np
import pytest
from engine.problems import (
    l2_scale_of,
    parameters_of,
    problem_of,
    settings_of,
    triple_l2_of,
    with_histories,
    with_triples,
    without_mirror,
)

from fmpair.engine import ENGINES, engine
from fmpair.engine.contract import LISTED, LOSSES, Pairs, Parameters
from fmpair.engine.cpu import worker
from fmpair.errors import OptionError

# Engines that take the reference's own steps; that of minibatches takes others.
# That of a cluster is held to the CPU engine, bit by bit, where there is a cluster: test_ray.py.
FAST = [name for name in ENGINES if name not in ("reference", "torch", "ray")]
HERE = [name for name in ENGINES if name != "ray" and (name != "torch" or find_spec("torch"))]
RATE = 0.05

# Name -> settings.
LOSS = {loss: {"loss": loss, "n_negatives": 4 if loss in LISTED else 1} for loss in LOSSES}
COSINES = {f"{loss} of cosines": {**LOSS[loss], "temperature": 0.4} for loss in LISTED}
ADAGRAD = {
    f"{kind} by adagrad": {"optimizer": "adagrad", **own}
    for kind, own in {**LOSS, **COSINES}.items()
}
BATCH = {"negative_sampler": "batch", "loss": "softmax", "n_negatives": 3, "logq_correction": True}
SAMPLERS = {
    "popularity": {"negative_sampler": "popularity", "popularity_power": 0.7},
    "popularity, corrected": {**BATCH, "negative_sampler": "popularity"},
    "uniform, corrected": {**BATCH, "negative_sampler": "uniform", "own_share": 0.4},
    "adaptive": {"negative_sampler": "adaptive", "rank_share": 0.3},
    "adaptive, softmax": {"negative_sampler": "adaptive", "loss": "softmax", "n_negatives": 3},
    "adaptive, cosines": {
        "negative_sampler": "adaptive", "loss": "warp", "n_negatives": 3, "temperature": 0.5
    },
    "own": {"own_share": 0.3},
    "own, softmax": {"own_share": 0.4, "loss": "softmax", "n_negatives": 4},
    "batch": {"negative_sampler": "batch"},
    "batch, corrected": BATCH,
    "batch, corrected, cosines": {**BATCH, "temperature": 0.4},
    "impressions": {"impression_share": 0.5},
    "impressions, own": {
        "impression_share": 0.5, "own_share": 0.3, "loss": "softmax", "n_negatives": 4
    },
}  # fmt: skip
DROPOUT = {
    "dropout": {"dropout": 0.3},
    "dropout, softmax": {"dropout": 0.5, **LOSS["softmax"]},
    "dropout by adagrad": {"dropout": 0.2, **ADAGRAD["softmax by adagrad"]},
    "dropout, adaptive": {"dropout": 0.4, **SAMPLERS["adaptive"]},
}
KINDS = {**LOSS, **COSINES, **ADAGRAD, **SAMPLERS, **DROPOUT}
ALL_ITEMS = {"loss": "softmax", "n_negatives": 4, "all_items": True}
MINIBATCHED = {
    "all items": ALL_ITEMS,
    "all items, corrected": {**ALL_ITEMS, "logq_correction": True},
    "all items, dropout": {**ALL_ITEMS, "logq_correction": True, "dropout": 0.5},
}


def begun(name, problem, settings):
    return engine(name).begin(problem, parameters_of(problem), suited(name, settings))


def suited(name, settings):
    """The settings with an optimizer that the engine has."""
    plain = settings.optimizer == "sgd"
    return settings._replace(optimizer="adam") if name == "torch" and plain else settings


def learn_with_both(name, problem, settings, epochs=3):
    """(reference, engine) after epochs whose losses agree."""
    slow, fast = (begun(one, problem, settings) for one in ("reference", name))
    for number in range(1, epochs + 1):
        losses = [training.epoch(number, RATE) for training in (slow, fast)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    return slow, fast


def assert_alike(slow, fast, atol=3e-5):
    for name, wanted, got in zip(Parameters._fields, slow.snapshot(), fast.snapshot()):
        np.testing.assert_allclose(got, wanted, atol=atol, err_msg=name)


def bits(training):
    return b"".join(table.tobytes() for table in training.snapshot())


def also(*values):
    """A combination whose parts other cases have: a kernel more, for `make thorough`."""
    return pytest.param(*values, marks=pytest.mark.thorough)


@pytest.mark.parametrize(
    ("kind", "parts", "blocks", "histories", "positives"),
    [("all items", "", 1, False, "permutation"), ("all items", "cu", 3, False, "bootstrap"),
     ("all items, corrected", "", 3, False, "user"), ("all items, corrected", "c", 1, True, "user"),
     ("all items, dropout", "", 3, True, "permutation"),
     ("all items, dropout", "cu", 1, False, "bootstrap")],
)  # fmt: skip
@pytest.mark.parametrize("name", FAST)
def test_minibatches_are_learned_as_the_reference_learns_them(
    name, kind, parts, blocks, histories, positives
):
    problem = problem_of(parts, weights=True, known=blocks == 3)
    problem = with_histories(problem) if histories else problem
    settings = settings_of(
        histories=4 * histories, blocks=blocks, positives=positives, **MINIBATCHED[kind]
    )
    assert_alike(*learn_with_both(name, problem, settings))


@pytest.mark.parametrize("name", FAST)
def test_minibatches_are_regularised_as_the_reference_does(name):
    problem = problem_of("", weights=True)
    settings = settings_of(blocks=3, l2_scale=l2_scale_of(problem), **ALL_ITEMS)
    assert_alike(*learn_with_both(name, problem, settings))


@pytest.mark.parametrize("name", FAST)
def test_an_item_of_most_events_does_not_overshoot_in_a_minibatch(name):
    settings = settings_of(loss="softmax", all_items=True)

    def of_one_item(*names, **sizes):
        problem = problem_of("", **sizes)
        problem.item[: 3 * len(problem.item) // 4] = problem.item[0]
        start = parameters_of(problem)
        start = start._replace(users=10 * start.users, items=10 * start.items)
        return [engine(one).begin(problem, start, settings) for one in names]

    slow, fast = of_one_item("reference", name, users=20, items=20, events=200)
    assert slow.epoch(1, 0.4) == pytest.approx(fast.epoch(1, 0.4), rel=1e-3)
    [fast] = of_one_item(name, users=60, items=80, events=2000)
    losses = [fast.epoch(number, 0.4) for number in range(1, 12)]
    assert losses[-1] < 2  # with steps of full length it diverges


@pytest.mark.parametrize("histories", [False, True])
@pytest.mark.parametrize("name", FAST)
def test_minibatches_give_the_same_bits_on_any_number_of_threads(name, histories):
    problem = problem_of("c", users=60, items=80, events=2000)
    problem = with_histories(problem, last=5) if histories else problem
    results = set()
    for threads in (1, 2, 4):
        settings = settings_of(
            histories=4 * histories, blocks=4, threads=threads, **MINIBATCHED["all items, dropout"]
        )
        training = begun(name, problem, settings)
        for number in (1, 2, 3):
            training.epoch(number, RATE)
        training.close()
        results.add(bits(training))
    assert len(results) == 1


@pytest.mark.parametrize("name", FAST)
def test_minibatches_that_go_on_from_a_state_give_the_same_bits(name):
    problem = with_histories(problem_of("", events=60))
    settings = settings_of(histories=4, blocks=2, **MINIBATCHED["all items, dropout"])
    whole, part = (begun(name, problem, settings) for _ in range(2))
    for number in (1, 2, 3):
        whole.epoch(number, RATE)
    part.epoch(1, RATE)
    again = engine(name).begin(problem, part.snapshot(), settings)
    again.resume(part.state())
    for number in (2, 3):
        again.epoch(number, RATE)
    assert bits(again) == bits(whole)


# Of combinations, every two values that can meet do so: all of them would say no more. What
# makes another kernel (features of either side, a sampler, AdaGrad, triples) costs seconds each.
@pytest.mark.parametrize(("parts", "blocks", "positives"), [
    ("", 1, "permutation"), ("", 3, "user"), ("c", 1, "bootstrap"), ("c", 3, "permutation"),
    ("u", 1, "user"), ("u", 3, "bootstrap"), also("a", 1, "permutation"), also("a", 3, "bootstrap"),
    ("cua", 1, "user"), ("cua", 3, "permutation"), ("", 3, "bootstrap"), ("cua", 3, "bootstrap"),
])  # fmt: skip
@pytest.mark.parametrize("name", FAST)
def test_plain_pairs_are_learned_as_the_reference_learns_them(name, parts, blocks, positives):
    problem = problem_of(parts, weights=True, known=(parts, blocks) != ("", 1))
    settings = settings_of(blocks=blocks, positives=positives)
    assert_alike(*learn_with_both(name, problem, settings), atol=2e-5)


# How candidates are drawn does not depend on features, but for adaptive ones.
WHOLE = [kind for kind in KINDS if not kind.startswith(("batch", "popularity"))]
# A vector is an attribute with more values: what differs is how steps on features are taken.
VECTORS = [*LOSS, *COSINES, "softmax by adagrad", "adaptive, softmax", "dropout, softmax"]


@pytest.mark.parametrize(
    ("kind", "blocks", "parts"),
    [*((kind, 3, "s") for kind in KINDS), *((kind, 1 + 2 * (n % 2), "cuas") for n, kind in
     enumerate(WHOLE)), *((kind, 1, "s") for kind in (*LOSS, "adaptive", "batch")),
     also("popularity", 1, "cuas"), also("popularity, corrected", 3, "cuas"),
     *((kind, 1 + 2 * (n % 2), "cuavs") for n, kind in enumerate(VECTORS))],
)  # fmt: skip
@pytest.mark.parametrize("name", FAST)
def test_an_engine_learns_what_the_reference_learns(name, kind, blocks, parts):
    known = kind == "softmax" and blocks == 3  # events that are not learned from: a kernel more
    problem = problem_of(parts, events=60, weights=True, known=known)
    settings = settings_of(blocks=blocks, **KINDS[kind])
    assert_alike(*learn_with_both(name, problem, settings))


# Features of both sides include those of one side, whose kernel is another one to compile.
# By AdaGrad they are learned beside histories, below.
TRIPLES = [(kind, "cua") for kind in (*LOSS, "dropout, softmax")]
TRIPLES += [("softmax of cosines", "cua"), also("softmax by adagrad", "cua")]
TRIPLES += [also(kind, "c") for kind in ("softmax", "adaptive, softmax", "softmax of cosines")]


def of_order_three(problem, kind, apart=False, **changes):
    """(problem, settings) with terms of order three."""
    options, problem = {**KINDS, **MINIBATCHED}[kind], with_triples(problem, apart=apart)
    if options.get("temperature"):
        problem = without_mirror(problem)
    return problem, settings_of(triples=triple_l2_of(problem), **options, **changes)


@pytest.mark.parametrize(("blocks", "apart"), [(1, False), (3, True)])
@pytest.mark.parametrize(("kind", "parts"), TRIPLES)
@pytest.mark.parametrize("name", FAST)
def test_triples_are_learned_as_the_reference_learns_them(name, kind, blocks, parts, apart):
    problem = problem_of(parts, events=60, weights=True)
    problem, settings = of_order_three(problem, kind, apart, blocks=blocks)
    slow, fast = learn_with_both(name, problem, settings)
    assert_alike(slow, fast)
    first, last = parameters_of(problem), fast.snapshot()
    assert np.abs(last.items[:, 5:] - first.items[:, 5:]).max() > 1e-3


# Attributes with triples are learned above, and sides without features here.
@pytest.mark.parametrize("parts", [also(""), "u"])
@pytest.mark.parametrize("kind", ["bpr", "softmax"])
@pytest.mark.parametrize("name", FAST)
def test_triples_need_no_more_than_two_features_of_a_side(name, parts, kind):
    problem, settings = of_order_three(problem_of(parts, events=60), kind)
    assert_alike(*learn_with_both(name, problem, settings))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("kind", "parts"), [also("softmax", ""), ("softmax", "cua"), ("softmax by adagrad", "cua")]
)
@pytest.mark.parametrize("name", FAST)
def test_triples_of_histories_are_learned_as_the_reference_learns_them(name, kind, parts, shared):
    problem = with_histories(problem_of(parts, events=60, weights=True), shared=shared)
    histories = len(problem.query_groups.field) - 9
    problem, settings = of_order_three(problem, kind, True, blocks=3, histories=histories)
    assert_alike(*learn_with_both(name, problem, settings))


@pytest.mark.parametrize(("parts", "apart", "scaled"), [("", True, True), ("c", False, False)])
@pytest.mark.parametrize("name", FAST)
def test_triples_of_histories_are_learned_in_minibatches(name, parts, apart, scaled):
    problem = with_histories(problem_of(parts, events=60, weights=True))
    problem, settings = of_order_three(
        problem, "all items, dropout", apart, blocks=3, histories=4,
        l2_scale=l2_scale_of(problem) if scaled else None,
    )  # fmt: skip
    slow, fast = learn_with_both(name, problem, settings)
    assert_alike(slow, fast)
    first, last = parameters_of(problem), fast.snapshot()
    assert np.abs(last.query[9:, 5:] - first.query[9:, 5:]).max() > 1e-3


@pytest.mark.parametrize("kind", [*LOSS, "softmax by adagrad", "all items, dropout"])
@pytest.mark.parametrize("name", FAST)
def test_triples_give_the_same_bits_on_any_number_of_threads(name, kind):
    parts = "" if kind in MINIBATCHED else "cua"
    problem = with_histories(problem_of(parts, users=60, items=80, events=2000), last=5)
    results = set()
    for threads in (1, 2, 4):
        own, settings = of_order_three(problem, kind, blocks=4, threads=threads, histories=4)
        training = begun(name, own, settings)
        for number in (1, 2, 3):
            training.epoch(number, RATE)
        results.add(bits(training))
    assert len(results) == 1


# AdaGrad and adaptive draws of bare histories would be two kernels more.
WITH_HISTORIES = [*LOSS, "softmax of cosines", "dropout, softmax"]


@pytest.mark.parametrize(
    ("kind", "blocks", "since", "parts"),
    [(kind, *own, "") for kind in WITH_HISTORIES for own in ((1, False), (3, True))]
    + [(kind, *own, "cua") for kind in (*WITH_HISTORIES, "softmax by adagrad", "adaptive")
       for own in ((1, True), (3, False))],
)  # fmt: skip
@pytest.mark.parametrize("name", FAST)
def test_histories_are_learned_as_the_reference_learns_them(name, parts, since, blocks, kind):
    problem = with_histories(problem_of(parts, events=60, weights=True), since=since)
    settings = settings_of(histories=4, blocks=blocks, **KINDS[kind])
    slow, fast = learn_with_both(name, problem, settings)
    assert_alike(slow, fast)
    assert np.abs(fast.snapshot().query[9:] - parameters_of(problem).query[9:]).max() > 1e-3


@pytest.mark.parametrize(
    ("kind", "blocks", "parts"),
    [("bpr", 3, ""), ("softmax", 3, "")]
    + [(kind, n, "cua") for kind in ("bpr", "softmax", "softmax by adagrad") for n in (1, 3)],
)
@pytest.mark.parametrize("name", FAST)
def test_histories_may_share_the_vectors_of_items(name, parts, blocks, kind):
    problem = with_histories(problem_of(parts, events=60, weights=True), shared=True)
    settings = settings_of(histories=problem.items, blocks=blocks, **KINDS[kind])
    slow, fast = learn_with_both(name, problem, settings)
    assert_alike(slow, fast)
    np.testing.assert_array_equal(fast.snapshot().query[9:], fast.snapshot().items)


@pytest.mark.parametrize("kind", ["bpr", "softmax", "softmax by adagrad", "dropout, softmax"])
@pytest.mark.parametrize("name", FAST)
def test_histories_give_the_same_bits_on_any_number_of_threads(name, kind):
    problem = with_histories(problem_of("cua", users=60, items=80, events=2000), last=5)
    results = set()
    for threads in (1, 2, 4):
        settings = settings_of(histories=4, blocks=4, threads=threads, **KINDS[kind])
        training = begun(name, problem, settings)
        for number in (1, 2, 3):
            training.epoch(number, RATE)
        results.add(bits(training))
    assert len(results) == 1


@pytest.mark.parametrize(("kind", "parts"), [
    ("bpr", "cua"), ("softmax", "cua"), ("softmax of cosines", "cua"), ("softmax by adagrad", ""),
])  # fmt: skip
@pytest.mark.parametrize("name", FAST)
def test_l2_of_every_rows_own_strength_is_that_of_the_reference(name, kind, parts):
    problem = problem_of(parts, events=60, weights=True)
    settings = settings_of(blocks=3, l2_scale=l2_scale_of(problem), **KINDS[kind])
    assert_alike(*learn_with_both(name, problem, settings))


@pytest.mark.parametrize(("optimizer", "parts"), [("sgd", "cua"), ("adagrad", "")])
@pytest.mark.parametrize("name", FAST)
def test_regularisation_takes_no_more_of_a_row_than_there_is(name, optimizer, parts):
    problem = problem_of(parts, events=60)
    scale = l2_scale_of(problem, 1e6)
    settings = settings_of(l2_scale=scale, optimizer=optimizer, **LOSS["softmax"])
    slow, fast = learn_with_both(name, problem, settings)
    assert_alike(slow, fast)
    assert fast.largest() < 2


def pairs_of(problem, count=40):
    """Given pairs of an event's item and any other, with weights."""
    rng = np.random.default_rng(0)
    event = rng.integers(0, len(problem.user), count)
    other = 1 + rng.integers(0, problem.items - 1, count)
    negative = ((problem.item[event] + other) % problem.items).astype(np.int32)
    weight = rng.uniform(0.5, 2, count).astype(np.float32)
    situation = problem.situation[event]
    return Pairs(problem.user[event], problem.item[event], negative, situation, weight)


@pytest.mark.parametrize("parts", ["", "cua"])
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("name", FAST)
def test_steps_on_given_pairs_are_those_of_the_reference(name, parts, blocks):
    problem = problem_of(parts)
    trainings = learn_with_both(name, problem, settings_of(blocks=blocks), epochs=1)
    losses = [training.learn_pairs(pairs_of(problem), RATE) for training in trainings]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    assert_alike(*trainings, atol=2e-5)
    # the next epoch starts from what the pairs left
    losses = [training.epoch(2, RATE) for training in trainings]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert_alike(*trainings)


# What minibatches draw is drawn before threads begin: a kind of every loss, step and sampler.
ONCE = [*LOSS, "softmax of cosines", "softmax by adagrad", "dropout, softmax", "adaptive, softmax",
        "batch, corrected", "impressions, own"]  # fmt: skip
MINIBATCHES = ONCE if "torch" in HERE else []
# Features come into every other kind: with and without them the same candidates are drawn.
SIDES = {kind: ("", "cua")[n % 2] for n, kind in enumerate(KINDS)}
SIDES |= {kind: "" for kind in KINDS if kind not in WHOLE}
BOTH = ("bpr", "softmax", "softmax by adagrad", "adaptive")


@pytest.mark.parametrize(
    ("name", "kind", "parts"),
    [(name, kind, parts) for name in FAST for kind, parts in SIDES.items() if kind not in BOTH]
    + [(name, kind, parts) for name in FAST for kind in BOTH for parts in ("", "cua")]
    + [(name, "softmax", "cuav") for name in FAST]
    + [("torch", kind, ("", "cua")[n % 2]) for n, kind in enumerate(MINIBATCHES)],
)  # fmt: skip
def test_any_number_of_threads_gives_the_same_bits(name, kind, parts, monkeypatch):
    monkeypatch.setattr(worker, "all_threads", lambda: 16)  # more than there are cores, too
    counts = (1, 3, 16)
    if name == "torch":
        from fmpair.engine.torch import torch_training as minibatches

        monkeypatch.setattr(minibatches, "SMALL", 0)  # else so small a step takes one thread
        counts = (1, 3)
    problem = problem_of(parts + "s", users=60, items=80, events=2000)
    results = set()
    for threads in counts:
        training = begun(name, problem, settings_of(blocks=16, threads=threads, **KINDS[kind]))
        for number in (1, 2, 3):
            training.epoch(number, RATE)
        training.close()
        results.add(bits(training))
    assert len(results) == 1


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", FAST)
def test_losses_fall_as_an_engine_learns(name, loss):
    problem = problem_of("", users=60, items=80, events=2000)
    training = begun(name, problem, settings_of(loss=loss, n_negatives=1))
    first, *_, last = [training.epoch(number, RATE) for number in range(1, 11)]
    assert last < 0.95 * first


@pytest.mark.parametrize("kind", ["bpr", "softmax by adagrad"])
@pytest.mark.parametrize("name", HERE)
def test_a_frozen_table_does_not_move(name, kind):
    problem = problem_of("cua", events=60)
    still = problem.query_groups._replace(centred=np.zeros(9, bool))
    problem, start = problem._replace(query_groups=still), parameters_of(problem)
    settings = settings_of(item_rate=0.0, feature_rate=0.0, **KINDS[kind])
    training = engine(name).begin(problem, start, suited(name, settings))
    training.epoch(1, RATE)
    after = training.snapshot()
    assert not np.array_equal(after.users, start.users)
    for table in ("items", "item_bias", "query", "features", "feature_bias"):
        np.testing.assert_array_equal(getattr(after, table), getattr(start, table))


# When partitions are made anew matters to the engines that have them.
@pytest.mark.parametrize(
    ("name", "histories", "done"),
    [(name, *own) for name in HERE for own in ((True, 1), (True, 3), (False, 3))
     if name == "cpu" or own == (True, 3)],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["bpr", "softmax by adagrad", "adaptive"])
def test_training_that_goes_on_from_its_state_gives_the_same_bits(name, kind, histories, done):
    problem, more = problem_of("cua", events=60), 0
    if histories:
        problem = with_histories(problem, shared=kind == "bpr")
        more = problem.items if kind == "bpr" else 4
    settings = settings_of(histories=more, blocks=2, partition_every=2, **KINDS[kind])
    whole, part = (begun(name, problem, settings) for _ in range(2))
    for number in range(1, 6):
        whole.epoch(number, RATE)
    for number in range(1, done + 1):
        part.epoch(number, RATE)
    again = engine(name).begin(problem, part.snapshot(), suited(name, settings))
    again.resume(part.state())
    for number in range(done + 1, 6):
        again.epoch(number, RATE)
    assert bits(again) == bits(whole)


@pytest.mark.parametrize("name", HERE)
def test_an_engine_leaves_what_it_is_given_as_it_was(name):
    problem = problem_of("cuas", events=60)
    start = parameters_of(problem)
    before = b"".join(table.tobytes() for table in start)
    engine(name).begin(problem, start, suited(name, settings_of(blocks=2))).epoch(1, RATE)
    assert b"".join(table.tobytes() for table in start) == before


@pytest.mark.parametrize("name", HERE)
def test_a_snapshot_before_the_first_epoch_is_what_training_starts_from(name):
    problem = problem_of("cua", events=60)
    training = begun(name, problem, settings_of(blocks=2))
    for wanted, got in zip(parameters_of(problem), training.snapshot()):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", HERE)
def test_a_snapshot_is_a_copy_that_later_epochs_do_not_change(name):
    training = begun(name, problem_of("cua", events=60), settings_of(blocks=2))
    training.epoch(1, RATE)
    snapshot = training.snapshot()
    kept = [table.copy() for table in snapshot]
    training.epoch(2, RATE)
    for wanted, got in zip(kept, snapshot):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", HERE)
def test_what_was_learned_is_there_after_closing(name):
    training = begun(name, problem_of("cua", events=60), settings_of(blocks=2, threads=2))
    training.epoch(1, RATE)
    before = bits(training)
    training.close()
    training.close()
    assert bits(training) == before


@pytest.mark.parametrize("wrong", [1e9, np.nan])
@pytest.mark.parametrize("table", ["users", "items", "item_bias", "query", "features"])
@pytest.mark.parametrize("name", HERE)
def test_numbers_that_diverge_are_seen_in_every_table(name, table, wrong):
    problem = problem_of("cua", events=60)
    start = parameters_of(problem)
    getattr(start, table)[2] = wrong
    training = engine(name).begin(problem, start, suited(name, settings_of()))
    assert not training.largest() < 100


def test_an_unknown_engine_is_refused_with_the_names_of_those_there_are():
    with pytest.raises(
        OptionError, match="engine must be one of cpu, ray, reference, torch, not 'gpu'"
    ):
        engine("gpu")
