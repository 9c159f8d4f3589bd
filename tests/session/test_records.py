"""What a row becomes in a record: every field has one source, and nothing is lost on the way."""

import dataclasses
import itertools
import json
import math
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import pytest
from choreography import Script
from diary import Stage
from gymnasium.envs.registration import EnvSpec
from scipy.spatial.transform import Rotation

import episodes
from envs.arm import Clamp as EnvClamp
from envs.panda_env import PicoPandaEnv
from kinematics import Side
from kinematics.frames import rotation
from session.loop import Row
from session.records import (
    BUTTON_FLAGS,
    CLAMP_FLAGS,
    CLAMP_SHIFT,
    LastPoses,
    episode_info,
    raw_frame,
    step_record,
)
from teleop_agent.clock import VirtualClock
from teleop_agent.clutch import Lock
from teleop_agent.config import TeleopConfig
from teleop_agent.frame import Button, Controller, OperatorFrame, TrackedPose
from teleop_agent.limits import Clamp as HandClamp
from teleop_agent.reasons import HandState, Reason

B = (Side.RIGHT, Button.SECONDARY)


class Recording:
    """Run a script in an environment and convert every row when it happens."""

    def __init__(self, env: PicoPandaEnv, script: Script) -> None:
        self.stage = Stage(env, script)
        self.last = LastPoses()
        self.rows: list[Row] = []
        self.records: list[episodes.StepRecord] = []
        diary = self.stage.diary
        diary.on_frames = self.last.take
        diary.on_row = lambda row: self.records.append(step_record(row, env, self.last))
        self.stage.run()
        self.rows = diary.rows

    def hands(self) -> list[episodes.HandRecord]:
        return [record.hands[Side.RIGHT] for record in self.records]


def matrix_of(hand: episodes.HandRecord) -> np.ndarray:
    turn = rotation(hand.controller_quat).as_matrix()
    return np.column_stack([turn, hand.controller_position])


def test_a_frame_is_converted_untouched() -> None:
    odd = np.full((3, 4), np.nan)
    odd[1, 2] = -3.0
    pose = TrackedPose(True, False, True, odd, "SERIAL")
    right = Controller(pose, True, 0.25, 0.75, (-0.5, 1.0), Button.PRIMARY | Button.STICK)
    head = TrackedPose(True, True, False, np.eye(4)[:3])
    frame = OperatorFrame(12, 34, 56, head, {Side.RIGHT: right, Side.LEFT: Controller()})
    raw = raw_frame(frame)
    assert (raw.seq, raw.t_device_ns, raw.t_recv_ns) == (12, 34, 56)
    there = raw.controllers[Side.RIGHT]
    assert (there.connected, there.valid, there.tracked) == (True, False, True)
    np.testing.assert_array_equal(there.matrix, odd)
    assert (there.input_valid, there.trigger, there.grip) == (True, 0.25, 0.75)
    assert (there.stick, there.buttons) == ((-0.5, 1.0), 5)
    left = raw.controllers[Side.LEFT]
    assert not (left.connected or left.valid or left.tracked or left.input_valid)
    assert not left.matrix.any()
    assert (raw.head.connected, raw.head.valid, raw.head.tracked) == (True, True, False)
    np.testing.assert_array_equal(raw.head.matrix, np.eye(4)[:3])


def test_every_field_of_a_row_has_its_source(panda: Callable[..., PicoPandaEnv]) -> None:
    env = panda()
    script = Script()
    script.engage()
    script.right.trigger, script.right.stick = 0.5, (0.25, -0.5)
    script.right.buttons = Button.STICK
    script.move(0.4, (0.0, 0.1, 0.0))
    script.right.buttons = Button.NONE
    script.press(*B)
    recording = Recording(env, script)
    for row, record in zip(recording.rows, recording.records, strict=True):
        for key, value in row.observation.items():
            np.testing.assert_array_equal(record.observation[key], value)
        np.testing.assert_array_equal(record.action, row.policy.action)
        assert record.action.dtype == np.float64
        np.testing.assert_array_equal(record.state, row.state)
        np.testing.assert_array_equal(record.controller_memory, row.memory)
        assert (record.reward, record.terminated, record.truncated) == (
            row.reward,
            row.terminated,
            row.truncated,
        )
        assert record.success == row.info["success"]
        assert record.sim_time == row.state[0]
        assert (record.t_obs_ns, record.t_filter_ns) == (row.t_tick_ns, row.t_tick_ns)
        assert (record.t_due_ns, record.t_target_ns) == (row.t_due_ns, row.policy.t_target_ns)
        assert (record.t_policy_ns, record.t_physics_ns) == (row.t_policy_ns, row.t_physics_ns)
        assert (record.t_step_start_ns, record.t_step_end_ns) == (row.t_apply_ns, row.t_done_ns)
        assert (record.late, record.n_clipped) == (row.late, row.info["n_clipped"])
        hand, step = record.hands[Side.RIGHT], row.policy.hands[Side.RIGHT]
        np.testing.assert_array_equal(hand.target_position, step.target.position)
        np.testing.assert_array_equal(hand.target_quat, step.target.quat_wxyz)
        assert hand.closure == step.target.closure
        assert (hand.engaged, hand.fine) == (step.engaged, step.fine)
        assert (hand.scale, hand.turn_scale, hand.lock) == step.ratio
        assert (hand.guard_state, hand.guard_reason) == (step.state.value, "")
        assert (hand.trigger, hand.grip) == (step.trigger, step.grip)
        assert (hand.t_device_ns, hand.t_recv_ns) == (step.t_device_ns, step.t_recv_ns)
        np.testing.assert_array_equal(hand.filtered_position, step.filtered_position)
        np.testing.assert_array_equal(hand.filtered_quat, step.filtered_quat_wxyz)
        np.testing.assert_array_equal(hand.T_world_tracking, step.T_world_tracking)
        assert hand.tracking_valid
    middle = recording.records[20].hands[Side.RIGHT]
    assert (middle.fine, middle.closure, middle.stick) == (True, 0.5, (0.25, -0.5))
    assert math.isclose(middle.scale, 0.12)
    assert middle.buttons == BUTTON_FLAGS["stick"]


def test_what_follows_the_step_is_of_the_same_row(panda: Callable[..., PicoPandaEnv]) -> None:
    env = panda()
    script = Script()
    script.engage()
    script.move(0.5, (0.0, 0.1, 0.1))
    script.press(*B)
    recording = Recording(env, script)
    records = recording.records
    for now, then in itertools.pairwise(records):
        hand = now.hands[Side.RIGHT]
        seen = then.observation["robot0_target_pos"]
        np.testing.assert_array_equal(hand.accepted_position.astype(np.float32), seen)
        assert now.ctrl.shape == (env.n_substeps, env.model.nu)
        np.testing.assert_allclose(hand.accepted_position, hand.target_position, atol=1e-6)
        assert hand.ik_position_error < 1e-3
    final = records[-1].hands[Side.RIGHT]
    np.testing.assert_array_equal(final.accepted_position, env.commanded(Side.RIGHT).position)
    np.testing.assert_array_equal(records[-1].ctrl, env.ctrl)
    assert len({record.ctrl.tobytes() for record in records}) > 20  # copies, not one buffer


def test_the_pose_of_a_row_is_the_sample_its_times_name(
    panda: Callable[..., PicoPandaEnv],
) -> None:
    script = Script()
    script.engage()
    script.move(0.5, (0.0, 0.1, 0.1))
    script.press(*B)
    recording = Recording(panda(), script)
    shown = {frame.t_recv_ns: frame for row in recording.rows for frame in row.frames}
    for hand in recording.hands():
        frame = shown[hand.t_recv_ns]
        assert frame.t_device_ns == hand.t_device_ns
        want = frame.controllers[Side.RIGHT].pose.matrix
        np.testing.assert_allclose(matrix_of(hand), want, atol=1e-12)


def test_a_pose_read_before_the_episode_is_known_in_its_first_row(
    panda: Callable[..., PicoPandaEnv],
) -> None:
    script = Script(hz=180)  # a runtime polled twice between two measurements
    script.hold(0.2)
    before = len(script.frames)
    script.right.matrix = script.frames[-1].controllers[Side.RIGHT].pose.matrix
    script.right.grip = 1.0
    script.hold(1 / 180)  # squeezed in a repeated sample, of which the pose is not taken
    script.right.matrix = None
    script.hold(0.5)
    script.press(*B)
    recording = Recording(panda(control_hz=200), script)
    first = recording.records[0].hands[Side.RIGHT]
    assert [frame.seq for frame in recording.rows[0].frames] == [before]
    assert first.engaged
    assert first.t_device_ns < recording.rows[0].frames[0].t_device_ns
    want = script.frames[before].controllers[Side.RIGHT].pose.matrix
    np.testing.assert_allclose(matrix_of(first), want, atol=1e-12)
    assert np.isfinite(recording.records[0].head_position).all()


def test_a_refused_sample_leaves_the_last_pose(panda: Callable[..., PicoPandaEnv]) -> None:
    script = Script()
    script.engage()
    script.hold(0.5)
    good = script.frames[-1].controllers[Side.RIGHT].pose.matrix
    head = script.head
    script.right.matrix = np.zeros((3, 4))
    script.head = TrackedPose(True, True, False, head.matrix + 1.0)
    script.hold(0.5)
    script.right.matrix = None
    script.press(*B)
    recording = Recording(panda(), script)
    held = [
        record
        for row, record in zip(recording.rows, recording.records, strict=True)
        if row.frames and not row.frames[-1].controllers[Side.RIGHT].pose.matrix.any()
    ]
    assert len(held) > 20
    for record in held:
        hand = record.hands[Side.RIGHT]
        np.testing.assert_allclose(matrix_of(hand), good, atol=1e-12)
        np.testing.assert_allclose(record.head_position, head.matrix[:, 3], atol=1e-12)
        assert (hand.guard_state, hand.guard_reason) == ("held", "pose all zero")
        assert not (hand.tracking_valid or hand.engaged)
        assert np.isnan(hand.filtered_position).all()


def test_before_the_first_pose_there_is_none(panda: Callable[..., PicoPandaEnv]) -> None:
    env = panda()
    script = Script()
    script.head = TrackedPose()
    script.engage()
    script.hold(0.5)
    stage = Stage(env, script, teleop=TeleopConfig(facing_yaw=0.0))
    records: list[episodes.StepRecord] = []
    empty = LastPoses()
    stage.diary.on_row = lambda row: records.append(step_record(row, env, empty))
    with pytest.raises(Exception, match="script is over"):
        stage.run()
    assert np.isnan(records[0].head_position).all()
    assert np.isnan(records[0].head_quat).all()
    assert np.isnan(records[0].hands[Side.RIGHT].controller_position).all()
    assert np.isnan(records[0].hands[Side.RIGHT].controller_quat).all()


def test_each_hand_is_recorded_with_its_own_arm(panda: Callable[..., PicoPandaEnv]) -> None:
    """Both engaged, moved apart: no side's number stands in the other's record."""
    script = Script()
    for side in Side:
        script.engage(side)
    script.move(0.5, (0.0, 0.1, 0.0), Side.RIGHT)
    script.move(0.5, (0.0, -0.1, 0.0), Side.LEFT)
    script.hold(0.2)
    script.press(*B)
    env = panda("lift_tray")
    records = Recording(env, script).records
    first, last = records[0], records[-1]
    assert set(last.hands) == set(Side)
    assert last.action.shape == (14,)
    for side, rise in ((Side.RIGHT, 1.0), (Side.LEFT, -1.0)):
        hand, arm = last.hands[side], env.arms[side]
        assert hand.engaged
        np.testing.assert_array_equal(hand.accepted_position, arm.position)
        np.testing.assert_array_equal(hand.joint_target, arm.ik.q)
        moved = hand.accepted_position[2] - first.hands[side].accepted_position[2]
        assert moved * rise > 0.05, "0.1 m of hand at a scale of 0.6"
        assert hand.controller_position is not None


def test_the_info_names_both_arms(panda: Callable[..., PicoPandaEnv]) -> None:
    env = panda("lift_tray")
    info = episode_info(env, "sim", "P-1", TeleopConfig(), VirtualClock(), env.model_sha256)
    assert info.sides == (Side.RIGHT, Side.LEFT)
    assert len(info.action_names) == 14
    assert info.env_args["env_name"] == "PicoDualPanda-v0"


def test_the_flags_of_both_rooms_share_one_number() -> None:
    bits = list(CLAMP_FLAGS.values())
    assert len(set(bits)) == len(bits) == len(HandClamp) + len(EnvClamp)
    assert all(bit.bit_count() == 1 for bit in bits)
    assert max(map(int, HandClamp)) < 1 << CLAMP_SHIFT
    assert CLAMP_FLAGS["hand_speed"] == 2
    assert CLAMP_FLAGS["env_leash"] == 4 << 8
    assert BUTTON_FLAGS == {"primary": 1, "secondary": 2, "stick": 4}


def test_both_rooms_clamps_are_recorded(panda: Callable[..., PicoPandaEnv]) -> None:
    script = Script()
    script.engage()
    script.move(0.5, (0.0, -0.9, 0.0))  # 1.1 m/s of tool on average
    script.move(1.0, (0.0, -0.9, 0.0))  # and further than the arm can follow
    script.press(*B)
    recording = Recording(panda(), script)
    seen = [hand.clamps for hand in recording.hands()]
    assert any(clamps & CLAMP_FLAGS["hand_speed"] for clamps in seen)
    assert any(clamps & CLAMP_FLAGS["env_reach"] for clamps in seen)
    for row, hand in zip(recording.rows, recording.hands(), strict=True):
        assert hand.clamps & 0xFF == int(row.policy.hands[Side.RIGHT].clamps)


def test_every_row_holds_how_near_the_arm_came(panda: Callable[..., PicoPandaEnv]) -> None:
    script = Script()
    script.engage()
    script.press(*B)
    env = panda()
    recording = Recording(env, script)
    seen = [hand.clearance for hand in recording.hands()]
    assert len(set(seen)) > 1, "each of its own row"
    assert seen[-1] == pytest.approx(env.clearances()[Side.RIGHT], abs=1e-3)
    assert 0.05 < min(seen) <= max(seen) < 0.2


def test_a_hand_that_pushes_against_the_other_arm_comes_back_at_once(
    panda: Callable[..., PicoPandaEnv],
) -> None:
    """0.45 m of hand where 0.2 m of tool are free; then 0.1 m back, 0.06 m of tool."""
    script = Script()
    for side in Side:
        script.engage(side)
    script.move(1.5, (-0.45, 0.0, 0.0), Side.RIGHT)
    script.hold(0.3)
    script.move(0.5, (0.1, 0.0, 0.0), Side.RIGHT)
    script.hold(0.3)
    script.press(*B)
    hands = Recording(panda("lift_tray"), script).hands()
    path = np.array([hand.accepted_position for hand in hands])
    held = CLAMP_FLAGS["env_clearance"] | CLAMP_FLAGS["hand_leash"]
    blocked = [hand.clamps & held == held for hand in hands]
    assert sum(blocked) > 10
    assert 0.015 < min(hand.clearance for hand in hands) < 0.03
    farthest = path[:, 1].max()
    assert 0.12 < farthest - path[0, 1] < 0.24
    # 5 mm: the target's lead, where the tool follows no more.
    assert farthest - path[-1, 1] == pytest.approx(0.06, abs=0.008)
    assert np.abs(path[:, [0, 2]] - path[0, [0, 2]]).max() < 0.005, "it waits, it does not evade"
    turns = np.abs(np.diff(path[:, 1], n=2))[np.flatnonzero(blocked)[5] :]
    assert turns.max() < 0.0055, "13 m/s2 of the hand's limit at 50 Hz"


def test_the_info_describes_the_environment(panda: Callable[..., PicoPandaEnv]) -> None:
    env = panda(control_hz=25)
    config = dataclasses.replace(TeleopConfig(), filter="one_euro")
    clock = VirtualClock(77)
    model = episodes.CompiledModel.of(env.model)
    info = episode_info(env, "sim", "P-7", config, clock, model.sha256)
    assert (info.task, info.device, info.operator) == ("reach", "sim", "P-7")
    assert (info.control_hz, info.n_substeps, info.control_mode) == (25, 24, "ee_delta")
    assert info.physics_timestep == 1 / 600
    assert len(info.action_names) == env.action_space.shape[0]
    assert info.action_attrs["linear_scale_m"] == pytest.approx(0.04)
    assert info.action_attrs["angular_scale_rad"] == pytest.approx(0.1)
    assert info.observation_attrs["object"]["names"] == env.task.object_names
    assert len(info.ctrl_names) == env.model.nu
    assert sum(info.state_components.values()) == len(env.integration_state())
    assert info.locks == tuple(Lock)
    assert set(info.guard_states) == set(HandState)
    assert info.guard_reasons[0] == ""
    assert set(info.guard_reasons[1:]) == set(Reason)
    assert info.model_sha256 == env.model_sha256
    assert info.t_start_ns == 77
    stored = json.loads(info.teleop_config_json)
    assert stored["filter"] == "one_euro"
    assert stored["clutch"]["scale"] == 0.6
    assert {"mujoco", "numpy", "gymnasium", "h5py"} <= set(info.packages)
    assert info.session_id != episode_info(env, "sim", "", config, clock, "").session_id
    again = gym.make(EnvSpec.from_json(info.env_spec_json))
    assert again.unwrapped.model_sha256 == info.model_sha256
    assert again.unwrapped.control_hz == 25


def test_a_hand_turned_about_an_axis_is_recorded_as_wxyz(
    panda: Callable[..., PicoPandaEnv],
) -> None:
    script = Script()
    script.right.turn = Rotation.from_rotvec([0.0, math.radians(60.0), 0.0])
    script.engage()
    script.press(*B)
    hand = Recording(panda(), script).hands()[-1]
    want = (math.cos(math.radians(30.0)), 0.0, 0.5, 0.0)
    np.testing.assert_allclose(hand.controller_quat, want, atol=1e-9)
    np.testing.assert_allclose(hand.filtered_quat, want, atol=1e-6)
