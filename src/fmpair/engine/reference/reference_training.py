"""The reference engine: plain NumPy, one step at a time. It defines what all engines learn.

It uses the plan, draws and updates of the fast engines, in original numbering and regardless of
speed. `objective` defines the loss of a step, its gradients and the update.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fmpair.arrays import empty_rows
from fmpair.engine.contract import Pairs, Parameters, Problem, Settings
from fmpair.engine.item_side import joint_steepness, pair_columns
from fmpair.engine.reference.draws import StrataCell, choice_of, choices, row
from fmpair.engine.reference.minibatch_steps import run_minibatches
from fmpair.engine.reference.objective import (
    Choice,
    bounded,
    item_side,
    item_slopes,
    loss,
    take_step,
)
from fmpair.engine.strata import field_regularisation as fields
from fmpair.engine.strata import partition as strata
from fmpair.engine.strata.field_regularisation import Accumulators
from fmpair.engine.strata.sampling_tables import folds, steps_between


def begin(problem: Problem, parameters: Parameters, settings: Settings) -> ReferenceTraining:
    """Begin training from the given parameters."""
    return ReferenceTraining(strata.with_unchosen(problem), parameters, settings)


class ReferenceTraining:
    """Training in progress, numbered as in the problem.

    settled: the settings with the L2 of fields of the epoch. pairs: the columns of pair vectors.
    """

    def __init__(self, problem: Problem, parameters: Parameters, settings: Settings):
        self.problem, self.settings, self.settled = problem, settings, settings
        self.events = strata.by_user(problem, numbered=True)
        self.tables = Parameters(*(np.array(table, np.float64) for table in parameters))
        self.pairs = pair_columns(self.tables.users.shape[1], problem.triples)
        self.accumulators: Accumulators | None = None
        if settings.optimizer == "adagrad":
            self.accumulators = fields.first_accumulators(self.tables, settings, np.float64)
        self.partition: strata.Partition | None = None
        self.partitioned = 0  # the epoch of the last partition
        self.feature_rates = {
            "query": fields.query_rates(problem.query_groups, problem.contexts, problem.user_rows),
            "features": fields.item_rates(problem.item_groups, problem.item_rows),
        }

    def epoch(self, number: int, rate: float) -> float:
        """Run one epoch (counted from 1) at a learning rate; return the mean loss of its steps."""
        blocks = self.settings.blocks
        if self.partition is None or (number - 1) % self.settings.partition_every == 0:
            self._partition(number)
        tables, problem = self.tables, self.problem
        self.settled = fields.settled_l2(
            self.settings, tables.query, tables.features, problem, number
        )
        losses: list[float] = []
        for turn in range(blocks):
            copies, accumulators, before = [], [], self._share_items()
            moves: list[tuple[np.ndarray, np.ndarray]] = []
            for t in range(blocks):
                copies.append(_own_copy(self.tables))
                accumulators.append(_own_copy(self.accumulators))
                cell = self.cell(t, (t + turn) % blocks)
                losses += self._run(cell, number, rate, copies[-1], accumulators[-1], moves)
            _merge(self.tables, copies, moves)
            self._collect_items(before)
            if self.accumulators:
                _merge(self.accumulators, accumulators, moves)
        self._centre()
        return float(np.mean(losses)) if losses else 0.0

    def _partition(self, number: int) -> None:
        settings, self.partitioned = self.settings, number
        self.partition = strata.partition(self.events, settings.blocks, settings.seed, number)

    def cell(self, user_block: int, item_block: int) -> StrataCell:
        """Return a cell of the current partition."""
        assert self.partition is not None
        events, partition = self.events, self.partition
        return StrataCell(self.problem, self.settings, events, partition, user_block, item_block)

    def learn_pairs(self, pairs: Pairs, rate: float) -> float:
        """Take a BPR step on each pair in order, after an epoch; return the mean loss."""
        settings = self.settled._replace(loss="bpr", optimizer="sgd", l2_scale=None)
        losses = []
        for user, better, worse, situation, weight in zip(*pairs):
            items = (int(better), int(worse))
            choice = choice_of(self.problem, int(user), items, int(situation), float(weight))
            losses.append(loss(self.tables, choice, settings))
            take_step(self.tables, choice, settings, rate, self.feature_rates)
        self._centre()
        return float(np.mean(losses)) if losses else 0.0

    def _share_items(self) -> np.ndarray:
        """Copy the item vectors to histories that share them; return the vectors."""
        before = self.tables.items[:, : self.pairs].copy()
        if self.problem.history is not None and self.problem.history.shared:
            rows = fields.shared_item_rows(self.problem.history, len(before))
            self.tables.query[rows, : self.pairs] = before
        return before

    def _collect_items(self, before: np.ndarray) -> None:
        if self.problem.history is not None and self.problem.history.shared:
            rows = fields.shared_item_rows(self.problem.history, len(before))
            self.tables.items[:, : self.pairs] += self.tables.query[rows, : self.pairs] - before

    def largest(self) -> float:
        """Return the largest absolute parameter, NaN if there is any."""
        tables = (*self.tables[:3], self.tables.query, self.tables.features)
        return float(np.max([np.abs(table).max() for table in tables if table.size]))

    def snapshot(self) -> Parameters:
        """Return the current parameters."""
        self._share_items()
        return Parameters(*(table.astype(np.float32) for table in self.tables))

    def state(self) -> dict[str, np.ndarray]:
        """Return the state, with the tables since parameters have lower precision."""
        state = {f"table_{name}": table.copy() for name, table in self.tables._asdict().items()}
        sums = self.accumulators._asdict() if self.accumulators else {}
        state |= {f"sum_{name}": np.array(rows) for name, rows in sums.items()}
        return state | {"partitioned": np.array(self.partitioned)}

    def resume(self, state: dict[str, np.ndarray]) -> None:
        """Continue after the epoch of that state."""
        self.tables = Parameters(*(state[f"table_{name}"].copy() for name in self.tables._fields))
        if self.accumulators:
            sums: Any = {n: state[f"sum_{n}"].copy() for n in self.accumulators._fields}
            self.accumulators = Accumulators(**sums)
        if state["partitioned"]:
            self._partition(int(state["partitioned"]))

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _run(
        self,
        cell: StrataCell,
        epoch: int,
        rate: float,
        cell_tables: Parameters,
        sums: Any,
        moves: list,
    ) -> list[float]:
        """Run a cell's steps on its own tables; return their losses and append its moves."""
        moved = (np.zeros(len(cell_tables.query)), np.zeros(len(cell_tables.features)))
        moves.append(moved)
        if self.settings.in_minibatches:
            return run_minibatches(
                cell, epoch, cell_tables, self.settled, rate, self.feature_rates, moved
            )
        if folds(self.problem, self.settings):
            rates = (rate, self.feature_rates["features"])
            folded = FoldedCell(cell, cell_tables, self.settled, rates, sums)
            return self._run_folded(folded, epoch, sums, moved)
        losses, triples = [], self.problem.triples
        for choice in choices(cell, epoch, cell_tables):
            losses.append(choice.warp_weight * loss(cell_tables, choice, self.settled, triples))
            if len(choice.items) == 1:  # WARP found no violation
                continue
            choice = bounded(cell_tables, choice, self.settled, rate, triples)
            take_step(cell_tables, choice, self.settled, rate, self.feature_rates, sums, triples)
            moved[0][choice.query[0]] += 1
            moved[1][np.unique(np.concatenate([side[0] for side in choice.sides]))] += 1
        return losses

    def _run_folded(
        self, folded: FoldedCell, epoch: int, accumulators: Any, moved: tuple
    ) -> list[float]:
        """Run a cell whose items are folded with their attributes."""
        losses, tables, settings = [], folded.tables, folded.settings
        for choice in choices(folded.cell, epoch, tables, folded.at_run):
            folded.steps += 1
            losses.append(choice.warp_weight * loss(tables, choice, settings))
            if len(choice.items) == 1:
                continue
            choice = bounded(tables, choice, settings, folded.rate)
            folded.note(choice)
            take_step(tables, choice, settings, folded.rate, self.feature_rates, accumulators)
            moved[0][choice.query[0]] += 1
        folded.pass_on()
        moved[1][:] = folded.moved
        return losses

    def _centre(self) -> None:
        if self.problem.has_query_features:
            fields.centre(self.tables.query[:, : self.pairs], self.problem.query_groups)


def _own_copy(tables: Any) -> Any:
    """Return parameters or accumulators (or None) with copies of the shared tables."""
    if tables is None:
        return None
    shared = {"query", "features", "feature_bias"} & set(tables._fields)
    return tables._replace(**{name: getattr(tables, name).copy() for name in shared})


def _merge(tables: Any, copies: list, moves: list[tuple]) -> None:
    """Replace shared rows by the mean of the cells' copies, weighted by their moves."""
    for names, side in ((("query",), 0), (("features", "feature_bias"), 1)):
        times = np.stack([moved[side] for moved in moves])
        touched = times.any(axis=0)
        share = times[:, touched] / times[:, touched].sum(axis=0)
        for name in set(names) & set(tables._fields):
            stack = np.stack([getattr(copy, name)[touched] for copy in copies])
            weight = share.reshape(share.shape + (1,) * (stack.ndim - 2))
            getattr(tables, name)[touched] = (weight * stack).sum(axis=0)


class FoldedCell:
    """The items of a cell folded with their attributes, see `strata.sampling_tables`.

    cell_tables: those that the cell changes. cell, tables, settings: what the steps between
    foldings use: without attributes, with sides for items, without regularisation of items.
    moved: moves of each attribute.
    """

    def __init__(
        self, cell: StrataCell, cell_tables: Parameters, settings: Settings,
        rates: tuple[float, np.ndarray], accumulators: Accumulators | None,
    ):  # fmt: skip
        """rates: the epoch's, and the attributes' shares of it."""
        problem, self.items = cell.problem, cell.items
        self.cell_tables, self.full, self.accumulators = cell_tables, settings, accumulators
        self.rate, self.shares, self.rows = *rates, problem.item_rows
        self.joint = joint_steepness(problem.item_groups, problem.item_rows)
        self.cell = replace(cell, problem=problem._replace(item_rows=empty_rows(problem.items)))
        self.tables = cell_tables._replace(
            items=cell_tables.items.copy(), item_bias=cell_tables.item_bias.copy()
        )
        self.settings = settings._replace(positive=0.0, negative=0.0, bias=0.0)
        self.moved = np.zeros(len(cell_tables.features), int)
        self._fold()

    def at_run(self, anew: bool) -> None:
        """Before every run, fold again where it is due or where items are sorted again."""
        if anew or self.steps >= steps_between(len(self.items), self.full.n_negatives):
            self.pass_on()
            self._fold()

    def _fold(self) -> None:
        for i in self.items:
            self.tables.items[i], self.tables.item_bias[i] = item_side(
                self.cell_tables, i, row(self.rows, i)
            )
        self.start = (self.tables.items.copy(), self.tables.item_bias.copy())
        self.squares = self.accumulators.items.copy() if self.accumulators else np.zeros(0)
        count, self.steps = len(self.tables.items), 0
        self.slope, self.steepness, self.chosen, self.others = np.zeros((4, count))

    def note(self, choice: Choice) -> None:
        """Sum up what a step moves its items by, before it does."""
        strength = choice.weight * choice.warp_weight
        slopes = item_slopes(self.tables, choice, self.settings)
        for n, (i, (slope, gradient)) in enumerate(zip(choice.items, slopes)):
            self.slope[i] += strength * slope
            self.steepness[i] += abs(strength * slope) * (gradient @ gradient)
            self.chosen[i] += n == 0
            self.others[i] += (n > 0) / (len(choice.items) - 1)

    def pass_on(self) -> None:
        """Restore the items' own rows, moved and shrunk, and move the attributes."""
        meets = 0.0 if self.full.temperature else 1.0  # cosines have no pairs within an item
        sums: dict[int, AttributeSums] = {}
        for i in map(int, np.flatnonzero(self.chosen + self.others)):
            rate, square = self.rate * self.full.item_rate, 0.0
            if self.accumulators:
                rate /= math.sqrt(self.accumulators.items[i])
                square = self.accumulators.items[i] - self.squares[i]
            side, pull = self.start[0][i], meets * self.slope[i]
            moved = self.tables.items[i] - side
            if rate > 0:
                for f, x in zip(*row(self.rows, i)):
                    total = sums.setdefault(int(f), AttributeSums())
                    total.gradient += x * (
                        moved / rate + pull * (side - x * self.cell_tables.features[f])
                    )
                    total.bias += x * self.slope[i]
                    total.steepness += max(x * x, self.joint[f]) * self.steepness[i]
                    total.due += self.chosen[i] + self.others[i]
                    total.square += x * x * square
                    self.moved[f] += 1 + int(self.chosen[i])
            inner = rate * pull * (side - self.cell_tables.items[i])
            self._shrink_item(i, rate)
            self.cell_tables.items[i] += moved + inner
            self.cell_tables.item_bias[i] += self.tables.item_bias[i] - self.start[1][i]
        for f, total in sums.items():
            self._move(f, total)

    def _shrink_item(self, i: int, rate: float) -> None:
        full, chosen, others = self.full, self.chosen[i], self.others[i]
        scale = full.l2_scale.items[i] if full.l2_scale else 1.0
        lost = rate * scale * (full.positive * chosen + full.negative * others)
        lost_bias = rate * full.has_bias * full.bias * (chosen + others)
        self.cell_tables.items[i] *= max(1 - lost, 0.0)
        self.cell_tables.item_bias[i] *= max(1 - lost_bias, 0.0)

    def _move(self, f: int, sums: AttributeSums) -> None:
        """Take one step of an attribute along its summed gradient.

        Steps taken one by one would each have seen the earlier ones and become shorter; so the sum
        is divided by one plus what they would have taken off each other.
        """
        rate = self.rate * self.full.feature_rate * self.shares[f]
        if self.accumulators:
            self.accumulators.features[f] += sums.square
            rate /= math.sqrt(self.accumulators.features[f])
        l2 = self.full.features[f] * min(sums.due, self.steps)
        step = rate / (1 + rate * (sums.steepness + l2))
        self.cell_tables.features[f] += step * (sums.gradient - l2 * self.cell_tables.features[f])
        if self.full.has_bias:
            self.cell_tables.feature_bias[f] += step * (
                sums.bias - l2 * self.cell_tables.feature_bias[f]
            )


class AttributeSums:
    """The sums passed on to an attribute: those of its items, times their values of it."""

    gradient: np.ndarray | float = 0.0
    bias = steepness = due = square = 0.0
