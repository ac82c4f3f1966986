"""How events come into the cells of a partition: counted, then placed, by shares of user blocks.

Threads may do the shares side by side: each writes what is of its own blocks only.
"""

from __future__ import annotations

import numpy as np

from fmpair.jit import kernel


@kernel
def count_events(events, users, share, item_block, counts):
    """counts[0]: runs, counts[1]: events of each cell of a share of the user blocks.

    events: see `partition.Events`; users: (who stands where, where blocks begin).
    counts: int64 [2, B, B].
    """
    start, items, _, _, _ = events
    user_at, user_edge = users
    last = np.full(len(user_edge) - 1, -1, np.int64)
    for block in range(share[0], share[1]):
        runs, found = counts[0, block], counts[1, block]
        for column in range(len(found)):
            runs[column], found[column] = 0, 0
        for p in range(user_edge[block], user_edge[block + 1]):
            for e in range(start[user_at[p]], start[user_at[p] + 1]):
                column = item_block[items[e]]
                found[column] += 1
                runs[column] += last[column] != p
                last[column] = p


@kernel
def begin_cells(counts, share, at, cell, run_start):
    """Where each cell of a share begins, from the counts of all: its first run and event.

    at: int64 [2, B, B], filled with both; cell, run_start: as in a partition. The end of the share
    is written too, though it is where the next one begins.
    """
    blocks, runs, events = counts.shape[1], 0, 0
    for row in range(share[1]):
        for column in range(blocks):
            if row >= share[0]:
                cell[row * blocks + column] = runs
                at[0, row, column], at[1, row, column] = runs, events
            runs += counts[0, row, column]
            events += counts[1, row, column]
    cell[share[1] * blocks], run_start[runs] = runs, events


@kernel
def place_events(events, users, share, item_block, position, at, run_user, run_start, item, event):
    """Write the events of a share of the user blocks into their cells, a run for each user.

    position: of each item; at: from `begin_cells`, moved on.
    """
    start, items, numbers, _, _ = events
    user_at, user_edge = users
    last = np.full(len(user_edge) - 1, -1, np.int64)
    for block in range(share[0], share[1]):
        run, slot = at[0, block], at[1, block]
        for p in range(user_edge[block], user_edge[block + 1]):
            for e in range(start[user_at[p]], start[user_at[p] + 1]):
                column = item_block[items[e]]
                place = slot[column]
                slot[column] = place + 1
                if last[column] != p:
                    last[column] = p
                    run_user[run[column]], run_start[run[column]] = p, place
                    run[column] += 1
                item[place] = position[items[e]]
                if len(event):
                    event[place] = numbers[e]
