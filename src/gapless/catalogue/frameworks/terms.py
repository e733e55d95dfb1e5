"""The settings for fixes and causes in frameworks that run a training or make its batches.

By framework, then by fix or cause; "{}" is the value that is asked for.
"""

from collections.abc import Mapping
from typing import Final

Terms = Mapping[str, str]

_IN_LOADER: Final = "in train_dataloader, DataLoader({})"
_TRAINER: Final = {  # transformers.TrainingArguments and its subclasses
    "more-workers": "dataloader_num_workers={}",
    "workers-and-one-thread": "dataloader_num_workers={}",
    "persistent-workers": "dataloader_persistent_workers=True",
    "prefetch": "dataloader_prefetch_factor={}",
    "pin-memory": "dataloader_pin_memory=True",
    "batch-size": "per_device_train_batch_size={}",
    "fused": 'optim="adamw_torch_fused"',
    "bf16": "bf16=True",
    "fp16": "fp16=True",
    "tf32": "tf32=True",
    "compile": "torch_compile=True",
    "compile-reduce-overhead": 'torch_compile_mode="reduce-overhead"',
    "checkpointing-off": "gradient_checkpointing=False",
    "ddp-no-unused": "ddp_find_unused_parameters=False",
    "ddp-buckets": "ddp_bucket_cap_mb={}",
    "log-every": "a larger logging_steps",
    "checkpoint-every": "a larger save_steps",
    "evaluate-every": "a larger eval_steps",
}
_HANDLER: Final = "kwargs_handlers=[DistributedDataParallelKwargs({})]"
_IGNITE_EVERY: Final = (
    "a larger N in the Events.ITERATION_COMPLETED(every=N) of the handler that {}"
)
FIX_ADVICE: Final[Mapping[str, Terms]] = {
    "transformers": _TRAINER,
    "sentence_transformers": _TRAINER,
    "lightning": {
        "more-workers": _IN_LOADER.format("num_workers={}"),
        "workers-and-one-thread": _IN_LOADER.format("num_workers={}"),
        "persistent-workers": _IN_LOADER.format("persistent_workers=True"),
        "prefetch": _IN_LOADER.format("prefetch_factor={}"),
        "pin-memory": _IN_LOADER.format("pin_memory=True"),
        "out-of-order": _IN_LOADER.format("in_order=False"),
        "fused": "in configure_optimizers, the optimizer with fused=True",
        "foreach": "in configure_optimizers, the optimizer with foreach=True",
        "bf16": 'Trainer(precision="bf16-mixed")',
        "fp16": 'Trainer(precision="16-mixed")',
        "compile": "torch.compile(module) before Trainer.fit",
        "cudnn-benchmark": "Trainer(benchmark=True)",
        "debug-off": "Trainer(detect_anomaly=False)",
        "ddp-no-unused": "DDPStrategy(find_unused_parameters=False)",
        "ddp-static-graph": "DDPStrategy(static_graph=True)",
        "ddp-bucket-view": "DDPStrategy(gradient_as_bucket_view=True)",
        "log-every": "Trainer with a larger log_every_n_steps",
        "checkpoint-every": "ModelCheckpoint with a larger every_n_train_steps",
        "evaluate-every": "Trainer with a larger val_check_interval or check_val_every_n_epoch",
    },
    "fastai": {
        "more-workers": "DataLoaders made with num_workers={}",
        "workers-and-one-thread": "DataLoaders made with num_workers={}",
        "persistent-workers": "DataLoaders made with persistent_workers=True",
        "pin-memory": "DataLoaders made with pin_memory=True",
        "batch-size": "DataLoaders made with bs={}",
        "bf16": "learn.to_bf16()",
        "fp16": "learn.to_fp16()",
        "channels-last": "learn.to_channelslast()",
        "fused": "Learner(opt_func=partial(OptimWrapper, opt=torch.optim.AdamW, fused=True))",
        "checkpoint-every": "SaveModelCallback without every_epoch",
    },
    "ignite": {
        "fp16": 'create_supervised_trainer(amp_mode="amp")',
        "log-every": _IGNITE_EVERY.format("logs"),
        "checkpoint-every": _IGNITE_EVERY.format("saves"),
        "evaluate-every": _IGNITE_EVERY.format("runs the evaluator"),
    },
    "skorch": {
        "more-workers": "iterator_train__num_workers={}",
        "workers-and-one-thread": "iterator_train__num_workers={}",
        "persistent-workers": "iterator_train__persistent_workers=True",
        "prefetch": "iterator_train__prefetch_factor={}",
        "pin-memory": "iterator_train__pin_memory=True",
        "out-of-order": "iterator_train__in_order=False",
        "batch-size": "batch_size={}",
        "fused": "optimizer__fused=True",
        "foreach": "optimizer__foreach=True",
        "compile": "compile=True",
        "evaluate-every": "a train_split that holds out less, or None",
    },
    "stable_baselines3": {
        "batch-size": "batch_size={}",
        "fused": "policy_kwargs=dict(optimizer_kwargs=dict(fused=True))",
        "foreach": "policy_kwargs=dict(optimizer_kwargs=dict(foreach=True))",
        "log-every": "learn with a larger log_interval",
        "checkpoint-every": "CheckpointCallback with a larger save_freq",
        "evaluate-every": "EvalCallback with a larger eval_freq",
    },
    "ultralytics": {
        "more-workers": "workers={}",
        "workers-and-one-thread": "workers={}",
        "batch-size": "batch={}",
        "fp16": "amp=True",
        "bf16": 'amp="bf16"',
        "compile": "compile=True",
        "checkpoint-every": "a larger save_period",
        "evaluate-every": "val=False",
    },
    "accelerate": {
        "bf16": 'mixed_precision="bf16"',
        "fp16": 'mixed_precision="fp16"',
        "compile": 'dynamo_backend="inductor"',
        "non-blocking": "dataloader_config=DataLoaderConfiguration(non_blocking=True)",
        "ddp-no-unused": _HANDLER.format("find_unused_parameters=False"),
        "ddp-static-graph": _HANDLER.format("static_graph=True"),
        "ddp-bucket-view": _HANDLER.format("gradient_as_bucket_view=True"),
        "ddp-buckets": _HANDLER.format("bucket_cap_mb={}"),
    },
}
# Causes without a fix for which a framework has a switch.
CAUSE_ADVICE: Final[Mapping[str, Terms]] = {
    "transformers": {
        "padded-batches": 'train_sampling_strategy="group_by_length" (before Transformers 5 '
        "group_by_length=True)"
    },
    "sentence_transformers": {
        "padded-batches": "batch_sampler, a function that returns a DefaultBatchSampler of rows "
        "of like length",
        "tokenise-bound": "the collator tokenises each batch, ahead of the training with "
        "dataloader_num_workers=1 or more",
    },
    "lightning": {
        "profiler-left-on": "Trainer(profiler=None)",
        "deterministic-algorithms": "Trainer(deterministic=False)",
    },
    "fastai": {
        "optimizer-by-hand": "Learner(opt_func=partial(OptimWrapper, opt=torch.optim.AdamW))"
    },
    "ultralytics": {
        "decode-bound": 'cache="ram"',
        "read-bound": 'cache="ram"',
        "deterministic-algorithms": "deterministic=False",
    },
}
# Where a cause lies whose line is the one that runs the whole loop, by what the cause is about.
_IN_TRAINER: Final = {
    "loader": "in Trainer's train_dataloader",
    "optimizer": "in Trainer's optimizer step",
}
PLACES: Final[Mapping[str, Terms]] = {
    "transformers": _IN_TRAINER,
    "sentence_transformers": _IN_TRAINER,
    "lightning": {
        "loader": "in the train_dataloader",
        "optimizer": "in the optimizer of configure_optimizers",
    },
    "fastai": {"loader": "in the DataLoaders", "optimizer": "in Learner's optimizer step"},
    "skorch": {"loader": "in the net's iterator_train", "optimizer": "in the net's optimizer step"},
    "stable_baselines3": {"optimizer": "in the policy's optimizer step"},
    "ultralytics": {
        "loader": "in the trainer's train_loader",
        "optimizer": "in the trainer's optimizer step",
    },
}
FRAMEWORK_TITLES: Final[Terms] = {
    "transformers": "TrainingArguments",
    "sentence_transformers": "SentenceTransformerTrainingArguments",
    "lightning": "Lightning",
    "fastai": "fastai",
    "ignite": "Ignite",
    "skorch": "the net of skorch",
    "stable_baselines3": "Stable-Baselines3",
    "ultralytics": "model.train of ultralytics",
    "accelerate": "Accelerator",
}
_BATCH_CAUSES: Final = (  # causes that are removed by making batches with less work
    "augment-bound",
    "decode-bound",
    "loader-in-training-process",
    "read-bound",
    "slow-samples",
    "tokenise-bound",
    "too-few-workers",
    "wait-bound",
)
# Libraries that make samples, by the package of the data set or of the collate function.
LIBRARY_ADVICE: Final[Mapping[str, Terms]] = {
    "monai": dict.fromkeys(
        _BATCH_CAUSES,
        "CacheDataset or PersistentDataset in place of Dataset keeps what the transforms before "
        "the first random one give",
    ),
    "torch_geometric": dict.fromkeys(
        _BATCH_CAUSES, "what is the same in each epoch as pre_transform in place of transform"
    ),
    "datasets": dict.fromkeys(
        ("slow-samples", "tokenise-bound"),
        "Dataset.map once beforehand, in place of set_transform or the collate function",
    ),
}
LIBRARY_TITLES: Final[Terms] = {
    "monai": "MONAI",
    "torch_geometric": "PyTorch Geometric",
    "datasets": "datasets",
}
