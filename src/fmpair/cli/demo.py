"""`demo`: fmpair at work on generated data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.ask import explanation
from fmpair.cli.show import busy, show, table

if TYPE_CHECKING:
    from fmpair.data.synthetic import World
    from fmpair.evaluation.demonstration import Trial
    from fmpair.models.recommender import Recommender

DAY, NIGHT = "morning", "night"
TERMS = 5


def demo(
    seed: Annotated[int, typer.Option(help="Another seed makes another world.")] = 0,
) -> None:
    """See what context is worth, on generated data, in under a minute."""
    from fmpair.data import synthetic
    from fmpair.evaluation import demonstration

    with busy("making a world of users who choose in context"):
        world = synthetic.make(seed=seed)
        train, test = demonstration.parts(world, seed)
    show(_introduction(world, len(train), len(test)))
    with busy("training and ranking (the first time also compiling)"):
        results = list(demonstration.trials(world, seed))
    show(_comparison(results, demonstration.METRICS))
    model = next(trial.model for trial in reversed(results) if trial.model)
    user = world.data.users.ids[demonstration.busiest_user(train)]
    show(*_lists(world, model, user), _next_steps(user))


def _introduction(world: World, train: int, test: int) -> str:
    data = world.data
    return (
        f"{len(data.users):,} generated users chose among {len(data.items):,} books, albums, "
        f"films and games, {len(data):,} times.\n"
        "What they choose depends on their taste, the time of day and the place.\n"
        f"Each model learns from {train:,} choices and ranks all items for the other {test:,}.\n"
    )


def _comparison(results: list[Trial], metrics: tuple[str, ...]) -> Any:
    """The results, with each one's share of what is possible."""
    ceiling = results[-1].values[-1]
    rows = [
        (t.name, *(f"{value:.3f}" for value in t.values), f"{t.values[-1] / ceiling:.0%}")
        for t in results
    ]
    names = [name.replace("recall", "Recall").replace("ndcg", "NDCG") for name in metrics]
    made = table(("", *names, "of the ceiling"), rows)
    for column in made.columns[1:]:
        column.justify = "right"
    return made


def _lists(world: World, model: Recommender, user: str) -> list[Any]:
    """One user's best five by day and by night, and why the first is first."""
    best = {
        daytime: model.recommend(user, 5, context={"daytime": daytime}, exclude_seen=False)["item"]
        for daytime in (DAY, NIGHT)
    }
    rows = [
        (str(rank), _item(world, day), _item(world, night))
        for rank, (day, night) in enumerate(zip(best[DAY], best[NIGHT]), 1)
    ]
    first = best[DAY][0]
    terms = model.explain(user, first, {"daytime": DAY})
    return [
        table(("", "in the morning", "at night"), rows, f" The best five for {user}"),
        explanation(terms, TERMS, f" Why {first} comes first in the morning"),
    ]


def _item(world: World, item: str) -> str:
    """An item with what is known of it."""
    known = world.data.item_table.row(world.data.items.number(item), named=True)
    length = f"{known['length']} min" if known["length"] else None
    return f"{item}  {', '.join(filter(None, (known['genre'], length)))}"


def _next_steps(user: str) -> str:
    return (
        "Next, with the same data as files, or with your own table of clicks:\n\n"
        "  fmpair data make clicks --format parquet\n"
        "  fmpair fit clicks/events.parquet -o model.fmpair \\\n"
        "    --users clicks/users.parquet --items clicks/items.parquet\n"
        f"  fmpair recommend model.fmpair --user {user} --context daytime={NIGHT} -n 5\n"
    )
