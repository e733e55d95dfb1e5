"""A stand-in for gymnasium: a cart with a pole and a pendulum, of the same interface."""

import math
from types import SimpleNamespace

import numpy as np


class Box:
    def __init__(self, low, high, shape):
        self.low = np.full(shape, low, np.float32)
        self.high = np.full(shape, high, np.float32)
        self.shape = shape
        self.dtype = np.float32
        self.rng = np.random.default_rng(0)

    def sample(self):
        return self.rng.uniform(self.low, self.high).astype(np.float32)

    def seed(self, seed):
        self.rng = np.random.default_rng(seed)


class Discrete:
    def __init__(self, n):
        self.n = n
        self.shape = ()
        self.dtype = np.int64
        self.rng = np.random.default_rng(0)

    def sample(self):
        return int(self.rng.integers(self.n))

    def seed(self, seed):
        self.rng = np.random.default_rng(seed)


class Cart:
    limit = 500

    def __init__(self):
        self.action_space = self.single_action_space = Discrete(2)
        self.observation_space = self.single_observation_space = Box(-4.8, 4.8, (4,))
        self.spec = SimpleNamespace(reward_threshold=1e12, id="CartPole-v1", max_episode_steps=500)
        self.rng = np.random.default_rng(0)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.state = self.rng.uniform(-0.05, 0.05, 4)
        self.time, self.total = 0, 0.0
        return self.state.astype(np.float32), {}

    def step(self, action):
        x, v, angle, spin = self.state
        force = 10.0 if int(action) == 1 else -10.0
        pull = (force + 0.05 * spin**2 * math.sin(angle)) / 1.1
        turn = 9.8 * math.sin(angle) - math.cos(angle) * pull
        turn /= 0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1)
        push = pull - 0.05 * turn * math.cos(angle) / 1.1
        self.state = np.array(
            [x + 0.02 * v, v + 0.02 * push, angle + 0.02 * spin, spin + 0.02 * turn]
        )
        self.time += 1
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095
        return self.ended(1.0, bool(fell))

    def ended(self, reward, fell):
        self.total += reward
        late = self.time >= self.limit
        info = {}
        if fell or late:
            info = {"episode": {"r": self.total, "l": self.time}}
        return self.state.astype(np.float32), reward, fell, late, info

    def render(self):
        return None

    def close(self):
        return None

    def seed(self, seed=None):
        self.reset(seed=seed)


class Pendulum(Cart):
    limit = 200

    def __init__(self):
        super().__init__()
        self.action_space = self.single_action_space = Box(-2.0, 2.0, (1,))
        self.observation_space = self.single_observation_space = Box(-8.0, 8.0, (3,))

    def reset(self, seed=None, options=None):
        super().reset(seed)
        self.angle, self.spin = self.rng.uniform(-3, 3), self.rng.uniform(-1, 1)
        self.state = np.array([math.cos(self.angle), math.sin(self.angle), self.spin])
        return self.state.astype(np.float32), {}

    def step(self, action):
        torque = float(np.clip(np.asarray(action).reshape(-1)[0], -2, 2))
        cost = ((self.angle + math.pi) % (2 * math.pi) - math.pi) ** 2
        cost += 0.1 * self.spin**2 + 0.001 * torque**2
        self.spin = float(
            np.clip(self.spin + (15 * math.sin(self.angle) + 3 * torque) * 0.05, -8, 8)
        )
        self.angle += self.spin * 0.05
        self.state = np.array([math.cos(self.angle), math.sin(self.angle), self.spin])
        self.time += 1
        return self.ended(-cost, fell=False)


def make(name, **options):
    return Pendulum() if "Pendulum" in name or "-v4" in name else Cart()


class _Vector:
    def __init__(self, makers):
        self.envs = [maker() for maker in makers]
        self.num_envs = len(self.envs)
        self.single_action_space = self.envs[0].action_space
        self.single_observation_space = self.envs[0].observation_space

    def reset(self, seed=None, options=None):
        rows = [env.reset(None if seed is None else seed + i) for i, env in enumerate(self.envs)]
        return np.stack([row[0] for row in rows]), {}

    def step(self, actions):
        seen, rewards, ends, lates, finals, last = [], [], [], [], [], []
        for env, action in zip(self.envs, actions, strict=True):
            state, reward, fell, late, info = env.step(action)
            last.append(state)
            finals.append(info or None)
            if fell or late:
                state, _ = env.reset()
            seen.append(state)
            rewards.append(reward)
            ends.append(fell)
            lates.append(late)
        infos = {}
        if any(finals):
            infos = {"final_info": finals, "final_observation": last}
        return np.stack(seen), np.array(rewards), np.array(ends), np.array(lates), infos

    def close(self):
        return None


vector = SimpleNamespace(SyncVectorEnv=_Vector, AsyncVectorEnv=_Vector)
_kept = lambda env, *_, **__: env  # noqa: E731
wrappers = SimpleNamespace(
    RecordEpisodeStatistics=_kept,
    RecordVideo=_kept,
    FlattenObservation=_kept,
    ClipAction=_kept,
    NormalizeObservation=_kept,
    TransformObservation=_kept,
    NormalizeReward=_kept,
    TransformReward=_kept,
)
spaces = SimpleNamespace(Box=Box, Discrete=Discrete)
Env = Cart
