"""Nearest rows by angle."""

from __future__ import annotations

import numpy as np
import polars as pl

from fmpair.checks import whole
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import OptionError


def nearest(vectors: np.ndarray, number: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(numbers, cosines) of the n rows nearest to a row, itself left out."""
    if not vectors.shape[1]:
        raise OptionError(
            "a model without vectors, such as Popularity, knows nothing of similarity"
        )
    return strongest(cosines(vectors, number), number, n)


def cosines(vectors: np.ndarray, number: int) -> np.ndarray:
    """[rows]: of a row with every row, itself included."""
    norms = np.linalg.norm(vectors, axis=1)
    return vectors @ vectors[number] / np.maximum(norms * norms[number], 1e-12)


def strongest(similarity: np.ndarray, number: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(numbers, similarities) of the n most similar, the one asked about left out."""
    whole("n", n, 1)
    order = np.argsort(-similarity, kind="stable")
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
