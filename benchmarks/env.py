"""Measure ``env.step`` against a bare loop of ``mj_step`` with the same ctrl.

    python benchmarks/env.py [--rounds 15] [--json]

Both start from the same states of the pick task and end in the same bits, which is checked. They
take turns, so that a busy machine slows both; a round compares the medians of its control steps,
and the table shows the medians over the rounds. Exit code 1 if a limit is missed.
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass

import gymnasium as gym
import mujoco
import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

import envs  # noqa: F401  (registers PicoPanda-v0)
from envs.panda_env import PicoPandaEnv
from kinematics import EndEffectorTarget, Side
from kinematics.frames import Array, quat_wxyz, rotation

CONTROL_HZ = 50
LIMITS = {"joint": 1.3, "ee_delta": 2.2, "ee_pose": 2.2}
"""Largest ratio of ``env.step`` to the bare loop, by control mode."""
CAMERAS = (("front",), ("front", "wrist"))
"""Pictures of 128 px in the observation, measured in ``ee_delta``; no limit, since OpenGL on a CPU
is another machine's another day."""
N_ENVS = 8
MOVING, HOLDING = 60, 40
"""Control steps of small random motion, then of standing still, in a round."""
STEP_M, STEP_RAD = 0.004, 0.01
"""One sigma of the target's random walk per axis and control step: a hand's 0.2 m/s."""


@dataclass(frozen=True, slots=True)
class Result:
    """Hold one control mode's medians."""

    control: str
    ratio: float
    limit: float | None
    step_us: float
    """Of one ``env.step``."""
    bare_us: float
    """Of the same ctrl through ``mj_step``."""
    steps_per_s: float
    physics_steps_per_s: float

    @property
    def ok(self) -> bool:
        """Return whether the limit holds."""
        return self.limit is None or self.ratio <= self.limit


def make_env(control: str, cameras: tuple[str, ...] = ()) -> PicoPandaEnv:
    """Return a pick environment that runs on after success, without wrappers."""
    env = gym.make(
        "PicoPanda-v0",
        control=control,
        control_hz=CONTROL_HZ,
        terminate_on_success=False,
        time_limit_s=600.0,
        cameras=cameras,
        disable_env_checker=True,
    ).unwrapped
    assert isinstance(env, PicoPandaEnv)
    return env


def record(env: PicoPandaEnv, seed: int) -> tuple[list[npt.NDArray[np.float32]], Array]:
    """Run one round: return its actions and the ctrl (steps, n_substeps, nu) they led to."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    actions, ctrl = [], []
    for k in range(MOVING + HOLDING):
        target = env.commanded(Side.RIGHT)
        if k < MOVING:
            turn = Rotation.from_rotvec(rng.normal(0.0, STEP_RAD, 3))
            target = EndEffectorTarget(
                Side.RIGHT,
                target.position + rng.normal(0.0, STEP_M, 3),
                quat_wxyz(turn * rotation(target.quat_wxyz)),
                float(rng.uniform(0.0, 1.0)),
            )
        actions.append(env.encode({Side.RIGHT: target}))
        env.step(actions[-1])
        ctrl.append(env.ctrl.copy())
    return actions, np.array(ctrl)


def run_env(env: PicoPandaEnv, seed: int, actions: list[npt.NDArray[np.float32]]) -> float:
    """Return the seconds that ``env.step`` takes, the median over the actions."""
    env.reset(seed=seed)
    step, clock, times = env.step, time.perf_counter, []
    for action in actions:
        start = clock()
        step(action)
        times.append(clock() - start)
    return statistics.median(times)


def run_bare(env: PicoPandaEnv, seed: int, ctrl: Array) -> float:
    """Return the seconds that a control step takes without an environment, the median."""
    env.reset(seed=seed)
    model, data, step = env.model, env.data, mujoco.mj_step
    clock, times = time.perf_counter, []
    for rows in ctrl:
        start = clock()
        for row in rows:
            data.ctrl[:] = row
            step(model, data)
        times.append(clock() - start)
    return statistics.median(times)


def measure(control: str, rounds: int, cameras: tuple[str, ...] = ()) -> Result:
    """Alternate both for ``rounds`` rounds of their own seed; the first warms up."""
    env = make_env(control, cameras)
    ratios, steps, bares = [], [], []
    for seed in range(rounds + 1):
        actions, ctrl = record(env, seed)
        ours = run_env(env, seed, actions)
        end = env.integration_state()
        bare = run_bare(env, seed, ctrl)
        if not np.array_equal(end, env.integration_state()):
            raise RuntimeError(f"{control}: the bare loop left the environment's path")
        if seed > 0:
            ratios.append(ours / bare)
            steps.append(ours)
            bares.append(bare)
    env.close()
    step = statistics.median(steps)
    return Result(
        f"{len(cameras)} camera{'s' * (len(cameras) > 1)}" if cameras else control,
        ratio=statistics.median(ratios),
        limit=None if cameras else LIMITS[control],
        step_us=1e6 * step,
        bare_us=1e6 * statistics.median(bares),
        steps_per_s=1.0 / step,
        physics_steps_per_s=env.n_substeps / step,
    )


def measure_workers(control: str, rounds: int) -> float:
    """Return how many times faster two processes step eight environments than one does."""
    made = {
        n: gym.make_vec(
            "PicoPanda-v0",
            num_envs=N_ENVS,
            control=control,
            n_workers=n,
            terminate_on_success=False,
            time_limit_s=600.0,
        )
        for n in (1, 2)
    }
    rng, ratios = np.random.default_rng(0), []
    shape = (20, *(made[1].action_space.shape or ()))
    for vector in made.values():
        vector.reset(seed=0)
    for _ in range(rounds + 1):
        actions = rng.uniform(-0.3, 0.3, shape).astype(np.float32)
        seconds = {}
        for n, vector in made.items():
            start = time.perf_counter()
            for action in actions:
                vector.step(action)
            seconds[n] = time.perf_counter() - start
        ratios.append(seconds[1] / seconds[2])
    for vector in made.values():
        vector.close()
    return statistics.median(ratios[1:])


def table(results: list[Result]) -> str:
    """Return the results as lines of text."""
    head = f"{'control':<10}{'step us':>9}{'bare us':>9}{'steps/s':>9}{'physics/s':>11}"
    lines = [f"{head}{'ratio':>8}{'limit':>8}"]
    lines += [
        f"{r.control:<10}{r.step_us:>9.1f}{r.bare_us:>9.1f}{r.steps_per_s:>9.0f}"
        f"{r.physics_steps_per_s:>11.0f}{r.ratio:>8.2f}{_verdict(r)}"
        for r in results
    ]
    return "\n".join(lines)


def _verdict(result: Result) -> str:
    if result.limit is None:
        return ""
    return f"{result.limit:>8.2f}  {'ok' if result.ok else 'FAIL'}"


def main() -> int:
    """Print the table, or JSON; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15, help="alternating rounds a control mode")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    results = [measure(control, options.rounds) for control in LIMITS]
    results += [measure("ee_delta", max(1, options.rounds // 5), names) for names in CAMERAS]
    workers = {control: measure_workers(control, options.rounds) for control in LIMITS}
    if options.json:
        steps = [asdict(r) | {"ok": r.ok} for r in results]
        print(json.dumps({"steps": steps, "two_workers": workers}, indent=2))
    else:
        print(table(results))
        for control, ratio in workers.items():
            print(f"{N_ENVS} environments in one call, {control}: two processes {ratio:.2f} x one")
    return 0 if all(r.ok for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
