"""`demo`: an experiment on generated data, its report, and one user's lists."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.ask import explanation
from fmpair.cli.running import carried_out, comparison, conclude
from fmpair.cli.show import busy, note_no_figures, show, table

if TYPE_CHECKING:
    from fmpair.data.synthetic import World
    from fmpair.experiment.results import Results
    from fmpair.fitted.recommender import Recommender

FILE = Path(__file__).with_name("demo.yaml")
DAY, NIGHT = "morning", "night"
TERMS = 5


def demo(
    folder: Annotated[
        Path, typer.Option("--folder", "-f", metavar="DIR", help="Where results go.")
    ] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Another seed generates other data.")] = 0,
) -> None:
    """See how much context helps: an experiment on generated data, and its report."""
    from fmpair.config.read import read
    from fmpair.data import synthetic
    from fmpair.evaluation.demonstration import busiest_user
    from fmpair.models.saved import load

    choices = [f"data.generate.seed={seed}", f"output.folder={folder.absolute()}"]
    experiment = read(FILE, choices)
    note_no_figures()
    with busy("generating users who choose in context"):
        world = synthetic.make(**(experiment.data.generate or {}))
    show(_introduction(world))
    results = carried_out(experiment)
    model: Any = load(folder / "model.fmpair")
    user = world.data.users.ids[busiest_user(world.data)]
    show(comparison(results), _ceiling(world, results), *_lists(world, model, user))
    looked = world.data.items.take(world.data.item[-2:]).to_list()
    show(_visitor(world, model, looked), _next_steps(user, looked, folder))
    conclude(results)


def _introduction(world: World) -> str:
    data = world.data
    return (
        f"{len(data.users):,} generated users chose among {len(data.items):,} books, albums, "
        f"films and games, {len(data):,} times.\n"
        "What they choose depends on their taste, the time of day and the place. Four times, each "
        "model\nlearns from three quarters of the choices and ranks all items for the others.\n"
    )


def _ceiling(world: World, results: Results) -> str:
    """How far the best model is from the best possible."""
    from fmpair.data.split import load
    from fmpair.evaluation.demonstration import ceiling

    experiment = results.experiment
    [(label, protocol)] = experiment.protocols.items()
    name = experiment.metrics[0]
    splits = load(Path(experiment.output.folder) / "splits.parquet")
    possible = ceiling(world, splits, protocol, [name])[name]
    found = results.values.filter(protocol=label, metric=name)
    share = max(fmean(part["value"]) for _, part in found.group_by("model")) / possible
    return (
        f"The oracle that generated the data reaches {possible:.4f}: the best model has "
        f"{share:.0%} of that.\n"
    )


def _lists(world: World, model: Recommender, user: str) -> list[Any]:
    """One user's top five by day and by night, and why the first is first."""
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
        table(("", "in the morning", "at night"), rows, f" The top five for {user}"),
        explanation(terms, TERMS, f" Why {first} comes first in the morning"),
    ]


def _visitor(world: World, model: Recommender, looked: list[str]) -> Any:
    """The top five for somebody without an id, known by what they looked at."""
    best = model.recommend(history=looked, n=5)["item"]
    rows = [(str(rank), _item(world, item)) for rank, item in enumerate(best, 1)]
    return table(("", "next"), rows, f" For a visitor who came from {' and '.join(looked)}")


def _item(world: World, item: str) -> str:
    """An item with what is known of it."""
    known = world.data.item_table.row(world.data.items.number(item), named=True)
    length = f"{known['length']} min" if known["length"] else None
    return f"{item}  {', '.join(filter(None, (known['genre'], length)))}"


def _next_steps(user: str, looked: list[str], folder: Path) -> str:
    return (
        "Next, use the best model, and try your own events:\n\n"
        f"  fmpair recommend {folder} --user {user} --context daytime={NIGHT} -n 5\n"
        f"  fmpair recommend {folder} --history {','.join(looked)} -n 5\n"
        "  fmpair init clicks.csv -o experiment.yaml\n"
        "  fmpair run experiment.yaml\n\n"
        "The report of this experiment:\n"
    )
