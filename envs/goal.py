"""Goal-conditioned variants of tasks, for hindsight relabelling."""

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from .observations import Observation
from .options import check_choice
from .panda_env import PicoPandaEnv
from .tasks import TASKS
from .tasks.goal import GoalTask

GOAL_TASKS = tuple(name for name, task in TASKS.items() if issubclass(task, GoalTask))


class PicoPandaGoalEnv(PicoPandaEnv):
    """A task as a goal: bring a point to a point, under the conventions of GoalEnv.

    They are those of gymnasium-robotics, on which implementations of hindsight experience replay
    (Andrychowicz et al. 2017) rely. Options and actions are those of PicoPandaEnv.

    ## Observation space

    | key | shape | unit | meaning |
    |---|---|---|---|
    | ``observation`` | (n,) | | PicoPandaEnv's entries in one, sorted by key, without the goal's |
    | ``achieved_goal`` | (3,) | m | where the point is, world |
    | ``desired_goal`` | (3,) | m | where it shall be, world |

    ``observation_names`` names the entries of ``observation``. What only says where the goal is
    (the task's ``goal_names``) is left out: after relabelling it would contradict the goal. The
    goals are exact even where ``randomize`` gives the sensors noise. Pictures of ``cameras`` keep
    their keys.

    ## Goals

    | task | point | goal | within |
    |---|---|---|---|
    | ``reach`` | tool centre | marker | 20 mm |
    | ``push`` | puck's centre | zone's centre, at the height of a lying puck | 30 mm |
    | ``place`` | cube's centre | bin's middle, at the height of a lying cube | 50 mm |

    ## Reward and end

    ``reward="sparse"``: 0 where the point is within the tolerance, else -1. ``"dense"``: minus the
    distance [m]. ``compute_reward`` gives the same for any goals, to the last bit. The episode goes
    on after success until ``time_limit_s`` (truncated), unless ``terminate_on_success=True``.

    ## Info

    ``is_success`` bool: the goal is achieved in this step. It asks less than the task:
    ``success`` is the task's own, for which ``reach`` must stay 0.2 s, the puck must lie still in
    the zone for 0.5 s and not have been carried there, and the cube must lie still in the bin,
    let go of, for 0.5 s. A point on its way through achieves the goal, and so does a cube held less
    than 50 mm over its place. A cube in a corner of the bin is too far from the middle.
    """

    def __init__(
        self,
        task: str = "reach",
        arms: int = 1,
        reward: str = "sparse",
        terminate_on_success: bool = False,
        **options: Any,
    ) -> None:
        """Make one of ``GOAL_TASKS``; everything else is as in PicoPandaEnv."""
        check_choice("task", task, GOAL_TASKS)
        check_choice("arms", arms, (1,))
        super().__init__(
            task=task,
            arms=arms,
            reward=reward,
            terminate_on_success=terminate_on_success,
            **options,
        )
        self._goal_ends, self._terminate = self._terminate, False
        assert isinstance(self.task, GoalTask)
        self._goal_task = self.task
        self._flattened = _Flattened(self._observer.boxes, self.task)
        self.observation_names = self._flattened.names
        wide = np.full(3, self.task.object_bound)
        goal = spaces.Box(-wide.astype(np.float32), wide.astype(np.float32), dtype=np.float32)
        assert isinstance(self.observation_space, spaces.Dict)
        pictures = {
            key: space
            for key, space in self.observation_space.items()
            if key not in self._observer.boxes
        }
        self.observation_space = spaces.Dict(
            {
                "observation": self._flattened.space,
                "achieved_goal": goal,
                "desired_goal": goal,
                **pictures,
            }
        )

    def compute_reward(
        self, achieved_goal: npt.ArrayLike, desired_goal: npt.ArrayLike, info: Any
    ) -> Any:
        """Return the reward for goals (..., 3): a float, or (...,); ``info`` is not looked at."""
        distance = _distance(achieved_goal, desired_goal)
        reward = -distance if self._dense else (distance < self._goal_task.tolerance) - 1.0
        return reward if np.ndim(reward) else float(reward)

    def compute_terminated(
        self, achieved_goal: npt.ArrayLike, desired_goal: npt.ArrayLike, info: Any
    ) -> Any:
        """Return whether goals (..., 3) end the episode: never unless ``terminate_on_success``."""
        close = self.achieved(achieved_goal, desired_goal)
        return close & self._goal_ends if np.ndim(close) else bool(close and self._goal_ends)

    def compute_truncated(
        self, achieved_goal: npt.ArrayLike, desired_goal: npt.ArrayLike, info: Any
    ) -> Any:
        """Return False, or (...,) of it: goals cut no episode short, only the time limit does."""
        close = self.achieved(achieved_goal, desired_goal)
        return np.zeros_like(close) if np.ndim(close) else False

    def achieved(self, achieved_goal: npt.ArrayLike, desired_goal: npt.ArrayLike) -> Any:
        """Return whether goals (..., 3) are within the tolerance: a bool, or (...,)."""
        close = _distance(achieved_goal, desired_goal) < self._goal_task.tolerance
        return close if np.ndim(close) else bool(close)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Put the arm at home and the objects anew, drawn from ``seed``."""
        observation, info = super().reset(seed=seed, options=options)
        info["is_success"] = self.achieved(*_goals(observation))
        return observation, info

    def observe(self) -> Observation:
        """Return the observation of the present state."""
        plain = super().observe()
        bound = self._goal_task.object_bound
        achieved, desired = (
            np.clip(point, -bound, bound).astype(np.float32)
            for point in self._goal_task.goal(self.data)
        )
        flat = self._flattened.join(plain)  # takes its entries out; pictures remain
        return {"observation": flat, "achieved_goal": achieved, "desired_goal": desired, **plain}

    def _finish_step(self, n_clipped: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        observation, _, _, truncated, info = super()._finish_step(n_clipped)
        # From what is observed, in its precision: relabelling starts from the same numbers.
        goals = _goals(observation)
        info["is_success"] = self.achieved(*goals)
        terminated = self.compute_terminated(*goals, info)
        self._ended = terminated or truncated
        return observation, self.compute_reward(*goals, info), terminated, truncated, info


class _Flattened:
    """Join the entries of an observation, sorted by key, leaving out those of the goal."""

    def __init__(self, boxes: dict[str, spaces.Box], task: GoalTask) -> None:
        self._keys = sorted(boxes)
        named = {key: [f"{key}_{i}" for i in range(box.shape[0])] for key, box in boxes.items()}
        named["object"] = list(task.object_names)
        names = [name for key in self._keys for name in named[key]]
        unknown = set(task.goal_names) - set(task.object_names)
        assert not unknown, f"{task.name}: goal_names {unknown} are none of its object_names"
        kept = np.array([name not in task.goal_names for name in names])
        self._kept = kept
        self.names = tuple(name for name, keep in zip(names, kept, strict=True) if keep)
        low, high = (
            np.concatenate([getattr(boxes[key], end) for key in self._keys])[kept]
            for end in ("low", "high")
        )
        self.space = spaces.Box(low, high, dtype=np.float32)

    def join(self, observation: Observation) -> npt.NDArray[np.float32]:
        """Take the entries out of ``observation`` and return them in one, (n,)."""
        return np.concatenate([observation.pop(key) for key in self._keys])[self._kept]


def _goals(observation: Observation) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    return observation["achieved_goal"], observation["desired_goal"]


def _distance(one: npt.ArrayLike, two: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the distances between points (..., 3), (...,).

    Entry by entry: a norm over an axis sums in an order that depends on the shape.
    """
    x, y, z = np.moveaxis(np.asarray(one, np.float64) - np.asarray(two, np.float64), -1, 0)
    return np.sqrt(x * x + y * y + z * z)
