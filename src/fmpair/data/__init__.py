"""Data: events with numbered ids, read, filtered, split and written."""

from fmpair.data.dataset import Dataset, as_dataset

__all__ = ["Dataset", "as_dataset"]
