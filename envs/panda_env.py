"""The Gymnasium environment."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from scipy.spatial.transform import RigidTransform

from kinematics import EndEffectorTarget, Side, SpeedLimits, Waypoint, Workspace
from kinematics.edits import EditError, ModelEditor, ModelEdits
from kinematics.frames import Array

from .actions import CONTROL_MODES, ActionCodec
from .arm import ArmController
from .clearance import ClearanceLimit
from .errors import EnvError, OptionError, StateError
from .links import Links
from .observations import Observation, Observer
from .options import check_choice, check_names, check_pixels, check_reach, check_seconds
from .pictures import Pictures
from .randomize import Randomizer, check_groups, sensor_noise
from .scene import (
    BASES,
    HAND,
    STATE,
    TIMESTEP,
    Mount,
    compose,
    get_state,
    make_mounts,
    model_sha256,
)
from .tasks import TASKS, Task, TaskArm
from .tasks.things import pad_geoms
from .visuals import MeshPandas, check_visuals

CONTROL_HZ = {20: 3, 25: 3, 30: 4, 50: 3, 60: 2, 100: 3, 200: 3}
"""Rates of actions [1/s] and, for each, the physics steps of one IK tick: about 200 ticks a
second, and a whole number of ticks in every control step."""
REWARDS = ("sparse", "dense")


class PicoPandaEnv(gym.Env[Any, npt.NDArray[np.float32]]):
    """One or two arms with parallel grippers at a table; Franka Pandas unless ``robot`` says else.

    ``robot`` and ``end_effector`` name a folder of ``models/`` with a ``robot.toml``, or any such
    file by its path. The tables below are for Pandas: another arm has its own number of joints,
    speeds, workspace and opening.

    z = 0 is the table top; x forward, y left, z up. The world's origin is the base of a single arm,
    and the middle between the bases of two. Metres, radians, seconds; quaternions are wxyz.

    ## Action space

    ``Box(-1, 1, (arms x width,), float32)``, by ``control``; the right arm's part comes first:

    | control | width | meaning |
    |---|---|---|
    | ``ee_delta`` | 7 | change of the commanded target in this step: 3 x 1.0 m/s x T, 3 x 2.5 rad/s x T (rotation vector, world axes), gripper |
    | ``ee_pose`` | 10 | position over the workspace box (base frame), two columns of the rotation matrix, gripper |
    | ``joint`` | 8 | joint targets over the joint ranges, gripper |

    T is ``1 / control_hz``; gripper -1 open .. +1 closed. A zero ``ee_delta`` holds exactly. The
    names of the entries begin with ``robot0_`` for the right arm (or the only one), ``robot1_`` for
    the left.

    In ``ee_delta`` and ``ee_pose`` the arm's links keep a distance from the other arm's, from the
    table and from each other, and slide along (``envs.links``); ``joint`` has no such limit.

    ## Observation space

    ``Dict`` of float32 Boxes; i is 0 for the right arm (or the only one), 1 for the left:

    | key | shape | unit | meaning |
    |---|---|---|---|
    | ``robot{i}_eef_pos`` | (3,) | m | measured tool centre |
    | ``robot{i}_eef_quat`` | (4,) | - | measured tool rotation, x >= 0 |
    | ``robot{i}_target_pos`` | (3,) | m | commanded tool centre, which ``ee_delta`` changes |
    | ``robot{i}_target_quat`` | (4,) | - | commanded tool rotation, x >= 0 |
    | ``robot{i}_joint_pos`` | (7,) | rad | |
    | ``robot{i}_joint_vel`` | (7,) | rad/s | |
    | ``robot{i}_gripper_qpos`` | (1,) | m | opening: travel of both fingers, 0 closed .. 0.08 open |
    | ``object`` | by task | m, - | see the task's ``object_names`` |

    And for each camera of ``cameras`` what ``camera_modes`` lists, row 0 at the top:

    | key | shape, type | mode | meaning |
    |---|---|---|---|
    | ``<camera>_image`` | (H, W, 3) uint8 | ``rgb`` | red, green, blue |
    | ``<camera>_depth`` | (H, W, 1) float32 | ``depth`` | m along the optical axis |
    | ``<camera>_segmentation`` | (H, W, 1) int32 | ``segmentation`` | id of the geom, -1: none |

    Cameras: ``front``, ``side``, ``stereo_left`` and ``stereo_right`` (the eyes of a person who
    stands behind the robot), ``wrist`` (the first arm's); with two ``right_wrist``, ``left_wrist``.

    The tool points down at home, wxyz (0, 1, 0, 0): quaternions are kept at x >= 0, since w >= 0
    would flip their sign around home. With ``randomize=("dynamics",)`` measured positions and
    velocities are those of noisy sensors; targets and quaternions stay exact.

    ## Reward and end

    ``reward="sparse"``: 1 on every step on which the task reports success, else 0. ``"dense"``: a
    shaped value in [0, 1) before success, 1 with it. ``terminated`` on success (unless
    ``terminate_on_success=False``), ``truncated`` once ``time_limit_s`` is over; both may be True.
    Stepping after either raises EnvError.

    ## Info

    ``success`` bool; ``n_clipped`` entries of the action outside [-1, 1].
    """  # noqa: E501

    metadata: dict[str, Any] = {  # noqa: RUF012  (as gym.Env declares it)
        "render_modes": ["human", "rgb_array"],
        "render_fps": 50,
    }

    def __init__(
        self,
        task: str = "pick",
        arms: int = 1,
        robot: str = "panda",
        end_effector: str = "gripper",
        base_pose: dict[str, Any] | None = None,
        control: str = "ee_delta",
        control_hz: int = 50,
        reward: str = "sparse",
        time_limit_s: float | None = None,
        terminate_on_success: bool = True,
        render_mode: str | None = None,
        camera: str = "front",
        width: int = 640,
        height: int = 480,
        visuals: str = "primitive",
        randomize: Iterable[str] = (),
        cameras: Sequence[str] = (),
        camera_modes: Sequence[str] = ("rgb",),
        camera_width: int = 128,
        camera_height: int = 128,
        **unknown: Any,
    ) -> None:
        """``time_limit_s`` None takes the task's. ``camera``, ``width``, ``height``: rgb_array.

        ``visuals="menagerie"``: pictures show the mesh Panda (``envs.visuals``); physics, states
        and the model's hash stay the same. ``randomize``: any of "visual", "dynamics" and "sizes",
        drawn at every reset (``envs.randomize``).

        ``cameras`` are those in the observation, of a size of their own [px]: a policy looks at
        128 px while a video is taken at 640.
        """
        self._options = {
            "task": task,
            "arms": arms,
            "robot": robot,
            "end_effector": end_effector,
            "base_pose": base_pose,
            "control": control,
            "control_hz": control_hz,
            "reward": reward,
            "time_limit_s": time_limit_s,
            "terminate_on_success": terminate_on_success,
            "render_mode": render_mode,
            "camera": camera,
            "width": width,
            "height": height,
            "visuals": visuals,
            "randomize": (groups := check_groups(randomize)),
            "cameras": cameras,
            "camera_modes": camera_modes,
            "camera_width": camera_width,
            "camera_height": camera_height,
        }
        check_names(unknown, self._options)
        check_choice("arms", arms, BASES)
        check_choice("task", task, [name for name, made in TASKS.items() if made.n_arms == arms])
        check_choice("control", control, CONTROL_MODES)
        check_choice("control_hz", control_hz, CONTROL_HZ)
        check_choice("reward", reward, REWARDS)
        check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        limit = TASKS[task].time_limit_s if time_limit_s is None else time_limit_s
        check_seconds("time_limit_s", limit)
        check_pixels("width", width)
        check_pixels("height", height)
        self.render_mode = render_mode
        self.control_hz = int(control_hz)
        self.metadata = {**self.metadata, "render_fps": self.control_hz}
        self.n_substeps = round(1.0 / TIMESTEP) // self.control_hz
        self._max_steps = max(1, round(limit * self.control_hz))
        self._terminate, self._dense = bool(terminate_on_success), reward == "dense"
        mounts = make_mounts(int(arms), robot, end_effector, base_pose)
        check_reach(TASKS, task, mounts[Side.RIGHT].arm)
        check_visuals(visuals, mounts)
        if visuals == "menagerie" and render_mode == "human" and "visual" in groups:
            raise OptionError(
                "a window does not show randomize='visual' on visuals='menagerie': take "
                "visuals='primitive' or render_mode='rgb_array'"
            )
        self._build(TASKS[task], control, mounts, groups)
        meshes = None
        if visuals == "menagerie" and (render_mode is not None or cameras):
            if cameras and "segmentation" in camera_modes:
                raise OptionError(
                    "camera_modes has 'segmentation', whose ids are of the model's own geoms: "
                    "take visuals='primitive' for it"
                )
            meshes = MeshPandas(self.model, mounts, TASKS[task].objects, "visual" in groups)
        self._pictures = Pictures(
            self._editor,
            self.data,
            meshes,
            self.sides,
            (camera, int(width), int(height)),
            cameras,
            camera_modes,
            camera_width,
            camera_height,
        )
        self.observation_space = spaces.Dict({**self._observer.space, **self._pictures.boxes})
        self.picture_keys = tuple(self._pictures.boxes)
        self._steps, self._ended = 0, True
        self.now_ns: Callable[[], int] = time.perf_counter_ns
        """Clock [ns] for ``t_physics_ns`` and nothing else."""
        self.t_physics_ns = 0
        """When physics began in the last step: the inverse kinematics was done."""

    def _build(
        self, task: type[Task], control: str, mounts: dict[Side, Mount], groups: tuple[str, ...]
    ) -> None:
        self.sides = tuple(mounts)
        self.model = compose(mounts, task.objects, distractors="visual" in groups)
        self._editor, self._edits = ModelEditor(self.model), ModelEdits()
        self.data = mujoco.MjData(self.model)
        self._warned = self.data.warning.number
        self._home = self.model.key("home").id
        ticks = self.n_substeps // CONTROL_HZ[self.control_hz]
        self.arms = {
            side: ArmController(self.model, side, mount, self.n_substeps, ticks)
            for side, mount in mounts.items()
        }
        task_arms = {
            side: TaskArm(mounts[side].gripper, side.prefix + HAND, arm.site, arm.workspace)
            for side, arm in self.arms.items()
        }
        self.task = task(self.model, task_arms)
        self._codec = ActionCodec(control, self.arms, self.n_substeps * TIMESTEP)
        self._links = cache(lambda: Links(mounts, self.model))
        self._limit: ClearanceLimit | None = None
        if self._codec.mode.follows_poses:
            self._limit = ClearanceLimit(self._links(), self.arms)
        self.action_names = self._codec.names
        self.action_description = self._codec.description
        self.control_mode = self._codec.mode.name
        self.ctrl = np.zeros((self.n_substeps, self.model.nu))
        self._ctrl_rows = list(self.ctrl)
        self.action_space = spaces.Box(-1.0, 1.0, (self._codec.width,), np.float32)
        self._observer = Observer(self.arms, self.task)
        self._randomizer: Randomizer | None = None
        if groups:
            pads = [pad_geoms(self.model, arm) for arm in task_arms.values()]
            self._randomizer = Randomizer(self._editor, groups, pads, self.task.resizable)
        if "dynamics" in groups:
            self._observer.noise = sensor_noise(self._observer.boxes, self.task.object_names)
        self._sha256: str | None = None
        mujoco.mj_resetDataKeyframe(self.model, self.data, self._home)
        self._settle()

    # Gymnasium.

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Put the arm at home and the objects anew, drawn from ``seed``."""
        super().reset(seed=seed)
        if options:
            raise OptionError(f"reset takes no options, got {sorted(options)}")
        self.edit(ModelEdits())
        mujoco.mj_resetDataKeyframe(self.model, self.data, self._home)
        if self._randomizer is not None:  # spawned: the task draws the same with it or without
            self._edits, key = self._randomizer.draw(self.np_random.spawn(1)[0])
            self._set_noise(key)
        self.task.reset(self.data, self.np_random)
        self._settle()
        self._steps, self._ended = 0, False
        if self.render_mode == "human":
            self.render()
        return self.observe(), {"success": False, "n_clipped": 0}

    def step(
        self, action: npt.NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Execute one control step of ``1 / control_hz`` seconds."""
        if self._ended:
            raise EnvError("the episode has not begun or is over: call reset() before step()")
        if self._limit is not None:
            self._limit.update(self.data.qpos)
        n_clipped = self._codec.apply(self.data, action, self.ctrl)
        self.t_physics_ns = self.now_ns()
        self._run_physics(self._ctrl_rows)
        return self._finish_step(n_clipped)

    def render(self) -> npt.NDArray[np.uint8] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return a picture (height, width, 3), row 0 at the top, or show the scene in a window."""
        if self.render_mode is None:
            gym.logger.warn("render() needs gym.make(..., render_mode='rgb_array' or 'human')")
            return None
        if self.render_mode == "human":
            self._pictures.show(self._edits)
            return None
        return self._pictures.draw()

    def mark(self, marks: Mapping[str, Array], message: str = "") -> None:
        """Draw frames that are not in the model, and in a window a text, from the next ``render``.

        ``marks`` are poses (7,) in world, position [m] and wxyz, whose names end in ``hand``,
        ``target`` or ``tool``; none takes them away. Observations never show them.
        """
        self._pictures.mark(marks, message)

    @property
    def window_open(self) -> bool:
        """Whether the window of ``render_mode="human"`` stands."""
        return self._pictures.window_open

    def close(self) -> None:
        """Release the window and the picture buffers; calling it twice is fine."""
        self._pictures.close()

    # The agent's view: see teleop_agent.environment.TeleopEnv.

    @property
    def speed_limits(self) -> SpeedLimits:
        """Return the limits put on commanded targets."""
        return self.arms[Side.RIGHT].speed

    @property
    def motion_scale(self) -> float:
        """Return the metres of tool a metre of hand that suit the arm's size."""
        return self.arms[Side.RIGHT].arm.motion_scale

    def workspace(self, side: Side) -> Workspace:
        """Return the box that keeps the side's tool centre."""
        return self.arms[side].workspace

    def commanded(self, side: Side) -> EndEffectorTarget:
        """Return the accepted target, which the next ``ee_delta`` action changes."""
        return self.arms[side].commanded()

    def measured(self, side: Side) -> EndEffectorTarget:
        """Return where the tool is and how far the gripper is closed."""
        return self.arms[side].measured_target(self.data)

    def clearances(self) -> dict[Side, float]:
        """Return how near each arm's links are to anything they keep a distance from [m].

        Measured: the other arm, the table and the arm's own links but for neighbours; of fingers
        the other arm's links only (``envs.links``). Negative: they overlap by as much.
        """
        return self._links().smallest(self.data.qpos)

    def encode(self, commands: Mapping[Side, EndEffectorTarget]) -> npt.NDArray[np.float32]:
        """Return the action that asks for absolute ``commands``, in the control mode."""
        return self._codec.encode(commands)

    def guide(self) -> list[Waypoint]:
        """Return what remains to be done, next first; empty when done."""
        return self.task.guide(self.data, {side: self.measured(side) for side in self.sides})

    # The recorder's view.

    @property
    def model_sha256(self) -> str:
        """Return the SHA-256 of the compiled model in MuJoCo's binary form, without edits."""
        if self._sha256 is None:
            with self._editor.base():
                self._sha256 = model_sha256(self.model)
        return self._sha256

    @property
    def edits(self) -> ModelEdits:
        """Return what ``randomize`` changed in the model for this episode; empty without it."""
        return self._edits

    @property
    def noise_bounds(self) -> dict[str, float]:
        """Return the most by which sensors err [the entry's unit], by key of the observation."""
        noise = self._observer.noise
        return {} if noise is None else noise.bounds()

    def _set_noise(self, key: npt.NDArray[np.uint64] | None) -> None:
        if self._observer.noise is not None and key is not None:
            self._observer.noise.key = key

    def edit(self, edits: ModelEdits) -> None:
        """Make it the model of another episode; ``restore`` a state of that next.

        Raises StateError when the edits do not fit the model.
        """
        if not edits and not self._edits:
            return
        try:
            self._editor.apply(edits)
        except EditError as error:
            raise StateError(f"edits of another model: {error}") from error
        self._edits = edits

    def integration_state(self) -> Array:
        """Return everything that the next physics step depends on, (D,)."""
        return get_state(self.model, self.data)

    def controller_memory(self) -> Array:
        """Return all that the arms' controllers remember, (C,)."""
        return np.concatenate([arm.get_memory() for arm in self.arms.values()])

    def restore(self, state: Array, memory: Array | None = None) -> None:
        """Go to an integration state (D,); the controllers to ``memory``, or at rest there.

        The episode goes on from there; its step count follows from the state's time.
        """
        expected = mujoco.mj_stateSize(self.model, int(STATE))
        state = np.ascontiguousarray(state, dtype=np.float64)
        if state.shape != (expected,) or not np.isfinite(state).all():
            raise StateError(f"state must be finite ({expected},), got {state.shape}")
        parts = self._memory_parts(memory)
        mujoco.mj_setState(self.model, self.data, state, int(STATE))
        self._warned[:] = 0
        self._settle()
        if parts is not None:
            for arm, part in zip(self.arms.values(), parts, strict=True):
                arm.set_memory(part)
        self._steps = round(self.data.time * self.control_hz)
        self._ended = False

    def _memory_parts(self, memory: Array | None) -> list[Array] | None:
        if memory is None:
            return None
        memory = np.asarray(memory, dtype=np.float64)
        if memory.shape != self.controller_memory().shape or not np.isfinite(memory).all():
            expected = self.controller_memory().shape
            raise StateError(f"memory must be finite {expected}, got {memory.shape}")
        return np.split(memory, len(self.arms))

    def apply_ctrl(self, ctrl: Array) -> dict[str, Any]:
        """Run one control step from recorded ctrl (n_substeps, nu); return the step's info.

        Physics and task counters as in ``step``; the controllers stay as they are.
        """
        if np.shape(ctrl) != self.ctrl.shape:
            raise StateError(f"ctrl must have shape {self.ctrl.shape}, got {np.shape(ctrl)}")
        self._run_physics(list(np.asarray(ctrl, dtype=np.float64)))
        return self._judge()

    def observe(self) -> Observation:
        """Return the observation of the present state, pictures included."""
        observation = self._observer.observe(self.data)
        if self.picture_keys:
            observation |= self._pictures.observe()
        return observation

    # Cameras.

    def camera_name(self, name: str) -> str:
        """Return a camera's name in the model: ``wrist`` is the first arm's."""
        return self._pictures.names.get(name, name)

    def intrinsics(self, camera: str, width: int | None = None, height: int | None = None) -> Array:
        """Return K (3, 3) [px] for pictures of this size; by default that of the observations.

        (0, 0) is the centre of the top left pixel. Raises OptionError for an unknown camera.
        """
        return self._pictures.intrinsics(camera, width, height)

    def T_world_camera(self, camera: str) -> RigidTransform:
        """Return a camera's pose in MuJoCo's camera axes: x right, y up, looks along -z.

        ``* T_CAMERA_OPENCV`` (``kinematics.frames``) gives OpenCV's. Raises OptionError.
        """
        return self._pictures.T_world_camera(camera)

    # Inside a step.

    def _settle(self) -> None:
        """Derive what follows from the state, and let the controllers stand there."""
        mujoco.mj_forward(self.model, self.data)
        for arm in self.arms.values():
            arm.reset(self.data)

    def _run_physics(self, ctrl_rows: list[Array]) -> None:
        model, data, into = self.model, self.data, self.data.ctrl
        step = mujoco.mj_step
        for row in ctrl_rows:
            into[:] = row
            step(model, data)

    def _finish_step(self, n_clipped: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Judge and observe what physics led to."""
        info = self._judge()
        info["n_clipped"] = n_clipped
        success = info["success"]
        terminated = success and self._terminate
        truncated = self._steps >= self._max_steps
        self._ended = terminated or truncated
        reward = float(success)
        if self._dense and not success:
            reward = self.task.shaped_reward(self.data)
        if self.render_mode == "human":
            self.render()
        return self.observe(), reward, terminated, truncated, info

    def _judge(self) -> dict[str, Any]:
        if any(self._warned.tolist()):
            raise self._unstable()
        # mj_step leaves poses of the step before: bring them up to date. Not part of the state.
        mujoco.mj_kinematics(self.model, self.data)
        self.task.update(self.data, self.n_substeps)
        self._steps += 1
        return {"success": self.task.success(self.data)}

    def _unstable(self) -> StateError:
        """End the episode and say what MuJoCo warned of: it resets a diverged state in silence."""
        self._ended = True
        counts = zip(mujoco.mjtWarning.__members__, self._warned.tolist(), strict=False)
        said = ", ".join(name.removeprefix("mjWARN_") for name, count in counts if count)
        return StateError(
            f"the simulation broke down in step {self._steps + 1} of the episode: MuJoCo warned of "
            f"{said}, and the state is no longer the episode's. Call reset(), or restore() a state "
            "before it; `python -m envs check` looks for causes in the model"
        )

    # Copies for worker processes: the scene is rebuilt, the state carried over.

    def __getstate__(self) -> dict[str, Any]:
        return {
            "options": self._options,
            "spec": self.spec,
            "state": self.integration_state(),
            "memory": self.controller_memory(),
            "edits": (self._edits, self._observer.noise and self._observer.noise.key),
            "progress": (self._steps, self._ended),
            "random": (self._np_random, self._np_random_seed),
        }

    def __setstate__(self, stored: dict[str, Any]) -> None:
        self.__init__(**stored["options"])
        self.spec = stored["spec"]
        edits, key = stored["edits"]
        self.edit(edits)
        self._set_noise(key)
        self.restore(stored["state"], stored["memory"])
        self._steps, self._ended = stored["progress"]
        self._np_random, self._np_random_seed = stored["random"]
