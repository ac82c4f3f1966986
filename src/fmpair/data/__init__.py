"""Data: events with numbered ids, read, filtered, split and written."""

from fmpair.data.dataset import Columns, Dataset, as_dataset, columns_of

__all__ = ["Columns", "Dataset", "as_dataset", "columns_of"]
