"""Several processes that train one network, as `torchrun` starts them, one per GPU.

A batch is split into a shard per worker. Each computes the outputs of its shard and gathers those of the others, so
that a method gets the whole batch: its pairs, triplets, votes and memories do not depend on the number of GPUs. Then
the gradients of the shards are summed. After every step all workers have the same weights and the same state of the
method. The first one writes the files.
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
    """A single process. `rank` is the number of this worker, `count` the number of workers."""

    rank, count = 0, 1

    @property
    def first(self) -> bool:
        """True in the worker that writes files and messages."""
        return self.rank == 0

    def shard(self, rows: Tensor) -> Tensor:
        """Returns this worker's shard of rows that all have."""
        return rows

    def gather(self, rows: Tensor) -> Tensor:
        """Returns the rows of all workers [n, ...], in order of the workers; only the own ones have a gradient."""
        return rows

    def sync_gradients(
        self, parameters: Iterable[nn.Parameter], replicated: Iterable[nn.Parameter], buffers: Iterable[Tensor]
    ) -> None:
        """Sums the gradients of `parameters` over the workers, after `backward`.

        Those of `replicated`, which every worker computes in full, and `buffers` (running statistics) become the mean.
        """

    def any_rank(self, flag: bool) -> bool:
        """Returns whether the flag is true for a worker."""
        return flag

    def gather_dict(self, found: dict[str, str]) -> dict[str, str]:
        """Returns the entries of all workers."""
        return found

    def run_on_rank0(self, act: Callable[[], None]) -> None:
        """Calls `act` in the first worker alone. If it fails, the first raises the error and the others exit."""
        act()

    def prepare(self, network: T) -> T:
        """Returns the network for training: with batch norm over the whole batch where that is possible."""
        return network


class Distributed(Workers):
    """The processes of the default process group."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rank, self.count = dist.get_rank(), dist.get_world_size()

    def shard(self, rows: Tensor) -> Tensor:
        return rows.tensor_split(self.count)[self.rank]

    def gather(self, rows: Tensor) -> Tensor:
        own, at = rows.detach().to(self.device).contiguous(), rows.device
        sizes = self._all(torch.tensor([len(own)], device=self.device))
        lengths = [int(size) for size in sizes]
        padded = own.new_zeros(max(lengths), *own.shape[1:])
        padded[: len(own)] = own
        parts: list[Tensor] = [part[:length].to(at) for part, length in zip(self._all(padded), lengths, strict=True)]
        parts[self.rank] = rows
        return torch.cat(parts)

    def sync_gradients(
        self, parameters: Iterable[nn.Parameter], replicated: Iterable[nn.Parameter], buffers: Iterable[Tensor]
    ) -> None:
        mean = [p.grad for p in replicated if p.grad is not None] + [b for b in buffers if b.is_floating_point()]
        added = []
        for p in parameters:
            if p.grad is None:  # a worker whose part could not be read has none where the others have some
                p.grad = torch.zeros_like(p)
            added.append(p.grad)
        with torch.no_grad():
            for tensor in mean:
                tensor.div_(self.count)
            together = torch.cat([tensor.reshape(-1) for tensor in (*added, *mean)])
            dist.all_reduce(together)
            at = 0
            for tensor in (*added, *mean):
                tensor.copy_(together[at : at + tensor.numel()].view_as(tensor))
                at += tensor.numel()

    def any_rank(self, flag: bool) -> bool:
        found = torch.tensor([int(flag)], device=self.device)
        dist.all_reduce(found)
        return bool(found)

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

    def gather_dict(self, found: dict[str, str]) -> dict[str, str]:
        parts: list[Any] = [None] * self.count
        dist.all_gather_object(parts, found)
        return {key: value for part in parts for key, value in part.items()}

    def prepare(self, network: T) -> T:
        """On CPUs each worker's batch norm sees its own part: PyTorch synchronizes it on GPUs only."""
        if self.device.type != "cuda":
            return network
        try:
            from timm.layers import convert_sync_batchnorm  # torch's own loses the activations that timm's norms hold
        except ImportError:
            from torch.nn import SyncBatchNorm

            convert_sync_batchnorm = SyncBatchNorm.convert_sync_batchnorm
        found: T = convert_sync_batchnorm(network)
        return found

    def _all(self, tensor: Tensor) -> list[Tensor]:
        parts = [torch.empty_like(tensor) for _ in range(self.count)]
        dist.all_gather(parts, tensor)
        return parts


def number() -> int:
    """Returns the number of this process under torchrun; 0 without it."""
    return int(os.environ.get("RANK", "0")) if _started() > 1 else 0


def local_device(device: torch.device) -> torch.device:
    """Returns the GPU of this process."""
    if device.type != "cuda" or _started() == 1:
        return device
    local, there = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if local >= there:
        raise NotSupportedError("is more than the GPUs", path="--nproc-per-node", expected=f"at most {there}")
    found = torch.device("cuda", local)
    torch.cuda.set_device(found)
    return found


@contextlib.contextmanager
def joined(device: torch.device) -> Iterator[Workers]:
    """Joins the workers that torchrun started, with NCCL between GPUs and Gloo between CPUs, or an existing group."""
    if dist.is_initialized():
        yield Distributed(device)
        return
    if _started() == 1:
        yield Workers()
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    yield Distributed(device)
    dist.destroy_process_group()  # not after an error: the others may be in the middle of something


def _started() -> int:
    """Returns the number of processes that torchrun started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "LOCAL_RANK" in os.environ else 1
