"""Which goods a customer buys next: factors of customers and goods, ranked by pairs."""

import argparse
import dataclasses

import torch
from torch import nn
from torch.nn.functional import softplus


@dataclasses.dataclass
class Settings:
    customers: int = 60_000
    goods: int = 30_000
    wide: int = 48
    batch: int = 512
    rate: float = 0.05


class Factors(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.customer = nn.Embedding(s.customers, s.wide)
        self.good = nn.Embedding(s.goods, s.wide)
        self.liked = nn.Embedding(s.goods, 1)
        for table in self.children():
            nn.init.normal_(table.weight, std=0.05)

    def score(self, customer, good):
        return (customer * self.good(good)).sum(-1) + self.liked(good).squeeze(-1)

    def forward(self, customers, bought, others):
        taste = self.customer(customers)
        return self.score(taste, bought), self.score(taste[:, None], others)


class Ranking:
    """Bought goods are to stand above four that were not."""

    def __init__(self, settings):
        torch.manual_seed(22)
        self.settings = settings
        self.model = Factors(settings)
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), lr=settings.rate)
        some = 500_000
        self.customers = torch.randint(settings.customers, (some,))
        popular = torch.rand(some).pow(3) * settings.goods
        self.bought = popular.long()

    def sample(self):
        rows = torch.randint(len(self.customers), (self.settings.batch,))
        others = torch.randint(self.settings.goods, (self.settings.batch, 4))
        return self.customers[rows], self.bought[rows], others

    def step(self):
        good, bad = self.model(*self.sample())
        loss = softplus(bad - good[:, None]).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def run(self, steps):
        total = torch.zeros(())
        for number in range(1, steps + 1):
            total += self.step()
            if number % 50 == 0:
                print(f"{number:>6} {total.item() / 50:.6f}")
                total.zero_()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    Ranking(Settings()).run(parser.parse_args().steps)


main()
