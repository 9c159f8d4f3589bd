"""A hand on a rail that pushes a cube: the smallest environment that episodes can replay."""

import hashlib
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium import spaces

from kinematics.edits import ModelEditor, ModelEdits

MJCF = """
<mujoco model="slider">
  <option timestep="0.0016666666666666668" integrator="implicitfast" cone="elliptic"/>
  <size nuserdata="2"/>
  <worldbody>
    <geom type="plane" size="1 1 .1" rgba=".6 .6 .6 1"/>
    <body name="right/hand" pos="0 0 .03">
      <joint name="right/slide" type="slide" axis="1 0 0" range="-1 1" damping="1"/>
      <geom type="box" size=".02 .03 .02" mass=".5" rgba=".2 .3 .9 1"/>
      <site name="right/ee" pos=".02 0 0" quat="0 1 0 0"/>
    </body>
    <body name="cube" pos=".1 0 .021">
      <freejoint/>
      <geom type="box" size=".02 .02 .02" mass=".1" rgba=".9 .2 .2 1"/>
    </body>
  </worldbody>
  <actuator><position name="right/slide" joint="right/slide" kp="200" kv="20"/></actuator>
</mujoco>
"""
INTEGRATION = mujoco.mjtState.mjSTATE_INTEGRATION
N_SUBSTEPS = 12
STEP_M = 0.006
GOAL_X = 0.2


class SliderEnv(gym.Env[dict[str, np.ndarray], np.ndarray]):
    """Push the cube past GOAL_X; ``userdata`` holds the target and the held counter."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(
        self, render_mode: str | None = None, mass: float = 0.1, spread: float = 0.0
    ) -> None:
        """``spread``: how much heavier the cube may be in an episode, as a share of its mass."""
        self.render_mode = render_mode
        self.model = mujoco.MjModel.from_xml_string(MJCF.replace('mass=".1"', f'mass="{mass}"'))
        self.data = mujoco.MjData(self.model)
        self._editor, self._spread, self.edits = ModelEditor(self.model), spread, ModelEdits()
        self._closure = 0.0  # not in the state: no ctrl depends on it
        self.n_substeps = N_SUBSTEPS
        buffer = np.empty(mujoco.mj_sizeModel(self.model), np.uint8)
        mujoco.mj_saveModel(self.model, None, buffer)
        self.model_sha256 = hashlib.sha256(buffer.tobytes()).hexdigest()
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = spaces.Dict(
            {
                key: spaces.Box(-np.inf, np.inf, value.shape, np.float32)
                for key, value in self.observe().items()
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        super().reset(seed=seed)
        self._closure = 0.0
        mujoco.mj_resetData(self.model, self.data)
        self.edit(ModelEdits())
        if self._spread:
            factor = 1.0 + self._spread * self.np_random.uniform()
            self.model.body("cube").mass *= factor
            self.model.body("cube").inertia *= factor
            mujoco.mj_setConst(self.model, mujoco.MjData(self.model))
            self.edits = self._editor.edits()
        self.data.qpos[1] += self.np_random.uniform(-0.02, 0.02)
        mujoco.mj_forward(self.model, self.data)
        return self.observe(), {"success": False}

    def step(self, action: np.ndarray):
        start = self.data.userdata[0]
        end = start + STEP_M * float(action[0])
        self._closure = (float(action[1]) + 1.0) / 2.0
        self.data.userdata[0] = end
        ctrl = start + (end - start) * np.arange(1, N_SUBSTEPS + 1)[:, None] / N_SUBSTEPS
        info = self.apply_ctrl(ctrl)
        info["ctrl"] = ctrl
        return self.observe(), float(info["success"]), False, False, info

    def apply_ctrl(self, ctrl: np.ndarray) -> dict[str, Any]:
        for row in ctrl:
            self.data.ctrl[:] = row
            mujoco.mj_step(self.model, self.data)
        self.data.userdata[0] = ctrl[-1, 0]
        mujoco.mj_forward(self.model, self.data)
        beyond = self.data.body("cube").xpos[0] > GOAL_X
        self.data.userdata[1] = self.data.userdata[1] + 1 if beyond else 0
        return {"success": bool(self.data.userdata[1] >= 3)}

    def edit(self, edits: ModelEdits) -> None:
        self._editor.apply(edits)
        self.edits = edits

    def restore(self, state: np.ndarray) -> None:
        mujoco.mj_setState(self.model, self.data, state, INTEGRATION)
        mujoco.mj_forward(self.model, self.data)

    def integration_state(self) -> np.ndarray:
        state = np.empty(mujoco.mj_stateSize(self.model, INTEGRATION))
        mujoco.mj_getState(self.model, self.data, state, INTEGRATION)
        return state

    def observe(self) -> dict[str, np.ndarray]:
        ee, cube = self.data.site("right/ee"), self.data.body("cube")
        quat = np.empty(4)
        mujoco.mju_mat2Quat(quat, ee.xmat)
        found = {
            "robot0_eef_pos": ee.xpos,
            "robot0_eef_quat": quat,
            "robot0_target_pos": [self.data.userdata[0] + 0.02, 0, 0.03],
            "robot0_target_quat": [0, 1, 0, 0],
            "robot0_joint_pos": self.data.qpos[:1],
            "robot0_joint_vel": self.data.qvel[:1],
            "robot0_gripper_qpos": [0.08 * (1 - self._closure)],
            "object": [*cube.xpos, *cube.xquat],
        }
        return {key: np.array(value, np.float32) for key, value in found.items()}

    def render(self) -> np.ndarray:
        """Paint the view from above, 400 pixels a metre: needs no OpenGL."""
        picture = np.full((80, 160, 3), 160, np.uint8)
        for body, colour in (("right/hand", (50, 80, 230)), ("cube", (230, 50, 50))):
            column = int(20 + 400 * self.data.body(body).xpos[0])
            picture[32:48, max(0, column - 8) : column + 8] = colour
        return picture
