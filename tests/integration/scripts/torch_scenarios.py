"""Loaders as PyTorch scripts use them: each prints what the ranks received together, as NAME=JSON, sorted by value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler, random_split

import tfhet.torch

ROWS, BATCH = 101, 8


class Rows(Dataset):
    def __init__(self, count: int = ROWS, first: int = 0):
        self.count, self.first = count, first

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([float(self.first + index)]), self.first + index


class Texts(Rows):
    def __getitem__(self, index: int) -> dict[str, Any]:  # type: ignore[override]
        return {"tokens": list(range(1 + index % 3)), "text": f"row {index}", "label": index}


class Stream(IterableDataset):
    def __init__(self, indices: Iterable[int]):
        self.indices = indices

    def __iter__(self):
        return ((torch.tensor([float(index)]), index) for index in self.indices)


def rows(shard, count=ROWS, first=0):
    return Rows(count, first)


def part(shard, number):
    return random_split(Rows(), [80, 21], generator=torch.Generator().manual_seed(0))[number]


def stream(shard):
    return DataLoader(Stream(range(shard.index, ROWS, shard.count)), batch_size=BATCH)


def weighted(shard):
    chances = torch.tensor([1.0] * 10 + [0.0] * 91)
    generator = torch.Generator().manual_seed(1000 * shard.epoch + shard.index)
    sampler = WeightedRandomSampler(chances, 96 // shard.count, generator=generator)
    return DataLoader(Rows(), batch_size=BATCH, sampler=sampler)


def texts(shard):
    return Texts()


def padded(examples: list[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(len(each["tokens"]) for each in examples)
    assert all(each["text"] == f"row {each['label']}" for each in examples)
    tokens = [each["tokens"] + [0] * (width - len(each["tokens"])) for each in examples]
    return torch.tensor(tokens), torch.tensor([each["label"] for each in examples])


def main() -> None:
    dist.init_process_group("gloo")

    def loader(make: Callable[..., Any], *, batched: bool = True, **options: Any) -> Any:
        return tfhet.torch.loader(make, **({"batch_size": BATCH} if batched else {}), **options)

    def say(name: str, values: Iterable[int]) -> None:
        found: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(found, list(values))
        if dist.get_rank() == 0:
            print(f"{name}={json.dumps(sorted(sum(found, [])))}", flush=True)

    def labels(batches: Iterable[Any]) -> list[int]:
        return [int(label) for _, some in batches for label in some]

    training = loader(rows, shuffle=True)
    validation = loader(rows, arguments={"count": 37, "first": 1000}, training=False)
    for epoch in range(2):
        training.set_epoch(epoch)
        say(f"training-{epoch}", labels(training))
        say(f"validation-{epoch}", labels(validation))
    pairs = list(zip(loader(rows), loader(rows, arguments={"first": 500}), strict=True))
    say("first", labels(first for first, _ in pairs))
    say("second", labels(second for _, second in pairs))
    for number in range(2):
        say(f"part-{number}", labels(loader(part, arguments={"number": number}, training=False)))
    say("stream", labels(loader(stream, batched=False)))
    say("weighted", labels(loader(weighted, batched=False)))
    say("texts", labels(loader(texts, collate=padded)))
    stopped = loader(rows, shuffle=True)
    begun = iter(stopped)
    before = labels(next(begun) for _ in range(2))
    resumed = loader(rows, shuffle=True)
    resumed.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
    begun.close()
    stopped.close()
    say("resumed", [*before, *labels(resumed)])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
