"""The device of training and ranking: the CPU engine, PyTorch on the CPU, or one GPU."""

from __future__ import annotations

import logging
import warnings
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fmpair.arrays import columns_device
from fmpair.errors import OptionError, named

LOG = logging.getLogger("fmpair")
CPU, TORCH, CUDA, AUTO = "cpu", "torch", "cuda", "auto"
DEVICES = (CPU, TORCH, CUDA, AUTO)
MANY = 64  # queries that are worth sending to a device
EXTRA = "PyTorch is not installed: pip install 'fmpair[gpu]'"


def resolve_device(device: str) -> str:
    """Return cpu, torch or cuda: the device itself or, for auto, a GPU if one can be used."""
    if device == CPU:
        return CPU
    if device == AUTO:
        why = gpu_problem()
        if why:
            LOG.info("device: cpu, because %s", why)
        return CPU if why else CUDA
    why = gpu_problem() if device == CUDA else None if find_spec("torch") else EXTRA
    if why:
        raise OptionError(f"{named('device', device)} cannot be used: {why}")
    return device


def layout_on(device: str) -> AbstractContextManager[None]:
    """Count and sort long columns of events on the device of training inside the block."""
    resolved = resolve_device(device)
    if resolved == CPU or columns_device() is not None:
        return nullcontext()
    return import_module("fmpair.device_columns").layout_on(CPU if resolved == TORCH else resolved)


def ranking_device(recipe: Any, queries: int) -> str | None:
    """Return the PyTorch device that ranks for a fitted model, or None for the kernels.

    A model trained on a GPU works on any machine, and few queries are not sent to a device.
    """
    device = getattr(recipe, "device", CPU)
    if queries < MANY or device == CPU:
        return None
    if device == TORCH:
        return CPU if find_spec("torch") else None
    return CUDA if gpu_problem() is None else None


@cache
def gpu_problem() -> str | None:
    """Return why no GPU can be used here, or None."""
    if find_spec("torch") is None:
        return EXTRA
    torch = import_module("torch")
    if torch.version.cuda is None:
        return f"PyTorch {torch.__version__} is built without CUDA: install a build that has it"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the error below says it
            torch.cuda.init()
            torch.zeros(1, device=CUDA)
    except Exception as error:  # drivers raise anything
        return _shortened(torch, str(error))
    return None


def _shortened(torch: Any, error: str) -> str:
    """Return PyTorch's error in one line."""
    lines = error.strip().splitlines() or ["unknown error"]
    if "driver" in error and "too old" in error:
        return (
            f"the GPU driver is too old for PyTorch {torch.__version__}, which needs one for "
            f"CUDA {torch.version.cuda}: update the driver, or install an older PyTorch"
        )
    if "no NVIDIA" in error or "No CUDA GPUs" in error or "No NVIDIA" in error:
        return f"no GPU was found (PyTorch says: {lines[0]})"
    return f"PyTorch cannot use the GPU: {lines[0]}"


def usable_gpus() -> list[str]:
    """Return the usable GPUs, each with its name and memory."""
    if gpu_problem():
        return []
    cuda, gpus = import_module("torch").cuda, []
    for number in range(cuda.device_count()):
        free, total = (size / 2**30 for size in cuda.mem_get_info(number))
        gpus.append(f"{cuda.get_device_name(number)}, {free:.0f} of {total:.0f} GB free")
    return gpus
