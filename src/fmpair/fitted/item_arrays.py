"""Arrays of the item side of a model, which follow from its tables and the items' attributes."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import Meeting, Parameters, Triples
from fmpair.engine.item_side import item_sides
from fmpair.features import FeatureSpace, Pairing, Side
from fmpair.features.field import duration
from fmpair.features.history_fields import PastItems, history_weights
from fmpair.features.space import ITEM, USER, meeting_fields
from fmpair.fitted.large_catalogue import ItemIndex

if TYPE_CHECKING:
    from fmpair.ranking.compressed import Packed


def triples_of(space: FeatureSpace) -> Triples | None:
    """Return the feature pairs of third-order terms; None for a second-order model."""
    if space.pairing is None:
        return None
    query = _meeting(USER, space.query, space.pairing)
    return Triples(space.pairing.factors, query, _meeting(ITEM, space.item, space.pairing))


def _meeting(id_name: str, side: Side, pairing: Pairing) -> Meeting:
    group, meets = meeting_fields(id_name, side.encoders, pairing)
    return Meeting(int(group[0]), group[1:][side.field_numbers()], meets)


class ItemSide:
    """Arrays that follow from the learned tables and the item attributes, each computed once.

    Copies of a model share it as long as they have the same space, parameters and item_rows.
    """

    def __init__(self, space: FeatureSpace, parameters: Parameters, item_rows: Rows):
        self.space, self.parameters, self.item_rows = space, parameters, item_rows
        self.index: ItemIndex | None = None  # for approximate lists, if one is in use
        self.threads: int | None = None  # of the answer to a question, None for all cores
        self._sides: tuple[np.ndarray, np.ndarray] | None = None  # computed when first needed
        self._packed: Packed | None = None  # computed when first needed

    def fits(self, space: FeatureSpace, parameters: Parameters, item_rows: Rows) -> bool:
        """Return whether it was made of these objects."""
        same = self.space is space and self.parameters is parameters
        return same and self.item_rows is item_rows

    def changed(
        self, space: FeatureSpace, parameters: Parameters, item_rows: Rows, items: np.ndarray
    ) -> ItemSide:
        """Return the item side of a model in which few items differ; compute only their arrays.

        items: those whose attributes changed. Rows of the item tables may be changed or new; the
        feature tables must be the same.
        """
        from fmpair.ranking.compressed import repacked

        side = ItemSide(space, parameters, item_rows)
        side.threads = self.threads
        if self._sides is None and self.index is None:
            return side
        new, few = parameters, self._differing(parameters, items)
        part = item_sides(new.items[few], new.item_bias[few], item_rows.take(few), new.features,
                          new.feature_bias, side.triples)  # fmt: skip
        side._sides = (
            _with_rows(self.vectors, part[0], few),
            _with_rows(self.constants, part[1], few),
        )
        if self._packed is not None or self.index is not None:
            packed = repacked(self.packed, side.scored, side.constants, few)
            side._packed = packed
            side.index = None if self.index is None else replace(self.index, packed=packed)
        return side

    def _differing(self, new: Parameters, items: np.ndarray) -> np.ndarray:
        """Return the given items, and those whose rows of the tables are new or changed."""
        old, known = self.parameters, len(self.parameters.items)
        differs = np.zeros(len(new.items), bool)
        differs[known:] = True
        if new.items is not old.items:
            differs[:known] = (new.items[:known] != old.items).any(axis=1)
        if new.item_bias is not old.item_bias:
            differs[:known] |= new.item_bias[:known] != old.item_bias
        differs[items] = True
        return np.flatnonzero(differs)

    def use_index(self, index: ItemIndex) -> None:
        """Use an index for lists from now on."""
        self.index, self._packed = index, index.packed

    @cached_property
    def triples(self) -> Triples | None:
        return triples_of(self.space)

    @property
    def vectors(self) -> np.ndarray:
        return self._computed_sides()[0]

    @property
    def constants(self) -> np.ndarray:
        return self._computed_sides()[1]

    def _computed_sides(self) -> tuple[np.ndarray, np.ndarray]:
        if self._sides is None:
            p, rows = self.parameters, self.item_rows
            sides = p.items, p.item_bias  # not copied without need: workers share them
            if len(rows.column) or self.triples is not None:
                sides = item_sides(*sides, rows, p.features, p.feature_bias, self.triples)
            self._sides = sides
        return self._sides

    @cached_property
    def norms(self) -> np.ndarray:
        return np.linalg.norm(self.vectors, axis=1)

    @cached_property
    def matrix(self) -> np.ndarray:
        from fmpair.ranking.top import item_matrix

        return item_matrix(self.vectors, self.constants)

    @property
    def packed(self) -> Packed:
        """Vectors and constants for lists of a large catalogue."""
        from fmpair.ranking.compressed import pack

        if self._packed is None:
            self._packed = pack(self.scored, self.constants)
        return self._packed

    @cached_property
    def scored(self) -> np.ndarray:
        """float32 [items, length], C-contiguous: the vectors that exact scores are made of."""
        return np.ascontiguousarray(self.vectors, np.float32)

    @cached_property
    def past(self) -> PastItems | None:
        """How earlier items become query features, None if the model does not use them."""
        history = self.space.history
        if history is None:
            return None
        within = None if history.within is None else duration(history.within)
        features = self.space.earlier_items(self.item_rows)
        return PastItems(history_weights(history), features, within)


def _with_rows(table: np.ndarray, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return a copy of a table with rows replaced; every number after its last must be given."""
    size = max(len(table), int(numbers.max(initial=-1)) + 1)
    out = np.empty((size, *table.shape[1:]), table.dtype)
    out[: len(table)] = table
    out[numbers] = rows
    return out
