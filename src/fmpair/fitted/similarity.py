"""Nearest rows by angle."""

from __future__ import annotations

import numpy as np
import polars as pl

from fmpair.checks import whole
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import OptionError


def nearest(
    vectors: np.ndarray, number: int, n: int, norms: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(numbers, cosines) of the n rows nearest to a row, itself left out.

    norms: [rows], the lengths of the vectors, where they are known.
    """
    if not vectors.shape[1]:
        raise OptionError(
            "a model without vectors, such as Popularity, knows nothing of similarity"
        )
    return strongest(cosines(vectors, number, norms), number, n)


def cosines(vectors: np.ndarray, number: int, norms: np.ndarray | None = None) -> np.ndarray:
    """[rows]: of a row with every row, itself included."""
    norms = np.linalg.norm(vectors, axis=1) if norms is None else norms
    return vectors @ vectors[number] / np.maximum(norms * norms[number], 1e-12)


def strongest(similarity: np.ndarray, number: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(numbers, similarities) of the n most similar, the one asked about left out.

    Of equals the lower number comes first. What is no number comes last.
    """
    whole("n", n, 1)
    distance = -similarity
    near = np.arange(len(distance))
    if n + 1 < len(distance):  # most need not be sorted
        near = np.flatnonzero(~(distance > np.partition(distance, n)[n]))
    order = near[np.argsort(distance[near], kind="stable")]
    order = order[order != number][:n]
    return order, similarity[order]


def as_frame(
    name: str, vocabulary: Vocabulary, found: tuple[np.ndarray, np.ndarray]
) -> pl.DataFrame:
    numbers, cosine = found
    return pl.DataFrame(
        {
            name: vocabulary.take(numbers),
            "similarity": cosine,
            "rank": np.arange(1, len(cosine) + 1),
        }
    )
