"""PyTorch with an iterable data set of shards, as WebDataset has it: files by shard, a shuffle buffer, batches."""

import random

import torch
from notes import EPOCHS, FILES, Notes

import tfhet.torch


class Lines(torch.utils.data.IterableDataset):
    def __init__(self, files):
        self.files = files

    def __iter__(self):
        held = []
        for file in self.files:
            for line in file.read_text().splitlines():
                held.append(int(line.split()[1]))
                if len(held) > 8:
                    yield held.pop(random.randrange(len(held)))
        yield from held


def lines(shard, folder):
    from pathlib import Path

    files = sorted(Path(folder).glob("*.txt"))[shard.index :: shard.count]
    return torch.utils.data.DataLoader(Lines(files), batch_size=4)


def main():
    how = {"arguments": {"folder": str(FILES / "lines")}}
    training, validation = tfhet.torch.loader(lines, **how), tfhet.torch.loader(lines, training=False, **how)
    notes = Notes()
    for _ in range(EPOCHS):
        for numbers in training:
            notes.batch(numbers)
            notes.step()
        notes.end("training")
        for numbers in validation:
            notes.batch(numbers)
        notes.end("validation")
    notes.write()


if __name__ == "__main__":
    main()
