"""Generate the pages of metrics and protocols."""

from __future__ import annotations

from dataclasses import fields

from markdown import plain

from fmpair.evaluation import derived_metrics
from fmpair.evaluation.protocol import PRESETS, Protocol
from fmpair.metrics import ERRORS, LISTS, NAMES, RANKED, UNCUT
from fmpair.text import descriptions, summary

ERROR_FORMULAS = {
    "rmse": "rmse = the root of the mean of (score - rating)^2",
    "mae": "mae = the mean of |score - rating|",
}
KINDS = dict.fromkeys(LISTS, "of what is recommended")
KINDS |= dict.fromkeys(ERRORS, "of predicted ratings")


def metrics() -> str:
    """Return Markdown with a section for every metric, with its formula."""
    return "\n\n".join(_metric(name) for name in NAMES)


def _metric(name: str) -> str:
    function = RANKED.get(name) or getattr(derived_metrics, name, None)
    text = function.__doc__ if function else ERROR_FORMULAS[name]
    first, *rest = (text or "").strip().split("\n\n")
    written = name if name in UNCUT else f"{name}@10"
    said = f"`{written}` in files and on the command line; {KINDS.get(name, 'of ranked lists')}."
    formula = f"```text\n{' '.join(first.split()).rstrip('.')}\n```"
    return "\n\n".join([f"## {name}", formula, *(plain(" ".join(p.split())) for p in rest), said])


def protocols() -> str:
    """Return Markdown with the options of a protocol and all presets."""
    texts = descriptions(Protocol.__doc__, [field.name for field in fields(Protocol)])
    texts.setdefault("n", "How many candidates are sampled.")
    options = [f"`{name}`\n: {plain(text)}" for name, text in texts.items()]
    named = [_preset(name, protocol) for name, protocol in PRESETS.items()]
    parts = [summary(Protocol.__doc__), "## Options", *options, "## By name", *named]
    return "\n\n".join(parts)


def _preset(name: str, protocol: Protocol) -> str:
    usual = Protocol()
    own = {
        field.name: getattr(protocol, field.name)
        for field in fields(Protocol)
        if getattr(protocol, field.name) != getattr(usual, field.name)
    }
    settings = (
        ", ".join(f"`{key}: {value}`" for key, value in own.items()) or "nothing but defaults"
    )
    return f"### {name}\n\n{settings}. Its id is `{protocol.id}`."
