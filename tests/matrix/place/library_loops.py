"""Loops that belong to libraries."""

import logging

import torch
from loop_shapes import DATA, DataLoader, make_training


def accelerated():
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, optimizer = make_training()
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(DATA, 4))
    for x, y in loader:
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        accelerator.backward(loss)
        optimizer.step()
    return loss.item()


def lightning_fit():
    import lightning

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 1)

        def training_step(self, batch, _number):
            return (self.inner(batch[0]) - batch[1]).pow(2).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    logging.getLogger("lightning").setLevel(logging.ERROR)
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,  # a checkpoint names the folder that it lies in
    )
    net = Net()
    trainer.fit(net, DataLoader(DATA, 4))
    return net.inner.weight.sum().item()


def trainer():
    from transformers import PrinterCallback, Trainer, TrainingArguments

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 1)

        def forward(self, x, labels):
            return {"loss": (self.inner(x) - labels).pow(2).mean()}

    rows = [{"x": x, "labels": y} for x, y in DATA]
    given = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=4,
        num_train_epochs=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        logging_strategy="no",
        save_strategy="no",
    )
    net = Net()
    hugging = Trainer(model=net, args=given, train_dataset=rows)
    hugging.remove_callback(PrinterCallback)  # it prints how long it took
    hugging.train()
    return net.inner.weight.sum().item()


def deepspeeded():
    import deepspeed

    model, optimizer = make_training()
    config = {"train_batch_size": 4, "train_micro_batch_size_per_gpu": 4}
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for x, y in DataLoader(DATA, 4):
        loss = (engine(x) - y).pow(2).mean()
        engine.backward(loss)
        engine.step()
    return loss.item()


def stateful():
    from torchdata.stateful_dataloader import StatefulDataLoader

    model, optimizer = make_training()
    for workers in (0, 2):
        for x, y in StatefulDataLoader(DATA, 4, num_workers=workers):
            optimizer.zero_grad()
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            optimizer.step()
    return loss.item()
