"""Step one environment on request; run by ``peers.py`` with the Python of the peer's own packages.

    python benchmarks/peer_driver.py NAME

Each line on standard input is a round; each is answered by a line of JSON on standard output, after
a first one that tells the versions. Knows nothing of this project but in ``ours-...``.
"""

import importlib.metadata
import json
import os
import statistics
import sys
import time
from typing import Any

import numpy as np

STEPS = 60
"""Environment steps of a round."""


class Peer:
    """An environment, how many physics steps one of its steps takes, and its simulation."""

    def __init__(self, name: str) -> None:
        """Make it; ImportError and whatever else the packages raise."""
        self.rng = np.random.default_rng(0)
        self.simulation: tuple[Any, Any] | None = None
        """MuJoCo's model and data, to be stepped without the environment."""
        self.packages: tuple[str, ...] = (name, "mujoco")
        getattr(self, "_make_" + name.replace("-", "_"))()

    def _make(self, env_id: str, **options: Any) -> Any:
        import gymnasium

        self.env = gymnasium.make(env_id, disable_env_checker=True, **options)
        self.env.reset(seed=0)
        self.draw = self.env.action_space.sample
        self.env.action_space.seed(0)
        return self.env.unwrapped

    def _make_ours_joint(self) -> None:
        self._ours("joint")
        self.action = self._hold()

        def walk() -> Any:  # targets uniform over the joint ranges would be blows, not motion
            self.action = np.clip(
                self.action + self.rng.normal(0.0, 0.01, self.action.shape), -1.0, 1.0
            )
            return self.action.astype(np.float32)

        self.draw = walk

    def _make_ours_ee(self) -> None:
        self._ours("ee_delta")

    def _ours(self, control: str) -> None:
        self.packages = ("mujoco",)
        env = self._make("envs:PicoPanda-v0", control=control, terminate_on_success=False)
        self.n_substeps, self.timestep = env.n_substeps, env.model.opt.timestep
        self.simulation = (env.model, env.data)

    def _hold(self) -> Any:
        env: Any = self.env.unwrapped
        return env.encode({side: env.commanded(side) for side in env.sides})

    def _make_gymnasium_robotics(self) -> None:
        import gymnasium
        import gymnasium_robotics  # pyright: ignore[reportMissingImports]

        gymnasium.register_envs(gymnasium_robotics)
        env = self._make("FetchPickAndPlace-v4")
        self.n_substeps, self.timestep = env.n_substeps, env.model.opt.timestep
        self.simulation = (env.model, env.data)

    def _make_metaworld(self) -> None:
        import metaworld  # noqa: F401  # pyright: ignore[reportMissingImports]

        env = self._make("Meta-World/MT1", env_name="reach-v3")
        self.n_substeps, self.timestep = env.frame_skip, env.model.opt.timestep
        self.simulation = (env.model, env.data)

    def _make_panda_gym(self) -> None:
        import panda_gym  # noqa: F401  # pyright: ignore[reportMissingImports]

        self.packages = ("panda-gym", "pybullet")
        sim = self._make("PandaPickAndPlace-v3").sim
        self.n_substeps, self.timestep = sim.n_substeps, sim.timestep

    def _make_gym_hil(self) -> None:
        import gym_hil  # noqa: F401  # pyright: ignore[reportMissingImports]

        env = self._make("gym_hil/PandaPickCubeBase-v0")
        self.n_substeps, self.timestep = env._n_substeps, env.model.opt.timestep
        self.simulation = (env.model, env.data)

    def _make_robosuite(self) -> None:
        import robosuite  # pyright: ignore[reportMissingImports]

        self.env = env = robosuite.make(
            "Lift",
            robots="Panda",
            has_renderer=False,
            has_offscreen_renderer=False,
            use_camera_obs=False,
            horizon=100_000,
        )
        env.reset()
        self.n_substeps = round(env.control_timestep / env.model_timestep)
        self.timestep = env.model_timestep
        # robosuite wraps both; the wrapped ones are what MuJoCo steps.
        self.simulation = (env.sim.model._model, env.sim.data._data)
        low, high = env.action_spec
        self.draw = lambda: self.rng.uniform(low, high)

    def round(self) -> dict[str, float]:
        """Return the seconds of ``env.step``, and of its physics steps alone, medians."""
        # One after the other: bare steps in between would take the caches from the environment's.
        steps, states, clock = [], [], time.perf_counter
        for _ in range(STEPS):
            action = self.draw()
            before = self._state()
            start = clock()
            answer = self.env.step(action)
            steps.append(clock() - start)
            if self.simulation is not None:
                states.append((before, self.simulation[1].ctrl.copy()))
            if answer[2] or (len(answer) == 5 and answer[3]):
                self.env.reset()
        bare = [self._bare(*each) for each in states]
        return {"step": statistics.median(steps), "bare": statistics.median(bare) if bare else 0.0}

    def _state(self) -> Any:
        if self.simulation is None:
            return None
        import mujoco

        model, data = self.simulation
        kind = int(mujoco.mjtState.mjSTATE_INTEGRATION)
        state = np.empty(mujoco.mj_stateSize(model, kind))
        mujoco.mj_getState(model, data, state, kind)
        return state

    def _bare(self, before: Any, ctrl: Any) -> float:
        """Return the seconds of a step's physics from ``before``, on data of its own."""
        import mujoco

        model, _ = self.simulation  # pyright: ignore[reportGeneralTypeIssues]
        if not hasattr(self, "_data"):
            self._data = mujoco.MjData(model)
        kind = int(mujoco.mjtState.mjSTATE_INTEGRATION)
        mujoco.mj_setState(model, self._data, before, kind)
        self._data.ctrl[:] = ctrl
        mujoco.mj_forward(model, self._data)
        start = time.perf_counter()
        mujoco.mj_step(model, self._data, self.n_substeps)
        return time.perf_counter() - start


def main() -> int:
    """Serve rounds until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    peer = Peer(sys.argv[1])
    versions = {name: importlib.metadata.version(name) for name in peer.packages}
    facts = {"n_substeps": peer.n_substeps, "timestep": peer.timestep}
    print(json.dumps({"versions": versions, **facts}), file=answers)
    for _ in sys.stdin:
        print(json.dumps(peer.round()), file=answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
