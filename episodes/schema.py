"""The layout of a file: every path, type, unit and meaning, spelled here and nowhere else.

``docs/dataset.md`` is generated from these tables. Quaternions are wxyz, unit, and, but for what
the policy saw (``obs``), sign-continuous from row to row.
"""

import json
import re

from .fields import AttrField, Field, ObservationField, Order, Scope

SCHEMA_VERSION = 1
"""Counts up when a reader of the former version would misread a file."""

DATA = "data"
MASK = "mask"
MASKS = ("success", "failure", "interrupted")
MASTER = "dataset.hdf5"
EPISODES_DIR = "episodes"
MODELS_DIR = "models"
DELETED_DIR = "deleted"
"""Of a run's folder: episodes that the operator took back."""
RUN_JSON = "run.json"
SUFFIX = ".hdf5"
PARTIAL_SUFFIX = ".hdf5.partial"
JOURNAL_SUFFIX = ".journal"
"""Of a running episode, or of what a crash left of one."""

ACTIONS = "actions"
STATES = "states"
CTRL = "sim/ctrl"
CONTROLLER_STATE = "sim/controller_state"
STATE_FINAL = "sim/state_final"
SUCCESS = "success"
OBS = "obs"
OBS_FINAL = "obs_final"
T_OBS = "timing/t_obs_ns"
T_SIM = "timing/t_sim"
T_DUE = "timing/t_due_ns"
T_TARGET = "timing/t_target_ns"
T_POLICY = "timing/t_policy_ns"
T_APPLY = "timing/t_apply_ns"
T_PHYSICS = "timing/t_physics_ns"
T_END = "timing/t_end_ns"
EDIT_FIELD = "sim/edit_field"
EDIT_INDEX = "sim/edit_index"
EDIT_VALUE = "sim/edit_value"

LENGTHS = {
    "T": "control steps (rows) of the episode, attribute `num_samples`",
    "N": "device samples of the episode",
    "A": "components of an action",
    "D": "numbers of MuJoCo's integration state",
    "S": "physics steps of a control step, attribute `n_substeps`",
    "U": "actuators of the model",
    "C": "numbers that the environment's controllers remember; may be 0",
    "J": "joints of an arm",
    "E": "numbers of the model that the episode edited; 0 without randomisation",
    "n": "arms; `3n` is three columns an arm",
}

XYZ = ("x", "y", "z")
WXYZ = ("w", "x", "y", "z")
POSE = (*XYZ, "qw", "qx", "qy", "qz")


def demo_name(number: int) -> str:
    """Return the group name of episode ``number``, zero padded to six digits."""
    return f"demo_{number:06d}"


def demo_number(name: str) -> int | None:
    """Return the number in ``demo_000012`` or ``demo_12``, None for any other name."""
    match = re.fullmatch(r"demo_(\d+)", name)
    return int(match[1]) if match else None


_STEP = (
    Field(ACTIONS, Scope.ROW, ("T", "A"), "f8", "1", "Executed action in [-1, 1]: "
          "the very value given to env.step after obs of its row. Gripper: -1 open, +1 closed.",
          lambda r: r.action, names="action_names"),
    Field("rewards", Scope.ROW, ("T",), "f4", "1", "Reward of the step.", lambda r: r.reward),
    Field("terminated", Scope.ROW, ("T",), "?", "bool", "The task ended with this step.",
          lambda r: r.terminated),
    Field("truncated", Scope.ROW, ("T",), "?", "bool", "The time limit ended it with this step.",
          lambda r: r.truncated),
    Field(SUCCESS, Scope.ROW, ("T",), "?", "bool", "The task held as solved after this step.",
          lambda r: r.success),
    Field(STATES, Scope.ROW, ("T", "D"), "f8", "SI", "MuJoCo's mjSTATE_INTEGRATION before the "
          "action; mj_setState then mj_forward restores it.", lambda r: r.state),
    Field(CTRL, Scope.ROW, ("T", "S", "U"), "f8", "actuator",
          "What the actuators got at every physics step of the row; replays bit for bit.",
          lambda r: r.ctrl, names="ctrl_names"),
    Field(CONTROLLER_STATE, Scope.ROW, ("T", "C"), "f8", "mixed", "What the controllers "
          "remembered before the action; none of it matters to a replay of ctrl.",
          lambda r: r.controller_memory),
    Field("operator/head_pose", Scope.ROW, ("T", 7), "f8", "m, 1", "Head in tracking: position and "
          "quaternion of the last valid sample; NaN before the first.",
          lambda r: (*r.head_position, *r.head_quat), quat=3, names=POSE, finite=False,
          attrs={"frame": "tracking"}),
    Field(T_DUE, Scope.ROW, ("T",), "i8", "ns", "When the control step should have started; "
          "timing/t_obs_ns minus it is how late it was.", lambda r: r.t_due_ns, order=Order.WEAK),
    Field(T_OBS, Scope.ROW, ("T",), "i8", "ns", "Start of the control step: obs and "
          "states stand.", lambda r: r.t_obs_ns, order=Order.STRICT),
    Field("timing/t_filter_ns", Scope.ROW, ("T",), "i8", "ns",
          "Instant at which the filter was evaluated.", lambda r: r.t_filter_ns, order=Order.WEAK),
    Field(T_TARGET, Scope.ROW, ("T",), "i8", "ns", "Guard, filter and the hand's limits were "
          "done: action_dict/abs_* stood.", lambda r: r.t_target_ns, order=Order.WEAK),
    Field(T_POLICY, Scope.ROW, ("T",), "i8", "ns", "The action was ready; in control_mode joint "
          "that took the inverse kinematics.", lambda r: r.t_policy_ns, order=Order.WEAK),
    Field(T_APPLY, Scope.ROW, ("T",), "i8", "ns", "The action was applied; minus "
          "operator/{side}_t_device_ns it is the latency.", lambda r: r.t_step_start_ns,
          order=Order.WEAK),
    Field(T_PHYSICS, Scope.ROW, ("T",), "i8", "ns", "The action had become sim/ctrl, in the other "
          "control modes by the inverse kinematics: physics began.", lambda r: r.t_physics_ns,
          order=Order.WEAK),
    Field(T_END, Scope.ROW, ("T",), "i8", "ns", "The step was over.",
          lambda r: r.t_step_end_ns, order=Order.WEAK),
    Field(T_SIM, Scope.ROW, ("T",), "f8", "s", "Simulated time before the action.",
          lambda r: r.sim_time, order=Order.STRICT),
    Field("timing/overrun", Scope.ROW, ("T",), "?", "bool", "The step started more than half a "
          "period after it was due.", lambda r: r.late),
    Field("timing/n_clipped", Scope.ROW, ("T",), "u4", "1",
          "Action components that were outside [-1, 1] before they were clipped.",
          lambda r: r.n_clipped),
)  # fmt: skip

_ARMS = (
    Field("action_dict/abs_pos", Scope.ARMS, ("T", "3n"), "f8", "m",
          "Exact absolute command: ee in world.", lambda h: h.target_position, names=XYZ,
          attrs={"frame": "world"}),
    Field("action_dict/abs_quat", Scope.ARMS, ("T", "4n"), "f8", "1",
          "Exact absolute command: ee in world.", lambda h: h.target_quat, quat=0, names=WXYZ,
          attrs={"frame": "world"}),
    Field("action_dict/gripper", Scope.ARMS, ("T", "1n"), "f8", "1",
          "Gripper command, -1 open .. +1 closed: 2 closure - 1.",
          lambda h: (2.0 * h.closure - 1.0,), names=("gripper",),
          attrs={"gripper_sign": "-1 open, +1 closed"}),
    Field("action_dict/joint_target", Scope.ARMS, ("T", "Jn"), "f8", "rad",
          "Joint reference of the servo at the end of the step.", lambda h: h.joint_target),
)  # fmt: skip

_ARM = (
    Field("operator/{side}_closure", Scope.ARM, ("T",), "f8", "1",
          "Exact gripper command, 0 open .. 1 closed.", lambda h: h.closure),
    Field("operator/{side}_pose", Scope.ARM, ("T", 7), "f8", "m, 1",
          "Grip in tracking: position and quaternion of the last accepted sample at or before the "
          "step; NaN before the first.",
          lambda h: (*h.controller_position, *h.controller_quat), quat=3, names=POSE,
          finite=False, attrs={"frame": "tracking"}),
    Field("operator/{side}_filtered_pose", Scope.ARM, ("T", 7), "f8", "m, 1",
          "Grip in tracking, filtered, at timing/t_filter_ns; NaN when there is none.",
          lambda h: (*h.filtered_position, *h.filtered_quat), quat=3, names=POSE, finite=False,
          attrs={"frame": "tracking"}),
    Field("operator/{side}_trigger", Scope.ARM, ("T",), "f8", "1", "0 released .. 1 pulled.",
          lambda h: h.trigger),
    Field("operator/{side}_grip", Scope.ARM, ("T",), "f8", "1", "0 released .. 1 squeezed.",
          lambda h: h.grip),
    Field("operator/{side}_thumbstick", Scope.ARM, ("T", 2), "f8", "1",
          "x right and y up, each -1 .. 1.", lambda h: h.stick, names=("x", "y")),
    Field("operator/{side}_buttons", Scope.ARM, ("T",), "u4", "bits", "Buttons held.",
          lambda h: h.buttons, flags="button_flags"),
    Field("operator/{side}_tracking_valid", Scope.ARM, ("T",), "?", "bool",
          "The newest sample is sound, and one that was believed is at most 50 ms old.",
          lambda h: h.tracking_valid),
    Field("operator/{side}_clutch", Scope.ARM, ("T",), "?", "bool",
          "Engaged: the hand moved the target.", lambda h: h.engaged),
    Field("operator/{side}_fine", Scope.ARM, ("T",), "?", "bool", "Fine mode.", lambda h: h.fine),
    Field("operator/{side}_scale", Scope.ARM, ("T",), "f8", "1",
          "Metres of tool a metre of hand.", lambda h: h.scale),
    Field("operator/{side}_turn_scale", Scope.ARM, ("T",), "f8", "1",
          "Radians of tool a radian of hand.", lambda h: h.turn_scale),
    Field("operator/{side}_lock", Scope.ARM, ("T",), "u1", "code",
          "Which part of the hand's motion moved the tool.", lambda h: h.lock, codes="locks"),
    Field("operator/{side}_guard_state", Scope.ARM, ("T",), "u1", "code",
          "What the guard made of the samples.", lambda h: h.guard_state, codes="guard_states"),
    Field("operator/{side}_guard_reason", Scope.ARM, ("T",), "u1", "code",
          "Why the guard held the arm.", lambda h: h.guard_reason, codes="guard_reasons"),
    Field("operator/{side}_t_device_ns", Scope.ARM, ("T",), "i8", "ns",
          "When the sample of {side}_pose was measured; -1 before the first.",
          lambda h: h.t_device_ns, order=Order.WEAK),
    Field("operator/{side}_t_recv_ns", Scope.ARM, ("T",), "i8", "ns",
          "When that sample reached the process; -1 before the first.",
          lambda h: h.t_recv_ns, order=Order.WEAK),
    Field("operator/{side}_T_world_tracking", Scope.ARM, ("T", 4, 4), "f8", "m, 1",
          "Pose of tracking in world that mapped this row: p_world = T p_tracking.",
          lambda h: h.T_world_tracking),
    Field("control/robot{robot}_accepted_pos", Scope.ARM, ("T", 3), "f8", "m",
          "Commanded ee in world after the environment's limits.", lambda h: h.accepted_position,
          names=XYZ, attrs={"frame": "world"}),
    Field("control/robot{robot}_accepted_quat", Scope.ARM, ("T", 4), "f8", "1",
          "Commanded ee in world after the environment's limits.", lambda h: h.accepted_quat,
          quat=0, names=WXYZ, attrs={"frame": "world"}),
    Field("control/robot{robot}_ik_position_error", Scope.ARM, ("T",), "f8", "m",
          "Left over by the inverse kinematics; NaN where it did not run.",
          lambda h: h.ik_position_error, finite=False),
    Field("control/robot{robot}_ik_rotation_error", Scope.ARM, ("T",), "f8", "rad",
          "Left over by the inverse kinematics; NaN where it did not run.",
          lambda h: h.ik_rotation_error, finite=False),
    Field("control/robot{robot}_clearance", Scope.ARM, ("T",), "f8", "m",
          "Smallest distance after the step, as measured: of the arm's links from the other arm's, "
          "from the table and from each other, neighbours left out; of its fingers from the other "
          "arm's links only. Negative: they overlap. NaN if it was not measured.",
          lambda h: h.clearance, finite=False),
    Field("control/robot{robot}_clamps", Scope.ARM, ("T",), "u4", "bits",
          "Limits that acted in the step.", lambda h: h.clamps, flags="clamp_flags"),
)  # fmt: skip

_RAW = (
    Field("operator_raw/seq", Scope.RAW, ("N",), "i8", "1", "The device's own count.",
          lambda f: f.seq),
    Field("operator_raw/t_device_ns", Scope.RAW, ("N",), "i8", "ns", "When it was measured.",
          lambda f: f.t_device_ns),
    Field("operator_raw/t_recv_ns", Scope.RAW, ("N",), "i8", "ns",
          "When it reached the process.", lambda f: f.t_recv_ns, order=Order.WEAK),
    Field("operator_raw/headset_worn", Scope.RAW, ("N",), "?", "bool",
          "False while the runtime said that the headset is off the head.",
          lambda f: f.headset_worn),
    Field("operator_raw/space", Scope.RAW, ("N",), "i4", "1",
          "How often the runtime has said that the play space was moved.", lambda f: f.space),
)  # fmt: skip

_DEVICE = (
    Field("operator_raw/{device}/connected", Scope.DEVICE, ("N",), "?", "bool", "Connected.",
          lambda d: d.connected),
    Field("operator_raw/{device}/valid", Scope.DEVICE, ("N",), "?", "bool",
          "The runtime's own flag.", lambda d: d.valid),
    Field("operator_raw/{device}/tracked", Scope.DEVICE, ("N",), "?", "bool",
          "The runtime measured position and rotation.", lambda d: d.tracked),
    Field("operator_raw/{device}/matrix", Scope.DEVICE, ("N", 3, 4), "f8", "m, 1",
          "T_tracking_device as the runtime gave it, valid or not.", lambda d: d.matrix,
          finite=False),
)  # fmt: skip

_CONTROLLER = (
    Field("operator_raw/{device}/input_valid", Scope.CONTROLLER, ("N",), "?", "bool",
          "The inputs were really read.", lambda d: d.input_valid),
    Field("operator_raw/{device}/trigger", Scope.CONTROLLER, ("N",), "f8", "1",
          "0 released .. 1 pulled.", lambda d: d.trigger, finite=False),
    Field("operator_raw/{device}/grip", Scope.CONTROLLER, ("N",), "f8", "1",
          "0 released .. 1 squeezed.", lambda d: d.grip, finite=False),
    Field("operator_raw/{device}/thumbstick", Scope.CONTROLLER, ("N", 2), "f8", "1",
          "x right and y up, each -1 .. 1.", lambda d: d.stick, names=("x", "y"), finite=False),
    Field("operator_raw/{device}/buttons", Scope.CONTROLLER, ("N",), "u4", "bits", "Buttons held.",
          lambda d: d.buttons, flags="button_flags"),
)  # fmt: skip

_END = (
    Field("dones", Scope.END, ("T",), "i8", "bool", "1 on the last row.",
          lambda d: [0] * (len(d.rows) - 1) + [1]),
    Field(STATE_FINAL, Scope.END, ("D",), "f8", "SI",
          "MuJoCo's mjSTATE_INTEGRATION after the last step.", lambda d: d.result.state_final),
    Field(EDIT_FIELD, Scope.END, ("E",), "S32", "name", "Field of mjModel in which this episode's "
          "model differs from models/<model_sha256>.mjb.", lambda d: d.info.edits.fields),
    Field(EDIT_INDEX, Scope.END, ("E",), "i8", "1",
          "Which number of the field, counted in C order.", lambda d: d.info.edits.indices),
    Field(EDIT_VALUE, Scope.END, ("E",), "f8", "the field's", "What it is instead: set them all, "
          "and it is the model of this episode, bit for bit.", lambda d: d.info.edits.values),
)  # fmt: skip

FIELDS: tuple[Field, ...] = (*_STEP, *_ARMS, *_ARM, *_RAW, *_DEVICE, *_CONTROLLER, *_END)

OBSERVATIONS: tuple[ObservationField, ...] = (
    ObservationField("robot{robot}_eef_pos", 3, "m", "Tool centre in world.", XYZ),
    ObservationField("robot{robot}_eef_quat", 4, "1", "Tool centre in world.", WXYZ, quat=True),
    ObservationField("robot{robot}_target_pos", 3, "m", "Commanded tool centre in world.", XYZ),
    ObservationField(
        "robot{robot}_target_quat", 4, "1", "Commanded tool centre in world.", WXYZ, quat=True
    ),
    ObservationField("robot{robot}_joint_pos", None, "rad", "Joint angles of the arm."),
    ObservationField("robot{robot}_joint_vel", None, "rad/s", "Joint velocities of the arm."),
    ObservationField("robot{robot}_gripper_qpos", None, "m", "Opening of the fingers."),
    ObservationField("object", None, "m, 1", "The task's objects, see the attribute `names`."),
)  # fmt: skip

ATTRS: tuple[AttrField, ...] = (
    AttrField("num_samples", int, "Rows T.", lambda d: len(d.rows)),
    AttrField("schema_version", int, "Version of this layout.", lambda d: SCHEMA_VERSION),
    AttrField("task", str, "Name of the task.", lambda d: d.info.task),
    AttrField("language_instruction", str, "The task in words.",
              lambda d: d.info.language_instruction),
    AttrField("seed", int, "Seed given to env.reset, also when it was drawn.",
              lambda d: d.info.seed),
    AttrField("success", bool, "The task's own word at the end.", lambda d: d.result.success),
    AttrField("outcome", str, "What the episode is kept as: success or failure.",
              lambda d: d.result.outcome.value),
    AttrField("interrupted", bool, "Ended from outside, not by the task or the operator.",
              lambda d: d.result.interrupted),
    AttrField("end_reason", str, "What ended the episode.", lambda d: d.result.reason),
    AttrField("discarded", bool, "Always false: what is discarded is not written.",
              lambda d: False),
    AttrField("operator_id", str, "Pseudonym of the operator.", lambda d: d.info.operator),
    AttrField("session_id", str, "One run of the recording program.", lambda d: d.info.session_id),
    AttrField("attempt_id", str, "One try at the task: an episode and the branches that rewinding "
              "cut off it share this.", lambda d: d.info.attempt_id),
    AttrField("branch_row", int, "-1, or this is such a branch: the row of the attempt's episode "
              "whose state is this one's first.", lambda d: d.info.branch_row),
    AttrField("device", str, "The operator's device.", lambda d: d.info.device),
    AttrField("start_time_utc", str, "ISO 8601.", lambda d: d.info.start_time_utc),
    AttrField("t_start_ns", int, "The session's clock at start_time_utc [ns].",
              lambda d: d.info.t_start_ns),
    AttrField("control_hz", int, "Rows a second of simulated time.", lambda d: d.info.control_hz),
    AttrField("n_substeps", int, "Physics steps a row.", lambda d: d.info.n_substeps),
    AttrField("physics_dt", float, "Length of a physics step [s].",
              lambda d: d.info.physics_timestep),
    AttrField("control_mode", str, "The environment's meaning of an action.",
              lambda d: d.info.control_mode),
    AttrField("sides", str, "JSON list: side of robot0, robot1.",
              lambda d: json.dumps([side.value for side in d.info.sides])),
    AttrField("env_spec", str, "Gymnasium's EnvSpec as JSON: gym.make(EnvSpec.from_json(text)).",
              lambda d: d.info.env_spec_json),
    AttrField("env_args", str, "robomimic's environment metadata as JSON.",
              lambda d: json.dumps(dict(d.info.env_args))),
    AttrField("teleop_config", str, "Settings of guard, clutch, filter and limits as JSON.",
              lambda d: d.info.teleop_config_json),
    AttrField("model_sha256", str, "SHA-256 of the compiled model, mj_saveModel's bytes; the "
              "model is models/<model_sha256>.mjb in the run's folder.",
              lambda d: d.info.model_sha256),
    AttrField("edits_sha256", str, "SHA-256 of sim/edit_*: of the fields' names, each with a line "
              "feed, then the indices, then the values.", lambda d: d.info.edits.sha256),
    AttrField("mujoco_version", str, "Replay from ctrl needs this very version.",
              lambda d: d.info.mujoco_version),
    AttrField("packages", str, "Package versions as JSON.",
              lambda d: json.dumps(dict(d.info.packages))),
    AttrField("quality", str, "How well it was done, as JSON: figures of episodes.quality.Quality.",
              lambda d: d.quality.json()),
    AttrField("late_ticks", int, "Steps that started more than half a period late.",
              lambda d: d.result.late_ticks),
    AttrField("late_share", float, "The same, of all steps; above 0.01 the operator was warned.",
              lambda d: d.lateness.late_share),
    AttrField("lateness_max_ns", int, "The most by which a step started late [ns].",
              lambda d: d.lateness.max_ns),
    AttrField("lost_ns", int, "Real time in which the simulation stood still, more than "
              "5 periods at once [ns]; shorter delays are made up for.",
              lambda d: d.lateness.lost_ns),
    AttrField("stalls", int, "Times that it stood still for more than 0.25 s: after that the arms "
              "were held until the operator engaged anew.", lambda d: d.lateness.stalls),
    AttrField("realtime_priority", bool, "The control loop ran before every ordinary thread.",
              lambda d: d.info.realtime_priority),
    AttrField("device_overflow", int, "Device samples lost before they could be stored.",
              lambda d: d.result.device_overflow),
    AttrField("n_clipped", int, "Action components clipped, over all rows.",
              lambda d: sum(row.n_clipped for row in d.rows)),
)  # fmt: skip

COMPLETE = "complete"
"""Attribute of ``/data/demo_N``, 1, written last: a group without it was never finished."""

SHA256 = "sha256"
"""Attribute of every dataset: the hash of its content, since physics can swallow a wrong bit."""


def observation_field(key: str) -> ObservationField | None:
    """Return the known meaning of an observation key, with ``{robot}`` still in it, or None."""
    template = re.sub(r"^robot\d+_", "robot{robot}_", key)
    return next((known for known in OBSERVATIONS if known.key == template), None)
