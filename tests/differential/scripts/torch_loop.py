"""PyTorch: a loop over a map-style data set, as in the MNIST example, and a test loop."""

import torch
from notes import EPOCHS, Notes

import tfhet.torch


class Numbers(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.full([8], float(index)), index


def dataset(shard, count):
    return Numbers(count)


def main():
    training = tfhet.torch.loader(dataset, batch_size=4, shuffle=True, arguments={"count": 64})
    validation = tfhet.torch.loader(dataset, batch_size=4, training=False, arguments={"count": 62})
    network, notes = torch.nn.Linear(8, 64), Notes()
    optimizer = torch.optim.SGD(network.parameters(), 0.001)
    for epoch in range(EPOCHS):
        training.set_epoch(epoch)
        for values, numbers in training:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(values), numbers).backward()
            optimizer.step()
            notes.batch(numbers)
            notes.step()
        notes.end("training")
        with torch.no_grad():
            for _, numbers in validation:
                notes.batch(numbers)
        notes.end("validation")
    notes.write()


if __name__ == "__main__":
    main()
