"""Ridge regression on sparse rows and dense blocks agrees with normal equations."""

import numpy as np
import pytest

from fmpair.arrays import Rows
from fmpair.solvers import ridge as module
from fmpair.solvers.ridge import Design, Fold, best_strength, ridge

ITEMS, LISTED, DIMENSIONS, TARGETS = 60, 12, 5, 3


def sparse(matrix: np.ndarray) -> Rows:
    row, column = np.nonzero(matrix)
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(matrix)))])
    return Rows(start, column.astype(np.int32), matrix[row, column].astype(np.float32))


def case(lists: bool, vectors: bool, threads: int = 1) -> tuple[Design, np.ndarray]:
    """Return a design and the same as one matrix."""
    rng = np.random.default_rng(0)
    matrix = np.zeros((ITEMS, LISTED + DIMENSIONS), np.float32)
    if lists:
        matrix[:, :LISTED] = rng.normal(size=(ITEMS, LISTED)) * (rng.random((ITEMS, LISTED)) < 0.3)
    rows = sparse(matrix)
    dense = ()
    if vectors:
        matrix[:, LISTED:] = rng.normal(size=(ITEMS, DIMENSIONS))
        dense = ((slice(LISTED, LISTED + DIMENSIONS), matrix[:, LISTED:].copy()),)
    return Design(rows, LISTED + DIMENSIONS, dense, threads), matrix


CASES = pytest.mark.parametrize(
    ("lists", "vectors"), [(True, False), (False, True), (True, True)], ids=str
)


@CASES
def test_products_are_those_of_the_whole_matrix(lists, vectors):
    design, matrix = case(lists, vectors)
    rng = np.random.default_rng(1)
    table, items = rng.normal(size=(matrix.shape[1], 4)), rng.normal(size=(ITEMS, 4))
    table, items = table.astype(np.float32), items.astype(np.float32)
    assert np.allclose(design.dot(table), matrix @ table, atol=1e-5)
    assert np.allclose(design.back(items), matrix.T @ items, atol=1e-5)
    assert np.allclose(design.twice(table), matrix.T @ (matrix @ table), atol=1e-4)
    assert np.allclose(design.squares, (matrix**2).sum(axis=0), atol=1e-5)
    assert np.allclose(design.squared_dot(table[:, 0]), matrix**2 @ table[:, 0], atol=1e-4)
    some = np.array([5, 2, 40])
    assert np.allclose(design.take(some).dot(table), matrix[some] @ table, atol=1e-5)
    assert (design.described == matrix.any(axis=1)).all()


@CASES
@pytest.mark.parametrize("strength", [0.1, 3.0])
def test_weights_solve_the_normal_equations(lists, vectors, strength, monkeypatch):
    monkeypatch.setattr(module, "TOLERANCE", 1e-6)
    design, matrix = case(lists, vectors)
    targets = np.random.default_rng(2).normal(size=(ITEMS, TARGETS)).astype(np.float32)
    normal = matrix.T @ matrix + strength * np.eye(matrix.shape[1])
    wanted = np.linalg.solve(normal, matrix.T @ targets)
    found = ridge(design, targets, strength)
    assert np.allclose(found, wanted, atol=1e-4)
    again = ridge(design, targets, strength, found + np.float32(0.1))
    assert np.allclose(again, wanted, atol=1e-4)


@CASES
def test_a_fold_leaves_the_normal_equations_of_the_other_rows(lists, vectors):
    design, matrix = case(lists, vectors)
    rng = np.random.default_rng(5)
    rows, targets = rng.permutation(ITEMS)[:20], rng.normal(size=(ITEMS, TARGETS))
    table = rng.normal(size=(matrix.shape[1], TARGETS)).astype(np.float32)
    targets = targets.astype(np.float32)
    fold = Fold.of(design, rows)
    others = np.setdiff1d(np.arange(ITEMS), rows)
    rest = matrix[others]
    assert (fold.others == others).all()
    assert np.allclose(fold.held_out.dot(table), matrix[rows] @ table, atol=1e-4)
    assert np.allclose(fold.rest.twice(table), rest.T @ rest @ table, atol=1e-3)
    assert np.allclose(fold.rest.squares, (rest**2).sum(axis=0), atol=1e-4)
    right = fold.right(targets, design.back(targets))
    assert np.allclose(right, rest.T @ targets[others], atol=1e-4)


@CASES
def test_the_normal_equations_of_sums_of_rows(lists, vectors, monkeypatch):
    monkeypatch.setattr(module, "SUMS_AT_ONCE", 3)
    design, matrix = case(lists, vectors)
    rng = np.random.default_rng(6)
    sums = rng.normal(size=(10, ITEMS)) * (rng.random((10, ITEMS)) < 0.2)
    found = design.twice_of_sums(Design(sparse(sums.astype(np.float32)), ITEMS))
    if lists:
        assert found is None
        return
    table = rng.normal(size=(matrix.shape[1], 4)).astype(np.float32)
    whole = sums @ matrix
    assert np.allclose(found.twice(table), whole.T @ whole @ table, rtol=1e-4, atol=1e-3)


def test_noisier_targets_are_held_more():
    design, matrix = case(True, True)
    rng = np.random.default_rng(3)
    signal = matrix @ rng.normal(size=(matrix.shape[1], TARGETS))
    noise = rng.normal(size=(ITEMS, TARGETS))
    clear, faint = signal + 0.01 * noise, 0.1 * signal + noise
    strengths = [best_strength(design, t.astype(np.float32), 0) for t in (clear, faint)]
    assert strengths[0] < strengths[1]


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)
    targets = np.random.default_rng(4).normal(size=(ITEMS, TARGETS)).astype(np.float32)
    one, three = (ridge(case(True, True, threads)[0], targets, 1.0) for threads in (1, 3))
    assert (one == three).all()
