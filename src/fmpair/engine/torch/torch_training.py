"""Minibatch training: the epochs and the step of one minibatch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.nn.functional import softplus

from fmpair.arrays import tally
from fmpair.engine.contract import Pairs, Parameters, Problem, Settings
from fmpair.engine.strata.field_regularisation import centre
from fmpair.engine.torch.cuda import Replay, plan_of
from fmpair.engine.torch.events import EpochEvents, Minibatch, learned_events
from fmpair.engine.torch.losses import Negatives, loss_of, sample_of, scores
from fmpair.engine.torch.optimizer import Decay, optimizer_of, user_gradients
from fmpair.engine.torch.sides import (
    Sides,
    Tables,
    item_vectors,
    query_vectors,
    share_item_vectors,
    sides_of,
    unit,
)
from fmpair.engine.torch.softmax import Sample, sample_slopes, softmax_slopes
from fmpair.errors import MachineError, OptionError, named
from fmpair.rng import stream

MAX_EVENTS = 16_384  # of a minibatch; half as many if every event has its own query
# Minibatches of very large data grow up to MAX_OF_MANY while an epoch has MANY_STEPS steps.
MAX_OF_MANY, MANY_STEPS = 131_072, 128
STEPS = 32  # least steps of an epoch: small data is split into small minibatches
# With softmax over all items and no history, the values of a context need more steps to be learned:
# up to STEPS_OF_CONTEXTS, unless minibatches would have less than MIN_OF_CONTEXTS events.
STEPS_OF_CONTEXTS, MIN_OF_CONTEXTS = 128, 64
SMALL = 10_000_000  # multiplications of a step up to which one CPU thread is fastest
TOGETHER_POWER = 0.65
LONGEST = 32.0  # longest step of a user, in multiples of the rate
RUN = 16  # events of the same query that share a row of a minibatch


def begin(problem: Problem, parameters: Parameters, settings: Settings) -> TorchTraining:
    """Start training from the given parameters."""
    if settings.optimizer == "sgd":
        raise OptionError(
            f"{named('optimizer', 'sgd')} does not train on minibatches: use adam or adagrad"
        )
    return TorchTraining(problem, parameters, settings)


class TorchTraining:
    """Training in progress. tables: `Parameters` of tensors, by the problem's numbers."""

    def __init__(self, problem: Problem, parameters: Parameters, settings: Settings):
        device = torch.device(settings.device)
        self.problem, self.settings, self.device = problem, settings, device
        some = learned_events(problem)
        learned = len(problem.user) if some is None else len(some)
        run = RUN if settings.all_items and problem.history is None else 1
        in_context = run > 1 and len(problem.contexts.column) > 0
        self.size = _size(learned, run, in_context)
        plan = plan_of(problem, parameters, settings, self.size, device)
        self.rows_at_once = plan.rows_at_once
        self.tables: Tables = Parameters(
            *(torch.tensor(table, dtype=torch.float32, device=device) for table in parameters)
        )
        self.events = EpochEvents(
            problem, settings.positives, run, device, plan.in_main_memory, plan.block
        )
        speed = _speeds(settings, self._user_speed(problem, learned))
        for name in speed:
            getattr(self.tables, name).requires_grad_(name != "users")
        self.moves_users = "users" in speed
        self.moves_items = bool(speed.keys() & {"items", "features", "item_bias"})
        self.sides = sides_of(problem, parameters.users.shape[1], device)
        self.draws = torch.Generator(device)
        self.decay = Decay(problem, settings, device)
        self.negatives = None if settings.all_items else Negatives(problem, settings, self.draws)
        self.optimizer = optimizer_of(settings.optimizer, self.tables, speed)
        undrawn = torch.from_numpy(~problem.drawn & (tally(problem.item, problem.items) == 0))
        self.undrawn = undrawn.to(device) if bool(undrawn.any()) else None
        self.total, self.number = torch.zeros((), device=device), 1
        self.strength: dict[str, torch.Tensor] = {}
        self.replay = Replay(self._learn, self.draws, device)
        self.replay.able &= settings.negative_sampler != "adaptive" and _even(self.sides)
        self.replay.able &= plan.whole or settings.all_items
        self.work = self.size * problem.items * parameters.users.shape[1]

    def _user_speed(self, problem: Problem, learned: int) -> float:
        """Return the multiple of the rate for users.

        Users whose events share rows are updated less often, so their steps are longer, by a power
        of the events per row. Adam's steps also grow with the steps between updates, so the
        multiple is bounded.
        """
        together, users = self.events.together, np.count_nonzero(tally(problem.user, problem.users))
        rows = max(learned / together, 1.0)
        between = max(learned / self.size * int(users) / rows, 1.0)  # steps between two updates
        return float(min(together**TOGETHER_POWER, LONGEST / between**0.5))

    def epoch(self, number: int, rate: float) -> float:
        """Run epoch `number` (from 1) at a learning rate and return the mean loss of its events.

        An interrupted epoch leaves all parameters as they were before.
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
                f"{self.device.type} ran out of memory in epoch {number}: lower "
                f"{named('factors')}, or stop other programs on it"
            ) from None

    def _epoch(self, number: int, rate: float) -> float:
        seed = self.settings.seed
        order = torch.Generator(self.device).manual_seed(_seed(seed, number, 0))
        self.draws.manual_seed(_seed(seed, number, 1))
        self._begin_epoch(number, rate)
        events, steps = 0, 0
        while events == 0 or steps < STEPS:  # very small data is passed over several times
            for batch in self.events.batches(self.size, order):
                learn = self.replay if len(batch.user) <= self.rows_at_once else self._learn
                learn(batch)
                events, steps = events + batch.size, steps + 1
            if not events:
                return 0.0
        self._centre()
        return float(self.total) / events

    def _begin_epoch(self, number: int, rate: float) -> None:
        """Set the rate and regularisation of an epoch in place, where recorded steps read them."""
        self.total.zero_()
        if self.negatives is not None:
            self.negatives.steps = 0
        self.optimizer.set_rate(rate)
        self.number, strength = number, self.decay.tables(self.tables, number)
        if not self.strength:
            self.strength = strength
        for name, rows in strength.items():
            self.strength[name].copy_(rows)

    def _learn(self, batch: Minibatch) -> None:
        """Update the tables by one minibatch."""
        for table in self.tables:
            table.grad = None
        user_rows = self._users(batch.user)
        loss, learned = self._step(batch, user_rows)
        self.total += loss
        self._finish(user_rows, batch.user, batch.chosen.start.diff().float(), learned)

    def _users(self, user: torch.Tensor) -> torch.Tensor:
        """Return the rows of users [rows, columns], which collect gradients of their own."""
        return self.tables.users[user].requires_grad_(self.moves_users)

    def _step(
        self, batch: Minibatch, user_rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | int]:
        """Return the loss of a minibatch and the number of events with a valid negative.

        user_rows: the rows of its users. Gradients are stored in them and in the tables.
        """
        query = (batch.user, batch.situation, batch.event)
        q = query_vectors(self.sides, self.tables, user_rows, *query)
        vectors, constants = self._sides()
        q = unit(q) / self.settings.temperature if self.settings.temperature else self._dropped(q)
        chosen = batch.chosen
        if self.negatives is not None and self.settings.loss == "softmax":
            sample = sample_of(self.settings, (vectors, constants), chosen.item, self.negatives)
            fixed = Sample(*(part.detach() for part in sample))
            loss, *gradients = sample_slopes(q.detach(), fixed, chosen.weight, self.rows_at_once)
            roots = (sample.own, sample.own_constants, sample.vectors, sample.constants)
            _backward((q, *roots), gradients)
            return loss, batch.size
        if self.negatives is not None:
            events = (batch.user, chosen.item, chosen.weight)
            total, learned = loss_of(self.settings, q, (vectors, constants), events, self.negatives)
            total.backward()
            return total.detach(), learned
        if self.undrawn is not None:
            constants = constants.masked_fill(self.undrawn, -torch.inf)
        inputs = (q.detach(), vectors.detach(), constants.detach())
        slopes = softmax_slopes(*inputs, chosen, self.rows_at_once, self.moves_items)
        _backward((q, vectors, constants), slopes[1:])
        return slopes.loss, batch.size

    def _sides(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return vectors and constants of all items for scoring."""
        vectors, constants = item_vectors(self.sides, self.tables)
        if self.settings.temperature:
            return unit(vectors), torch.zeros_like(constants)
        return vectors, constants

    def _dropped(self, q: torch.Tensor) -> torch.Tensor:
        """Apply dropout to the queries."""
        share = self.settings.dropout
        if not share:
            return q
        kept = torch.empty_like(q).bernoulli_(1 - share, generator=self.draws)
        return q * kept.div_(1 - share)

    def _finish(
        self,
        user_rows: torch.Tensor,
        user: torch.Tensor,
        events: torch.Tensor,
        learned: torch.Tensor | int,
    ) -> None:
        """Add regularisation to the gradients and update the tables.

        user_rows: [rows, columns] of the users; events: [rows], of each row; learned: the number of
        events to regularise for.
        """
        for name, table in self.tables._asdict().items():
            if table.grad is not None and name in self.strength:
                table.grad.addcmul_(self.strength[name] * learned, table.detach())
        self.optimizer.step()
        if user_rows.grad is not None:
            users = user_gradients(user, user_rows.grad, events)
            strength = self.strength["users"]
            strength = strength[user] if len(strength) > 1 else strength
            share = users.events * (learned / events.sum())
            slope = users.slope + strength * share[:, None] * user_rows.detach()
            self.optimizer.step_users(users._replace(slope=slope))

    def learn_pairs(self, pairs: Pairs, rate: float) -> float:
        """Take BPR steps on minibatches of the pairs in their order; return the mean loss."""
        if not len(pairs.user):
            return 0.0
        self._begin_epoch(self.number, rate)
        moved = [torch.from_numpy(np.array(column)).to(self.device) for column in pairs]
        size = max(min(len(pairs.user) // STEPS, MAX_EVENTS), 1)
        for user, better, worse, situation, weight in zip(*(m.split(size) for m in moved)):
            user, situation = user.long(), situation.long()
            user_rows = self._users(user)
            q = query_vectors(self.sides, self.tables, user_rows, user, situation, None)
            both = torch.stack([better, worse], 1).long()
            f = scores(q, item_vectors(self.sides, self.tables), both)
            loss = (weight * softplus(f[:, 1] - f[:, 0])).sum()
            loss.backward()
            self.total += loss.detach()
            self._finish(user_rows, user, torch.ones_like(weight), len(user))
        self._centre()
        return float(self.total) / len(pairs.user)

    def largest(self) -> float:
        """Return the largest absolute value of all tables, or NaN if there is one."""
        largest = [table.detach().abs().max() for table in self.tables if table.numel()]
        return float(torch.stack(largest).max())

    def snapshot(self) -> Parameters:
        """Return a copy of the parameters in main memory."""
        arrays = Parameters(*(table.detach().to("cpu", copy=True).numpy() for table in self.tables))
        share_item_vectors(arrays.query, arrays.items, self.problem.history, self.problem.triples)
        return arrays

    def state(self) -> dict[str, np.ndarray]:
        """Return what further epochs need besides the parameters: optimizer state, batch rows."""
        state = {
            name: tensor.cpu().numpy().copy() for name, tensor in self.optimizer.state().items()
        }
        return state | {"rows": np.array(self.events.rows)}

    def resume(self, state: dict[str, np.ndarray]) -> None:
        """Continue after the epoch of that state, whose parameters training was started with."""
        for name, tensor in self.optimizer.state().items():
            tensor.copy_(torch.from_numpy(state[name]))
        self.events.rows = int(state["rows"])

    def close(self) -> None:
        """Free everything but the tables."""
        for name in ("optimizer", "events", "negatives", "decay", "replay", "strength"):
            if hasattr(self, name):
                delattr(self, name)

    def _centre(self) -> None:
        groups = self.problem.query_groups
        if self.problem.has_query_features and groups.centred.any():
            table = self.tables.query.detach().cpu().numpy()
            centre(table[:, : self.sides.pairs], groups)
            self.tables.query.data.copy_(torch.from_numpy(table))


class _Slopes(torch.autograd.Function):
    """A number whose gradients are given. `autograd.backward` with slopes loads sympy: a second."""

    @staticmethod
    def forward(ctx: Any, slopes: Sequence[torch.Tensor | None], *roots: torch.Tensor) -> Any:
        ctx.slopes = slopes
        return roots[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return None, *ctx.slopes


def _backward(roots: Sequence[torch.Tensor], slopes: Sequence[torch.Tensor | None]) -> None:
    """Pass slopes of roots on to the tables that are trained."""
    if any(root.requires_grad for root in roots):
        _Slopes.apply(slopes, *roots).backward()


@contextmanager
def limited_threads(device: torch.device, threads: int, work: int) -> Iterator[None]:
    """Limit PyTorch's CPU threads; to one for small steps."""
    if device.type != "cpu":
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads if work > SMALL else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _size(learned: int, run: int, in_context: bool) -> int:
    """Return the events of a minibatch, for `learned` events in all; run: see `EpochEvents`."""
    most, steps = MAX_EVENTS if run > 1 else MAX_EVENTS // 2, STEPS
    if in_context:
        steps = min(max(learned // MIN_OF_CONTEXTS, STEPS), STEPS_OF_CONTEXTS)
    return min(max(learned // steps, 1), max(most, min(learned // MANY_STEPS, MAX_OF_MANY)))


def _even(sides: Sides) -> bool:
    """Return whether all shapes of a step are known in advance."""
    return all(
        rows is None or rows.width or not len(rows.column)
        for rows in (sides.user_rows, sides.contexts)
    )


def _speeds(settings: Settings, of_users: float) -> dict[str, float]:
    """Return the multiple of the rate for each table that is trained."""
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
