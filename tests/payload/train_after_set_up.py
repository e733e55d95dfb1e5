"""Set up for a while, train, evaluate; and end."""

import time

import torch


def set_up() -> torch.nn.Module:
    time.sleep(0.6)
    torch.manual_seed(1)
    return torch.nn.Linear(4, 1)


def main() -> None:
    model = set_up()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        time.sleep(0.03)
    print([repr(parameter) for parameter in model.parameters()])


main()
