"""The reference engine: plain NumPy, one step at a time. It defines what all engines learn.

Same plan, same draws, same updates as the fast engines, in original numbering and without a thought
for speed. What a step makes small, and its gradients, stand in `objective.py`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fmpair.arrays import empty_rows
from fmpair.engine.contract import Pairs, Parameters, Problem, Settings
from fmpair.engine.item_side import pair_columns
from fmpair.engine.reference.draws import Cell, choice_of, choices, row
from fmpair.engine.reference.objective import Choice, item_side, item_slopes, loss, take_step
from fmpair.engine.strata import partition as strata
from fmpair.engine.strata.field_regularisation import (
    Accumulators,
    borrowed,
    centre,
    first_accumulators,
    item_rates,
    lend,
    query_rates,
    returned,
    settled_l2,
)
from fmpair.engine.strata.sampling_tables import folds, steps_between

# Items that stand for their whole sides while a cell is learned from: see `engine.strata.folding`.
#
# Between two times that they are folded, the steps are those on items without attributes.


class Folding:
    """A cell's items, folded. own: its tables; all that follows is what steps in between are given.

    cell: without attributes. tables: with sides for items. settings: without the regularisation
    of items, which is settled when sums are passed on. moved: how often each attribute has.
    """

    def __init__(
        self,
        cell: Cell,
        own: Parameters,
        settings: Settings,
        rates: tuple[float, np.ndarray],
        accumulators: Accumulators | None,
    ):
        """rates: the epoch's, and the attributes' shares of it."""
        problem, self.items = cell.problem, cell.items
        self.own, self.full, self.accumulators = own, settings, accumulators
        self.rate, self.shares, self.rows = *rates, problem.item_rows
        self.cell = replace(cell, problem=problem._replace(item_rows=empty_rows(problem.items)))
        self.tables = own._replace(items=own.items.copy(), item_bias=own.item_bias.copy())
        self.settings = settings._replace(positive=0.0, negative=0.0, bias=0.0)
        self.moved = np.zeros(len(own.features), int)
        self._fold()

    def at_run(self, anew: bool) -> None:
        """Before every run: fold anew where it is time, or where items are to be ordered anew."""
        if anew or self.steps >= steps_between(len(self.items), self.full.n_negatives):
            self.pass_on()
            self._fold()

    def _fold(self) -> None:
        for i in self.items:
            self.tables.items[i], self.tables.item_bias[i] = item_side(
                self.own, i, row(self.rows, i)
            )
        self.start = (self.tables.items.copy(), self.tables.item_bias.copy())
        self.squares = self.accumulators.items.copy() if self.accumulators else np.zeros(0)
        count, self.steps = len(self.tables.items), 0
        self.slope, self.steepness, self.chosen, self.others = np.zeros((4, count))

    def note(self, choice: Choice) -> None:
        """Sum up what a step moves its items by, before it does."""
        strength = choice.weight * choice.warp_weight
        found = item_slopes(self.tables, choice, self.settings)
        for n, (i, (slope, way)) in enumerate(zip(choice.items, found)):
            self.slope[i] += strength * slope
            self.steepness[i] += abs(strength * slope) * (way @ way)
            self.chosen[i] += n == 0
            self.others[i] += (n > 0) / (len(choice.items) - 1)

    def pass_on(self) -> None:
        """Items are their own again, moved and shrunk; attributes learn from what moved them."""
        meets = 0.0 if self.full.temperature else 1.0  # cosines have no terms within an item
        sums: dict[int, Sums] = {}
        for i in map(int, np.flatnonzero(self.chosen + self.others)):
            rate, square = self.rate * self.full.item_rate, 0.0
            if self.accumulators:
                rate /= math.sqrt(self.accumulators.items[i])
                square = self.accumulators.items[i] - self.squares[i]
            side, pull = self.start[0][i], meets * self.slope[i]
            moved = self.tables.items[i] - side
            if rate > 0:
                for f, x in zip(*row(self.rows, i)):
                    own = sums.setdefault(int(f), Sums())
                    own.way += x * (moved / rate + pull * (side - x * self.own.features[f]))
                    own.bias += x * self.slope[i]
                    own.steepness += x * x * self.steepness[i]
                    own.due += self.chosen[i] + self.others[i]
                    own.square += x * x * square
                    self.moved[f] += 1 + int(self.chosen[i])
            inner = rate * pull * (side - self.own.items[i])
            self._shrink_item(i, rate)
            self.own.items[i] += moved + inner
            self.own.item_bias[i] += self.tables.item_bias[i] - self.start[1][i]
        for f, own in sums.items():
            self._move(f, own)

    def _shrink_item(self, i: int, rate: float) -> None:
        full, chosen, others = self.full, self.chosen[i], self.others[i]
        scale = full.l2_scale.items[i] if full.l2_scale else 1.0
        lost = rate * scale * (full.positive * chosen + full.negative * others)
        lost_bias = rate * full.has_bias * full.bias * (chosen + others)
        self.own.items[i] *= max(1 - lost, 0.0)
        self.own.item_bias[i] *= max(1 - lost_bias, 0.0)

    def _move(self, f: int, sums: Sums) -> None:
        """One step of an attribute along its summed gradient.

        Taken one after the other, the steps would each have seen the ones before and become
        shorter; so the sum is divided by one more than what its steps would take off each other.
        """
        rate = self.rate * self.full.feature_rate * self.shares[f]
        if self.accumulators:
            self.accumulators.features[f] += sums.square
            rate /= math.sqrt(self.accumulators.features[f])
        l2 = self.full.features[f] * min(sums.due, self.steps)
        step = rate / (1 + rate * (sums.steepness + l2))
        self.own.features[f] += step * (sums.way - l2 * self.own.features[f])
        if self.full.has_bias:
            self.own.feature_bias[f] += step * (sums.bias - l2 * self.own.feature_bias[f])


class Sums:
    """What is passed on to an attribute: the sums of its items', times their values of it."""

    way: np.ndarray | float = 0.0
    bias = steepness = due = square = 0.0


def begin(problem: Problem, parameters: Parameters, settings: Settings) -> ReferenceTraining:
    """Training that starts from the given parameters."""
    return ReferenceTraining(strata.with_unchosen(problem), parameters, settings)


class ReferenceTraining:
    """Training under way, all of it by the problem's own numbers.

    settled: the settings with the regularisation of fields as it stands in this epoch. pairs: how
    many columns of the tables are vectors of pairs.
    """

    def __init__(self, problem: Problem, parameters: Parameters, settings: Settings):
        self.problem, self.settings, self.settled = problem, settings, settings
        self.events = strata.by_user(problem, numbered=True)
        self.tables = Parameters(*(np.array(table, np.float64) for table in parameters))
        self.pairs = pair_columns(self.tables.users.shape[1], problem.triples)
        self.accumulators: Accumulators | None = None
        if settings.optimizer == "adagrad":
            self.accumulators = first_accumulators(self.tables, settings, np.float64)
        self.partition: strata.Partition | None = None
        self.partitioned = 0  # in which epoch
        self.feature_rates = {
            "query": query_rates(problem.query_groups, problem.contexts, problem.user_rows),
            "features": item_rates(problem.item_groups, problem.item_rows),
        }

    def epoch(self, number: int, rate: float) -> float:
        """One epoch (counted from 1) at a learning rate; the mean loss of its steps."""
        blocks = self.settings.blocks
        if self.partition is None or (number - 1) % self.settings.partition_every == 0:
            self._partition(number)
        self.settled = self._settled(number)
        losses: list[float] = []
        for turn in range(blocks):
            copies, accumulators, lent = [], [], self._lend_items()
            moves: list[tuple[np.ndarray, np.ndarray]] = []
            for t in range(blocks):
                cell = self.cell(t, (t + turn) % blocks)
                own, own_accumulators = _own_copy(self.tables), _own_copy(self.accumulators)
                losses += self._run(cell, number, rate, own, own_accumulators, moves)
                copies.append(own)
                accumulators.append(own_accumulators)
            _merge(self.tables, copies, moves)
            self._take_back(lent)
            if self.accumulators:
                _merge(self.accumulators, accumulators, moves)
        self._centre()
        return float(np.mean(losses)) if losses else 0.0

    def _partition(self, number: int) -> None:
        settings, self.partitioned = self.settings, number
        self.partition = strata.partition(self.events, settings.blocks, settings.seed, number)

    def cell(self, user_block: int, item_block: int) -> Cell:
        """A cell of the partition at hand."""
        assert self.partition is not None
        plan = (self.problem, self.settings, self.events, self.partition)
        return Cell(*plan, user_block, item_block)

    def learn_pairs(self, pairs: Pairs, rate: float) -> float:
        """A BPR step on each pair, in their order, after an epoch at that rate; the mean loss."""
        settings = self.settled._replace(loss="bpr", optimizer="sgd", l2_scale=None)
        losses = []
        for user, better, worse, situation, weight in zip(*pairs):
            items = (int(better), int(worse))
            choice = choice_of(self.problem, int(user), items, int(situation), float(weight))
            losses.append(loss(self.tables, choice, settings))
            take_step(self.tables, choice, settings, rate, self.feature_rates)
        self._centre()
        return float(np.mean(losses)) if losses else 0.0

    def _lend_items(self) -> np.ndarray:
        """Give histories the items' vectors, where they share these; a copy of what they had."""
        lent = self.tables.items[:, : self.pairs].copy()
        if self.problem.history is not None and self.problem.history.shared:
            own = self.tables.query[:, : self.pairs]
            lend(own, borrowed(self.problem.history, len(lent)), lent)
        return lent

    def _take_back(self, lent: np.ndarray) -> None:
        if self.problem.history is not None and self.problem.history.shared:
            rows = borrowed(self.problem.history, len(lent))
            own = self.tables.query[:, : self.pairs]
            self.tables.items[:, : self.pairs] += returned(own, rows, lent)

    def largest(self) -> float:
        """The largest number of all tables. NaN counts."""
        tables = (*self.tables[:3], self.tables.query, self.tables.features)
        return float(np.max([np.abs(table).max() for table in tables if table.size]))

    def snapshot(self) -> Parameters:
        """The parameters as they are now."""
        self._lend_items()
        return Parameters(*(table.astype(np.float32) for table in self.tables))

    def state(self) -> dict[str, np.ndarray]:
        """What further epochs depend on; the tables too, since parameters are shorter numbers."""
        found = {f"table_{name}": table.copy() for name, table in self.tables._asdict().items()}
        sums = self.accumulators._asdict() if self.accumulators else {}
        found |= {f"sum_{name}": np.array(rows) for name, rows in sums.items()}
        return found | {"partitioned": np.array(self.partitioned)}

    def resume(self, state: dict[str, np.ndarray]) -> None:
        """Go on as after the epoch of that state."""
        self.tables = Parameters(*(state[f"table_{name}"].copy() for name in self.tables._fields))
        if self.accumulators:
            sums: Any = {n: state[f"sum_{n}"].copy() for n in self.accumulators._fields}
            self.accumulators = Accumulators(**sums)
        if state["partitioned"]:
            self._partition(int(state["partitioned"]))

    def close(self) -> None:
        """There is nothing to let go of."""

    def _run(
        self, cell: Cell, epoch: int, rate: float, own: Parameters, accumulators: Any, moves: list
    ) -> list[float]:
        """The losses of a cell's steps, which change its own tables; how often each row moved."""
        moved = (np.zeros(len(own.query)), np.zeros(len(own.features)))
        moves.append(moved)
        if folds(self.problem, self.settings):
            rates = (rate, self.feature_rates["features"])
            folding = Folding(cell, own, self.settled, rates, accumulators)
            return self._run_folded(folding, epoch, accumulators, moved)
        losses, triples = [], self.problem.triples
        for choice in choices(cell, epoch, own):
            losses.append(choice.warp_weight * loss(own, choice, self.settled, triples))
            if len(choice.items) == 1:  # WARP found nothing to mend
                continue
            take_step(own, choice, self.settled, rate, self.feature_rates, accumulators, triples)
            moved[0][choice.query[0]] += 1
            moved[1][np.unique(np.concatenate([side[0] for side in choice.sides]))] += 1
        return losses

    def _run_folded(
        self, folding: Folding, epoch: int, accumulators: Any, moved: tuple
    ) -> list[float]:
        """The same where items are folded with their attributes."""
        losses, tables, settings = [], folding.tables, folding.settings
        for choice in choices(folding.cell, epoch, tables, folding.at_run):
            folding.steps += 1
            losses.append(choice.warp_weight * loss(tables, choice, settings))
            if len(choice.items) == 1:
                continue
            folding.note(choice)
            take_step(tables, choice, settings, folding.rate, self.feature_rates, accumulators)
            moved[0][choice.query[0]] += 1
        folding.pass_on()
        moved[1][:] = folding.moved
        return losses

    def _settled(self, number: int) -> Settings:
        """The settings with the regularisation of adaptive fields settled for an epoch."""
        own, tables, problem = self.settings, self.tables, self.problem
        return settled_l2(own, tables.query, tables.features, problem, number)

    def _centre(self) -> None:
        if self.problem.has_query_features:
            centre(self.tables.query[:, : self.pairs], self.problem.query_groups)


def _own_copy(tables: Any) -> Any:
    """Parameters or accumulators (or None) with copies of the shared tables, for one cell."""
    if tables is None:
        return None
    shared = {"query", "features", "feature_bias"} & set(tables._fields)
    return tables._replace(**{name: getattr(tables, name).copy() for name in shared})


def _merge(tables: Any, copies: list, moves: list[tuple]) -> None:
    """Shared rows become the mean of the cells' copies, weighted by how often each moved them.

    tables, copies: Parameters, or the accumulators of their rows.
    """
    for names, side in ((("query",), 0), (("features", "feature_bias"), 1)):
        times = np.stack([moved[side] for moved in moves])
        touched = times.any(axis=0)
        share = times[:, touched] / times[:, touched].sum(axis=0)
        for name in set(names) & set(tables._fields):
            stack = np.stack([getattr(copy, name)[touched] for copy in copies])
            weight = share.reshape(share.shape + (1,) * (stack.ndim - 2))
            getattr(tables, name)[touched] = (weight * stack).sum(axis=0)
