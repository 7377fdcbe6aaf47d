"""PyTorch with DistributedDataParallel, a schedule and meters, as in the ImageNet example; accuracy by all_reduce."""

import torch
import torch.distributed as dist
from notes import EPOCHS, FILES, Notes

import tfhet.torch


class Images(torch.utils.data.Dataset):
    def __init__(self, folder):
        import numpy as np

        with np.load(f"{folder}/arrays.npz") as loaded:
            self.images, self.numbers = loaded["x"], loaded["y"]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return {"image": torch.from_numpy(self.images[index]).float(), "number": int(self.numbers[index])}


def images(shard, folder):
    return Images(folder)


def main():
    dist.init_process_group("gloo")
    how = {"arguments": {"folder": str(FILES)}, "batch_size": 4}
    training = tfhet.torch.loader(images, shuffle=True, drop_last=True, **how)
    validation = tfhet.torch.loader(images, training=False, **how)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 64))
    network, notes = torch.nn.parallel.DistributedDataParallel(network), Notes()
    optimizer = torch.optim.SGD(network.parameters(), 1e-4, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for epoch in range(EPOCHS):
        training.sampler.set_epoch(epoch)
        for batch in training:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(batch["image"]), batch["number"]).backward()
            optimizer.step()
            notes.batch(batch["number"])
            notes.step()
        schedule.step()
        notes.end("training")
        right = torch.zeros(2)
        with torch.no_grad():
            for batch in validation:
                found = network(batch["image"]).argmax(1)
                right += torch.tensor([(found == batch["number"]).sum(), len(found)])
                notes.batch(batch["number"])
        notes.end("validation")
        dist.all_reduce(right)
        assert right[1] == 64, right
    dist.destroy_process_group()
    notes.write()


if __name__ == "__main__":
    main()
