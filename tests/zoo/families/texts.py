"""H: a classifier of letters to an office, tokenised anew each time; needs ``tokenizers``."""
# pyright: basic, reportMissingImports=false

import random
from argparse import Namespace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

from tests.zoo.job import Job, Steps

USUAL = {
    "workers": 0,
    "prefetch": None,
    "persistent": False,
    "pin": False,
    "tokenised": False,  # once, before
    "threads": None,
    "fused": None,
}
SIZES = {
    "c": {"words": 3000, "length": 64, "wide": 64, "layers": 2, "batch": 16, "count": 256},
    "g": {"words": 20_000, "length": 512, "wide": 768, "layers": 8, "batch": 32, "count": 2048},
}
SYLLABLES = ("ba", "re", "mi", "to", "ka", "lu", "ne", "so", "di", "pa", "gor", "fen", "tal")
VOCABULARY = 2000
UNKNOWN = "[?]"


def letters(count: int, words: int) -> list[str]:
    """Make up letters."""
    drawn = random.Random(0)
    known = ["".join(drawn.choices(SYLLABLES, k=drawn.randint(1, 4))) for _ in range(4000)]
    return [" ".join(drawn.choices(known, k=words)) for _ in range(count)]


def trained(texts: list[str]):
    """Return a tokenizer that knows the commonest parts of words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[UNKNOWN], show_progress=False
    )
    tokenizer.train_from_iterator(texts[:32], trainer)
    return tokenizer


class Letters(Dataset[tuple[Tensor, int]]):
    """Letters, tokenised when they are asked for; their beginning counts."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.texts = letters(options.count, options.words)
        self.tokenizer = trained(self.texts)
        self.ready: list[Tensor] | None = None
        if options.tokenised:
            self.ready = [self.tokens(text) for text in self.texts]

    def tokens(self, text: str) -> Tensor:
        return torch.tensor(self.tokenizer.encode(text).ids[: self.options.length])

    def __len__(self) -> int:
        return 5000 * self.options.batch

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        at = index % len(self.texts)
        tokens = self.tokens(self.texts[at]) if self.ready is None else self.ready[at]
        return tokens, at % 10


class Reader(nn.Module):
    """A transformer over the tokens, and the mean of what it gives."""

    def __init__(self, options: Namespace) -> None:
        super().__init__()
        wide = options.wide
        self.tokens = nn.Embedding(VOCABULARY, wide)
        layer = nn.TransformerEncoderLayer(wide, wide // 32, 4 * wide, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, options.layers, enable_nested_tensor=False)
        self.head = nn.Linear(wide, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layers(self.tokens(tokens)).mean(1))


def make(options: Namespace, device: torch.device) -> Job:
    torch.manual_seed(0)
    loader = {
        "batch_size": options.batch,
        "shuffle": True,
        "num_workers": options.workers,
        "pin_memory": options.pin,
        "persistent_workers": options.persistent,
    }
    if options.prefetch is not None:
        loader["prefetch_factor"] = options.prefetch
    return Job(Reader(options).to(device), Letters(options), device, options, train, loader)


def train(job: Job) -> Steps:
    options, model, device = job.options, job.model, job.device
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=options.fused)
    while True:
        for tokens, labels in DataLoader(job.data, **job.loader):
            loss = cross_entropy(model(tokens.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            yield
