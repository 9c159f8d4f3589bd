"""Spec files of robots: what is refused, and what other arms and tools do in an environment."""

import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from envs.errors import ModelError, OptionError
from envs.panda_env import PicoPandaEnv
from envs.robots import MODELS, ArmSpec, GripperSpec, load_spec, robot_names
from envs.scene import Mount, compose, make_mounts
from kinematics import EndEffectorTarget, Side, SpeedLimits
from kinematics.frames import rotation

RIGHT = Side.RIGHT
Make = Callable[..., PicoPandaEnv]
ARMS = [name for name, kind in robot_names().items() if kind == "arm"]
TOOLS = [name for name, kind in robot_names().items() if kind == "gripper"]
MODES = ("ee_delta", "ee_pose", "joint")


# --- spec files ---


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """Return a folder, its name not ASCII, with a copy of the table-top arm and its gripper."""
    folder = tmp_path / "Träger 腕"
    for name in ("desk_arm", "desk_gripper"):
        shutil.copytree(MODELS / name, folder / name)
    return folder


def edit(path: Path, old: str, new: str) -> str:
    """Replace a pattern in a file, exactly once; return the path as text."""
    text, count = re.subn(old, new, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert count == 1, (old, count)
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_robots_that_there_are() -> None:
    """The folders of models/ with a spec file, and nothing else."""
    assert ARMS == ["desk_arm", "panda"]
    assert TOOLS == ["desk_gripper", "franka_hand", "parallel_85"]
    for name in ARMS:
        assert load_spec(ArmSpec, name).gripper in TOOLS
    for name in TOOLS:
        assert load_spec(GripperSpec, name).max_opening > 0.0


def test_optional_entries_have_defaults() -> None:
    """The Panda names neither actuators nor speeds: they are the joints' and the defaults."""
    panda, desk = load_spec(ArmSpec, "panda"), load_spec(ArmSpec, "desk_arm")
    assert panda.servos == panda.joints
    assert panda.speed == SpeedLimits()
    assert desk.speed == SpeedLimits(linear=0.25, linear_acceleration=3.25)


@pytest.mark.parametrize("name", ["pandas", "", "franka_hand", "../panda", "no/such.toml"])
def test_an_unknown_arm_is_refused_with_the_list(name: str) -> None:
    with pytest.raises(OptionError, match=r"\['desk_arm', 'panda'\]"):
        load_spec(ArmSpec, name)


@pytest.mark.parametrize("name", [None, 3, MODELS / "panda" / "robot.toml"])
def test_a_name_must_be_text(name: object) -> None:
    """Options are JSON, so that an environment can be made again from a file."""
    with pytest.raises(OptionError, match="choose from"):
        make_mounts(1, name)  # pyright: ignore[reportArgumentType]


def test_a_tool_is_no_arm(make: Make) -> None:
    with pytest.raises(OptionError, match="robot's arm"):
        load_spec(ArmSpec, str(MODELS / "franka_hand" / "robot.toml"))
    with pytest.raises(OptionError, match="robot's gripper"):
        load_spec(GripperSpec, str(MODELS / "panda" / "robot.toml"))
    with pytest.raises(OptionError, match="gripper 'panda' is unknown"):
        make(end_effector="panda")
    with pytest.raises(OptionError, match="arm 'ur5' is unknown"):
        make(robot="ur5")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (r"^motion_scale.*\n", "", r"missing entries \['motion_scale'\]"),
        (r"^motion_scale", "motion_scales", r"unknown entries \['motion_scales'\]"),
        (r"^motion_scale = .*", "motion_scale = 0.0", "must be positive"),
        (r"^motion_scale = .*", "motion_scale = inf", "must be positive"),
        (r"^motion_scale = .*", 'motion_scale = "small"', "'small' does not fit"),
        (r"^motion_scale = .*", "motion_scale = true", "True does not fit"),
        (r"^motion_scale = .*", "motion_scale =", "cannot read"),
        (r"^servo_time = .*", "servo_time = -0.1", "must be positive"),
        (r"^mjcf = .*", "mjcf = 3", "3 does not fit"),
        (r"^joints = .*", 'joints = "joint1"', "'joint1' does not fit"),
        (r"^home = .*", "home = [0.0, 0.1]", r"home must be finite with shape \(6,\)"),
        (r"^home = .*", 'home = [0, 0, 0, 0, 0, "x"]', "'x' does not fit"),
        (r"^home = .*", "home = [0, 0, 0, 0, 0, nan]", "home must be finite"),
        (r"^velocity_limits = .*", "velocity_limits = [3, 3, 3, 3, 3, 0]", "must be positive"),
        (r"^velocity_limits = .*", "velocity_limits = [3, 3, 3]", r"velocity_limits.*\(6,\)"),
        (r"^workspace_lower = .*", "workspace_lower = [0.4, 0, 0]", "must be positive"),
        (r"^workspace_lower = .*", "workspace_lower = [0.4, 0]", r"workspace_lower.*\(3,\)"),
        (r"^linear = .*", "linear = 0", "linear must be finite and > 0"),
        (r"^linear = .*", "lineal = 0.25", "lineal"),
        (r"^linear = .*", 'linear = "0.25"', "'0.25' does not fit"),
        (r"^flange = .*", 'flange = "f"\nactuators = ["a"]', "one for each of 6 joints"),
    ],
)
def test_a_bad_arm_file_is_refused(user: Path, old: str, new: str, says: str) -> None:
    """The message names the file and the entry."""
    path = edit(user / "desk_arm" / "robot.toml", old, new)
    with pytest.raises(ModelError, match=says) as caught:
        load_spec(ArmSpec, path)
    assert path in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (r"^pads = .*\n", "", r"missing entries \['pads'\]"),
        (r"^max_speed = .*", "max_speed = 0", "must be positive"),
        (r"^ctrl_open = .*", "ctrl_open = 0.0", "must be positive"),
        (r"^ctrl_open = .*", "ctrl_open = nan", "must be finite"),
        (r"^home = .*", "home = [0.0, 0.0]", "must be positive"),
        (r"^home = .*", "home = [0.025]", r"home.*\(2,\)"),
        (r"^pads = .*", "pads = [1, 2]", "1 does not fit"),
    ],
)
def test_a_bad_gripper_file_is_refused(user: Path, old: str, new: str, says: str) -> None:
    path = edit(user / "desk_gripper" / "robot.toml", old, new)
    with pytest.raises(ModelError, match=says):
        load_spec(GripperSpec, path)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "robot.toml"
    path.write_bytes(b"kind = '\xff\xfe'")
    with pytest.raises(ModelError, match="cannot read"):
        load_spec(ArmSpec, str(path))


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("desk_arm", r"^mjcf = .*", 'mjcf = "gone.xml"', r"cannot load model .*gone\.xml"),
        ("desk_arm", r"^root = .*", 'root = "bass"', r"no body \['bass'\]; it has .*'base'"),
        ("desk_arm", r"^flange = .*", 'flange = "tip"', r"no site \['tip'\]; it has .*'flange'"),
        ("desk_arm", r'"joint6"', '"joint7"', r"no joint \['joint7'\]; it has .*'joint6'"),
        ("desk_arm", r"^home = \[0.0,", "home = [2.7,", r"joint1 is 2.7, outside \[-2.6 +2.6\]"),
        ("desk_gripper", r"^actuator = .*", 'actuator = "a"', r"no actuator \['a'\]"),
        ("desk_gripper", r"^ee_site = .*", 'ee_site = "tip"', r"no site \['tip'\]"),
        ("desk_gripper", r'"right_pad"', '"pad"', r"no geom \['pad'\]"),
        ("desk_gripper", r'"right_slide"', '"slide"', r"no joint \['slide'\]"),
    ],
)
def test_names_that_the_model_lacks(user: Path, file: str, old: str, new: str, says: str) -> None:
    """What the spec file names and the model file has not is said with what it has."""
    edit(
        user / "desk_arm" / "robot.toml", r"^gripper = .*", "gripper = '../desk_gripper/robot.toml'"
    )
    edit(user / file / "robot.toml", old, new)
    with pytest.raises(ModelError, match=says):
        compose(make_mounts(1, str(user / "desk_arm" / "robot.toml")))


def test_another_option_is_refused(user: Path) -> None:
    """Attaching would drop it in silence, and the arm would move otherwise than in its file."""
    edit(user / "desk_arm" / "desk_arm.xml", r'integrator="implicitfast"', 'integrator="Euler"')
    with pytest.raises(ModelError, match="integrator"):
        compose(make_mounts(1, str(user / "desk_arm" / "robot.toml")))


# --- a user's own arm ---


def test_a_users_own_arm_is_one_file(make: Make, user: Path) -> None:
    """By path, its tool beside it, its actuators under names of their own, with a mesh."""
    spec, model = user / "desk_arm" / "robot.toml", user / "desk_arm" / "desk_arm.xml"
    (user / "desk_arm" / "wedge.obj").write_text(
        "v 0 0 0\nv .1 0 0\nv 0 .1 0\nv 0 0 .1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    )
    edit(model, r"<asset>", '<asset>\n<mesh name="wedge" file="wedge.obj"/>')
    edit(
        model,
        r"<geom name=.base_plate.*\n.*/>",
        '<geom name="w" class="visual" type="mesh" mesh="wedge"/>',
    )
    servos = [f"servo{i}" for i in range(6)]
    for i, servo in enumerate(servos):
        edit(model, rf'position name="joint{i + 1}"', f'position name="{servo}"')
    edit(spec, r"^gripper = .*", f'gripper = "../desk_gripper/robot.toml"\nactuators = {servos}')
    env = make(task="reach", robot=str(spec), control="joint")
    assert env.model.nmesh == 1
    assert env.arms[RIGHT].arm.servos == tuple(servos)
    assert solved(env, 0)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))  # type: ignore
    assert again.unwrapped.model_sha256 == env.model_sha256
    again.close()


def test_a_tool_without_a_camera(make: Make, user: Path) -> None:
    """It works; only the choice "wrist" is gone."""
    edit(user / "desk_gripper" / "desk_gripper.xml", r"<camera [^>]*>", "")
    tool = str(user / "desk_gripper" / "robot.toml")
    make(task="reach", robot="desk_arm", end_effector=tool)
    with pytest.raises(OptionError, match=r"camera='wrist' is unknown; choose from \['front'"):
        make(task="reach", robot="desk_arm", end_effector=tool, camera="wrist")


# --- other arms and tools in an environment ---


def toward(env: PicoPandaEnv, target: EndEffectorTarget) -> EndEffectorTarget:
    """Return a target one control step toward another, at 0.3 m/s or what the arm may do."""
    now, period = env.commanded(RIGHT), 1.0 / env.control_hz
    way = target.position - now.position
    reach = min(0.3, 0.8 * env.speed_limits.linear) * period
    turn = rotation(target.quat_wxyz) * rotation(now.quat_wxyz).inv()
    share = min(1.0, 1.5 * period / max(turn.magnitude(), 1e-9))
    turned = type(turn).from_rotvec(share * turn.as_rotvec()) * rotation(now.quat_wxyz)
    return EndEffectorTarget(
        RIGHT,
        now.position + way * min(1.0, reach / max(float(np.linalg.norm(way)), 1e-9)),
        turned.as_quat(scalar_first=True),
        target.closure,
    )


def solved(env: PicoPandaEnv, seed: int) -> bool:
    """Return whether following the task's guide ends in success."""
    env.reset(seed=seed)
    ended, info = False, {"success": False}
    while not ended:
        ahead = env.guide()
        target = ahead[0].target if ahead else env.commanded(RIGHT)
        *_, terminated, truncated, info = env.step(env.encode({RIGHT: toward(env, target)}))
        ended = terminated or truncated
    return bool(info["success"])


@pytest.mark.parametrize("control", MODES)
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("robot", ARMS)
def test_the_checker_over_all_pairs(make: Make, robot: str, tool: str, control: str) -> None:
    """Any tool fits any arm: tool down at home, x forward, and nothing for the checker to say."""
    env = make(task="reach", robot=robot, end_effector=tool, control=control)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)
    env.reset(seed=0)
    down = env.measured(RIGHT).quat_wxyz
    # The home postures are rounded to nine decimals.
    assert abs(down @ [0.0, 1.0, 0.0, 0.0]) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("control", MODES)
def test_the_desk_arm_reaches(make: Make, control: str) -> None:
    env = make(task="reach", robot="desk_arm", control=control)
    assert sum(solved(env, seed) for seed in range(20)) >= 18


def test_the_85_mm_gripper_picks(make: Make) -> None:
    """All of twenty cubes, held with 35 N or more a jaw."""
    env = make(task="pick", end_effector="parallel_85", time_limit_s=8.0)
    assert all(solved(env, seed) for seed in range(20))


def test_the_markers_room_follows_the_arm(make: Make) -> None:
    """In the Panda's old box to the last bit; else within the middle of the arm's workspace."""
    panda = make(task="reach")
    assert panda.task._lower.tolist() == [0.35, -0.25, 0.05]  # type: ignore[attr-defined]
    assert panda.task._upper.tolist() == [0.65, 0.25, 0.45]  # type: ignore[attr-defined]
    base = {"right": [0.3, 0.2, 0.0, np.pi / 2]}
    for robot in ARMS:
        env = make(task="reach", robot=robot, base_pose=base)
        box = env.workspace(RIGHT)
        for seed in range(20):
            env.reset(seed=seed)
            p_base = box.to_base(env.task.observe(env.data)[:3])
            assert np.all((box.lower < p_base) & (p_base < box.upper))


def test_a_small_arm_is_refused_where_it_cannot_reach(make: Make) -> None:
    with pytest.raises(OptionError, match=r"reaches 0.65 m.*desk_arm ends at 0.32 m.*\['reach'"):
        make(task="pick", robot="desk_arm")


def test_a_six_joint_arms_words(make: Make) -> None:
    """Labels, widths, observations, speeds and scale are the arm's."""
    env = make(task="reach", robot="desk_arm", control="joint")
    assert env.action_names == (*(f"robot0_joint{i}" for i in range(1, 7)), "robot0_gripper")
    assert env.action_space.shape == (7,)
    assert env.observation_space["robot0_joint_pos"].shape == (6,)
    assert env.speed_limits.linear == 0.25
    assert env.motion_scale == 0.15
    assert make().motion_scale == 0.6
    assert "v_max T (0.25 m/s)" in make(task="reach", robot="desk_arm").action_description
    assert "v_max T (1.0 m/s)" in make().action_description


@pytest.mark.parametrize("control", MODES)
def test_random_actions_stay_in_the_space(make: Make, control: str) -> None:
    """As with the Panda, joints driven into their limits included."""
    env = make(task="reach", robot="desk_arm", control=control, terminate_on_success=False)
    rng = np.random.default_rng(5)
    env.reset(seed=5)
    for k in range(200):
        if k % 10 == 0:
            action = rng.uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32)
        obs, *_ = env.step(action)
        assert env.observation_space.contains(obs), obs


@pytest.mark.parametrize("speed", [0.1, 0.2])
def test_the_desk_arm_follows(make: Make, follow: Callable, speed: float) -> None:
    """Circles of 40 mm at an operator's speeds are tracked to a millimetre, unsaturated."""
    env = make(task="reach", robot="desk_arm", terminate_on_success=False, time_limit_s=60.0)
    env.reset(seed=0)
    arm = follow(env)
    centre, radius = np.array([0.2, 0.0, 0.12]), 0.04
    arm.go([centre[0] + radius, *centre[1:]])
    for k in range(300):
        angle = min(1.0, k / 50) * speed / radius * k / env.control_hz  # gathers speed in 1 s
        arm.to(centre + radius * np.array([np.cos(angle), np.sin(angle), 0.0]))
    # The Panda's bounds, 1.4 and 2 mm at 0.7 m/s, shrunk with the arm.
    assert np.percentile(arm.error()[100:], 95) < 1e-3
    assert arm.saturated() == 0.0


def test_two_desk_arms(make: Make) -> None:
    """Two of them stand side by side as two Pandas do, if they are told where."""
    arm = load_spec(ArmSpec, "desk_arm")
    mounts = make_mounts(2, "desk_arm", base_pose={"left": [0.0, 0.2, 0.0, 0.0]})
    assert all(
        isinstance(mount, Mount) and mount.arm.joints == arm.joints for mount in mounts.values()
    )
    assert compose(mounts).nu == 14
