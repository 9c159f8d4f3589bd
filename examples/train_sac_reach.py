"""Train SAC with hindsight relabelling (HER) on ``reach``; measure how often it gets there.

    pip install -e ".[rl]"
    python examples/train_sac_reach.py [--steps 6000] [--seed 0] [--out runs/sac_reach]

Figures and what matters for them: docs/environments.md. In ``--out`` it leaves ``success.csv``,
``policy.zip`` and ``normalize.pkl``, the scale of the goals, which the policy needs.
"""

import argparse
import csv
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TransformAction

import envs  # noqa: F401  (registers PicoPandaGoal-v0)

EVERY = 2000
"""Steps of training between measurements."""
GOALS = range(10_000, 10_050)
"""Seeds of the measured episodes, whose goals training never sees."""
WAIT = 1000
"""Random steps before the first update."""
SHARE = np.float32(0.5)
"""Of the fastest move: 25 mm an action. With 50 mm the policy jitters about the 20 mm."""


def make_env() -> gym.Env[Any, Any]:
    """Return the environment to train and to measure on; its actions (3,) move, and no more.

    An episode is 40 actions at 20 a second, and a way across the workspace takes 20 of them.
    Turning the tool and closing it would not help here, only widen what has to be explored.
    """
    env = gym.make("PicoPandaGoal-v0", task="reach", control_hz=20, time_limit_s=2.0)
    moves = spaces.Box(-1.0, 1.0, (3,), np.float32)
    return TransformAction(env, lambda move: np.pad(SHARE * move, (0, 4)), moves)


def make_model(seed: int) -> Any:
    """Return the learner; raises ImportError without the extra ``rl``."""
    import torch
    from stable_baselines3 import SAC, HerReplayBuffer
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    torch.set_num_threads(1)  # networks this small are slower on more
    # Goals lie within decimetres, and 20 mm decide: unscaled, a network hardly tells them apart.
    env = VecNormalize(
        DummyVecEnv([lambda: Monitor(make_env())]),
        norm_reward=False,
        norm_obs_keys=["achieved_goal", "desired_goal"],
    )
    return SAC(
        "MultiInputPolicy",
        env,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
        policy_kwargs={"net_arch": [128, 128]},
        learning_rate=1e-3,
        learning_starts=WAIT,
        gamma=0.95,  # 20 actions ahead, one second
        tau=0.05,
        ent_coef="auto_0.1",  # from 1, the entropy would outweigh the reward for long
        seed=seed,
        device="cpu",
    )


def success_rates(model: Any, env: gym.Env[Any, Any]) -> tuple[float, float]:
    """Return the shares of ``GOALS`` where the policy ends at the goal, and solves the task."""
    at_goal = solved = 0
    scale = model.get_vec_normalize_env().normalize_obs
    for seed in GOALS:
        observation, info = env.reset(seed=seed)
        over = held = False
        while not over:
            action, _ = model.predict(scale(observation), deterministic=True)
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            held |= info["success"]
        at_goal += info["is_success"]
        solved += held
    return at_goal / len(GOALS), solved / len(GOALS)


def train(model: Any, steps: int, out: Path) -> None:
    """Train for ``steps``, measuring on the way, and write what came of it to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    trained_s = 0.0
    with make_env() as env, (out / "success.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["steps", "trained_s", "at_goal", "solved"])
        while model.num_timesteps < steps:
            started = time.monotonic()
            model.learn(min(EVERY, steps - model.num_timesteps), reset_num_timesteps=False)
            trained_s += time.monotonic() - started
            at_goal, solved = success_rates(model, env)
            writer.writerow([model.num_timesteps, round(trained_s), at_goal, solved])
            file.flush()
            print(
                f"{model.num_timesteps:>6} steps, {trained_s:4.0f} s: of {len(GOALS)} unseen goals "
                f"{at_goal:.0%} within 20 mm at the end, {solved:.0%} held for 0.2 s",
                flush=True,
            )
    model.save(out / "policy")
    model.get_vec_normalize_env().save(str(out / "normalize.pkl"))


def main(arguments: list[str] | None = None) -> int:
    """Train and write; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=6000, help="environment steps to train for")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/sac_reach"))
    options = parser.parse_args(arguments)
    try:
        model = make_model(options.seed)
    except ImportError as error:
        print(f'{error}: training needs the extra rl: pip install -e ".[rl]"', file=sys.stderr)
        return 1
    train(model, options.steps, options.out)
    model.get_env().close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
