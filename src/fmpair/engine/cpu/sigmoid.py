"""The logistic function of the kernels, from a table."""

from __future__ import annotations

import numpy as np

from fmpair.jit import inline

TINY = 1e-300  # added before a logarithm is taken
# sigmoid(-g) between -16 and 16, 64 entries a unit; between entries a straight line (error 3e-6)
REACH = np.float32(16.0)
ENTRIES = np.float32(64.0)
LAST_ENTRY = 2048
SIGMOID = (1 / (1 + np.exp(np.linspace(-16, 16 + 1 / 64, 2050)))).astype(np.float32)


@inline
def sigmoid_of_minus(g, table):
    """1 / (1 + exp(g)), from the table; whatever g is, no place outside the table is read."""
    x = (min(max(g, -REACH), REACH) + REACH) * ENTRIES
    n = min(max(np.int64(x), 0), LAST_ENTRY)
    left = table[n]
    return left + (x - np.float32(n)) * (table[n + 1] - left)
