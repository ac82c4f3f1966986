"""Steps on pairs that are given follow the reference engine, like those on pairs it draws."""

from dataclasses import replace

import numpy as np
import pytest
from test_parity import parameters_of, problem_of

from fmpair.engine.contract import Settings
from fmpair.engine.cpu import training as cpu
from fmpair.engine.cpu.training import ordered
from fmpair.engine.reference import training as reference
from fmpair.engine.reference.training import objective
from fmpair.engine.strata.regularisation import item_pace, query_pace


@pytest.mark.parametrize("parts", ["", "c", "u", "a", "cua"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_steps_on_given_pairs_are_those_of_the_reference_engine(parts, blocks):
    problem, first = problem_of(parts), parameters_of(problem_of(parts))
    settings = Settings(
        seed=3, positives="permutation", blocks=blocks, partition_every=5, threads=1, user=0.02,
        positive=0.03, negative=0.01, bias=0.04, query=np.full(9, 0.05, np.float32),
        features=np.full(6, 0.06, np.float32), query_threshold=np.zeros(9, np.float32),
        feature_threshold=np.zeros(6, np.float32),
    )  # fmt: skip
    problem = problem._replace(
        query_groups=problem.query_groups._replace(centred=np.zeros(9, bool))
    )
    fast, plain = cpu.begin(problem, first, settings), reference.begin(problem, first, settings)
    cpu.epoch(fast, 1, 0.1), reference.epoch(plain, 1, 0.1)
    rng = np.random.default_rng(0)
    event = rng.integers(0, 90, 40)
    negative = ((problem.item[event] + 1 + rng.integers(0, 14, 40)) % 15).astype(np.int32)
    weight = rng.uniform(0.5, 2, 40).astype(np.float32)
    pairs = ordered.Pairs(
        problem.user[event], problem.item[event], negative, problem.situation[event], weight
    )
    loss = ordered.learn_pairs(fast, pairs, 0.1)
    paces = {
        "query": query_pace(problem.query_groups, problem.contexts, problem.user_rows),
        "features": item_pace(problem.item_groups, problem.item_rows),
    }
    losses = []
    for e, j, w in zip(event, negative, weight):
        choice = reference._choice(problem, int(problem.user[e]), int(problem.item[e]), int(e))
        choice = reference.Draws(0, problem, np.arange(15), settings).extended(choice, int(j))
        choice = replace(choice, weight=float(w))
        losses.append(objective.loss(plain.parameters, choice, settings))
        reference.take_step(plain.parameters, choice, settings, 0.1, paces)
    assert loss == pytest.approx(np.mean(losses), abs=1e-4)
    for ours, theirs in zip(cpu.snapshot(fast), reference.snapshot(plain)):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)
    for copy in fast.query[1:]:
        np.testing.assert_array_equal(copy.table, fast.query[0].table)
