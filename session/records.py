"""From the session's words to the recorder's: nothing is computed here, only renamed."""

import contextlib
import dataclasses
import json
import secrets
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import mujoco
import numpy.typing as npt

import episodes
from envs.arm import Clamp as EnvClamp
from envs.panda_env import PicoPandaEnv
from kinematics import Side
from kinematics.frames import Array
from teleop_agent.clock import Clock
from teleop_agent.clutch import Lock
from teleop_agent.config import TeleopConfig
from teleop_agent.frame import Button, Controller, OperatorFrame, TrackedPose
from teleop_agent.guard import GuardConfig, pose_fault
from teleop_agent.limits import Clamp as HandClamp
from teleop_agent.policy import HandStep, PolicyStep
from teleop_agent.reasons import HandState, Reason
from teleop_agent.turns import nearest_rotation, turn_quat

from .loop import Row


def raw_device(pose: TrackedPose, inputs: Controller | None = None) -> episodes.RawDevice:
    """Convert one device's sample, untouched."""
    raw = episodes.RawDevice(pose.connected, pose.valid, pose.tracked, pose.matrix)
    if inputs is None:
        return raw
    return dataclasses.replace(
        raw,
        input_valid=inputs.input_valid,
        trigger=inputs.trigger,
        grip=inputs.grip,
        stick=inputs.stick,
        buttons=int(inputs.buttons),
    )


def raw_frame(frame: OperatorFrame) -> episodes.RawFrame:
    """Convert one frame, untouched."""
    return episodes.RawFrame(
        seq=frame.seq,
        t_device_ns=frame.t_device_ns,
        t_recv_ns=frame.t_recv_ns,
        head=raw_device(frame.head),
        controllers={side: raw_device(c.pose, c) for side, c in frame.controllers.items()},
        headset_worn=frame.headset_worn,
        space=frame.space,
    )


FRESH_NS = 50_000_000
"""Tracking counts as valid with a believed sample this young: three samples may be missed."""
CLAMP_SHIFT = 8
"""Bits by which the environment's clamps follow the hand's."""
CLAMP_FLAGS = {f"hand_{c.name}".lower(): int(c) for c in HandClamp if c} | {
    f"env_{c.name}".lower(): int(c) << CLAMP_SHIFT for c in EnvClamp if c
}
BUTTON_FLAGS = {str(button.name).lower(): int(button) for button in Button if button}


class LastPoses:
    """Remember the last believable pose of each device: position (3,) and wxyz, in tracking."""

    _tolerance = GuardConfig().rigid_tolerance

    def __init__(self) -> None:
        self._head: TrackedPose | None = None
        self._hands: dict[Side, TrackedPose] = {}

    def take(self, frames: Sequence[OperatorFrame], policy: PolicyStep) -> None:
        """Learn from a tick's frames; of the controllers, those samples that the guard passed."""
        for frame in frames:
            if pose_fault(frame.head, self._tolerance) is None:
                self._head = frame.head
            for side, hand in policy.hands.items():
                if hand.t_device_ns == frame.t_device_ns and hand.t_recv_ns == frame.t_recv_ns:
                    self._hands[side] = frame.controllers[hand.controller].pose

    def head(self) -> dict[str, Array]:
        """Return the head's pose by the names of a row's record; nothing before the first."""
        return _named("head", self._head)

    def hand(self, side: Side) -> dict[str, Array]:
        """Return a controller's pose by the names of a hand's record; nothing before the first."""
        return _named("controller", self._hands.get(side))


def _named(name: str, pose: TrackedPose | None) -> dict[str, Array]:
    if pose is None:
        return {}
    quat = turn_quat(nearest_rotation(pose.matrix[:, :3]))
    return {f"{name}_position": pose.matrix[:, 3], f"{name}_quat": quat}


def tracks(hand: HandStep, controller: Controller | None) -> bool:
    """Return whether a hand is being tracked in this row, engaged or not."""
    if controller is None or hand.age_ns is None or hand.age_ns > FRESH_NS:
        return False
    return pose_fault(controller.pose, GuardConfig().rigid_tolerance) is None


def hand_record(
    hand: HandStep,
    env: PicoPandaEnv,
    controller: Controller | None,
    pose: dict[str, Array],
    clearance: float,
) -> episodes.HandRecord:
    """Convert one hand's causal chain of a row, after the step."""
    arm = env.arms[hand.side]
    known = {"filtered_position": hand.filtered_position, "filtered_quat": hand.filtered_quat_wxyz}
    return episodes.HandRecord(
        target_position=hand.target.position,
        target_quat=hand.target.quat_wxyz,
        closure=hand.target.closure,
        accepted_position=arm.position,
        accepted_quat=arm.quat,
        joint_target=arm.ik.q,
        engaged=hand.engaged,
        fine=hand.fine,
        scale=hand.ratio.move,
        turn_scale=hand.ratio.turn,
        lock=hand.ratio.lock.value,
        guard_state=hand.state.value,
        guard_reason=hand.reason.value if hand.reason else "",
        T_world_tracking=hand.T_world_tracking,
        clamps=int(hand.clamps) | int(arm.clamps) << CLAMP_SHIFT,
        ik_position_error=arm.residual.position_error,
        ik_rotation_error=arm.residual.rotation_error,
        clearance=clearance,
        trigger=hand.trigger,
        grip=hand.grip,
        stick=controller.stick if controller else (0.0, 0.0),
        buttons=int(controller.buttons) if controller else 0,
        tracking_valid=tracks(hand, controller),
        t_device_ns=episodes.NO_TIME if hand.t_device_ns is None else hand.t_device_ns,
        t_recv_ns=episodes.NO_TIME if hand.t_recv_ns is None else hand.t_recv_ns,
        **{key: value for key, value in known.items() if value is not None},
        **pose,
    )


def recorded(
    observation: Mapping[str, npt.NDArray[Any]], env: PicoPandaEnv
) -> dict[str, npt.NDArray[Any]]:
    """Return what of an observation is recorded: all but pictures.

    The states in the file and the environment's spec beside them give any picture again, at any
    size, with no camera in the control loop and no large file.
    """
    return {key: value for key, value in observation.items() if key not in env.picture_keys}


def step_record(row: Row, env: PicoPandaEnv, last: LastPoses) -> episodes.StepRecord:
    """Convert a row, right after the step that it tells of."""
    newest, clearances = row.policy.frame, env.clearances()
    hands = {
        side: hand_record(
            hand,
            env,
            newest.controllers[hand.controller] if newest else None,
            last.hand(side),
            clearances[side],
        )
        for side, hand in row.policy.hands.items()
    }
    return episodes.StepRecord(
        observation=recorded(row.observation, env),
        action=row.policy.action.astype(float),
        reward=row.reward,
        terminated=row.terminated,
        truncated=row.truncated,
        success=bool(row.info["success"]),
        state=row.state,
        ctrl=env.ctrl,
        hands=hands,
        t_due_ns=row.t_due_ns,
        t_obs_ns=row.t_tick_ns,
        t_filter_ns=row.t_tick_ns,
        t_target_ns=row.policy.t_target_ns,
        t_policy_ns=row.t_policy_ns,
        t_step_start_ns=row.t_apply_ns,
        t_physics_ns=row.t_physics_ns,
        t_step_end_ns=row.t_done_ns,
        sim_time=float(row.state[0]),
        late=row.late,
        n_clipped=row.info["n_clipped"],
        controller_memory=row.memory,
        **last.head(),
    )


PACKAGES = ("mujoco", "gymnasium", "numpy", "scipy", "h5py", "openvr", "picopanda")


def package_versions() -> dict[str, str]:
    """Return the versions of what a recording depends on."""
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def _observation_attrs(env: PicoPandaEnv) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {"object": {"names": env.task.object_names}}
    for key, bound in env.noise_bounds.items():
        found.setdefault(key, {})["noise_bound"] = bound
    return found


def episode_info(
    env: PicoPandaEnv,
    device: str,
    operator: str,
    config: TeleopConfig,
    clock: Clock,
    model_sha256: str,
) -> episodes.EpisodeInfo:
    """Describe what all episodes of this session have in common."""
    spec = env.spec
    assert spec is not None
    speed, period = env.speed_limits, 1.0 / env.control_hz
    return episodes.EpisodeInfo(
        task=env.task.name,
        seed=0,
        operator=operator,
        session_id=secrets.token_hex(8),
        attempt_id="",
        language_instruction=env.task.instruction,
        device=device,
        start_time_utc="",
        t_start_ns=clock.now_ns(),
        control_hz=env.control_hz,
        n_substeps=env.n_substeps,
        physics_timestep=env.model.opt.timestep,
        control_mode=env.control_mode,
        env_spec_json=spec.to_json(),
        env_args={"env_name": spec.id, "type": 2, "env_kwargs": dict(spec.kwargs)},
        sides=env.sides,
        action_names=env.action_names,
        action_attrs={
            "description": env.action_description,
            "linear_scale_m": speed.linear * period,
            "angular_scale_rad": speed.angular * period,
            "gripper_sign": "-1 open, +1 closed",
        },
        observation_attrs=_observation_attrs(env),
        clamp_flags=CLAMP_FLAGS,
        button_flags=BUTTON_FLAGS,
        locks=tuple(lock.value for lock in Lock),
        guard_states=tuple(state.value for state in HandState),
        guard_reasons=("", *(reason.value for reason in Reason)),
        state_components=episodes.state_components(env.model),
        ctrl_names=tuple(env.model.actuator(i).name for i in range(env.model.nu)),
        model_sha256=model_sha256,
        mujoco_version=mujoco.__version__,
        teleop_config_json=json.dumps(dataclasses.asdict(config)),
        packages=package_versions(),
    )
