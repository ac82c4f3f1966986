"""Items that stand for their whole sides while a cell is learned from: see `engine.strata.folding`.

Between two times that they are folded, the steps are those on items without attributes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fmpair.arrays import empty_rows
from fmpair.engine.contract import Parameters, Settings
from fmpair.engine.reference.draws import Cell, row
from fmpair.engine.reference.objective import Choice, item_side, item_slopes
from fmpair.engine.strata.accumulators import Accumulators
from fmpair.engine.strata.folding import steps_between


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
