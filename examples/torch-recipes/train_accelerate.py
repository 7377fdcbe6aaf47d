"""accelerate: prepare the model and the optimizer, not the loader, which gives each rank its own batches."""

import torch
from accelerate import Accelerator
from digits_data import make_train, make_validation, network

import tfhet.torch


def main() -> None:
    is_cpu = not torch.cuda.is_available()  # without it, each rank on CPUs would train alone
    accelerator, epochs = Accelerator(cpu=is_cpu, gradient_accumulation_steps=2), 2
    train = tfhet.torch.loader(make_train, batch_size=16, shuffle=True)
    validation = torch.utils.data.DataLoader(make_validation(None), batch_size=32)  # of accelerate
    torch.manual_seed(0)
    model, optimizer, validation = accelerator.prepare(*made(network()), validation)
    # len(train) counts the batches of this rank. A schedule that accelerate prepares makes one step per rank.
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.optimizer, epochs * len(train))
    trained = 0
    for _ in range(epochs):
        model.train()
        for batch in train:
            with accelerator.accumulate(model):
                images, labels = (batch[name].to(accelerator.device) for name in ("pixel_values", "labels"))
                accelerator.backward(torch.nn.functional.cross_entropy(model(images), labels))
                optimizer.step()
                optimizer.zero_grad()
            schedule.step()
            trained += len(labels)
        model.eval()
        right = seen = 0
        for batch in validation:
            with torch.no_grad():
                found = model(batch["pixel_values"]).argmax(dim=1)
            found, labels = accelerator.gather_for_metrics((found, batch["labels"]))
            right, seen = right + int((found == labels).sum()), seen + len(labels)
    print(f"rank={accelerator.process_index} trained={trained} validated={right / seen:.4f} of {seen}", flush=True)
    accelerator.end_training()


def made(model: torch.nn.Module) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    return model, torch.optim.Adam(model.parameters(), 0.003)


if __name__ == "__main__":
    main()
