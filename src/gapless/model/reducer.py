"""What exchanges gradients, as traces name it: a collective, and the copies out of its buckets."""

from typing import Final

REDUCE_CALL: Final = "c10d::allreduce_"  # of torch.distributed, whoever calls it
COPY_BACK: Final = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
