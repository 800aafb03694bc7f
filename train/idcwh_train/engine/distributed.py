"""Training of one network by several processes, which `torchrun` starts, one per GPU.

Each worker computes the outputs of its shard of the batch and gathers those of the others. A method therefore gets the
whole batch, and its pairs, triplets, votes and memories do not depend on the number of GPUs. Then the gradients of the
shards are summed, so that all workers have the same weights and method state after every step. The first worker writes
the files.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from idcwh_search.errors import NotSupportedError

T = TypeVar("T", bound=nn.Module)


class Workers:
    """The interface of the workers, and its implementation for a single process.

    rank, count: the index of this worker and the number of workers.
    """

    rank, count = 0, 1

    @property
    def first(self) -> bool:
        """True in the worker that writes files and messages."""
        return self.rank == 0

    def shard(self, rows: Tensor) -> Tensor:
        """Returns this worker's shard of rows that are the same in all workers."""
        return rows

    def gather(self, rows: Tensor) -> Tensor:
        """Returns the rows of all workers [n, ...], by rank. Only those of this worker have a gradient."""
        return rows

    def sync_gradients(
        self, parameters: Iterable[nn.Parameter], replicated: Iterable[nn.Parameter], buffers: Iterable[Tensor]
    ) -> None:
        """Sums the gradients of `parameters` over the workers, after `backward`.

        Averages the gradients of `replicated`, which every worker computes in full, and the `buffers`.
        """

    def any_rank(self, flag: bool) -> bool:
        """Returns True if the flag is true in any worker."""
        return flag

    def gather_dict(self, entries: dict[str, str]) -> dict[str, str]:
        """Returns the entries of all workers."""
        return entries

    def run_on_rank0(self, act: Callable[[], None]) -> None:
        """Calls `act` in the first worker only. If it fails, the first raises the error and the others exit."""
        act()

    def prepare(self, network: T) -> T:
        """Returns the network for training, with batch norm over the whole batch where possible."""
        return network


class Distributed(Workers):
    """The processes of the default process group."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rank, self.count = dist.get_rank(), dist.get_world_size()

    def shard(self, rows: Tensor) -> Tensor:
        return rows.tensor_split(self.count)[self.rank]

    def gather(self, rows: Tensor) -> Tensor:
        local = rows.detach().to(self.device).contiguous()
        lengths = [int(size) for size in self._all(torch.tensor([len(local)], device=self.device))]
        padded = local.new_zeros(max(lengths), *local.shape[1:])
        padded[: len(local)] = local
        parts: list[Tensor] = [
            part[:length].to(rows.device) for part, length in zip(self._all(padded), lengths, strict=True)
        ]
        parts[self.rank] = rows
        return torch.cat(parts)

    def sync_gradients(
        self, parameters: Iterable[nn.Parameter], replicated: Iterable[nn.Parameter], buffers: Iterable[Tensor]
    ) -> None:
        mean = [p.grad for p in replicated if p.grad is not None] + [b for b in buffers if b.is_floating_point()]
        summed = []
        for p in parameters:
            if p.grad is None:  # no image of this worker's shard could be read
                p.grad = torch.zeros_like(p)
            summed.append(p.grad)
        with torch.no_grad():
            for tensor in mean:
                tensor.div_(self.count)
            flat = torch.cat([tensor.reshape(-1) for tensor in (*summed, *mean)])
            dist.all_reduce(flat)
            start = 0
            for tensor in (*summed, *mean):
                tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
                start += tensor.numel()

    def any_rank(self, flag: bool) -> bool:
        count = torch.tensor([int(flag)], device=self.device)
        dist.all_reduce(count)
        return bool(count)

    def run_on_rank0(self, act: Callable[[], None]) -> None:
        problem: Exception | None = None
        if self.first:
            try:
                act()
            except Exception as error:
                problem = error
        if self.any_rank(problem is not None):
            if problem is not None:
                raise problem
            sys.exit(1)

    def gather_dict(self, entries: dict[str, str]) -> dict[str, str]:
        parts: list[Any] = [None] * self.count
        dist.all_gather_object(parts, entries)
        return {key: value for part in parts for key, value in part.items()}

    def prepare(self, network: T) -> T:
        """Synchronizes batch norm on GPUs. PyTorch cannot do this on CPUs, where each worker normalizes its shard."""
        if self.device.type != "cuda":
            return network
        try:
            from timm.layers import convert_sync_batchnorm  # torch's function loses the activations in timm's norms
        except ImportError:
            from torch.nn import SyncBatchNorm

            convert_sync_batchnorm = SyncBatchNorm.convert_sync_batchnorm
        synchronized: T = convert_sync_batchnorm(network)
        return synchronized

    def _all(self, tensor: Tensor) -> list[Tensor]:
        parts = [torch.empty_like(tensor) for _ in range(self.count)]
        dist.all_gather(parts, tensor)
        return parts


def number() -> int:
    """Returns the rank of this process under torchrun, and 0 without torchrun."""
    return int(os.environ.get("RANK", "0")) if _started() > 1 else 0


def local_device(device: torch.device) -> torch.device:
    """Returns the device of this process, one GPU per process. Raises NotSupportedError with too few GPUs."""
    if device.type != "cuda" or _started() == 1:
        return device
    local, available = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if local >= available:
        raise NotSupportedError("exceeds the number of GPUs", path="--nproc-per-node", expected=f"at most {available}")
    gpu = torch.device("cuda", local)
    torch.cuda.set_device(gpu)
    return gpu


@contextlib.contextmanager
def joined(device: torch.device) -> Iterator[Workers]:
    """Joins the workers that torchrun started, with NCCL for GPUs and Gloo for CPUs, or an existing process group."""
    if dist.is_initialized():
        yield Distributed(device)
        return
    if _started() == 1:
        yield Workers()
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    yield Distributed(device)
    dist.destroy_process_group()  # not after an error, because the others may wait in a collective operation


def _started() -> int:
    """Returns the number of processes that torchrun started, and 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "LOCAL_RANK" in os.environ else 1
