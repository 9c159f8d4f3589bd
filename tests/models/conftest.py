"""Compose the model files as an environment would, and drive the result by name."""

import json
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
import pytest

MODELS = Path(__file__).parents[2] / "models"
REFERENCE = Path(__file__).with_name("panda_reference.json")
# The servos lag a moving target by kv / kp (s); the feed-forward that cancels it.
SERVO_LAG_S = 0.1


def part(name: str) -> mujoco.MjSpec:
    """Load one model file as a spec, without its keyframes: they would come out zero-filled."""
    spec = mujoco.MjSpec.from_file(str(MODELS / name / f"{name}.xml"))
    for key in list(spec.keys):
        spec.delete(key)
    return spec


@dataclass(frozen=True)
class Tool:
    """Name what the tests need of a gripper; m and m/s of one finger."""

    joints: tuple[str, str]
    actuator: str
    travel: float
    speed: float


TOOLS = {
    "franka_hand": Tool(("finger_joint1", "finger_joint2"), "fingers", 0.04, 0.1),
    "parallel_85": Tool(("left_slide", "right_slide"), "jaws", 0.0425, 0.075),
}


def scene_spec(tool: str = "franka_hand") -> mujoco.MjSpec:
    """Attach table, cube, target, arm and hand to the arena."""
    spec = part("arena")
    for name in ("table", "cube", "target"):
        spec.attach(part(name), prefix=f"{name}/", frame=spec.worldbody.add_frame())
    spec.attach(part("panda"), prefix="right/", frame=spec.worldbody.add_frame())
    spec.attach(part(tool), prefix="right/hand/", site=spec.site("right/flange"))
    return spec


class Rig:
    """A composed scene with the arm, hand and cube found by name.

    Positions in m in the world frame, joints in rad, forces in N or Nm.
    """

    def __init__(self, model: mujoco.MjModel, tool: str = "franka_hand") -> None:
        self.model, self.tool = model, TOOLS[tool]
        self.data = mujoco.MjData(model)
        self._scratch = mujoco.MjData(model)
        arm = [model.joint(f"right/joint{i}") for i in range(1, 8)]
        fingers = [model.joint(f"right/hand/{name}") for name in self.tool.joints]
        self.qadr = np.array([joint.qposadr[0] for joint in arm])
        self.dadr = np.array([joint.dofadr[0] for joint in arm])
        self.finger_qadr = np.array([joint.qposadr[0] for joint in fingers])
        self.arm_ctrl = np.array([model.actuator(f"right/joint{i}").id for i in range(1, 8)])
        self.finger_ctrl = model.actuator(f"right/hand/{self.tool.actuator}").id
        self.force_limit = np.array([model.jnt_actfrcrange[joint.id, 1] for joint in arm])
        self.ee = model.site("right/hand/ee").id
        self.cube = model.body("cube/cube").id
        self.cube_geom = model.geom("cube/cube_geom").id
        self.cube_qadr = model.joint("cube/cube_joint").qposadr[0]
        self.pads = [model.geom(f"right/hand/{side}_pad").id for side in ("left", "right")]
        home = mujoco.MjModel.from_xml_path(str(MODELS / "panda" / "panda.xml")).key("home")
        self.home = home.qpos.copy()
        self.place(self.home)

    def place(self, q: np.ndarray, cube: tuple[float, float, float] = (0.5, 0.2, 0.02)) -> None:
        """Start at rest at `q`, the hand open, the cube's centre at `cube`."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[self.qadr] = q
        self.data.qpos[self.finger_qadr] = self.tool.travel
        self.data.qpos[self.cube_qadr : self.cube_qadr + 7] = (*cube, 1, 0, 0, 0)
        self.data.ctrl[self.arm_ctrl] = q
        self.data.ctrl[self.finger_ctrl] = self.tool.travel
        mujoco.mj_forward(self.model, self.data)

    def step(self, n: int = 1) -> None:
        """Advance by `n` time steps."""
        mujoco.mj_step(self.model, self.data, n)

    def close_hand(self, seconds: float) -> None:
        """Close at the fastest the hand is meant to be driven."""
        step = self.tool.speed * self.model.opt.timestep
        for _ in range(round(seconds / self.model.opt.timestep)):
            target = self.data.ctrl[self.finger_ctrl] - step
            self.data.ctrl[self.finger_ctrl] = max(0.0, target)
            self.step()

    def pad_forces(self) -> np.ndarray:
        """Return the normal force of the left and the right pad on the cube."""
        forces = np.zeros(2)
        wrench = np.zeros(6)
        for i, contact in enumerate(self.data.contact):
            for side, pad in enumerate(self.pads):
                if {pad, self.cube_geom} == set(contact.geom.tolist()):
                    mujoco.mj_contactForce(self.model, self.data, i, wrench)
                    forces[side] += wrench[0]
        return forces

    def cube_in_hand(self) -> np.ndarray:
        """Return the cube's centre in the ee frame."""
        R_world_ee = self.data.site_xmat[self.ee].reshape(3, 3)
        return R_world_ee.T @ (self.data.xpos[self.cube] - self.data.site_xpos[self.ee])

    def solve(self, p_goal: np.ndarray, R_goal: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Find joints for an ee pose, from `q`, by damped Newton steps of at most 0.2 rad."""
        model, data = self.model, self._scratch
        jacobian = np.zeros((6, model.nv))
        error, quat = np.zeros(6), np.zeros(4)
        for _ in range(200):
            data.qpos[self.qadr] = q
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            R = data.site_xmat[self.ee].reshape(3, 3)
            error[:3] = p_goal - data.site_xpos[self.ee]
            mujoco.mju_mat2Quat(quat, (R_goal @ R.T).ravel())
            mujoco.mju_quat2Vel(error[3:], quat, 1.0)
            # Far below every tolerance used here (1e-6 m).
            if np.linalg.norm(error) < 1e-9:
                return q
            mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], self.ee)
            J = jacobian[:, self.dadr]
            goal = error * min(1.0, 0.1 / np.linalg.norm(error))
            dq = J.T @ np.linalg.solve(J @ J.T + 1e-6 * np.eye(6), goal)
            q = q + dq * min(1.0, 0.2 / np.linalg.norm(dq))
        raise RuntimeError(f"No joints found for {p_goal}: residual {np.linalg.norm(error):.2e}")

    def command(self, q: np.ndarray, q_next: np.ndarray) -> None:
        """Command `q_next` with the velocity feed-forward of the move from `q`."""
        velocity = (q_next - q) / self.model.opt.timestep
        self.data.ctrl[self.arm_ctrl] = q_next + SERVO_LAG_S * velocity


def lift_heights(dt: float) -> list[float]:
    """Return heights, m, of a rise by 0.3 m: 3 m/s2 up to 0.3 m/s, and the mirror at the end."""
    speed, acceleration, rise = 0.3, 3.0, 0.3
    ramp = speed / acceleration
    cruise = rise / speed - ramp
    times = np.arange(1, round((cruise + 2 * ramp) / dt) + 1) * dt
    heights = []
    for t in times:
        if t < ramp:
            heights.append(acceleration * t**2 / 2)
        elif t < ramp + cruise:
            heights.append(speed * (t - ramp / 2))
        else:
            heights.append(rise - acceleration * (cruise + 2 * ramp - t) ** 2 / 2)
    return heights


@pytest.fixture(scope="session")
def lift_profile():
    """Return the function that gives the heights of a lift."""
    return lift_heights


@pytest.fixture(scope="session")
def models() -> Path:
    """Return the folder of the model files."""
    return MODELS


@pytest.fixture(scope="session")
def reference_poses() -> list[dict]:
    """Return the reference forward kinematics and gravity torques."""
    return json.loads(REFERENCE.read_text())["poses"]


@pytest.fixture(scope="session")
def load_part():
    """Return the function that loads one file as a spec without keyframes."""
    return part


@pytest.fixture(scope="session")
def scene_model() -> mujoco.MjModel:
    """Compile arena, table, cube, target, arm and hand."""
    return scene_spec().compile()


@pytest.fixture
def rig(scene_model: mujoco.MjModel) -> Rig:
    """Return a fresh rig at home, the cube aside on the table."""
    return Rig(scene_model)


@pytest.fixture
def make_rig():
    """Return the function that makes a rig, at home, whose arm carries another tool."""
    return lambda tool: Rig(scene_spec(tool).compile(), tool)
