"""transformers' Trainer: `get_train_dataloader` returns the loader. The evaluation stays the Trainer's own."""

import torch
import transformers
from digits_data import make_train, make_validation

import tfhet.torch


class FeedTrainer(transformers.Trainer):
    trained = 0

    def get_train_dataloader(self):
        return tfhet.torch.loader(make_train, batch_size=self.args.per_device_train_batch_size, shuffle=True)

    def training_step(self, model, inputs, *args, **options):
        self.trained += len(inputs["labels"])
        return super().training_step(model, inputs, *args, **options)


def accuracy(prediction: transformers.EvalPrediction) -> dict[str, float]:
    right = prediction.predictions.argmax(axis=1) == prediction.label_ids
    return {"accuracy": float(right.mean()), "examples": len(right)}


def main() -> None:
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        image_size=8,
        patch_size=2,
        num_channels=1,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        num_labels=10,
    )
    arguments = transformers.TrainingArguments(
        output_dir="trainer",
        use_cpu=not torch.cuda.is_available(),  # else each rank on CPUs would train alone
        num_train_epochs=2,
        per_device_train_batch_size=32,
        per_device_eval_batch_size=32,
        learning_rate=0.003,
        lr_scheduler_type="constant",
        eval_strategy="epoch",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    trainer = FeedTrainer(
        transformers.ViTForImageClassification(config),
        arguments,
        eval_dataset=make_validation(None),
        compute_metrics=accuracy,
    )
    trainer.train()
    found = trainer.evaluate()
    print(
        f"rank={arguments.process_index} trained={trainer.trained} validated={found['eval_accuracy']:.4f} "
        f"of {found['eval_examples']}",
        flush=True,
    )


if __name__ == "__main__":
    main()
