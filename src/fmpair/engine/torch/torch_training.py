"""Training on minibatches: the epochs, and the step of one minibatch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch.nn.functional import softplus

from fmpair.arrays import tally
from fmpair.engine.contract import Pairs, Parameters, Problem, Settings
from fmpair.engine.strata.field_regularisation import centre
from fmpair.engine.torch.cuda import Replay, plan_of
from fmpair.engine.torch.events import Batch, Events
from fmpair.engine.torch.losses import Negatives, loss_of, scores
from fmpair.engine.torch.optimizer import Decay, met_of, optimizer_of
from fmpair.engine.torch.sides import (
    Sides,
    Tables,
    item_vectors,
    lend_items,
    query_vectors,
    sides_of,
    unit,
)
from fmpair.engine.torch.softmax import softmax_slopes
from fmpair.errors import MachineError, OptionError, named
from fmpair.rng import stream

MOST_EVENTS = 16_384  # of a minibatch; half as many where every event has a query of its own
# Of very many events minibatches are larger, as long as an epoch has so many.
MOST_OF_MANY, MANY_STEPS = 131_072, 128
STEPS = 32  # of an epoch, at least: few events are learned from in small minibatches
SMALL = 10_000_000  # multiplications of a step on the CPU that one thread does sooner
MET_POWER = 0.65
LONGEST = 32.0  # multiples of the rate that a user goes at once, at most
RUN = 16  # events of one query that a minibatch takes together


def begin(problem: Problem, parameters: Parameters, settings: Settings) -> TorchTraining:
    """Training that starts from the given parameters."""
    if settings.optimizer == "sgd":
        raise OptionError(
            f"{named('optimizer', 'sgd')} takes single steps; minibatches take adam or adagrad"
        )
    return TorchTraining(problem, parameters, settings)


class TorchTraining:
    """Training under way. tables: `Parameters` of tensors, by the problem's numbers."""

    def __init__(self, problem: Problem, parameters: Parameters, settings: Settings):
        device = torch.device(settings.device)
        self.problem, self.settings, self.device = problem, settings, device
        learned = int(np.count_nonzero(~problem.known))
        run = RUN if settings.all_items and problem.history is None else 1
        self.size = _size(learned, run)
        plan = plan_of(problem, parameters, settings, self.size, device)
        self.rows_at_once = plan.rows_at_once
        self.tables: Tables = Parameters(
            *(torch.from_numpy(np.array(table, np.float32)).to(device) for table in parameters)
        )
        home = torch.device("cpu") if plan.beside else device
        self.events = Events(problem, settings.positives, run, home, device)
        speed = _speeds(settings, self._user_speed(problem, learned))
        for name in speed:
            getattr(self.tables, name).requires_grad_(name != "users")
        self.moves_users = "users" in speed
        self.moves_items = bool(speed.keys() & {"items", "features", "item_bias"})
        self.sides = sides_of(problem, parameters.users.shape[1], device)
        self.draws = torch.Generator(device)
        self.decay, self.negatives = Decay(problem, settings, device), self._negatives()
        self.optimizer = optimizer_of(settings.optimizer, self.tables, speed)
        undrawn = torch.from_numpy(
            ~problem.drawn & (np.bincount(problem.item, minlength=problem.items) == 0)
        )
        self.undrawn = undrawn.to(device) if bool(undrawn.any()) else None
        self.total, self.number = torch.zeros((), device=device), 1
        self.strength: dict[str, torch.Tensor] = {}
        self.replay = Replay(self._learn, self.draws, device)
        self.replay.able &= settings.negative_sampler != "adaptive" and _even(self.sides)
        self.replay.able &= plan.whole or settings.all_items
        self.work = self.size * problem.items * parameters.users.shape[1]

    def _user_speed(self, problem: Problem, learned: int) -> float:
        """A multiple of the rate for users.

        One who has several events in a row is met less often for that, and takes longer steps, by
        a power of how many: so much less has been seen of squared slopes. The longer ago, the
        longer Adam's steps are; in one go they must not be too long.
        """
        together, users = self.events.together, np.count_nonzero(tally(problem.user, problem.users))
        rows = max(learned / together, 1.0)
        between = max(learned / self.size * int(users) / rows, 1.0)  # steps from one to the next
        return float(min(together**MET_POWER, LONGEST / between**0.5))

    def _negatives(self) -> Negatives | None:
        if self.settings.all_items:
            return None
        return Negatives(self.problem, self.settings, self.draws)

    def epoch(self, number: int, rate: float) -> float:
        """One epoch (counted from 1) at a learning rate; the mean loss of its events.

        One that is interrupted leaves everything learned as it was before.
        """
        before = [table.detach().clone() for table in self.tables]
        try:
            with limited_threads(self.device, self.settings.threads, self.work):
                return self._epoch(number, rate)
        except (KeyboardInterrupt, torch.OutOfMemoryError) as stop:
            for table, old in zip(self.tables, before):
                table.data.copy_(old)
            if isinstance(stop, KeyboardInterrupt):
                raise
            raise MachineError(
                f"the memory of {self.device.type} ran out in epoch {number}: lower "
                f"{named('factors')}, or let nothing else run there"
            ) from None

    def _epoch(self, number: int, rate: float) -> float:
        seed = self.settings.seed
        order = torch.Generator(self.events.home).manual_seed(_seed(seed, number, 0))
        self.draws.manual_seed(_seed(seed, number, 1))
        self._begin_epoch(number, rate)
        events, steps = 0, 0
        while events == 0 or steps < STEPS:  # of a handful of events an epoch is several passes
            for batch in self.events.batches(self.size, order):
                learn = self.replay if len(batch.user) <= self.rows_at_once else self._learn
                learn(batch)
                events, steps = events + batch.size, steps + 1
            if not events:
                return 0.0
        self._centre()
        return float(self.total) / events

    def _begin_epoch(self, number: int, rate: float) -> None:
        """Settle what holds for an epoch, in its place: recorded steps read it there."""
        self.total.zero_()
        if self.negatives is not None:
            self.negatives.steps = 0
        self.optimizer.set_rate(rate)
        self.number, found = number, self.decay.tables(self.tables, number)
        if not self.strength:
            self.strength = found
        for name, rows in found.items():
            self.strength[name].copy_(rows)

    def _learn(self, batch: Batch) -> None:
        """One minibatch: its slopes, what regularises, the step."""
        for table in self.tables:
            table.grad = None
        own = self._users(batch.user)
        loss, learned = self._step(batch, own)
        self.total += loss
        self._finish(own, batch.user, batch.chosen.start.diff().float(), learned)

    def _users(self, user: torch.Tensor) -> torch.Tensor:
        """The rows of users, [rows, columns]; their slopes are kept apart from the table."""
        return self.tables.users[user].requires_grad_(self.moves_users)

    def _step(self, batch: Batch, own: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | int]:
        """(the loss of a minibatch, how many events had something to learn).

        own: the rows of its users. Slopes are left in them and in the tables.
        """
        told = (batch.user, batch.situation, batch.event)
        q = query_vectors(self.sides, self.tables, own, *told)
        vectors, constants = self._sides()
        q = unit(q) / self.settings.temperature if self.settings.temperature else self._dropped(q)
        chosen = batch.chosen
        if self.negatives is not None:
            told = (batch.user, chosen.item, chosen.weight)
            loss, learned = loss_of(self.settings, q, (vectors, constants), told, self.negatives)
            loss.backward()
            return loss.detach(), learned
        if self.undrawn is not None:
            constants = constants.masked_fill(self.undrawn, -torch.inf)
        given = (q.detach(), vectors.detach(), constants.detach())
        slopes = softmax_slopes(*given, chosen, self.rows_at_once, self.moves_items)
        pairs = zip((q, vectors, constants), slopes[1:])
        roots = [(root, slope) for root, slope in pairs if root.requires_grad and slope is not None]
        torch.autograd.backward([root for root, _ in roots], [slope for _, slope in roots])
        return slopes.loss, batch.size

    def _sides(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(vectors, constants) of all items as scores take them."""
        vectors, constants = item_vectors(self.sides, self.tables)
        if self.settings.temperature:
            return unit(vectors), torch.zeros_like(constants)
        return vectors, constants

    def _dropped(self, q: torch.Tensor) -> torch.Tensor:
        """The queries without the factors that dropout leaves out."""
        share = self.settings.dropout
        if not share:
            return q
        kept = torch.empty_like(q).bernoulli_(1 - share, generator=self.draws)
        return q * kept.div_(1 - share)

    def _finish(
        self,
        own: torch.Tensor,
        user: torch.Tensor,
        events: torch.Tensor,
        learned: torch.Tensor | int,
    ) -> None:
        """Regularise what moves, and take the step.

        own: [rows, columns] of these users, of whom each row has so many events; learned: how many
        of all are regularised for.
        """
        for name, table in self.tables._asdict().items():
            if table.grad is not None and name in self.strength:
                table.grad.addcmul_(self.strength[name] * learned, table.detach())
        self.optimizer.step()
        if own.grad is not None:
            met = met_of(user, own.grad, events)
            held = self.strength["users"]
            held = held[user] if len(held) > 1 else held
            share = met.events * (learned / events.sum())
            slope = met.slope + held * share[:, None] * own.detach()
            self.optimizer.step_users(met._replace(slope=slope))

    def learn_pairs(self, pairs: Pairs, rate: float) -> float:
        """A BPR step on minibatches of the pairs, in their order; the mean loss."""
        if not len(pairs.user):
            return 0.0
        self._begin_epoch(self.number, rate)
        moved = [torch.from_numpy(np.array(column)).to(self.device) for column in pairs]
        size = max(min(len(pairs.user) // STEPS, MOST_EVENTS), 1)
        for user, better, worse, situation, weight in zip(*(m.split(size) for m in moved)):
            user, situation = user.long(), situation.long()
            own = self._users(user)
            q = query_vectors(self.sides, self.tables, own, user, situation, None)
            both = torch.stack([better, worse], 1).long()
            f = scores(q, item_vectors(self.sides, self.tables), both)
            loss = (weight * softplus(f[:, 1] - f[:, 0])).sum()
            loss.backward()
            self.total += loss.detach()
            self._finish(own, user, torch.ones_like(weight), len(user))
        self._centre()
        return float(self.total) / len(pairs.user)

    def largest(self) -> float:
        """The largest number of all tables. NaN counts."""
        found = [table.detach().abs().max() for table in self.tables if table.numel()]
        return float(torch.stack(found).max())

    def snapshot(self) -> Parameters:
        """The parameters as they are now: arrays of main memory."""
        arrays = Parameters(*(table.detach().cpu().numpy().copy() for table in self.tables))
        lend_items(arrays.query, arrays.items, self.problem.history, self.problem.triples)
        return arrays

    def state(self) -> dict[str, np.ndarray]:
        """What further epochs depend on beside the parameters: the optimizer, rows of scores."""
        found = {name: own.cpu().numpy().copy() for name, own in self.optimizer.state().items()}
        return found | {"rows": np.array(self.events.rows)}

    def resume(self, state: dict[str, np.ndarray]) -> None:
        """Go on as after the epoch of that state; begun with the parameters of that epoch."""
        for name, own in self.optimizer.state().items():
            own.copy_(torch.from_numpy(state[name]))
        self.events.rows = int(state["rows"])

    def close(self) -> None:
        """Only the tables are kept."""
        for name in ("optimizer", "events", "negatives", "decay", "replay", "strength"):
            if hasattr(self, name):
                delattr(self, name)

    def _centre(self) -> None:
        groups = self.problem.query_groups
        if self.problem.has_query_features and groups.centred.any():
            table = self.tables.query.detach().cpu().numpy()
            centre(table[:, : self.sides.pairs], groups)
            self.tables.query.data.copy_(torch.from_numpy(table))


@contextmanager
def limited_threads(device: torch.device, threads: int, work: int) -> Iterator[None]:
    """On the CPU, so many threads for the products of a step; one where these are small."""
    if device.type != "cpu":
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads if work > SMALL else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _size(learned: int, run: int) -> int:
    """Events of a minibatch, of so many in all; run: those of one query that stand together."""
    most = MOST_EVENTS if run > 1 else MOST_EVENTS // 2
    return min(max(learned // STEPS, 1), max(most, min(learned // MANY_STEPS, MOST_OF_MANY)))


def _even(sides: Sides) -> bool:
    """Whether the sizes of all that a step makes are known beforehand."""
    rows = [sides.user_rows, sides.contexts]
    return all(one is None or one.width for one in rows)


def _speeds(settings: Settings, of_users: float) -> dict[str, float]:
    """By table that moves, a multiple of the rate."""
    of_bias = float(settings.has_bias)
    speeds = {
        "users": settings.user_rate * of_users,
        "items": settings.item_rate,
        "item_bias": settings.item_rate * of_bias,
        "query": settings.feature_rate,
        "features": settings.feature_rate,
        "feature_bias": settings.feature_rate * of_bias,
    }
    return {name: speed for name, speed in speeds.items() if speed}


def _seed(seed: int, epoch: int, use: int) -> int:
    return stream(seed, 11, epoch, use) >> 1
