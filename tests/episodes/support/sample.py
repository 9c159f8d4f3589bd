"""Record episodes of the slider, row by row, as the operator's program does."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium.envs.registration import EnvSpec

from episodes import (
    CompiledModel,
    EpisodeInfo,
    EpisodeResult,
    HandRecord,
    Outcome,
    RawDevice,
    RawFrame,
    Recorder,
    Run,
    RunSpec,
    Save,
    StepRecord,
    state_components,
)
from kinematics import Side
from kinematics.edits import ModelEdits

SPEC = EnvSpec(id="Slider-v0", entry_point="slider_env:SliderEnv", kwargs={"mass": 0.1})
PERIOD_NS = 20_000_000


def make_env(spec: EnvSpec = SPEC) -> Any:
    """Make the slider through Gymnasium, unwrapped."""
    return gym.make(spec, disable_env_checker=True).unwrapped


def make_info(env: Any, seed: int = 0, spec: EnvSpec = SPEC, **changes: Any) -> EpisodeInfo:
    """Describe an episode of the slider."""
    values: dict[str, Any] = {
        "task": "push",
        "seed": seed,
        "operator": "op-1",
        "session_id": "s-1",
        "language_instruction": "push the cube past the line",
        "device": "sim",
        "start_time_utc": "2025-01-02T03:04:05+00:00",
        "t_start_ns": 1_000,
        "control_hz": 50,
        "n_substeps": env.n_substeps,
        "physics_timestep": env.model.opt.timestep,
        "control_mode": "delta",
        "env_spec_json": spec.to_json(),
        "env_args": {"env_name": "slider_env:Slider-v0", "type": 2, "env_kwargs": {"mass": 0.1}},
        "sides": (Side.RIGHT,),
        "action_names": ("x", "gripper"),
        "action_attrs": {"scale_m": 0.006},
        "observation_attrs": {
            "object": {"names": ("x", "y", "z", "qw", "qx", "qy", "qz"), "quat_order": "wxyz"}
        },
        "clamp_flags": {"workspace": 1, "speed": 2},
        "button_flags": {"primary": 1, "secondary": 2, "stick": 4},
        "attempt_id": "try",
        "locks": ("free", "turn only"),
        "guard_states": ("ok", "hold"),
        "guard_reasons": ("none", "stale"),
        "state_components": state_components(env.model),
        "ctrl_names": ("right/slide",),
        "model_sha256": env.model_sha256,
        "mujoco_version": mujoco.__version__,
        "teleop_config_json": json.dumps({"scale": 0.6}),
        "packages": {"numpy": np.__version__},
    }
    return EpisodeInfo(**{**values, **changes})


def action_of(step: int, n_rows: int) -> np.ndarray:
    """Return the scripted action: forward all the way, the gripper says the step's number."""
    return np.array([0.9, 2 * step / max(1, n_rows) - 1], np.float32)


def hand_of(env: Any, step: int, action: np.ndarray, t_ns: int) -> HandRecord:
    """Return one side's chain, with a controller quaternion whose sign flips every step."""
    sign = (-1.0) ** step
    angle = 0.01 * step
    quat = sign * np.array([np.cos(angle), 0.0, np.sin(angle), 0.0])
    target = np.array([env.data.userdata[0] + 0.02, 0.0, 0.03])
    seen = step >= 2
    nan = np.full(4, np.nan)
    return HandRecord(
        target_position=target,
        target_quat=np.array([0.0, 1.0, 0.0, 0.0]),
        closure=(float(action[1]) + 1) / 2,
        accepted_position=target,
        accepted_quat=np.array([0.0, 1.0, 0.0, 0.0]),
        joint_target=env.data.userdata[:1],
        engaged=step > 3,
        fine=False,
        scale=0.6,
        turn_scale=1.0,
        lock="free",
        guard_state="ok" if seen else "hold",
        guard_reason="none" if seen else "stale",
        T_world_tracking=np.array([[0.0, 0, -1, 0], [-1, 0, 0, 0], [0, 1, 0, 0.03], [0, 0, 0, 1]]),
        clamps=2 if step % 7 == 0 else 0,
        ik_position_error=1e-4 * step,
        clearance=0.05 - 1e-4 * step,
        filtered_position=np.array([0.0, 0.0, -target[0]]) if seen else nan[:3],
        filtered_quat=quat if seen else nan,
        controller_position=np.array([0.0, 0.0, -target[0] - 0.001]) if seen else nan[:3],
        controller_quat=quat if seen else nan,
        trigger=0.25,
        grip=1.0,
        stick=(0.0, -0.5),
        buttons=2 if step == 5 else 0,
        tracking_valid=seen,
        t_device_ns=t_ns - 15_000_000 if seen else -1,
        t_recv_ns=t_ns - 9_000_000 if seen else -1,
    )


def raw_of(seq: int) -> RawFrame:
    """Return a raw frame with everything a runtime may serve, NaN included."""
    matrix = np.full((3, 4), np.nan) if seq == 1 else np.arange(12.0).reshape(3, 4) + seq
    device = RawDevice(True, seq > 0, seq > 1, matrix, True, 0.5, 0.25, (0.1, -0.2), 5)
    return RawFrame(
        seq,
        seq * 11_000_000,
        seq * 11_000_000 + 5,
        RawDevice(True, True, True, matrix),
        {Side.RIGHT: device, Side.LEFT: RawDevice()},
    )


def make_rows(env: Any, seed: int = 0, n_rows: int = 60) -> tuple[list[StepRecord], Any]:
    """Run the slider and return its rows and its last observation."""
    observation, _ = env.reset(seed=seed)
    rows: list[StepRecord] = []
    for step in range(n_rows):
        t_ns = 5_000_000_000 + step * PERIOD_NS
        state, sim_time = env.integration_state(), env.data.time
        action = action_of(step, n_rows)
        before, (observation, reward, terminated, truncated, info) = observation, env.step(action)
        rows.append(
            StepRecord(
                observation=before,
                action=action,
                reward=reward,
                terminated=terminated,
                truncated=truncated,
                success=info["success"],
                state=state,
                ctrl=info["ctrl"],
                hands={Side.RIGHT: hand_of(env, step, action, t_ns)},
                t_due_ns=t_ns - 20_000_000 * (step == 4),
                t_obs_ns=t_ns,
                t_filter_ns=t_ns + 100,
                t_target_ns=t_ns + 150,
                t_policy_ns=t_ns + 200,
                t_step_start_ns=t_ns + 300,
                t_physics_ns=t_ns + 350,
                t_step_end_ns=t_ns + 400,
                sim_time=sim_time,
                late=step == 4,
                n_clipped=int(step == 6),
                head_position=np.array([0.0, 1.6, 0.0]),
                head_quat=np.array([1.0, 0.0, 0.0, 0.0]),
            )
        )
    return rows, observation


def record_into(
    recorder: Recorder, seed: int = 0, n_rows: int = 60, env: Any = None, **changes: Any
) -> tuple[list[StepRecord], Save]:
    """Record one episode and hand it to the writer; return its rows and its save."""
    env = make_env() if env is None else env
    rows, final = make_rows(env, seed, n_rows)
    edits = env.edits
    env.edit(ModelEdits())  # the model without them
    recorder.start(make_info(env, seed, edits=edits, **changes), CompiledModel.of(env.model))
    env.edit(edits)
    for row in rows:
        recorder.append(row)
    recorder.raw([raw_of(seq) for seq in range(4)])
    success = rows[-1].success
    result = EpisodeResult(
        success=success,
        outcome=Outcome.SUCCESS if success else Outcome.FAILURE,
        state_final=env.integration_state(),
        observation_final=final,
        reason="task",
        late_ticks=1,
    )
    save = recorder.finish(result)
    assert save is not None
    return rows, save


def open_run(folder: Path, spec: EnvSpec = SPEC) -> Run:
    """Open the folder for episodes of the slider."""
    return Run.open(folder, RunSpec.of(make_info(make_env(spec), spec=spec)))


def record_run(folder: Path, n_episodes: int = 1, n_rows: int = 60) -> Path:
    """Record a run of episodes with seeds 0, 1, ... and return its folder."""
    with Recorder(open_run(folder)) as recorder:
        for seed in range(n_episodes):
            record_into(recorder, seed, n_rows)
    return folder
