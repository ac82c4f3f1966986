"""Data: events with numbered ids; read, describe, filter, split, generate and write them.

The modules `filters`, `splits`, `synthetic`, `public_sets` and `split_leakage` are public too:
``splits.holdout(data)``, ``public_sets.load("ml-100k")``, ``split_leakage.report(train, test)``.
"""

from fmpair.data import filters, public_sets, split_leakage, splits, synthetic
from fmpair.data.columns.context_leakage import ContextLeakage, context_leakage
from fmpair.data.columns.inference import Decision, Decisions, decide
from fmpair.data.dataset import Columns, Dataset, as_dataset, columns_of
from fmpair.data.describe import describe, figures, fingerprint
from fmpair.data.event_types import EventWeights
from fmpair.data.filters import (
    above,
    above_mean,
    all_positive,
    at_least,
    core,
    dislikes,
    distinct,
    faded,
    merge_duplicates,
    sampled,
    thinned,
)
from fmpair.data.formats.research_sets import read_negatives
from fmpair.data.parts import Split
from fmpair.data.read import read, read_frame, read_table
from fmpair.data.splits import (
    by_attribute,
    by_session,
    by_time,
    cold_items,
    cold_users,
    folds,
    holdout,
    leave_last_out,
    leave_out,
    per_user,
    time_windows,
)
from fmpair.data.vocabulary import Vocabulary
from fmpair.data.write import write

__all__ = [
    "Columns", "ContextLeakage", "Dataset", "Decision", "Decisions", "EventWeights", "Split",
    "Vocabulary", "above", "above_mean", "all_positive", "as_dataset", "at_least", "by_attribute",
    "by_session", "by_time", "cold_items", "cold_users", "columns_of", "context_leakage", "core",
    "decide", "describe", "dislikes", "distinct", "faded", "figures", "filters", "fingerprint",
    "folds", "holdout", "leave_last_out", "leave_out", "merge_duplicates", "per_user",
    "public_sets", "read", "read_frame", "read_negatives", "read_table", "sampled", "split_leakage",
    "splits", "synthetic", "thinned", "time_windows", "write",
]  # fmt: skip
