"""The arm's kinematics, weight and servos against reference numbers and at rest."""

import mujoco
import numpy as np
import pytest

TILTS = (-0.5, 0.0, 0.5)


def rotation_angle(quat_a: np.ndarray, quat_b: np.ndarray) -> float:
    """Return the angle between two rotations, rad; exact near zero, blind to sign."""
    inverse, difference = np.zeros(4), np.zeros(4)
    mujoco.mju_negQuat(inverse, quat_a)
    mujoco.mju_mulQuat(difference, inverse, quat_b)
    return 2 * np.arctan2(np.linalg.norm(difference[1:]), abs(difference[0]))


def test_reference_poses(load_part, reference_poses):
    """The ee site of arm and hand stands where the reference says, in 20 poses."""
    spec = load_part("panda")
    spec.attach(load_part("franka_hand"), prefix="hand/", site=spec.site("flange"))
    model = spec.compile()
    data = mujoco.MjData(model)
    adr = [model.joint(f"joint{i}").qposadr[0] for i in range(1, 8)]
    assert len(reference_poses) == 20
    for pose in reference_poses:
        data.qpos[adr] = pose["qpos_rad"]
        mujoco.mj_kinematics(model, data)
        ee, quat = data.site("hand/ee"), np.zeros(4)
        mujoco.mju_mat2Quat(quat, ee.xmat)
        # The reference is rounded to nine decimals for positions and quaternions.
        np.testing.assert_allclose(ee.xpos, pose["tcp_pos_m"], rtol=0, atol=1e-6)
        reference = np.array(pose["tcp_quat_wxyz"])
        assert rotation_angle(quat, reference / np.linalg.norm(reference)) < 1e-5


def test_gravity_torque(load_part, reference_poses):
    """Masses and centres of mass reproduce the reference torque, hand without fingers."""
    hand = load_part("franka_hand")
    for things in (hand.actuators, hand.equalities, hand.tendons):
        for thing in list(things):
            hand.delete(thing)
    for side in ("left", "right"):
        hand.delete(hand.body(f"{side}_finger"))
    spec = load_part("panda")
    spec.attach(hand, prefix="hand/", site=spec.site("flange"))
    for body in spec.bodies:
        body.gravcomp = 0
    model = spec.compile()
    assert model.nv == 7
    data = mujoco.MjData(model)
    for pose in reference_poses:
        data.qpos[:] = pose["qpos_rad"]
        mujoco.mj_forward(model, data)
        # The reference has six decimals; 1e-4 Nm is a millionth of the shoulder's limit.
        np.testing.assert_allclose(data.qfrc_bias, pose["gravity_torque_Nm"], rtol=0, atol=1e-4)


def test_nothing_touches_at_home(rig):
    """At home the only contacts are the cube's with the table."""
    pairs = {tuple(contact.geom.tolist()) for contact in rig.data.contact}
    assert all(rig.cube_geom in pair for pair in pairs)


@pytest.mark.parametrize("height", [0.02, 0.15, 0.4])
@pytest.mark.parametrize("x", [0.4, 0.48, 0.55])
def test_no_self_contact_in_ordinary_poses(rig, x, height):
    """Reaching over the table, tool down or tilted by 29 degrees, no part touches another."""
    down = np.diag([1.0, -1.0, -1.0])
    rig.data.qpos[rig.cube_qadr] = 5.0  # out of the way
    for y in (-0.3, 0.0, 0.3):
        for tilt in TILTS:
            if height < 0.1 and tilt:
                continue  # a tilted finger would touch the table
            R_tilt = np.array(
                [
                    [np.cos(tilt), 0, np.sin(tilt)],
                    [0, 1, 0],
                    [-np.sin(tilt), 0, np.cos(tilt)],
                ]
            )
            q = rig.solve(np.array([x, y, height]), R_tilt @ down, rig.home)
            low, high = rig.model.actuator_ctrlrange[rig.arm_ctrl].T
            assert ((low <= q) & (q <= high)).all(), (y, tilt, q)  # else not ordinary
            rig.data.qpos[rig.qadr] = q
            mujoco.mj_kinematics(rig.model, rig.data)
            mujoco.mj_collision(rig.model, rig.data)
            names = [[rig.model.geom(g).name for g in c.geom] for c in rig.data.contact]
            assert not names, (y, tilt, names)


def test_no_contact_between_neighbours(load_part):
    """No link touches the next one or the one after, whatever the joints.

    500 poses uniform in the joint ranges. Links further apart, and the hand, can truly meet.
    """
    model = load_part("panda").compile()
    data = mujoco.MjData(model)
    rng = np.random.default_rng(7)
    for _ in range(500):
        data.qpos[:] = rng.uniform(*model.jnt_range.T)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_collision(model, data)
        for contact in data.contact:
            a, b = sorted(int(model.geom(g).bodyid[0]) for g in contact.geom)
            assert b - a > 2, [model.geom(g).name for g in contact.geom]


def test_holds_still_at_home(rig):
    """Two seconds at home: no drift, hardly any torque, and none that chatters."""
    torques = []
    for _ in range(1200):
        rig.step()
        torques.append(rig.data.qfrc_actuator[rig.dadr].copy())
        # 1e-4 rad at the shoulder is under 0.1 mm at the tool.
        assert np.abs(rig.data.qpos[rig.qadr] - rig.home).max() < 1e-4
    torques = np.array(torques)
    # The weight is compensated, so the servos have nothing to do: a thousandth of the wrist's
    # 12 Nm is already a fault.
    assert np.abs(torques).max() < 0.012
    assert np.ptp(torques[600:], axis=0).max() < 1e-3


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("joint", range(7))
def test_jump_comes_to_rest(rig, joint, sign):
    """A bare jump of one joint's target by 0.5 rad ends at rest, without force."""
    goal = rig.home.copy()
    goal[joint] += sign * 0.5
    rig.data.ctrl[rig.arm_ctrl] = goal
    assert_comes_to_rest(rig, goal)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("joint", range(7))
def test_hard_stop_comes_to_rest(rig, joint, sign):
    """Full feed-forward at 2.5 rad/s and a dead stop end at rest: no limit cycle."""
    assert_comes_to_rest(rig, hard_stop(rig, joint, sign))


def test_hard_stop_cycles_with_limits_on_the_actuators(load_part, rig):
    """The hard stop is a test that can fail: with force ranges on the actuators, it does."""
    spec = load_part("panda")
    for joint, actuator in zip(spec.joints, spec.actuators, strict=True):
        actuator.forcerange = joint.actfrcrange
        actuator.forcelimited = True
        joint.actfrclimited = False
    spec_hand = load_part("franka_hand")
    scene = load_part("arena")
    scene.attach(load_part("cube"), prefix="cube/", frame=scene.worldbody.add_frame())
    scene.attach(spec, prefix="right/", frame=scene.worldbody.add_frame())
    scene.attach(spec_hand, prefix="right/hand/", site=scene.site("right/flange"))
    cycling = type(rig)(scene.compile())
    hard_stop(cycling, joint=6, sign=1)
    cycling.step(1200)
    torques = []
    for _ in range(60):
        cycling.step()
        torques.append(cycling.data.qfrc_actuator[cycling.dadr[6]])
    # Both limits, +12 and -12 Nm, again and again.
    assert np.ptp(torques) > 20


def hard_stop(rig, joint: int, sign: int) -> np.ndarray:
    """Move one joint by 0.5 rad in 0.2 s with feed-forward and stop dead; return the goal."""
    step = np.zeros(7)
    step[joint] = sign * 0.5 / 120
    q = rig.home
    for _ in range(120):
        rig.command(q, q + step)
        q = q + step
        rig.step()
    # It must press against the limit on the way, or it proves nothing.
    rig.data.ctrl[rig.arm_ctrl] = q
    rig.step()
    limit = rig.force_limit[joint] or 12.0  # zero where the limit stands on the actuator
    assert abs(rig.data.qfrc_actuator[rig.dadr[joint]]) > 0.99 * limit
    return q


def assert_comes_to_rest(rig, goal: np.ndarray) -> None:
    """Wait 2 s, then watch half a second: at the goal, no force, nothing that oscillates."""
    rig.step(1200)
    torques = []
    for _ in range(300):
        rig.step()
        torques.append(rig.data.qfrc_actuator[rig.dadr].copy())
    torques = np.array(torques)
    # After 20 time constants of the servo (0.1 s) what is left is far below a millionth.
    np.testing.assert_allclose(rig.data.qpos[rig.qadr], goal, rtol=0, atol=1e-6)
    assert np.abs(torques).max() < 0.01
    assert np.ptp(torques, axis=0).max() < 1e-3
