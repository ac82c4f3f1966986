"""Where training runs: the CPU engine, PyTorch on the CPU, or one GPU; why no GPU can be used."""

from __future__ import annotations

import logging
import warnings
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fmpair.errors import OptionError, named

LOG = logging.getLogger("fmpair")
CPU, TORCH, CUDA, AUTO = "cpu", "torch", "cuda", "auto"
DEVICES = (CPU, TORCH, CUDA, AUTO)
MANY = 64  # queries from which on it pays to send them to a device
EXTRA = "PyTorch is not installed: pip install 'fmpair[gpu]'"


def settled(device: str) -> str:
    """cpu, torch or cuda: what is asked for, or for auto a GPU where one can be used."""
    if device == CPU:
        return CPU
    if device == AUTO:
        why = obstacle()
        if why:
            LOG.info("device: the CPU, since %s", why)
        return CPU if why else CUDA
    why = obstacle() if device == CUDA else None if find_spec("torch") else EXTRA
    if why:
        raise OptionError(f"{named('device', device)} cannot be used: {why}")
    return device


def ranking_device(recipe: Any, queries: int) -> str | None:
    """Where PyTorch ranks for a fitted model: where it was learned; None for the usual kernels.

    A model that was learned on a GPU answers on any machine, and few queries are not sent there.
    """
    device = getattr(recipe, "device", CPU)
    if queries < MANY or device == CPU:
        return None
    if device == TORCH:
        return CPU if find_spec("torch") else None
    return CUDA if obstacle() is None else None


@cache
def obstacle() -> str | None:
    """Why no GPU can be used here, in one line; None where one can."""
    if find_spec("torch") is None:
        return EXTRA
    torch = import_module("torch")
    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} is built without CUDA: install a build that has it"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is wrong is told in our words
            torch.cuda.init()
            torch.zeros(1, device=CUDA)
    except Exception as error:  # whatever a driver throws is the finding
        return _told(torch, str(error))
    return None


def _told(torch: Any, error: str) -> str:
    """The words of PyTorch, shorter: the driver is too old, there is no GPU, or what it says."""
    lines = error.strip().splitlines() or ["it cannot be started"]
    if "driver" in error and "too old" in error:
        return (
            f"the driver of the GPU is too old for PyTorch {torch.__version__}, which needs one "
            f"for CUDA {torch.version.cuda}: update the driver, or install an older PyTorch"
        )
    if "no NVIDIA" in error or "No CUDA GPUs" in error or "No NVIDIA" in error:
        return f"no GPU is found (PyTorch says: {lines[0]})"
    return f"PyTorch cannot start it: {lines[0]}"


def cards() -> list[str]:
    """The GPUs that can be used: name, memory, how many are free of it, and the CUDA of PyTorch."""
    if obstacle():
        return []
    torch, found = import_module("torch"), []
    for number in range(torch.cuda.device_count()):
        free, whole = torch.cuda.mem_get_info(number)
        name = torch.cuda.get_device_name(number)
        found.append(f"{name}, {free / 2**30:.0f} of {whole / 2**30:.0f} GB free")
    return found
