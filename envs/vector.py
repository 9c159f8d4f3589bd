"""Many environments in one process, in threads."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from gymnasium.vector import SyncVectorEnv
from mujoco.rollout import Rollout

from .errors import ActionError, EnvError, OptionError
from .panda_env import Observation, PicoPandaEnv

_STATE = int(mujoco.mjtState.mjSTATE_FULLPHYSICS)
_INPUT = int(
    mujoco.mjtState.mjSTATE_CTRL
    | mujoco.mjtState.mjSTATE_EQ_ACTIVE
    | mujoco.mjtState.mjSTATE_MOCAP_POS
    | mujoco.mjtState.mjSTATE_MOCAP_QUAT
    | mujoco.mjtState.mjSTATE_USERDATA
)
"""What a rollout is given in every row: it resets what is left out. ``ctrl`` comes first."""

_NO_PICTURES = (
    "the native vector environment draws no pictures; for them use "
    "gym.make_vec(..., vectorization_mode='sync') or 'async'"
)


class PicoPandaVectorEnv(SyncVectorEnv):
    """``num_envs`` environments shared out among threads; bit for bit the single ones.

    ``gym.make_vec("PicoPanda-v0", num_envs=8, task="reach")`` makes it. Spaces, seeds (``seed``,
    ``seed + 1``, ...), ``reset(options={"reset_mask": ...})``, ``autoreset_mode``, ``final_obs``
    and ``final_info`` are those of ``gymnasium.vector.SyncVectorEnv``; ``n_threads`` and
    ``autoreset_mode`` are given among the options. It draws no pictures.

    If one environment's simulation breaks down, ``step`` raises its StateError; the environments
    after it must be reset, too.
    """

    envs: Sequence["ThreadedEnv"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        num_envs: int,
        n_threads: int | None = None,
        autoreset_mode: Any = None,
        **options: Any,
    ) -> None:
        """Make environments of ``options``; ``n_threads`` None is one per core.

        With 1 everything runs in the calling thread, else in ``n_threads`` others.
        """
        n_threads = os.cpu_count() or 1 if n_threads is None else n_threads
        for name, value in (("num_envs", num_envs), ("n_threads", n_threads)):
            if not isinstance(value, int | np.integer) or value < 1:
                raise OptionError(f"{name} must be a whole number >= 1, got {value!r}")
        for name in ("render_mode", "cameras"):
            if options.get(name):
                raise OptionError(f"{name}={options[name]!r}: {_NO_PICTURES}")
        mode = {} if autoreset_mode is None else {"autoreset_mode": autoreset_mode}
        super().__init__([lambda: ThreadedEnv(**options)] * num_envs, **mode)
        n_threads = min(n_threads, num_envs)
        self._n_threads, self._turn = n_threads, Lock()
        self._pool = ThreadPoolExecutor(n_threads, "step") if n_threads > 1 else None

    def step(self, actions: npt.NDArray[np.float32]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Step every environment: actions (num_envs, width)."""
        if np.shape(actions) != self.action_space.shape:
            raise ActionError(
                f"actions must have shape {self.action_space.shape}, got {np.shape(actions)}"
            )
        wrong = np.argwhere(~np.isfinite(actions))
        if len(wrong):
            i, entry = wrong[0]
            raise ActionError(f"actions[{i}, {entry}] is {actions[i, entry]}")
        try:
            if self._pool is not None:
                work = list(zip(self.envs, actions, strict=True))
                shares = [work[k :: self._n_threads] for k in range(self._n_threads)]
                list(self._pool.map(self._take_steps, shares))
            return super().step(actions)
        finally:
            for env in self.envs:
                env.give_up()

    def _take_steps(self, share: list[tuple["ThreadedEnv", npt.NDArray[np.float32]]]) -> None:
        """Step some environments; while they are in physics, other threads have the interpreter.

        A lock of our own hands the interpreter over: by its own rules threads would snatch it from
        each other at each of the hundred small calls of MuJoCo in a step, each time for longer
        than the call takes.
        """
        self._turn.acquire()
        try:
            for env, action in share:
                env.take_step(action, self._turn)
        finally:
            self._turn.release()

    def render(self) -> Any:
        """Raise EnvError: it draws no pictures."""
        raise EnvError(f"render(): {_NO_PICTURES}")

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environments and end the threads."""
        if self._pool is not None:
            self._pool.shutdown()
        super().close_extras(**kwargs)


Step = tuple[Observation, float, bool, bool, dict[str, Any]]


class ThreadedEnv(PicoPandaEnv):
    """An environment whose next step another thread may have taken already."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        model = self.model
        state, n_input = mujoco.mj_stateSize(model, _STATE), mujoco.mj_stateSize(model, _INPUT)
        self._rollout = Rollout(nthread=0)
        self._from, self._to = np.zeros((1, state)), np.zeros((1, self.n_substeps, state))
        self._row, self._input = np.zeros(n_input), np.zeros((1, self.n_substeps, n_input))
        self._warm = np.zeros((1, model.nv))
        self._sensed = np.zeros((1, self.n_substeps, model.nsensordata))
        self._taken: Step | EnvError | None = None

    def take_step(self, action: npt.NDArray[np.float32], turn: Lock) -> None:
        """Take a step, unless the episode is over, and keep what came of it for ``step``.

        ``turn`` is held by the caller, and given up during physics.
        """
        if self._ended:
            return
        try:
            n_clipped = self._begin_step(action)
            self._make_ready()
            turn.release()
            try:
                self._roll()
            finally:
                turn.acquire()
            self._taken = self._finish_step(n_clipped)
        except EnvError as error:
            self._taken = error

    def step(self, action: npt.NDArray[np.float32]) -> Step:
        """Return the step that was taken, or take one."""
        taken, self._taken = self._taken, None
        if taken is None:
            return super().step(action)
        if isinstance(taken, EnvError):
            raise taken
        return taken

    def give_up(self) -> None:
        """End the episode if nobody asked for the step that was taken."""
        if self._taken is not None:
            self._taken, self._ended = None, True

    def _make_ready(self) -> None:
        model, data, rows = self.model, self.data, self._input[0]
        mujoco.mj_getState(model, data, self._from[0], _STATE)
        mujoco.mj_getState(model, data, self._row, _INPUT)
        rows[:] = self._row
        rows[:, : model.nu] = self.ctrl
        self._warm[0] = data.qacc_warmstart

    def _roll(self) -> None:
        """Run ``_run_physics`` in one call that lets other threads go on meanwhile."""
        self._rollout.rollout(
            [self.model],
            [self.data],
            self._from,
            self._input,
            control_spec=_INPUT,
            skip_checks=True,
            nstep=self.n_substeps,
            initial_warmstart=self._warm,
            state=self._to,
            sensordata=self._sensed,
        )
