"""The input of an engine: data as arrays, initial parameters, settings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import Rows, distinct_pairs, tally
from fmpair.checks import check_negatives
from fmpair.cluster import RAY
from fmpair.data import Dataset
from fmpair.data.event_types import impression_rows
from fmpair.data.parts import user_timelines
from fmpair.data.times import Timelines, strictly_before, timelines
from fmpair.device import CPU, CUDA, TORCH, resolve_device
from fmpair.engine.contract import LISTED, History, Problem, Settings
from fmpair.errors import DataError, OptionError, named, unknown
from fmpair.features import FeatureSpace, Field, situations
from fmpair.features.calendar import days_since
from fmpair.features.field import duration
from fmpair.features.history_fields import history_weights
from fmpair.fitted.history import Recent, latest, moments_after, most_recent, remembers
from fmpair.fitted.item_arrays import triples_of
from fmpair.threads import all_threads
from fmpair.training.defaults import (
    RepeatStats,
    Setting,
    dropout_of,
    factors_of,
    field_l2_of,
    l2_of,
    logq_correction_of,
    n_negatives_of,
    own_share_of,
    pace_of,
    repeat_stats,
    sampled,
    triple_field_l2_of,
)
from fmpair.training.options import FMPairOptions, event_weights
from fmpair.training.regularisation import (
    item_groups,
    l2_scale_of,
    penalties,
    predictive_lists,
    query_groups,
    triple_l2,
)
from fmpair.training.repeats import gains

# The torch engine scores all items up to MAX_ITEMS; above, the events share SHARED negatives.
MAX_ITEMS, SHARED = 1_000_000, 8192
MAX_BLOCK = 2048  # items of a block; with more, sampled negatives are faster
# Epochs between two partitions of the strata plan. With sampled lists of negatives, training
# improves if more items occur together, and epochs are long. With pairs it does not improve.
PARTITION_EVERY, PARTITION_PAIRS_EVERY = 1, 5


# Histories.


class Past(NamedTuple):
    """The events of each user in order of time, after `older` events that were known before.

    ordered: the same events in the order of histories. If histories end with sessions, the events
    of a user are grouped by session, and the session of the last event is the last group. begin:
    int64 [events], where the session of each event begins in `ordered`; empty without sessions.
    """

    lines: Timelines
    older: int
    ordered: Timelines
    begin: np.ndarray


def past_of(space: FeatureSpace, data: Dataset, recent: Recent | None = None) -> Past | None:
    """Return the time lines of the data's users; None if the space uses no history.

    recent: the latest events known to a fitted model; they come before events without times.
    """
    if not remembers(space):
        return None
    if recent is None:
        lines, older = user_timelines(data), 0
    else:
        older = len(recent.item)
        user = np.concatenate([recent.owner.astype(np.int32), data.user])
        item = np.concatenate([recent.item, data.item])
        moment = np.concatenate([recent.moment, moments_after(recent, data)])
        lines = timelines(user, item, len(data.users), moment)
    return Past(lines, older, *_by_session(space.history, data, lines, older))


def history_of(
    space: FeatureSpace, past: Past | None, item_rows: Rows, events: int
) -> History | None:
    """Return the histories of the first events; events after those of the data have none."""
    field = space.history
    if field is None or past is None:
        return None
    lines = past.ordered
    until = strictly_before(lines)
    if len(past.begin):  # the session before may end at the same time
        until = np.maximum(until, past.begin).astype(np.int32)
    since = _since(field, past, until)
    mine = lines.positions[past.older :]

    def by_event(entries: np.ndarray) -> np.ndarray:
        out = np.zeros(events, np.int32)
        out[: len(mine)] = entries[mine]
        return out

    return History(
        lines.start,
        lines.item,
        by_event(until),
        by_event(since) if len(since) else since,
        history_weights(field),
        space.earlier_items(item_rows),
        field.shared,
    )


def recent_of(space: FeatureSpace, past: Past | None) -> Recent | None:
    """Return each user's latest events, for the fitted model; of the last session only."""
    if past is None:
        return None
    last = most_recent(space)
    if not len(past.begin):
        return latest(past.lines, last)
    start = past.ordered.start
    return latest(
        past.ordered, last, np.maximum(past.begin[np.maximum(start[1:] - 1, 0)], start[:-1])
    )


def _since(field: Field, past: Past, until: np.ndarray) -> np.ndarray:
    """Return the first history entry of each event: int32 [entries]; empty if not limited."""
    if field.within is None:
        return past.begin.astype(np.int32)
    lines, first = past.ordered, past.begin
    if not len(first):
        first = np.repeat(lines.start[:-1], np.diff(lines.start))
    since, going = until.astype(np.int64), np.ones(len(until), bool)
    for back in range(1, field.last + 1):  # histories are not longer
        at = np.maximum(until - back, 0)
        going &= until - back >= first
        going &= lines.moment[at] >= lines.moment - duration(field.within)
        since = np.where(going, until - back, since)
    return since.astype(np.int32)


def _by_session(
    field: Field | None, data: Dataset, lines: Timelines, older: int
) -> tuple[Timelines, np.ndarray]:
    """Return `ordered` and `begin` of `Past`; older events are a session of their own."""
    if field is None or field.per is None:
        return lines, np.zeros(0, np.int64)
    if field.per not in data.columns.columns:
        raise DataError(unknown("column for sessions", field.per, data.columns.columns))
    number = data.columns[field.per].cast(pl.String).fill_null("").rank("dense").to_numpy()
    session = np.concatenate([np.zeros(older), number]).astype(np.int64)[lines.event]
    user = np.repeat(np.arange(lines.users), np.diff(lines.start))
    position = np.arange(len(user))
    same = np.unique(user << 32 | session, return_inverse=True)[1]
    end = np.zeros(len(user), np.int64)
    np.maximum.at(end, same, position)  # the last place of each session of a user
    order = np.lexsort((position, end[same]))
    opens = np.diff(end[same][order], prepend=-1) != 0
    parts = (lines.item[order], lines.moment[order], lines.event[order])
    return Timelines(lines.start, *parts), np.maximum.accumulate(np.where(opens, position, 0))


# The problem.


def check_trainable(data: Dataset) -> None:
    """Raise DataError if there is no pair of a chosen and an unchosen item."""
    items = np.count_nonzero(tally(data.item, len(data.items)))
    if items < 2:
        raise DataError("the events have only one item: ranking needs at least two")
    users = np.count_nonzero(tally(data.user, len(data.users)))
    if len(data) >= users * items and (np.diff(data.seen.start)[data.user] >= items).all():
        raise DataError(
            f"every user has an event with all {items} items, so there are no negatives: filter "
            "the events first, for example to ratings above the user's mean"
        )


def problem_of(
    options: FMPairOptions,
    space: FeatureSpace,
    data: Dataset,
    past: Past | None = None,
    given: tuple[Rows, np.ndarray] | None = None,
) -> Problem:
    """Return the data as arrays. past: the time lines, if histories are used.

    given: the distinct contexts and the number of each event's, if the data have no columns.
    """
    if options.impression_share and not len(data.impressions):
        raise OptionError(
            f"{named('impression_share')} is {options.impression_share:g}, but the data has no "
            f"impressions: pass a table of users and items as {named('impressions', ...)}, or use "
            "the filter dislikes"
        )
    since = days_since(past.lines)[past.older :] if past is not None and space.since else None
    contexts, situation = given or situations(space, data, since)
    drawn = tally(data.item, len(space.items)) > 0
    user_rows = space.user_rows(data.user_table, len(space.users))
    item_rows = space.item_rows(data.item_table, len(space.items))
    full_steps = None
    if options.places_new:
        full_steps = predictive_lists(space.item, item_rows, data.user, data.item)
    return Problem(
        data.user,
        data.item,
        event_weights(options.weights, data),
        np.broadcast_to(False, len(data)),
        drawn,
        situation,
        contexts,
        user_rows,
        item_rows,
        query_groups(space.query, user_rows, data.user, contexts, situation, options.sharing),
        item_groups(space.item, item_rows, data.item, options.sharing, full_steps),
        impression_rows(data) if options.impression_share else None,
        history_of(space, past, item_rows, len(data)),
        triples_of(space),
    )


def settings_of(
    options: FMPairOptions, space: FeatureSpace, problem: Problem, seen: Rows | None = None
) -> Settings:
    """Return the engine's settings: the options, completed by defaults that depend on the data.

    seen: the items of each user with counts, None for those of the problem's events.
    """
    items = int(problem.drawn.sum())
    repeats, n_negatives = repeats_of(space, problem, seen), n_negatives_of(options, items)
    events = len(problem.user) if seen is None else int(seen.value.sum())
    own_share = own_share_of(options, repeats)
    in_blocks = own_share == 0 and _in_blocks(options, problem, items)
    factors, exact = factors_of(options, events), _is_exact(options, items)
    length = factors + (2 * problem.triples.factors if problem.triples else 0)
    check_negatives(n_negatives, length, all_threads())
    candidates = n_negatives if options.loss in LISTED else 1
    setting = Setting(exact, in_blocks, problem.history is not None, events / items, factors)
    of_ids, of_fields = l2_of(options, repeats, setting), field_l2_of(options, n_negatives)
    of_triples = triple_field_l2_of(options, of_fields, of_ids)
    settings = Settings(
        seed=options.seed,
        positives=options.positives,
        blocks=_blocks(options, problem, items, 0 if in_blocks else candidates),
        partition_every=PARTITION_EVERY if candidates > 1 else PARTITION_PAIRS_EVERY,
        threads=options.threads or all_threads(),
        learn_bias=options.item_bias,
        loss=options.loss,
        n_negatives=candidates,
        temperature=options.temperature or 0.0,
        negative_sampler=options.negative_sampler,
        popularity_power=options.popularity_power,
        rank_share=options.rank_share,
        own_share=own_share,
        impression_share=options.impression_share,
        logq_correction=logq_correction_of(options, setting),
        dropout=dropout_of(options, setting),
        l2_scale=l2_scale_of(options.regularization_power, problem, seen),
        triples=triple_l2(options.regularization, space, problem, of_ids, of_triples),
        **penalties(options.regularization, space, problem, of_ids, of_fields, options.places_new),
    )
    settings = _with_engine(settings, options, items)
    return _over_blocks(settings, pace_of(repeats)) if in_blocks else settings


def repeats_of(space: FeatureSpace, problem: Problem, seen: Rows | None) -> RepeatStats:
    """Return how users repeat items; seen: items of each user with counts, if known.

    Where earlier items gain, several events in a row of one item count once. The history explains
    them, so the item is no favourite. An update knows the order of the latest events only.
    """
    if not gains(space) or problem.history is None:
        return repeat_stats(problem, seen)
    start, item = problem.history.start, problem.history.item
    user = np.repeat(np.arange(problem.users, dtype=np.int32), np.diff(start))
    some = sampled(user)
    user, item = user[some], item[some]
    first = np.append(True, (item[1:] != item[:-1]) | (user[1:] != user[:-1]))[: len(item)]
    found = repeat_stats(problem, distinct_pairs(user[first], item[first], problem.users))
    return found if seen is None else found._replace(breadth=repeat_stats(problem, seen).breadth)


def _over_blocks(settings: Settings, pace: float) -> Settings:
    """Return the settings with softmax over the items of a block."""
    return settings._replace(all_items=True, user_rate=pace, item_rate=pace, feature_rate=pace)


def _with_engine(settings: Settings, options: FMPairOptions, items: int) -> Settings:
    """Return the settings with the engine of the device and its own settings."""
    device = resolve_device(options.device)
    settings = settings._replace(optimizer=_optimizer(options.optimizer, device))
    if device == CPU:
        return settings if options.on is None else settings._replace(engine=RAY, on=options.on)
    settings = settings._replace(engine=TORCH, device=CUDA if device == CUDA else CPU)
    if _is_exact(options, items):
        return settings._replace(all_items=True)
    shared = options.loss == "softmax" and options.n_negatives is None
    return settings._replace(n_negatives=SHARED) if shared else settings


def _is_exact(options: FMPairOptions, items: int) -> bool:
    """Return whether softmax is over all items, not over negatives."""
    free = options.loss == "softmax" and options.n_negatives is None
    return free and items <= MAX_ITEMS and resolve_device(options.device) != CPU


def _in_blocks(options: FMPairOptions, problem: Problem, items: int) -> bool:
    """Return whether softmax is over all items of a block of the strata plan.

    It is by default, unless there are features other than histories, or blocks have too many items.
    Contexts are learned better from the steeper slopes of sampled negatives.
    """
    usual = options.n_negatives is None and options.temperature is None
    usual = usual and options.optimizer in (None, "sgd")
    sampled = options.negative_sampler != "uniform" or options.impression_share
    features = (problem.contexts, problem.user_rows, problem.item_rows)
    plain = not any(len(rows.column) for rows in features)
    on_cpu = options.loss == "softmax" and resolve_device(options.device) == CPU
    able = usual and not sampled and plain and on_cpu
    return able and 2 <= items <= MAX_BLOCK * _blocks(options, problem, items, 0)


def _optimizer(given: str | None, device: str) -> str:
    """Return the optimizer; only the torch engine supports adam, and only the CPU engine sgd."""
    if given is None:
        return "sgd" if device == CPU else "adam"
    if (given == "adam") is (device == CPU) and given != "adagrad":
        allowed = "sgd or adagrad" if device == CPU else "adam or adagrad"
        raise OptionError(
            f"{named('optimizer')} must be {allowed} with {named('device', device)}, not {given!r}"
        )
    return given


def _blocks(options: FMPairOptions, problem: Problem, items: int, candidates: int) -> int:
    """Return B of the strata plan. items: that may be drawn; candidates: of a step, 0 for all."""
    if resolve_device(options.device) != CPU:
        return 1  # the torch engine needs no plan, and kernels load slowly
    from fmpair.engine.strata import minibatches
    from fmpair.engine.strata.partition import choose_blocks  # compiles kernels

    users, events = int(np.count_nonzero(tally(problem.user, problem.users))), len(problem.user)
    features = problem.has_query_features or len(problem.item_rows.column) > 0
    shared = "histories" if problem.history is not None else "features" if features else ""
    if candidates == 0:
        usual = minibatches.choose_blocks(users, items, events, problem.history is not None)
    else:
        usual = choose_blocks(users, items, events, candidates, shared)
    blocks = options.blocks or usual
    if blocks > max(items // 2, 1):
        raise OptionError(
            f"{named('blocks')} must be at most {items // 2} for {items} items, not {blocks}"
        )
    return blocks
