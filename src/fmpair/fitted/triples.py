"""The terms of order three that a feature space has, as arrays."""

from __future__ import annotations

from fmpair.engine.contract import Meeting, Triples
from fmpair.features import FeatureSpace, Pairing, Side
from fmpair.features.pairing import ITEM, USER, meeting_fields


def triples_of(space: FeatureSpace) -> Triples | None:
    """Which features meet in threes; None for a machine of order two."""
    if space.pairing is None:
        return None
    query = _meeting(USER, space.query, space.pairing)
    return Triples(space.pairing.factors, query, _meeting(ITEM, space.item, space.pairing))


def _meeting(own: str, side: Side, pairing: Pairing) -> Meeting:
    group, meets = meeting_fields(own, side.encoders, pairing)
    return Meeting(int(group[0]), group[1:][side.field_numbers()], meets)
