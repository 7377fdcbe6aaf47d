"""PyTorch with a collate function for texts of different lengths: the text classification guide."""

import torch
from notes import EPOCHS, Notes

import tfhet.torch


def pairs(shard):
    examples = [(number, torch.arange(number % 7 + 1)) for number in range(shard.index, 64, shard.count)]
    return torch.utils.data.DataLoader(examples, batch_size=4, shuffle=True, collate_fn=collated)


def collated(examples):
    numbers, texts = zip(*examples, strict=True)
    offsets = torch.tensor([0, *map(len, texts)][:-1]).cumsum(0)
    return torch.tensor(numbers), torch.cat(texts), offsets


def main():
    training = tfhet.torch.loader(pairs)
    validation = tfhet.torch.loader(pairs, training=False)
    bag, notes = torch.nn.EmbeddingBag(10, 4), Notes()
    for _ in range(EPOCHS):
        for numbers, texts, offsets in training:
            assert bag(texts, offsets).shape == (len(numbers), 4)
            notes.batch(numbers)
            notes.step()
        notes.end("training")
        for numbers, _, _ in validation:
            notes.batch(numbers)
        notes.end("validation")
    notes.write()


if __name__ == "__main__":
    main()
