"""Balance poles on carts with an advantage actor-critic, many poles side by side."""

import argparse
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

POLES, HORIZON, GAMMA, LAMBDA = 8, 16, 0.99, 0.95


class Pole:
    """The old cart and pole, in plain floats."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, 4).tolist()
        self.age = 0

    def step(self, action):
        x, v, angle, turn = self.state
        force = 10.0 if action else -10.0
        cos, sin = math.cos(angle), math.sin(angle)
        push = (force + 0.05 * turn * turn * sin) / 1.1
        bend = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
        rush = push - 0.05 * bend * cos / 1.1
        self.state = [x + 0.02 * v, v + 0.02 * rush, angle + 0.02 * turn, turn + 0.02 * bend]
        self.age += 1
        over = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21 or self.age >= 500
        if over:
            self.reset()
        return 1.0, over


class Policy(nn.Module):
    def __init__(self, wide=128):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, wide), nn.Tanh(), nn.Linear(wide, wide), nn.Tanh())
        self.acts, self.value = nn.Linear(wide, 2), nn.Linear(wide, 1)

    def forward(self, state):
        seen = self.body(state)
        return F.log_softmax(self.acts(seen), -1), self.value(seen).squeeze(-1)


def rollout(policy, poles, rng):
    states, actions, rewards, overs = [], [], [], []
    for _ in range(HORIZON):
        draws = rng.random(len(poles)).tolist()
        now = [pole.state for pole in poles]
        chosen = []
        for state, draw in zip(now, draws):
            with torch.no_grad():
                logits, _ = policy(torch.tensor(state))
            chosen.append(int(logits.exp()[1].item() > draw))
        moved = [pole.step(action) for pole, action in zip(poles, chosen)]
        states.append(now)
        actions.append(chosen)
        rewards.append([reward for reward, _ in moved])
        overs.append([over for _, over in moved])
    states.append([pole.state for pole in poles])
    return torch.tensor(states), torch.tensor(actions), np.array(rewards), np.array(overs)


def advantages(rewards, overs, values):
    given, running = np.zeros_like(rewards), np.zeros(rewards.shape[1])
    for t in reversed(range(len(rewards))):
        alive = 1.0 - overs[t]
        surprise = rewards[t] + GAMMA * values[t + 1] * alive - values[t]
        running = surprise + GAMMA * LAMBDA * alive * running
        given[t] = running
    return given


def learn(policy, optimizer, states, actions, rewards, overs):
    logits, values = policy(states)
    known = values.detach().numpy()
    gain = torch.from_numpy(advantages(rewards, overs, known)).float()
    target = gain + values[:-1].detach()
    taken = logits[:-1].gather(-1, actions[..., None]).squeeze(-1)
    unsure = -(logits[:-1].exp() * logits[:-1]).sum(-1).mean()
    scaled = (gain - gain.mean()) / (gain.std() + 1e-6)
    loss = -(taken * scaled).mean() + 0.5 * F.mse_loss(values[:-1], target) - 0.01 * unsure
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=800)
    args = parser.parse_args()
    torch.manual_seed(21)
    torch.set_num_threads(1)
    rng = np.random.default_rng(21)
    poles = [Pole(seed) for seed in range(POLES)]
    policy = Policy()
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)
    for update in range(args.updates):
        batch = rollout(policy, poles, rng)
        loss = learn(policy, optimizer, *batch)
        if update % 100 == 99:
            print(f"{update + 1:5d}  loss {loss.item():+.5f}  falls {int(batch[3].sum())}")
