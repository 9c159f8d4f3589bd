"""The table-top arm: its posture, its room, its weight, and its servos at rest."""

import tomllib
from itertools import product

import mujoco
import numpy as np
import pytest

from kinematics.ik import ArmIK

JOINTS = range(6)
ARM, HAND = "arm/", "arm/hand/"
LAG_S = 0.05
"""kv / kp of its servos: the feed-forward that cancels it."""


class Desk:
    """The arm with its own gripper over the table."""

    def __init__(self, model, spec):
        self.model, self.data, self.spec = model, mujoco.MjData(model), spec
        joints = [model.joint(ARM + name) for name in spec["joints"]]
        self.qadr = np.array([joint.qposadr[0] for joint in joints])
        self.dadr = np.array([joint.dofadr[0] for joint in joints])
        self.ctrl = np.array([model.actuator(ARM + name).id for name in spec["joints"]])
        self.limit = np.array([model.jnt_actfrcrange[joint.id, 1] for joint in joints])
        slides = [model.joint(f"{HAND}{side}_slide") for side in ("left", "right")]
        self.fingers = [joint.qposadr[0] for joint in slides]
        self.home = np.array(spec["home"])
        self.place(self.home)

    def place(self, q):
        """Start at rest at `q`, the gripper open."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[self.qadr] = self.data.ctrl[self.ctrl] = q
        self.data.qpos[self.fingers] = 0.025
        self.data.ctrl[self.model.actuator(HAND + "jaws").id] = 0.025
        mujoco.mj_forward(self.model, self.data)

    def step(self, n=1):
        """Advance by `n` time steps."""
        mujoco.mj_step(self.model, self.data, n)

    def contacts(self):
        """Return the pairs of geoms that touch."""
        return [[self.model.geom(g).name for g in c.geom] for c in self.data.contact]


@pytest.fixture(scope="module")
def spec(models):
    """Return the arm's spec file."""
    return tomllib.loads((models / "desk_arm" / "robot.toml").read_text())


@pytest.fixture(scope="module")
def model(load_part):
    """Compile arena, table, arm and gripper."""
    scene = load_part("arena")
    scene.attach(load_part("table"), prefix="table/", frame=scene.worldbody.add_frame())
    scene.attach(load_part("desk_arm"), prefix=ARM, frame=scene.worldbody.add_frame())
    scene.attach(load_part("desk_gripper"), prefix=HAND, site=scene.site(ARM + "flange"))
    return scene.compile()


@pytest.fixture
def desk(model, spec):
    """Return a fresh arm at home."""
    return Desk(model, spec)


@pytest.fixture(scope="module")
def solve(model, spec):
    """Return the solver of the shared inverse kinematics for the arm."""
    return ArmIK(
        model,
        joints=[ARM + name for name in spec["joints"]],
        site=HAND + "ee",
        velocity_limits=spec["velocity_limits"],
        rest=spec["home"],
    ).solve


def test_home_points_down_inside_the_workspace(desk):
    """At home the tool points down, fingers along y, inside the box, and nothing touches."""
    ee = desk.data.site(HAND + "ee")
    np.testing.assert_allclose(ee.xmat, np.diag([1.0, -1.0, -1.0]).ravel(), rtol=0, atol=1e-8)
    np.testing.assert_allclose(ee.xpos, [0.2, 0.0, 0.12], rtol=0, atol=1e-8)
    assert np.all(ee.xpos > desk.spec["workspace_lower"])
    assert np.all(ee.xpos < desk.spec["workspace_upper"])
    assert not desk.contacts()
    keyframe = np.array(desk.spec["home"])
    lower, upper = desk.model.actuator_ctrlrange[desk.ctrl].T
    assert np.all((lower < keyframe) & (keyframe < upper))


def test_the_keyframe_is_the_spec_files_home(models, spec):
    """The same decimal numbers stand in both files."""
    model = mujoco.MjModel.from_xml_path(str(models / "desk_arm" / "desk_arm.xml"))
    np.testing.assert_array_equal(model.key("home").qpos, spec["home"])
    np.testing.assert_array_equal(model.key("home").ctrl, spec["home"])
    np.testing.assert_array_equal(model.actuator_ctrlrange, model.jnt_range)
    kp, kv = model.actuator_gainprm[:, 0], -model.actuator_biasprm[:, 2]
    np.testing.assert_allclose(kv / kp, spec["servo_time"], rtol=1e-12)
    assert not model.actuator_forcelimited.any()
    np.testing.assert_array_equal(model.jnt_actfrcrange[:, 1], [8.0] * 3 + [1.5] * 3)


@pytest.mark.parametrize("yaw", [-90, 0, 90])
def test_every_point_of_the_workspace_is_reached(desk, solve, yaw):
    """Tool down, at any quarter turn, at 27 points to the corners: reached, and nothing touches."""
    lower, upper = np.array(desk.spec["workspace_lower"]), np.array(desk.spec["workspace_upper"])
    half = np.radians(yaw) / 2
    for share in product((0.0, 0.5, 1.0), repeat=3):
        point = lower + share * (upper - lower)
        found = solve(point, [0.0, np.cos(half), np.sin(half), 0.0])
        assert found.ok, (yaw, point, found)
        desk.data.qpos[desk.qadr] = found.qpos
        mujoco.mj_kinematics(desk.model, desk.data)
        mujoco.mj_collision(desk.model, desk.data)
        assert not desk.contacts(), (yaw, point)


def test_holds_still_at_home(desk):
    """Two seconds at home: no drift and no torque, since the weight is compensated."""
    torques = []
    for _ in range(1200):
        desk.step()
        torques.append(desk.data.qfrc_actuator[desk.dadr].copy())
    # 1e-4 rad is 0.03 mm at the tool; a thousandth of the wrist's 1.5 Nm is already a fault.
    assert np.abs(desk.data.qpos[desk.qadr] - desk.home).max() < 1e-4
    assert np.abs(torques).max() < 0.0015


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("joint", JOINTS)
def test_hard_stop_comes_to_rest(desk, joint, sign):
    """Full feed-forward at 4 rad/s and a dead stop end at rest: no limit cycle."""
    q, step = desk.home.copy(), np.zeros(6)
    step[joint] = sign * 0.4 / 60
    saturated = False
    for _ in range(60):
        desk.data.ctrl[desk.ctrl] = q + step + LAG_S * step / desk.model.opt.timestep
        q = q + step
        desk.step()
        saturated |= abs(desk.data.qfrc_actuator[desk.dadr[joint]]) > 0.99 * desk.limit[joint]
    desk.data.ctrl[desk.ctrl] = q
    desk.step()
    saturated |= abs(desk.data.qfrc_actuator[desk.dadr[joint]]) > 0.99 * desk.limit[joint]
    assert saturated  # it must press against the limit on the way, or it proves nothing
    desk.step(1200)
    torques = []
    for _ in range(300):
        desk.step()
        torques.append(desk.data.qfrc_actuator[desk.dadr].copy())
    # After 40 time constants of the servo what is left is far below a millionth.
    np.testing.assert_allclose(desk.data.qpos[desk.qadr], q, rtol=0, atol=1e-6)
    assert np.abs(torques).max() < 1e-3


def test_no_contact_between_neighbours(load_part):
    """No link touches the next one or the one after, whatever the joints: 500 postures."""
    model = load_part("desk_arm").compile()
    data = mujoco.MjData(model)
    rng = np.random.default_rng(7)
    for _ in range(500):
        data.qpos[:] = rng.uniform(*model.jnt_range.T)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        for contact in data.contact:
            a, b = sorted(int(model.geom(g).bodyid[0]) for g in contact.geom)
            assert b - a > 2, [model.geom(g).name for g in contact.geom]
