"""Dropout of the query: in every step other factors are left out, and the rest count for more."""

from __future__ import annotations

import numpy as np

from fmpair.engine.strata.dropout import PARTS, PER_DRAW
from fmpair.jit import kernel
from fmpair.rng import STEP, scramble


@kernel
def drop_anew(state, dropped, kept, scratch):
    """Drop other factors of scratch[0] than before; the new state of the random stream.

    dropped: so many of PARTS. kept: float32 [factors], 0 or what a factor counts for from now on.
    """
    if dropped == 0:
        return state
    worth = np.float32(PARTS / (PARTS - dropped))
    draw = np.uint64(0)
    for f in range(len(kept)):
        if f % PER_DRAW == 0:
            state += STEP
            draw = scramble(state)
        kept[f] = worth if np.int64(draw & np.uint64(PARTS - 1)) >= dropped else np.float32(0)
        draw = draw >> np.uint64(8)
    drop(scratch, kept, dropped)
    return state


@kernel
def drop(scratch, kept, dropped):
    """scratch[0] without what is dropped in this step."""
    if dropped > 0:
        for f in range(len(kept)):
            scratch[0, f] *= kept[f]
