"""The engine of minibatches: its slopes are those of the reference, its bits always alike."""

# ruff: noqa: E402  (what needs PyTorch is imported once it is known to be there)

import logging
from contextlib import nullcontext
from itertools import cycle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from engine.problems import (
    l2_scale_of,
    parameters_of,
    problem_of,
    settings_of,
    triple_l2_of,
    with_histories,
    with_triples,
    without_mirror,
)

from fmpair.engine.contract import Pairs
from fmpair.engine.reference.draws import choice_of, row, with_history
from fmpair.engine.reference.objective import ascent, loss
from fmpair.engine.torch import begin, cuda, sides, torch_training
from fmpair.engine.torch.events import Minibatch, permuted
from fmpair.engine.torch.optimizer import Decay, UserGradients, optimizer_of, user_gradients
from fmpair.engine.torch.softmax import Chosen, Sample, sample_slopes
from fmpair.errors import MachineError, OptionError

torch.set_num_threads(1)  # tables are tiny: more threads would only wait for each other
EXACT = {"loss": "softmax", "all_items": True, "optimizer": "adam"}
RATE = 0.1


def problem_with(parts, **changes):
    """A problem whose items may all be drawn; h: with histories."""
    problem = problem_of(parts.replace("h", ""), weights=True, **changes)
    problem = problem._replace(drawn=np.ones(problem.items, bool))
    return with_histories(problem) if "h" in parts else problem


def settings_for(parts, **changes):
    return settings_of(histories=4 if "h" in parts else 0, **changes)


def slopes_of(begun):
    """The loss and the slopes of all events at once, before any step."""
    begun.size = 10**9
    order = torch.Generator().manual_seed(0)
    (batch,) = begun.events.batches(begun.size, order)
    own = begun._users(batch.user)
    loss = float(begun._step(batch, own)[0])
    found = {name: table.grad for name, table in begun.tables._asdict().items()}
    found["users"] = torch.zeros_like(begun.tables.users).index_add(0, batch.user, own.grad)
    return loss, {name: slope.numpy() for name, slope in found.items() if slope is not None}


def choice_at(problem, event, others):
    items = (int(problem.item[event]), *others)
    user, situation = int(problem.user[event]), int(problem.situation[event])
    choice = choice_of(problem, user, items, situation, float(problem.weight[event]))
    return with_history(choice, problem, event)


def by_reference(problem, parameters, settings, others):
    """(loss, slopes by table) as the definition has them; others: by event, the candidates."""
    wide = type(parameters)(*(table.astype(np.float64) for table in parameters))
    total, found = 0.0, {n: np.zeros_like(t) for n, t in wide._asdict().items()}
    for event in range(len(problem.user)):
        choice = choice_at(problem, event, others(event))
        total += choice.weight * loss(wide, choice, settings, problem.triples)
        for (table, number), way in ascent(wide, choice, settings, problem.triples).items():
            found[table][number] -= choice.weight * way
    return total, found


def assert_slopes_alike(given, wanted):
    for name, slope in given.items():
        np.testing.assert_allclose(slope, wanted[name], atol=2e-3, rtol=2e-3, err_msg=name)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
@pytest.mark.parametrize("parts", ["", "c", "u", "a", "h", "cuah", "v", "cuahv"])
def test_softmax_over_all_items_has_the_slopes_of_the_definition(parts, temperature, monkeypatch):
    monkeypatch.setattr(sides, "MULTIPLIED_ON", ("cpu",))
    problem = problem_with(parts, events=60)
    settings = settings_for(parts, temperature=temperature, **EXACT)
    parameters = parameters_of(problem)
    total, slopes = slopes_of(begin(problem, parameters, settings))
    everything = set(range(problem.items))
    wanted_total, wanted = by_reference(
        problem, parameters, settings, lambda e: everything - {int(problem.item[e])}
    )
    assert total == pytest.approx(wanted_total, rel=1e-4)
    assert_slopes_alike(slopes, wanted)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("parts", ["", "cu", "cua", "h", "cuah"])
def test_terms_of_order_three_have_the_slopes_of_the_definition(parts, shared, apart):
    problem = problem_of(parts.replace("h", ""), events=60, weights=True)
    problem, more = problem._replace(drawn=np.ones(problem.items, bool)), 0
    if "h" in parts:  # items come again, and have features in common
        problem = with_histories(problem, shared=shared)
        more = problem.items if shared else 4
    problem = with_triples(problem, apart=apart)
    settings = settings_of(histories=more, triples=triple_l2_of(problem), **EXACT)
    parameters = parameters_of(problem)
    begun = begin(problem, parameters, settings)
    if shared:  # the reference reads what is lent
        parameters = begun.snapshot()
    total, slopes = slopes_of(begun)
    everything = set(range(problem.items))
    wanted_total, wanted = by_reference(
        problem, parameters, settings, lambda e: everything - {int(problem.item[e])}
    )
    if shared and "h" in parts:
        wanted["items"][:, :5] += wanted["query"][9:, :5]
        wanted["query"][9:, :5] = 0
    assert total == pytest.approx(wanted_total, rel=1e-4)
    assert_slopes_alike(slopes, wanted)


def test_cosines_of_order_three_are_learned():
    problem = without_mirror(with_triples(problem_with("cua")))
    settings = settings_of(triples=triple_l2_of(problem), temperature=0.5, **EXACT)
    begun = begin(problem, parameters_of(problem), settings)
    first, *_, last = [begun.epoch(number, 0.3) for number in range(1, 6)]
    assert last < first


@pytest.mark.parametrize("loss", ["bpr", "hinge", "logistic"])
@pytest.mark.parametrize("parts", ["", "cuah"])
def test_pairs_have_the_slopes_of_the_definition(parts, loss, monkeypatch):
    problem = problem_with(parts, events=60)
    settings = settings_for(parts, loss=loss, optimizer="adam")
    parameters = parameters_of(problem)
    begun = begin(problem, parameters, settings)
    other = (problem.item + 3) % problem.items

    def drawn(user, item, count, q):
        return (item[:, None] + 3) % problem.items, torch.ones((len(item), 1), dtype=torch.bool)

    monkeypatch.setattr(begun.negatives, "drawn", drawn)
    total, slopes = slopes_of(begun)
    wanted_total, wanted = by_reference(problem, parameters, settings, lambda e: (int(other[e]),))
    assert total == pytest.approx(wanted_total, rel=1e-4)
    assert_slopes_alike(slopes, wanted)


@pytest.mark.parametrize("rows", [7, 100])
def test_a_shared_sample_has_the_slopes_of_its_formula(rows):
    draw = torch.Generator().manual_seed(1)

    def tensor(*shape):
        return torch.randn(*shape, generator=draw).requires_grad_()

    q, own, own_constants, vectors, constants = (
        tensor(20, 5), tensor(20, 5), tensor(20), tensor(9, 5), tensor(9),
    )  # fmt: skip
    item, drawn = torch.arange(20) % 4, torch.tensor([1, 7, 1, 8, 2, 9, 9, 6, 5])
    weight = torch.rand(20, generator=draw)
    f = (q * own).sum(1) + own_constants
    others = (q @ vectors.T + constants).masked_fill(item[:, None] == drawn, -torch.inf)
    wanted = (weight * (torch.logsumexp(torch.cat([f[:, None], others], 1), 1) - f)).sum()
    roots = (q, own, own_constants, vectors, constants)
    slopes = torch.autograd.grad(wanted, roots)
    fixed = [root.detach() for root in roots]
    sample = Sample(item, *fixed[1:3], drawn, *fixed[3:])
    loss, *found = sample_slopes(fixed[0], sample, weight, rows)
    assert float(loss) == pytest.approx(wanted.item(), rel=1e-5)
    for one, other in zip(found, slopes):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_a_computed_permutation_has_every_number_once():
    for count in (1, 2, 97, 1000, 12_345):
        found = [permuted(torch.arange(count), count, key).tolist() for key in (0, 3)]
        assert all(sorted(places) == list(range(count)) for places in found)
        assert found[0] != found[1] or count < 3
        assert (
            permuted(torch.arange(count // 2, count), count, 3).tolist() == found[1][count // 2 :]
        )


KINDS = {name: {"loss": name, "n_negatives": 8} for name in ("bpr", "hinge", "logistic", "warp")}
KINDS["softmax over all items"] = EXACT
KINDS["softmax over shared items"] = {"loss": "softmax", "n_negatives": 8}


# An optimizer sees gradients only: each meets losses over all items and over drawn ones.
@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [*zip(KINDS, cycle(["adam", "adagrad"])), ("softmax over all items", "adagrad")],
)
def test_losses_fall_as_it_learns(kind, optimizer):
    problem = problem_of("cua", users=60, items=80, events=1000)
    settings = settings_of(**{**KINDS[kind], "optimizer": optimizer})
    begun = begin(problem, parameters_of(problem), settings)
    first, *_, last = [begun.epoch(number, 0.3) for number in range(1, 16)]
    assert last < 0.95 * first


@pytest.mark.parametrize("rows", [1, 7])
def test_chunks_of_rows_change_nothing(rows):
    problem, settings = problem_with("ca", events=60), settings_of(**EXACT)
    whole, parts = (begin(problem, parameters_of(problem), settings) for _ in range(2))
    parts.rows_at_once = rows
    total, slopes = slopes_of(whole)
    in_parts, others = slopes_of(parts)
    assert in_parts == pytest.approx(total, rel=1e-5)
    for name, slope in slopes.items():
        np.testing.assert_allclose(others[name], slope, atol=1e-4, err_msg=name)


def test_items_that_may_not_be_drawn_take_no_part():
    problem = problem_of("", events=20, items=40)
    idle = ~problem.drawn & (np.bincount(problem.item, minlength=problem.items) == 0)
    _, slopes = slopes_of(begin(problem, parameters_of(problem), settings_of(**EXACT)))
    assert idle.any()
    assert not slopes["items"][idle].any()
    assert slopes["items"][~idle].any(axis=1).all()


@pytest.mark.parametrize("positives", ["permutation", "bootstrap", "user"])
def test_an_epoch_has_as_many_events_as_there_are(positives):
    problem = problem_of("c", events=500, known=True)
    settings = settings_of(positives=positives, **EXACT)
    begun = begin(problem, parameters_of(problem), settings)
    batches = list(begun.events.batches(40, torch.Generator().manual_seed(1)))
    assert sum(batch.size for batch in batches) == (~problem.known).sum()
    for batch in batches:
        assert batch.chosen.start[-1] == batch.size
        np.testing.assert_array_equal(
            np.repeat(np.arange(len(batch.user)), np.diff(batch.chosen.start)), batch.chosen.row
        )


def test_events_of_one_query_stand_together_in_runs_and_each_is_learned_from_once():
    problem = problem_of("c", users=5, events=500)
    begun = begin(problem, parameters_of(problem), settings_of(**EXACT))
    found = []
    for batch in begun.events.batches(60, torch.Generator().manual_seed(1)):
        assert 1 <= np.diff(batch.chosen.start).max() <= torch_training.RUN
        row = batch.chosen.row
        found += zip(
            batch.user[row].tolist(), batch.situation[row].tolist(), batch.chosen.item.tolist()
        )
    assert sorted(found) == sorted(
        zip(*(a.tolist() for a in (problem.user, problem.situation, problem.item)))
    )


@pytest.mark.parametrize(
    ("parts", "events", "size"),
    [
        ("", 12_800, 400),  # 32 steps
        ("c", 12_800, 100),  # 128 steps
        ("c", 6_400, 64),  # no fewer than 64 events in a step
        ("c", 640, 20),  # unless there would be fewer than 32 steps
        ("ch", 12_800, 400),  # a history
    ],
)
def test_contexts_take_more_steps_unless_there_is_a_history(parts, events, size):
    problem = problem_with(parts, events=events)
    assert begin(problem, parameters_of(problem), settings_for(parts, **EXACT)).size == size


@pytest.mark.parametrize("parts", ["cuah", "c"])
def test_events_that_stay_in_main_memory_are_learned_from_alike(parts, monkeypatch):
    problem, settings = problem_with(parts, events=300), settings_for(parts, **EXACT)
    results = []
    monkeypatch.setattr(cuda, "BLOCK", 90)
    for size in (cuda.event_bytes(problem), 1 << 60):
        monkeypatch.setattr(cuda, "event_bytes", lambda problem, size=size: size)
        begun = begin(problem, parameters_of(problem), settings)
        begun.epoch(1, RATE)
        results.append(b"".join(table.tobytes() for table in begun.snapshot()))
    assert results[0] == results[1]


def test_what_an_event_takes_of_rows_is_what_single_steps_would():
    problem = problem_of("cua", events=300)
    scale = l2_scale_of(problem)
    settings = settings_of(l2_scale=scale, **EXACT)
    found = Decay(problem, settings, torch.device("cpu")).tables(
        begin(problem, parameters_of(problem), settings).tables, 1
    )
    np.testing.assert_allclose(found["users"][:, 0], 0.01 * scale.users, rtol=1e-5)
    item = np.bincount(problem.item, minlength=problem.items) / 300
    drawn = problem.drawn / problem.drawn.sum()
    np.testing.assert_allclose(
        found["items"][:, 0], scale.items * (0.02 * item + 0.03 * drawn), rtol=1e-5
    )
    columns, _ = row(problem.contexts, int(problem.situation[0]))
    assert (found["query"][columns] > 0).all()


def test_histories_are_held_by_how_many_events_see_them():
    problem = with_histories(problem_of("", events=200), last=2)
    settings = settings_of(histories=4, **EXACT)
    times = np.zeros(13)
    for event in range(200):
        times[np.unique(choice_at(problem, event, ()).query[0])] += 1
    found = Decay(problem, settings, torch.device("cpu")).query
    assert (found * 200 >= times - 1e-9).all()  # an item that comes twice is counted twice
    assert found[9:].max() <= 1


def test_given_pairs_are_learned_to_stand_above_one_another():
    problem = problem_of("cua", events=60)
    begun = begin(problem, parameters_of(problem), settings_of(**EXACT))
    user = np.arange(12, dtype=np.int32)
    pairs = Pairs(user, user, user + np.int32(1), user * 0, np.ones(12, np.float32))
    losses = [begun.learn_pairs(pairs, RATE) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    assert begun.learn_pairs(Pairs(*(column[:0] for column in pairs)), RATE) == 0.0


def test_an_interrupted_epoch_leaves_what_was_learned_before(monkeypatch):
    problem = problem_with("cuah", events=300)
    begun = begin(problem, parameters_of(problem), settings_for("h", **EXACT))
    begun.epoch(1, RATE)
    before, steps, take = begun.snapshot(), [], begun.optimizer.step

    def interrupted():
        take()
        steps.append(1)
        if len(steps) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(begun.optimizer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        begun.epoch(2, RATE)
    for wanted, got in zip(before, begun.snapshot()):
        np.testing.assert_array_equal(got, wanted)


def test_memory_that_runs_out_is_one_line(monkeypatch):
    begun = begin(*(p := problem_of(""), parameters_of(p)), settings_of(**EXACT))

    def no_memory(batch, own):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate\nmany lines")

    monkeypatch.setattr(begun, "_step", no_memory)
    with pytest.raises(MachineError, match="cpu ran out of memory in epoch 1: lower factors"):
        begun.epoch(1, RATE)


def test_too_little_memory_is_said_before_anything_is_taken(monkeypatch):
    problem = problem_of("")
    monkeypatch.setattr(cuda, "free_memory", lambda device: 1 << 10)
    wanted = (
        r"training on cpu needs 0.\d GB for 42 vectors of 5 factors and 15 items, but only 0.0 GB"
    )
    with pytest.raises(OptionError, match=wanted):
        begin(problem, parameters_of(problem), settings_of(**EXACT))


def test_less_memory_makes_smaller_chunks(monkeypatch, caplog):
    problem = problem_of("", items=200, events=4000)
    sizes = []
    for free in (1 << 40, 150_000):
        monkeypatch.setattr(cuda, "free_memory", lambda device, free=free: free)
        with caplog.at_level(logging.INFO, "fmpair"):
            begun = begin(problem, parameters_of(problem), settings_of(**EXACT))
        sizes.append(begun.rows_at_once)
    assert sizes[0] > sizes[1] >= cuda.MIN_ROWS
    assert "rows of scores at once" in caplog.text


def test_single_steps_are_refused():
    problem = problem_of("")
    with pytest.raises(OptionError, match="optimizer='sgd' does not train on minibatches"):
        begin(problem, parameters_of(problem), settings_of(all_items=True, loss="softmax"))


def test_a_step_is_recorded_anew_when_minibatches_grow_and_their_last_is_not_recorded(monkeypatch):
    done = []
    own = cuda.Replay(lambda batch: done.append("taken"), torch.Generator(), torch.device("cpu"))
    own.able = True

    class Graph:
        def replay(self):
            done.append("played")

    def record(batch):
        done.append("recorded")
        own.graph, own.inputs = Graph(), [tensor.clone() for tensor in cuda._tensors(batch)]

    monkeypatch.setattr(cuda, "_on_own_stream", lambda step: step())
    monkeypatch.setattr(own, "_record", record)

    def batch(rows, events):
        row, item = torch.zeros(rows, dtype=torch.long), torch.zeros(events, dtype=torch.long)
        chosen = Chosen(item, item, item.float(), torch.zeros(rows + 1), True)
        return Minibatch(row, row, row, chosen)

    for rows, events in [(4, 8)] * 5 + [(2, 3)] + [(5, 8)] * 5 + [(3, 3), (5, 8)]:
        own(batch(rows, events))
    once = ["taken"] * 3 + ["recorded"] + ["played"]
    assert done == [*once, "taken", *once, "taken", "played"]


def test_a_replay_waits_for_the_recording_which_resets_the_random_numbers(monkeypatch):
    done = []

    class Graph:
        def register_generator_state(self, generator):
            done.append("registered")

        def replay(self):
            done.append("played")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, capture_error_mode: nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: done.append("waited"))
    own = cuda.Replay(lambda batch: done.append("taken"), torch.Generator(), torch.device("cpu"))
    none = torch.zeros(1, dtype=torch.long)
    own._record(Minibatch(none, none, none, Chosen(none, none, none.float(), none, True)))
    assert done == ["registered", "taken", "waited", "played"]


def test_slopes_are_summed_by_user():
    user = torch.tensor([3, 1, 3, 0])
    users = user_gradients(
        user, torch.tensor([[1.0], [10.0], [100.0], [0.0]]), torch.tensor([1.0, 2, 4, 0])
    )
    assert users.slope[:, 0].tolist() == [101, 10, 101, 0]
    assert users.events.tolist() == [5, 2, 5, 0]


@pytest.mark.parametrize("optimizer", ["adam", "adagrad"])
def test_only_users_of_the_minibatch_move(optimizer):
    tables = parameters_of(problem_of(""))._replace(users=np.ones((4, 2), np.float32))
    tables = type(tables)(*map(torch.from_numpy, tables))
    own = optimizer_of(optimizer, tables, {"users": 1.0})
    own.set_rate(0.1)
    for events in (torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0])):
        own.step()
        own.step_users(
            UserGradients(torch.tensor([2, 1]), torch.tensor([[1.0, -1.0], [0.0, 0.0]]), events)
        )
    assert tables.users[[0, 1, 3]].tolist() == [[1, 1]] * 3
    assert tables.users[2, 0] < 1 < tables.users[2, 1]


def test_a_user_seen_after_a_long_time_takes_a_longer_step():
    """Adam decays squared gradients in the steps between."""
    moves = []
    for idle in (0, 20):
        tables = parameters_of(problem_of(""))._replace(users=np.zeros((1, 1), np.float32))
        tables = type(tables)(*map(torch.from_numpy, tables))
        own = optimizer_of("adam", tables, {"users": 1.0})
        own.set_rate(0.1)
        for _ in range(idle + 1):
            own.step()
        own.step_users(UserGradients(torch.tensor([0]), torch.ones(1, 1), torch.ones(1)))
        moves.append(-float(tables.users))
    assert moves[1] == pytest.approx(moves[0] * 21**0.5, rel=0.02)
