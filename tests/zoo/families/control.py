"""C: an agent that learns to balance poles: two hundred small operations a step, no loader."""
# pyright: basic

import gc
import itertools
import math
from argparse import Namespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from tests.zoo.job import Job, Steps

USUAL = {
    "horizon": 8,
    "item_every_action": False,
    "synchronize": False,
    "collect_every": 0,  # gc.collect() after so many steps
    "garbage": 0,  # cycles left behind in each step
    "anomaly": False,
    "hooks": False,
    "foreach": None,
    "heap": 0,  # objects that live as long as the training
    "empty_cache": False,
    "evaluate_every": 0,  # steps
    "episode": 200,  # actions of an evaluation
    "graphs": False,  # it leaves autograd on
}
SIZES = {
    "c": {"wide": 64, "layers": 2, "poles": 32},
    "g": {"wide": 256, "layers": 4, "poles": 256},
}


class Agent(nn.Module):
    """What acts, and what judges."""

    def __init__(self, wide: int, layers: int) -> None:
        super().__init__()
        body: list[nn.Module] = [nn.Linear(4, wide), nn.Tanh()]
        for _ in range(layers - 1):
            body += [nn.Linear(wide, wide), nn.Tanh()]
        self.body = nn.Sequential(*body)
        self.act = nn.Linear(wide, 2)
        self.judge = nn.Linear(wide, 1)

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(state)
        return self.act(x), self.judge(x).squeeze(-1)


class Poles:
    """Carts with a pole on each; all are pushed at once."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.state = torch.zeros(count, 4, device=device)

    def push(self, action: Tensor) -> Tensor:
        """Push the carts left or right, and give their rewards."""
        place, speed, angle, turning = self.state.unbind(1)
        force = action.float() * 20 - 10
        inner = (force + 0.05 * turning**2 * torch.sin(angle)) / 1.1
        turn = (9.8 * torch.sin(angle) - torch.cos(angle) * inner) / 0.65
        moved = (place + 0.02 * speed, speed + 0.02 * inner)
        state = torch.stack((*moved, angle + 0.02 * turning, turning + 0.02 * turn), dim=1)
        fell = (state[:, 2].abs() > 0.2) | (state[:, 0].abs() > 2.4)
        self.state = torch.where(fell[:, None], torch.zeros_like(state), state)
        return 1.0 - fell.float()


class Node:
    """Something that refers to itself, as many a graph does."""

    def __init__(self) -> None:
        self.self = self


def watch(_module: nn.Module, _args: Any, output: Any) -> None:
    """Look at what a module gave, as monitors do."""
    if isinstance(output, Tensor):
        output.detach().abs().mean().item()


def make(options: Namespace, device: torch.device) -> Job:
    torch.manual_seed(0)
    model = Agent(options.wide, options.layers).to(device)
    if options.hooks:
        for module in model.modules():
            module.register_forward_hook(watch)
    period = math.lcm(options.collect_every or 1, options.evaluate_every or 1)
    heap = [{"number": number, "next": [number]} for number in range(options.heap)]
    return Job(model, heap, device, options, train, {}, period)


def train(job: Job) -> Steps:
    options, model, device = job.options, job.model, job.device
    torch.autograd.set_detect_anomaly(options.anomaly)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, foreach=options.foreach)
    poles = Poles(options.poles, device)
    try:
        for number in itertools.count(1):
            chances, values, rewards = [], [], []
            for _ in range(options.horizon):
                logits, value = model(poles.state)
                policy = Categorical(logits=logits)
                action = policy.sample()
                reward = poles.push(action)
                if options.item_every_action:
                    reward = reward * (1.0 if reward.mean().item() > 0 else 0.5)
                chances.append(policy.log_prob(action))
                values.append(value)
                rewards.append(reward)
            loss = surprise(chances, values, rewards)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            after_step(job, number)
            yield
    finally:
        torch.autograd.set_detect_anomaly(False)


def after_step(job: Job, number: int) -> None:
    """Do what is due between two steps."""
    options, on_gpu = job.options, job.device.type == "cuda"
    for _ in range(options.garbage):
        Node()
    if options.collect_every and number % options.collect_every == 0:
        gc.collect()
    if options.synchronize and on_gpu:
        torch.cuda.synchronize()
    if options.empty_cache and on_gpu:
        torch.cuda.empty_cache()
    if options.evaluate_every and number % options.evaluate_every == 0:
        play(job.model, options, job.device)


def play(model: nn.Module, options: Namespace, device: torch.device) -> float:
    """Play an episode as well as the agent can; give the share of poles that stood, on average."""
    poles, stood = Poles(options.poles, device), 0.0
    model.eval()
    with torch.set_grad_enabled(options.graphs):
        for _ in range(options.episode):
            logits, _ = model(poles.state)
            stood += float(poles.push(logits.argmax(-1)).mean())
    model.train()
    return stood / options.episode


def surprise(chances: list[Tensor], values: list[Tensor], rewards: list[Tensor]) -> Tensor:
    """Return the loss of an episode: how much better it went than judged."""
    total = torch.zeros_like(rewards[0])
    loss = torch.zeros((), device=total.device)
    for chance, value, reward in zip(chances[::-1], values[::-1], rewards[::-1], strict=True):
        total = reward + 0.99 * total
        advantage = total - value
        loss = loss + (advantage**2).mean() - (chance * advantage.detach()).mean()
    return loss / len(rewards)
