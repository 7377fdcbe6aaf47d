"""Lightning: `Trainer.fit` takes the loaders. The ranks are the launcher's; Lightning starts none."""

import os

import lightning
import torch
from digits_data import make_train, make_validation, network
from torchmetrics.classification import MulticlassAccuracy

import tfhet.torch


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network, self.accuracy = network(), MulticlassAccuracy(10, average="micro")
        self.trained = 0

    def training_step(self, batch, index):
        self.trained += len(batch["labels"])
        return torch.nn.functional.cross_entropy(self.network(batch["pixel_values"]), batch["labels"])

    def validation_step(self, batch, index):
        self.accuracy(self.network(batch["pixel_values"]), batch["labels"])
        self.log("accuracy", self.accuracy, on_epoch=True)  # a torchmetrics metric adds up the ranks

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.003)


def main() -> None:
    train = tfhet.torch.loader(make_train, batch_size=32, shuffle=True)
    validation = tfhet.torch.loader(make_validation, batch_size=32, training=False)
    trainer = lightning.Trainer(
        max_epochs=2,
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", 1)),
        use_distributed_sampler=False,  # the loader gives each rank its own batches
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    model = Classifier()
    trainer.fit(model, train, validation)
    accuracy = float(trainer.callback_metrics["accuracy"])
    print(f"rank={trainer.global_rank} trained={model.trained} validated={accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
