"""Encoding and decoding of actions: round trips, limits, refusals and holding still."""

from collections.abc import Callable

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.actions import ActionCodec
from envs.arm import Clamp
from envs.errors import ActionError, EnvError, OptionError
from envs.panda_env import CONTROL_HZ, PicoPandaEnv
from kinematics import EndEffectorTarget, Side

MODES = ("ee_delta", "ee_pose", "joint")
RIGHT = Side.RIGHT
Make = Callable[..., PicoPandaEnv]


def _angle(a: np.ndarray, b: np.ndarray) -> float:
    difference = np.zeros(3)
    mujoco.mju_subQuat(difference, a, b)
    return float(np.linalg.norm(difference))


def _beside(start: EndEffectorTarget, move: np.ndarray, turn: np.ndarray, closure: float):
    """Return ``start`` moved and turned about world axes."""
    quat, local, inverse = start.quat_wxyz.copy(), np.zeros(3), np.zeros(4)
    mujoco.mju_negQuat(inverse, start.quat_wxyz)
    mujoco.mju_rotVecQuat(local, turn, inverse)
    mujoco.mju_quatIntegrate(quat, local, 1.0)
    quat /= np.linalg.norm(quat)
    return EndEffectorTarget(RIGHT, start.position + move, quat, closure)


in_ball = (
    st.tuples(*[st.floats(-1.0, 1.0)] * 3)
    .map(np.array)
    .map(lambda v: v / max(1.0, float(np.linalg.norm(v))))
)


# --- round trips ---

# Of one step's motion, float32 keeps 2^-24 of the range: 0.5 um over ee_pose's 1 m box, 0.2 urad
# of a rotation column, 0.2 urad of a joint, times 0.9 m of arm. The IK follows within its damping.
TOLERANCE = {"ee_delta": (1e-8, 1e-8), "ee_pose": (1e-7, 1e-6)}


@pytest.mark.parametrize("control", ["ee_delta", "ee_pose"])
def test_what_is_encoded_is_accepted(make: Make, control: str) -> None:
    """Any target within one step's reach, from any step of the way."""
    env = make(control=control, terminate_on_success=False, time_limit_s=600.0)
    env.reset(seed=0)
    move_tol, turn_tol = TOLERANCE[control]
    period = 1.0 / env.control_hz

    @settings(max_examples=60, deadline=None)
    @given(in_ball, in_ball, st.floats(0.0, 1.0))
    def check(move: np.ndarray, turn: np.ndarray, closure: float) -> None:
        if np.linalg.norm(env.commanded(RIGHT).position - [0.4, 0.0, 0.4]) > 0.15:
            env.reset()
        wanted = _beside(env.commanded(RIGHT), move * period, 2.5 * turn * period, closure)
        action = env.encode({RIGHT: wanted})
        assert env.action_space.contains(action)
        env.step(action)
        got = env.commanded(RIGHT)
        if env.arms[RIGHT].clamps & (Clamp.LEASH | Clamp.REACH | Clamp.WORKSPACE):
            return
        assert np.abs(got.position - wanted.position).max() < move_tol
        assert _angle(got.quat_wxyz, wanted.quat_wxyz) < turn_tol
        assert got.closure == pytest.approx(closure, abs=1e-7)

    check()


def test_joint_targets_lead_to_the_command(make: Make) -> None:
    """One step's worth of slow motion: the IK follows within its regularisation, 0.3 mm."""
    env = make(control="joint", terminate_on_success=False, time_limit_s=600.0)
    env.reset(seed=0)
    start = env.commanded(RIGHT)
    for k in range(100):
        turn = np.array([0.0, 0.0, 0.3 * np.sin(0.05 * k)])
        wanted = _beside(start, np.array([0.001 * k, 0.05 * np.sin(0.05 * k), 0.0]), turn, 0.25)
        env.step(env.encode({RIGHT: wanted}))
        got = env.commanded(RIGHT)
        assert np.linalg.norm(got.position - wanted.position) < 5e-4
        assert _angle(got.quat_wxyz, wanted.quat_wxyz) < 2e-3
        assert got.closure == pytest.approx(0.25, abs=1e-7)


@pytest.mark.parametrize("control", MODES)
def test_encoding_changes_nothing(make: Make, control: str) -> None:
    env, twin = make(control=control), make(control=control)
    env.reset(seed=1)
    twin.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(20):
        wanted = _beside(env.commanded(RIGHT), rng.normal(size=3) * 0.02, rng.normal(size=3), 0.5)
        action = env.encode({RIGHT: wanted})
        np.testing.assert_array_equal(env.encode({RIGHT: wanted}), action)
        env.step(action)
        twin.step(action)
        np.testing.assert_array_equal(env.integration_state(), twin.integration_state())
        np.testing.assert_array_equal(env.controller_memory(), twin.controller_memory())


@pytest.mark.parametrize("control", MODES)
@pytest.mark.parametrize("away", [0.0, 0.1])
def test_encoding_the_commanded_target_holds(make: Make, control: str, away: float) -> None:
    """At home and elsewhere: the tool moves less than 1e-7 m in ten steps."""
    env = make(control=control, task="reach", terminate_on_success=False)
    env.reset(seed=1)
    start = env.commanded(RIGHT)
    for k in range(51):
        move = away * k / 50 * np.array([1.0, 1.0, -1.0])
        env.step(env.encode({RIGHT: _beside(start, move, 3 * move, 0.0)}))
    for _ in range(100):  # 2 s of rest
        env.step(env.encode({RIGHT: env.commanded(RIGHT)}))
    before = env.measured(RIGHT)
    for _ in range(10):
        action = env.encode({RIGHT: env.commanded(RIGHT)})
        if control == "ee_delta":
            np.testing.assert_array_equal(action[:6], np.zeros(6))
        env.step(action)
    assert np.linalg.norm(env.measured(RIGHT).position - before.position) < 1e-7
    assert _angle(env.measured(RIGHT).quat_wxyz, before.quat_wxyz) < 1e-6


def test_far_commands_keep_their_direction(make: Make) -> None:
    """Shortened to one step, not clipped entry by entry."""
    env = make(control="ee_delta")
    env.reset(seed=0)
    start = env.commanded(RIGHT)
    way, axis = np.array([0.12, 0.09, -0.03]), np.array([0.6, 0.0, 0.8])
    action = env.encode({RIGHT: _beside(start, way, axis, 0.0)})
    np.testing.assert_allclose(action[:3], way / np.linalg.norm(way), atol=1e-6)
    np.testing.assert_allclose(action[3:6], axis, atol=1e-6)
    env.step(action)
    assert not env.arms[RIGHT].clamps & Clamp.SPEED
    moved = env.commanded(RIGHT).position - start.position
    assert np.linalg.norm(moved) == pytest.approx(0.02, abs=1e-8), "v_max for a step"
    np.testing.assert_allclose(np.cross(moved, way), 0.0, atol=1e-9)


@pytest.mark.parametrize("control", MODES)
def test_encode_wants_every_arm(make: Make, control: str) -> None:
    env = make(control=control)
    env.reset(seed=0)
    with pytest.raises(ActionError, match=r"missing: \['right'\]"):
        env.encode({Side.LEFT: env.commanded(RIGHT)})


# --- the units of the tables ---


@pytest.mark.parametrize("control_hz", CONTROL_HZ)
def test_one_is_the_speed_limit_times_the_period(make: Make, control_hz: int) -> None:
    env = make(control="ee_delta", control_hz=control_hz)
    env.reset(seed=0)
    before = env.commanded(RIGHT)
    env.step(np.array([0, 0.5, 0, 0, 0, -0.5, 0], np.float32))
    after = env.commanded(RIGHT)
    step = after.position - before.position
    np.testing.assert_allclose(step, [0, 0.5 / control_hz, 0], atol=1e-9)
    assert _angle(after.quat_wxyz, before.quat_wxyz) == pytest.approx(1.25 / control_hz, abs=1e-9)


@pytest.mark.parametrize(("entry", "axis"), [(3, 0), (4, 1), (5, 2)])
def test_turns_are_about_world_axes(make: Make, entry: int, axis: int) -> None:
    """30 degrees about a world axis, for a tool that points down."""
    env = make(control="ee_delta", task="reach")
    env.reset(seed=0)
    before = np.zeros(9)
    mujoco.mju_quat2Mat(before, env.commanded(RIGHT).quat_wxyz)
    action = np.zeros(7, np.float32)
    action[entry] = np.pi / 6 / (20 * 2.5 / 50)
    for _ in range(20):
        env.step(action)
    after, angle, turn = np.zeros(9), np.zeros(4), np.zeros(9)
    mujoco.mju_quat2Mat(after, env.commanded(RIGHT).quat_wxyz)
    mujoco.mju_axisAngle2Quat(angle, np.eye(3)[axis], np.pi / 6)
    mujoco.mju_quat2Mat(turn, angle)
    expected = turn.reshape(3, 3) @ before.reshape(3, 3)
    np.testing.assert_allclose(after.reshape(3, 3), expected, atol=1e-6)  # float32 actions


def test_poses_are_over_the_workspace(make: Make) -> None:
    """Entries 0 are the middle of the box; half of 1 is three quarters of its width."""
    env = make(control="ee_pose", task="reach", terminate_on_success=False)
    env.reset(seed=0)
    tool_down = [1, 0, 0, 0, -1, 0]
    action = np.array([-0.2, 0.5, 0.0, *tool_down, 0.0], np.float32)
    for _ in range(150):
        env.step(action)
    got = env.commanded(RIGHT)
    np.testing.assert_allclose(got.position, [0.44, 0.25, 0.43], atol=1e-6)
    np.testing.assert_allclose(np.abs(got.quat_wxyz), [0, 1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(env.measured(RIGHT).position, got.position, atol=1e-3)
    assert got.closure == 0.5


@pytest.mark.parametrize(
    "columns",
    [(0, 0, 0, 0, 0, 0), (1, 0, 0, 1, 0, 0), (1, 0, 0, -1, 0, 0), (0, 0, 0, 0, 1, 0)],
)
def test_columns_that_span_no_plane_keep_the_rotation(make: Make, columns: tuple) -> None:
    env = make(control="ee_pose")
    env.reset(seed=0)
    before = env.commanded(RIGHT).quat_wxyz
    position = env.encode({RIGHT: env.commanded(RIGHT)})[:3]
    for _ in range(5):
        obs, *_ = env.step(np.array([*position, *columns, 0.0], np.float32))
        assert env.observation_space.contains(obs)
    np.testing.assert_array_equal(env.commanded(RIGHT).quat_wxyz, before)


def test_columns_need_not_be_orthonormal(make: Make) -> None:
    """A policy's columns are not: Gram-Schmidt, the first one leading."""
    env = make(control="ee_pose")
    env.reset(seed=0)
    position = env.encode({RIGHT: env.commanded(RIGHT)})[:3]
    for _ in range(40):
        env.step(np.array([*position, 0.5, 0.1, 0.0, 0.3, -0.4, 0.0, 0.0], np.float32))
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, env.commanded(RIGHT).quat_wxyz)
    x = np.array([5, 1, 0]) / np.sqrt(26)
    y = np.array([1, -5, 0]) / np.sqrt(26)
    np.testing.assert_allclose(matrix.reshape(3, 3)[:, 0], x, atol=1e-6)
    np.testing.assert_allclose(matrix.reshape(3, 3)[:, 1], y, atol=1e-6)


def test_joint_entries_are_over_the_ranges(make: Make) -> None:
    env = make(control="joint", task="reach", terminate_on_success=False)
    env.reset(seed=0)
    middle = 0.5 * (env.arms[RIGHT].ik.lower + env.arms[RIGHT].ik.upper)
    for _ in range(150):
        env.step(np.zeros(8, np.float32))
    np.testing.assert_allclose(env.data.qpos[:7], middle, atol=1e-3)


@pytest.mark.parametrize("control", MODES)
def test_the_gripper_is_monotonic_and_signed(make: Make, control: str) -> None:
    """-1 is open, +1 closed, in every mode: closure 0, 0.5, 1 give 80, 40 and 0 mm."""
    env = make(control=control, task="reach", terminate_on_success=False)
    env.reset(seed=0)
    openings = []
    for closure in (0.0, 0.25, 0.5, 0.75, 1.0):
        start = env.commanded(RIGHT)
        command = EndEffectorTarget(RIGHT, start.position, start.quat_wxyz, closure)
        action = env.encode({RIGHT: command})
        assert action[-1] == pytest.approx(2.0 * closure - 1.0)
        for _ in range(50):
            obs, *_ = env.step(action)
        openings.append(float(obs["robot0_gripper_qpos"][0]))
        assert env.measured(RIGHT).closure == pytest.approx(closure, abs=0.01)
        assert env.commanded(RIGHT).closure == closure
    np.testing.assert_allclose(openings, [0.08, 0.06, 0.04, 0.02, 0.0], atol=5e-4)


# --- refusals ---


@pytest.mark.parametrize("control", MODES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("index", [0, 5, -1])
def test_what_is_not_finite_is_refused_by_name(
    make: Make, control: str, value: float, index: int
) -> None:
    env = make(control=control)
    env.reset(seed=0)
    env.step(env.encode({RIGHT: env.commanded(RIGHT)}))
    action = env.encode({RIGHT: env.commanded(RIGHT)})
    action[index] = value
    at = index % len(action)
    state, memory, ctrl = env.integration_state(), env.controller_memory(), env.ctrl.copy()
    with pytest.raises(ActionError, match=rf"action\[{at}\] \({env.action_names[at]}\) is"):
        env.step(action)
    np.testing.assert_array_equal(env.integration_state(), state)
    np.testing.assert_array_equal(env.controller_memory(), memory)
    np.testing.assert_array_equal(env.ctrl, ctrl)
    env.step(env.encode({RIGHT: env.commanded(RIGHT)}))


@pytest.mark.parametrize("shape", [(6,), (8,), (1, 7), ()])
def test_a_wrong_shape_is_refused(make: Make, shape: tuple) -> None:
    env = make(control="ee_delta")
    env.reset(seed=0)
    with pytest.raises(ActionError, match=r"must have shape \(7,\)"):
        env.step(np.zeros(shape, np.float32))


def test_entries_outside_the_box_are_clipped_and_counted(make: Make) -> None:
    env, twin = make(), make()
    env.reset(seed=0)
    twin.reset(seed=0)
    *_, info = env.step(np.array([3.0, 0.2, -1.5, 0, 0, 0, 1.0], np.float32))
    *_, same = twin.step(np.array([1.0, 0.2, -1.0, 0, 0, 0, 1.0], np.float32))
    assert info["n_clipped"] == 2
    assert same["n_clipped"] == 0
    np.testing.assert_array_equal(env.integration_state(), twin.integration_state())


def test_errors_are_the_packages() -> None:
    assert issubclass(ActionError, EnvError)
    assert issubclass(ActionError, ValueError)
    with pytest.raises(OptionError, match=r"control='x' is unknown; choose from \['ee_delta'"):
        ActionCodec("x", {}, 0.02)


# --- holding ---


@pytest.mark.parametrize("control_hz", [20, 50, 200])
def test_zero_holds_a_load(make: Make, control_hz: int) -> None:
    """0.5 kg hung into the hand between one step and the next; no gravity compensation for it."""
    env = make(control_hz=control_hz, task="reach", terminate_on_success=False)
    env.reset(seed=0)
    hold = np.array([0, 0, 0, 0, 0, 0, -1], np.float32)
    start = env.commanded(RIGHT)
    before = env.measured(RIGHT).position
    env.data.body("right/hand/hand").xfrc_applied[2] = -0.5 * 9.81
    for _ in range(5 * control_hz):
        env.step(hold)
    after = env.commanded(RIGHT)
    np.testing.assert_array_equal(after.position, start.position, "exactly")
    np.testing.assert_array_equal(after.quat_wxyz, start.quat_wxyz, "exactly")
    moved = np.linalg.norm(env.measured(RIGHT).position - before)
    assert 1e-5 < moved < 1e-3, "the load is felt, and held within 1 mm"


def test_zero_holds_the_target_while_pushed_about(make: Make) -> None:
    """A push of 60 N to and fro: the tool gives way, the target does not, and the tool is back."""
    env = make(task="reach", terminate_on_success=False)
    env.reset(seed=0)
    hold = np.array([0, 0, 0, 0, 0, 0, -1], np.float32)
    start, body = env.commanded(RIGHT), env.data.body("right/hand/hand")
    before = env.measured(RIGHT).position
    for k in range(100):
        body.xfrc_applied[:3] = (0.0, 60.0 * np.sign(np.sin(0.5 * k + 0.1)), 0.0)
        env.step(hold)
    body.xfrc_applied[:] = 0.0
    for _ in range(50):
        env.step(hold)
    np.testing.assert_array_equal(env.commanded(RIGHT).position, start.position)
    assert np.linalg.norm(env.measured(RIGHT).position - before) < 1e-4


# --- limits on targets ---


@pytest.mark.parametrize("control_hz", [20, 50, 200])
def test_a_diagonal_is_no_faster(make: Make, control_hz: int) -> None:
    env = make(control_hz=control_hz)
    env.reset(seed=0)
    for _ in range(3):
        before = env.commanded(RIGHT)
        env.step(np.array([1, 1, -1, 1, -1, 1, 0], np.float32))
        after = env.commanded(RIGHT)
        step = np.linalg.norm(after.position - before.position)
        assert step <= (1.0 + 1e-6) / control_hz
        assert _angle(after.quat_wxyz, before.quat_wxyz) <= 2.5 * (1.0 + 1e-6) / control_hz
        assert env.arms[RIGHT].clamps & Clamp.SPEED


def test_full_speed_along_an_axis_is_not_too_fast(make: Make) -> None:
    env = make()
    env.reset(seed=0)
    for axis in range(6):
        action = np.zeros(7, np.float32)
        action[axis] = 1.0
        env.step(action)
        assert not env.arms[RIGHT].clamps & Clamp.SPEED


@pytest.mark.parametrize("control", ["ee_delta", "ee_pose"])
def test_the_target_stays_in_the_workspace(make: Make, control: str) -> None:
    """Whatever is asked: 10 mm over the table at least."""
    env = make(control=control, task="reach", terminate_on_success=False)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    workspace, seen = env.workspace(RIGHT), Clamp.NONE
    for _ in range(40):
        action = rng.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        action[2] = -1.0
        for _ in range(10):
            env.step(action)
            p = env.commanded(RIGHT).position
            assert np.all(p >= workspace.lower - 1e-12)
            assert np.all(p <= workspace.upper + 1e-12)
            seen |= env.arms[RIGHT].clamps
    assert seen & Clamp.WORKSPACE or control == "ee_pose"


def test_a_start_outside_the_workspace(make: Make) -> None:
    """A restored state whose tool is behind the box: no jump to the wall, and it may come in."""
    env = make(task="reach", terminate_on_success=False)
    env.reset(seed=0)
    arm = env.arms[RIGHT]
    folded = arm.ik.solve((0.10, 0.30, 0.40), (0.0, 1.0, 0.0, 0.0))
    assert folded.ok
    env.data.qpos[:7] = folded.qpos
    env.data.ctrl[:7] = folded.qpos
    env.data.qvel[:] = 0.0
    env.restore(env.integration_state())
    start = env.commanded(RIGHT).position
    assert start[0] == pytest.approx(0.10, abs=1e-3)
    for _ in range(10):
        env.step(np.zeros(7, np.float32))
    np.testing.assert_array_equal(env.commanded(RIGHT).position, start, "zero holds here too")
    env.step(np.array([-1, 0, 0, 0, 0, 0, 0], np.float32))
    np.testing.assert_allclose(env.commanded(RIGHT).position, start, atol=1e-12)
    assert arm.clamps & Clamp.WORKSPACE, "no farther out"
    last = start
    for _ in range(25):
        env.step(np.array([0.5, 0, 0, 0, 0, 0, 0], np.float32))
        now = env.commanded(RIGHT).position
        assert np.linalg.norm(now - last) <= 0.020 * (1 + 1e-6)
        last = now
    assert last[0] > 0.25
    for _ in range(25):
        env.step(np.array([-0.5, 0, 0, 0, 0, 0, 0], np.float32))
    assert env.commanded(RIGHT).position[0] == pytest.approx(0.20, abs=1e-9), "in is in"


def test_the_leash_keeps_the_target_near_a_blocked_tool(make: Make, wall: float) -> None:
    """30 mm at 50 Hz: one step of motion and 10 mm, measured before the step."""
    env = make(task="reach", terminate_on_success=False)
    env.reset(seed=0)
    arm, acted = env.arms[RIGHT], 0
    for k in range(100):
        at = arm.measure(env.data)[0].copy()
        env.step(np.array([0, 0.3, 0, 0, 0, 0, 0], np.float32))
        lead = np.linalg.norm(env.commanded(RIGHT).position - at)
        acted += bool(arm.clamps & Clamp.LEASH)
        if k > 50:
            assert lead <= 0.030 * (1 + 1e-6)
    assert acted > 30
    assert env.commanded(RIGHT).position[1] < wall + 0.03
