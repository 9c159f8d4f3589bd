"""The hand grips a 40 mm cube of 0.1 kg, keeps it in a lift and does not let it creep."""

import numpy as np
import pytest

DOWN = np.diag([1.0, -1.0, -1.0])
# The cube's centre on the table, m.
GRASP = np.array([0.5, 0.0, 0.02])


@pytest.fixture
def gripped(rig):
    """Return a rig that holds the cube, still on the table, and its joint command."""
    q = rig.solve(GRASP, DOWN, rig.home)
    rig.place(q, cube=tuple(GRASP))
    rig.close_hand(1.5)
    return rig, q


def test_both_fingers_press(gripped):
    """Each finger presses with 15 N or more; 2000 N/m over the 18.5 mm left to close is 37 N.

    Half of it a finger: 18.5 N. Over 21 N something else would be pressing.
    """
    rig, _ = gripped
    forces = rig.pad_forces()
    assert (forces > 15).all(), forces
    assert (forces < 21).all(), forces
    # The cube stood in the middle: the fingers are one mechanism, mirrored.
    assert abs(forces[0] - forces[1]) < 0.01 * forces.mean()
    assert abs(np.diff(rig.data.qpos[rig.finger_qadr])[0]) < 1e-5


@pytest.mark.parametrize("offset", [-0.008, 0.008])
def test_an_offset_cube_is_centred(rig, offset):
    """A cube 8 mm off the middle is pushed there, and both fingers press all the same."""
    q = rig.solve(GRASP, DOWN, rig.home)
    rig.place(q, cube=(GRASP[0], GRASP[1] + offset, GRASP[2]))
    rig.close_hand(1.5)
    forces = rig.pad_forces()
    # Friction with the table and the coupling's softness may keep up to about 1 N between
    # the fingers and a fraction of a millimetre of the offset.
    assert (forces > 15).all(), forces
    assert abs(forces[0] - forces[1]) < 2
    assert abs(rig.cube_in_hand()[1]) < 5e-4


def test_offsets_mirror(rig):
    """The left finger's force with the cube on the left is the right one's with it right."""
    q = rig.solve(GRASP, DOWN, rig.home)
    forces = {}
    for offset in (-0.008, 0.008):
        rig.place(q, cube=(GRASP[0], GRASP[1] + offset, GRASP[2]))
        rig.close_hand(0.6)
        forces[offset] = rig.pad_forces()
    # Box against box picks contact points that are no mirror images, and the cube drags over
    # the table: measured 0.6 N of 18.5.
    np.testing.assert_allclose(forces[-0.008], forces[0.008][::-1], rtol=0, atol=1.0)


def test_lift_and_hold(gripped, lift_profile):
    """A lift of 0.3 m at 0.3 m/s slips less than 1 mm, and 5 s in the air less than 0.1 mm."""
    rig, q = gripped
    start = rig.cube_in_hand()
    worst = 0.0
    for height in lift_profile(rig.model.opt.timestep):
        q_next = rig.solve(GRASP + np.array([0, 0, height]), DOWN, q)
        rig.command(q, q_next)
        q = q_next
        rig.step()
        worst = max(worst, float(np.linalg.norm(rig.cube_in_hand() - start)))
        assert (rig.pad_forces() > 15).all()
    # Measured 0.71 mm, nearly the same at 1 and at 10 m/s2: it goes with the change of speed
    # and with the pads' solref. The default solref slips by 1.2 mm and more.
    assert worst < 1e-3
    rig.data.ctrl[rig.arm_ctrl] = q
    rig.step(300)
    assert rig.data.xpos[rig.cube][2] > 0.3
    settled = rig.cube_in_hand()
    rig.step(3000)
    # Regularised friction creeps: measured 0.04 mm in 5 s.
    assert np.linalg.norm(rig.cube_in_hand() - settled) < 1e-4
    assert np.linalg.norm(rig.cube_in_hand() - start) < 1e-3
    assert (rig.pad_forces() > 15).all()


def test_force_follows_the_target(gripped):
    """Past contact the force is linear in the finger target: 1000 N/m a finger."""
    rig, _ = gripped
    full = rig.pad_forces().mean()
    rig.data.ctrl[rig.finger_ctrl] = 0.005
    rig.step(600)
    # 5 mm less to close: 5 N less. 3 %: the pads themselves give by micrometres.
    assert full - rig.pad_forces().mean() == pytest.approx(5.0, rel=0.03)
