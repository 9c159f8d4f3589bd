"""An environment whose every number says when it was made: no physics, only the loop's side."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kinematics import EndEffectorTarget, Side, SpeedLimits, Workspace

TOOL_DOWN = (0.0, 1.0, 0.0, 0.0)


class StubEnv:
    """Count steps: observation and state of step k hold k, the k-th action's info holds k."""

    sides = (Side.RIGHT,)
    speed_limits = SpeedLimits()

    def __init__(self, control_hz: int = 50, limit: int = 10**9) -> None:
        """``limit`` is the step that truncates."""
        self.control_hz, self.limit = control_hz, limit
        self.success: Callable[[int], bool] = lambda k: False
        """Whether the task is solved after k steps."""
        self.during: Callable[[int], None] = lambda k: None
        """Called inside step k."""
        self.now_ns: Callable[[], int] = lambda: 0
        self.t_physics_ns = 0
        self.seeds: list[int | None] = []
        self.steps = 0
        self._ended = False

    def reset(self, *, seed: int | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        self.seeds.append(seed)
        self.steps, self._ended = 0, False
        return self._observe(), {"success": False, "n_clipped": 0}

    def step(
        self, action: np.ndarray
    ) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        assert not self._ended, "stepped after the end"
        self.t_physics_ns = self.now_ns()
        self.during(self.steps)
        self.steps += 1
        self._ended = self.steps >= self.limit
        info = {"success": self.success(self.steps), "n_clipped": self.steps}
        return self._observe(), float(self.steps), False, self._ended, info

    def _observe(self) -> dict[str, np.ndarray]:
        return {"step": np.array([self.steps], np.float32)}

    def workspace(self, side: Side) -> Workspace:
        return Workspace()

    def commanded(self, side: Side) -> EndEffectorTarget:
        return EndEffectorTarget(side, np.array([0.5, 0.0, 0.3]), np.array(TOOL_DOWN), 0.0)

    measured = commanded

    def encode(self, commands: Mapping[Side, EndEffectorTarget]) -> np.ndarray:
        return np.array([self.steps / 1000], np.float32)

    def guide(self) -> list[Any]:
        return []

    def integration_state(self) -> np.ndarray:
        return np.array([float(self.steps)])

    def restore(self, state: np.ndarray, memory: np.ndarray | None = None) -> None:
        assert memory is not None
        assert memory[0] == -state[0]
        self.steps, self._ended = int(state[0]), False

    def controller_memory(self) -> np.ndarray:
        return np.array([-float(self.steps)])
