"""Attributes that learn from sums: where items are folded with theirs, and for how long.

In a cell of lists every item of the block stands for its whole side: one vector and one constant.
Steps move these as if there were no attributes. Now and then what was summed up by item is passed
on to the attributes, each of which moves once, and the items are folded anew. The more moves of an
item are summed up, the less its attributes cost, and the older are the vectors that steps see.
"""

from __future__ import annotations

from fmpair.engine.contract import Problem, Settings
from fmpair.jit import inline

# How many lists an item is in, on average, between two times that it is folded. 12 and 24 rank
# alike; twelve attributes an item cost 1.2 to 1.5 and .7 times what ids alone do: docs/LOG.md.
TIMES = 20


def folds(problem: Problem, settings: Settings) -> bool:
    """Whether items are folded with their attributes, else these move in every step.

    Pairs have a kernel of their own. Terms of order three depend on two features of an item at a
    time. Attributes learn from how far their items have gone, and frozen ones go nowhere.
    """
    still = settings.item_rate == 0 and settings.feature_rate > 0
    others = settings.in_plain_pairs or problem.triples is not None or still
    return len(problem.item_rows.column) > 0 and not others


@inline
def steps_between(items, candidates):
    """After how many steps a block of so many items is folded anew."""
    return max(TIMES * items // (candidates + 1), 1)
