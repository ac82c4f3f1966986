"""Evaluation: models under a stated protocol, with statistics to compare them."""

from fmpair.evaluation.evaluate import Evaluation, evaluate
from fmpair.evaluation.protocol import Protocol

__all__ = ["Evaluation", "Protocol", "evaluate"]
