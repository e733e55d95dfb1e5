"""The targets of edits by qualified name, and the arguments and values that are known."""

from typing import Final

LOADER: Final = "torch.utils.data.DataLoader"
MODULE: Final = "torch.nn.Module"
OPTIMIZER: Final = "torch.optim.Optimizer"
DDP: Final = "torch.nn.parallel.DistributedDataParallel"
OPTIMIZERS: Final = (
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
)
CLASSES: Final = {
    "DataLoader": LOADER,
    "DistributedDataParallel": DDP,
    "DDP": DDP,
    "FullyShardedDataParallel": "torch.distributed.fsdp.FullyShardedDataParallel",
    "FSDP": "torch.distributed.fsdp.FullyShardedDataParallel",
    "DataParallel": "torch.nn.DataParallel",
    "Module": MODULE,
    "Optimizer": OPTIMIZER,
    "autocast": "torch.autocast",
    "GradScaler": "torch.amp.GradScaler",
    "SummaryWriter": "torch.utils.tensorboard.SummaryWriter",
    **{name: f"torch.optim.{name}" for name in OPTIMIZERS},
}
ARGUMENTS: Final = {  # of classes whose arguments are known: others are mistakes
    LOADER: (
        "num_workers",
        "prefetch_factor",
        "pin_memory",
        "persistent_workers",
        "in_order",
        "timeout",
        "pin_memory_device",
        "batch_size",
        "shuffle",
        "sampler",
        "drop_last",
    ),
    DDP: (
        "broadcast_buffers",
        "bucket_cap_mb",
        "find_unused_parameters",
        "gradient_as_bucket_view",
        "init_sync",
        "static_graph",
    ),
}
KINDS: Final = {  # what arguments and setters take: (words, minimum)
    "num_workers": ("a whole number from 0 up", 0),
    **dict.fromkeys(("batch_size", "prefetch_factor"), ("a whole number from 1 up", 1)),
    **dict.fromkeys(
        ("torch.set_num_threads", "torch.set_num_interop_threads"), ("a whole number from 1 up", 1)
    ),
    **dict.fromkeys(
        (
            *("pin_memory", "persistent_workers", "in_order", "shuffle", "drop_last"),
            *("fused", "foreach", "set_to_none", "find_unused_parameters", "static_graph"),
            *("gradient_as_bucket_view", "broadcast_buffers", "init_sync"),
        ),
        ("True or False", None),
    ),
}
GLOBALS: Final = (
    "torch.autograd.set_detect_anomaly",
    "torch.backends.cuda.enable_cudnn_sdp",
    "torch.backends.cuda.enable_flash_sdp",
    "torch.backends.cuda.enable_math_sdp",
    "torch.backends.cuda.enable_mem_efficient_sdp",
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    "torch.backends.cuda.matmul.allow_tf32",
    "torch.backends.cudnn.allow_tf32",
    "torch.backends.cudnn.benchmark",
    "torch.backends.cudnn.deterministic",
    "torch.backends.cudnn.enabled",
    "torch.cuda.set_sync_debug_mode",
    "torch.multiprocessing.set_sharing_strategy",
    "torch.set_default_dtype",
    "torch.set_float32_matmul_precision",
    "torch.set_num_interop_threads",
    "torch.set_num_threads",
    "torch.use_deterministic_algorithms",
)
