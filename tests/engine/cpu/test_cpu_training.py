"""The CPU engine against the reference, and kernels loaded from disk."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of

from fmpair.arrays import group_rows
from fmpair.engine import cpu, reference
from fmpair.engine.contract import L2Scale
from fmpair.engine.strata.sampling_tables import folds, steps_between

SOFTMAX = {"loss": "softmax", "n_negatives": 4}


@pytest.mark.parametrize("parts", ["", "cua"])
@pytest.mark.parametrize("blocks", [1, 3])
def test_accumulators_are_those_of_the_reference(parts, blocks):
    problem = problem_of(parts, events=60, weights=True, known=blocks == 3)
    settings = settings_of(blocks=blocks, optimizer="adagrad", **SOFTMAX)
    slow, fast = (e.begin(problem, parameters_of(problem), settings) for e in (reference, cpu))
    for number in (1, 2, 3):
        slow.epoch(number, 0.05), fast.epoch(number, 0.05)
    wanted = slow.accumulators
    ids = wanted.users[fast.order.user_at], wanted.items[fast.order.item_at]
    found = fast.accumulators
    ours = found.users, found.items, found.query[0], found.features[0]
    for theirs, own in zip((*ids, wanted.query, wanted.features), ours):
        np.testing.assert_allclose(own, theirs, rtol=1e-3)


def test_l2_scales_of_one_change_nothing():
    problem = problem_of("cua", users=60, items=80, events=2000)
    ones = L2Scale(np.ones(problem.users, np.float32), np.ones(problem.items, np.float32))
    results = []
    for scale in (None, ones):
        settings = settings_of(l2_scale=scale, loss="hinge")
        training = cpu.begin(problem, parameters_of(problem), settings)
        training.epoch(1, 0.05)
        results.append(training.snapshot())
    for wanted, got in zip(*results):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize("parts", ["c", "cua"])
def test_all_copies_of_a_shared_table_are_equal_between_rounds(parts):
    problem = problem_of(parts)
    training = cpu.begin(problem, parameters_of(problem), settings_of(blocks=3))
    training.epoch(1, 0.05)
    assert len(training.query.table) == 3
    for copies in (training.query, training.features):
        for table in copies.table[1:] if copies else ():
            np.testing.assert_array_equal(table, copies.table[0])


def test_closing_does_not_wait_for_threads():
    """The garbage collector may close a run inside a thread that is just starting."""
    problem, waited = problem_of(""), []
    training = cpu.begin(problem, parameters_of(problem), settings_of())
    training.executor = SimpleNamespace(shutdown=lambda wait: waited.append(wait))
    training.close()
    assert waited == [False] and training.executor is None


def test_many_steps_summed_up_hold_each_other_back():
    """Half of all items have the attribute, and every user likes these: all steps go one way."""
    problem = problem_of("cua", users=60, items=80, events=2000)
    half = np.arange(40)
    rows = group_rows(half, np.zeros(40, np.int32), 80, np.ones(40, np.float32))
    problem = problem._replace(item_rows=rows, item=(problem.item % 40).astype(np.int32))
    settings = settings_of(loss="softmax", n_negatives=4)
    training = cpu.begin(problem, parameters_of(problem), settings)
    first, *_, last = [training.epoch(number, 0.3) for number in (1, 2, 3)]
    assert last < 0.9 * first
    assert np.abs(training.snapshot().features[0]).max() < 2


FOLDED = {"by sgd": {}, "by adagrad": {"optimizer": "adagrad"}}
NOT_FOLDED = {"of frozen items": {"item_rate": 0.0}}


# What is not folded is learned with triples too, in test_contract_of_engines.py.
@pytest.mark.parametrize(
    "kind", [*FOLDED, *(pytest.param(kind, marks=pytest.mark.thorough) for kind in NOT_FOLDED)]
)
def test_attributes_in_lists_are_learned_as_the_reference_learns_them(kind):
    problem = problem_of("cua", events=300, weights=True)
    settings = settings_of(**SOFTMAX, **{**FOLDED, **NOT_FOLDED}[kind])
    assert folds(problem, settings) == (kind in FOLDED)
    assert steps_between(problem.items, settings.n_negatives) < 300 / 4  # many times in a cell
    slow, fast = (e.begin(problem, parameters_of(problem), settings) for e in (reference, cpu))
    for number in (1, 2):
        assert slow.epoch(number, 0.05) == pytest.approx(fast.epoch(number, 0.05), rel=1e-4)
    for wanted, got in zip(slow.snapshot(), fast.snapshot()):
        np.testing.assert_allclose(got, wanted, atol=3e-5)


SCRIPT = """
import hashlib
import numpy as np
from fmpair import Dataset, FMPair

rng = np.random.default_rng(0)
events = {"user": rng.integers(0, 60, 900), "item": rng.integers(0, 40, 900),
          "place": rng.integers(0, 4, 900).astype(str)}
genres = {"item": np.arange(40), "genre": (np.arange(40) % 7).astype(str)}
data = Dataset.from_frame(events, items=genres)
model = FMPair(factors=8, epochs=2, optimizer="adagrad", n_negatives=4, blocks=1, order=2).fit(data)
print(hashlib.sha256(b"".join(table.tobytes() for table in model.parameters)).hexdigest())
"""


@pytest.mark.thorough
def test_adagrad_gives_the_same_bits_where_its_kernel_is_compiled_and_where_it_is_found(tmp_path):
    environment = {**os.environ, "FMPAIR_CACHE": str(tmp_path)}
    found = [
        subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True,
                       text=True, check=True).stdout
        for _ in range(2)
    ]  # fmt: skip
    assert len(found[0]) == 65 and found[0] == found[1]
