"""Beginning, end and restoration of an episode, and the options an environment is made with."""

from collections.abc import Callable
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest

import envs
from envs.errors import EnvError, OptionError, StateError
from envs.panda_env import CONTROL_HZ, PicoPandaEnv
from envs.tasks.base import HELD
from kinematics import EndEffectorTarget, Side

RIGHT = Side.RIGHT
MODES = ("ee_delta", "ee_pose", "joint")
Make = Callable[..., PicoPandaEnv]


def _hold(env: PicoPandaEnv) -> np.ndarray:
    return env.encode({RIGHT: env.commanded(RIGHT)})


def _put_target_at_the_tool(env: PicoPandaEnv) -> None:
    env.data.mocap_pos[0] = env.measured(RIGHT).position


# --- beginning ---


def test_before_the_first_reset(make: Make) -> None:
    """At home already, and no step until reset."""
    env = make()
    np.testing.assert_allclose(env.commanded(RIGHT).quat_wxyz, [0, 1, 0, 0], atol=1e-6)
    assert env.observation_space.contains(env.observe())
    assert len(env.guide()) > 1
    with pytest.raises(EnvError, match="call reset"):
        env.step(np.zeros(7, np.float32))


def test_reset_takes_no_options(make: Make) -> None:
    with pytest.raises(OptionError, match=r"no options, got \['pose'\]"):
        make().reset(options={"pose": 1})


# --- end ---


def test_success_on_the_last_step_is_both(make: Make) -> None:
    """0.2 s of holding are 10 steps: the limit is that long exactly."""
    env = make(task="reach", time_limit_s=0.2)
    env.reset(seed=0)
    _put_target_at_the_tool(env)
    for _ in range(9):
        *_, terminated, truncated, info = env.step(_hold(env))
        assert not (terminated or truncated or info["success"])
    _, reward, terminated, truncated, info = env.step(_hold(env))
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, True, True)


def test_time_alone_truncates(make: Make) -> None:
    env = make(task="reach", time_limit_s=0.1)
    env.reset(seed=0)
    ends = [env.step(_hold(env))[1:4] for _ in range(5)]
    assert ends == [(0.0, False, False)] * 4 + [(0.0, False, True)]
    with pytest.raises(EnvError, match="over: call reset"):
        env.step(_hold(env))
    env.reset()
    env.step(_hold(env))


def test_success_alone_terminates(make: Make) -> None:
    env = make(task="reach")
    env.reset(seed=0)
    _put_target_at_the_tool(env)
    ends = [env.step(_hold(env))[1:4] for _ in range(10)]
    assert ends == [(0.0, False, False)] * 9 + [(1.0, True, False)]
    with pytest.raises(EnvError, match="over: call reset"):
        env.step(_hold(env))


def test_success_need_not_terminate(make: Make) -> None:
    env = make(task="reach", terminate_on_success=False, time_limit_s=0.5)
    env.reset(seed=0)
    _put_target_at_the_tool(env)
    steps = [env.step(_hold(env)) for _ in range(25)]
    assert [step[1] for step in steps] == [0.0] * 9 + [1.0] * 16
    assert not any(step[2] for step in steps)
    assert [step[3] for step in steps] == [False] * 24 + [True]
    assert all(isinstance(flag, bool) for step in steps for flag in step[2:4])


def test_success_must_be_held(make: Make) -> None:
    """Leaving the marker for one step begins the count anew."""
    env = make(task="reach")
    env.reset(seed=0)
    _put_target_at_the_tool(env)
    for _ in range(9):
        env.step(_hold(env))
    env.data.mocap_pos[0] += 0.1
    env.step(_hold(env))
    env.data.mocap_pos[0] -= 0.1
    assert [env.step(_hold(env))[2] for _ in range(10)] == [False] * 9 + [True]


@pytest.mark.parametrize("control_hz", CONTROL_HZ)
def test_time_is_counted_in_whole_steps(make: Make, control_hz: int) -> None:
    env = make(task="reach", control_hz=control_hz, time_limit_s=1.0)
    env.reset(seed=0)
    steps, truncated = 0, False
    while not truncated:
        *_, truncated, _ = env.step(_hold(env))
        steps += 1
    assert steps == control_hz
    assert env.n_substeps * control_hz == 600
    assert env.data.time == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(("task", "seconds"), [("reach", 10.0), ("pick", 30.0)])
def test_every_task_has_its_own_limit(make: Make, task: str, seconds: float) -> None:
    assert make(task=task)._max_steps == round(50 * seconds)


def test_no_second_limit_is_registered() -> None:
    assert gym.spec("PicoPanda-v0").max_episode_steps is None
    assert envs.__doc__


def test_dense_rewards_grow_on_the_way(make: Make) -> None:
    env = make(task="reach", reward="dense", terminate_on_success=False)
    env.reset(seed=0)
    target = env.guide()[0].target
    rewards = []
    for _ in range(100):
        _, reward, *_ = env.step(env.encode({RIGHT: target}))
        rewards.append(reward)
    assert rewards[-1] == 1.0
    assert 0.0 < rewards[0] < 0.5
    way = rewards[: rewards.index(1.0)]
    assert all(later > earlier for earlier, later in pairwise(way[:30])), "until it brakes"
    assert max(way) < 1.0


# --- restoring ---


@pytest.mark.parametrize("control", MODES)
def test_a_restored_episode_goes_on_to_the_bit(make: Make, control: str) -> None:
    """In another environment, from any row, with the controllers' memory."""
    env, other = make(control=control, time_limit_s=3.0), make(control=control, time_limit_s=3.0)
    rng = np.random.default_rng(1)
    env.reset(seed=1)
    other.reset(seed=99)
    shape = env.action_space.shape
    action = np.zeros(shape, np.float32)
    for k in range(150):
        if k % 5 == 0:
            action = rng.uniform(-1, 1, shape).astype(np.float32)
        if k in (0, 7, 70, 140):
            other.restore(env.integration_state(), env.controller_memory())
            for key, value in env.observe().items():
                np.testing.assert_array_equal(other.observe()[key], value)
        one, two = env.step(action), other.step(action)
        assert env.integration_state().tobytes() == other.integration_state().tobytes()
        assert env.controller_memory().tobytes() == other.controller_memory().tobytes()
        assert one[1:] == two[1:]
    assert one[3], "the step count was restored as well"


def test_recorded_ctrl_reproduces_every_state(make: Make) -> None:
    """Without the controllers: from the first state and ctrl per physics step."""
    env, other = make(), make()
    rng = np.random.default_rng(1)
    env.reset(seed=1)
    other.restore(env.integration_state())
    for _ in range(100):
        action = rng.uniform(-1, 1, 7).astype(np.float32)
        *_, info = env.step(action)
        again = other.apply_ctrl(env.ctrl.copy())
        assert again["success"] == info["success"]
        assert env.integration_state().tobytes() == other.integration_state().tobytes()


def test_a_small_change_of_ctrl_is_seen(make: Make) -> None:
    """A nanoradian for 1/600 s. The very last bit may vanish in the servo's product."""
    env, other = make(), make()
    env.reset(seed=1)
    other.restore(env.integration_state())
    env.step(np.full(7, 0.1, np.float32))
    ctrl = env.ctrl.copy()
    ctrl[4, 6] += 1e-9
    other.apply_ctrl(ctrl)
    assert env.integration_state().tobytes() != other.integration_state().tobytes()


def test_without_memory_the_arm_rests_at_the_state(make: Make) -> None:
    env, other = make(task="reach"), make(task="reach")
    env.reset(seed=1)
    for _ in range(20):
        env.step(np.array([0.3, 0.2, -0.3, 0, 0, 0, 0.5], np.float32))
    other.restore(env.integration_state())
    np.testing.assert_allclose(
        other.commanded(RIGHT).position, env.measured(RIGHT).position, atol=1e-12
    )
    assert other.commanded(RIGHT).closure == pytest.approx(env.commanded(RIGHT).closure, abs=1e-6)
    before = other.measured(RIGHT).position
    for _ in range(50):
        other.step(_hold(other))
    assert np.linalg.norm(other.measured(RIGHT).position - before) < 0.03, "it stops"


def test_success_counters_are_restored(make: Make) -> None:
    env, other = make(task="reach"), make(task="reach")
    env.reset(seed=0)
    _put_target_at_the_tool(env)
    for _ in range(9):
        env.step(_hold(env))
    assert env.data.userdata[HELD] == 9 * env.n_substeps
    other.restore(env.integration_state(), env.controller_memory())
    assert other.step(_hold(other))[2]


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((2, 2))])
def test_a_state_of_another_size_is_refused(make: Make, bad: np.ndarray) -> None:
    env = make()
    env.reset(seed=0)
    before = env.integration_state()
    with pytest.raises(StateError, match="state must be finite"):
        env.restore(bad)
    with pytest.raises(StateError, match="memory must be finite"):
        env.restore(before, bad)
    with pytest.raises(StateError, match="memory must be finite"):
        env.restore(before, np.full_like(env.controller_memory(), np.nan))
    with pytest.raises(StateError, match=r"ctrl must have shape \(12, 8\), got"):
        env.apply_ctrl(bad)
    with pytest.raises(StateError, match="state must be finite"):
        env.restore(np.full_like(before, np.nan))
    np.testing.assert_array_equal(env.integration_state(), before)


# --- a simulation that breaks down ---


def _break(env: PicoPandaEnv, how: str) -> None:
    """Bring about what MuJoCo answers by resetting the state in silence, or by a mere warning."""
    if how == "BADQVEL":
        env.data.qvel[-1] = 1e11
    elif how == "BADQPOS":
        env.data.qpos[0] = np.nan
    elif how == "BADQACC":
        env.data.qfrc_applied[-1] = 1e12


@pytest.mark.parametrize("how", ["BADQVEL", "BADQPOS", "BADQACC"])
@pytest.mark.parametrize("task", ["pick", "lift_tray"])
def test_a_simulation_that_breaks_down_is_an_error(make: Make, task: str, how: str) -> None:
    """MuJoCo puts the model's first pose in place of the state and goes on: no number shows it."""
    env = make(task=task)
    env.reset(seed=0)
    action = np.zeros(env.action_space.shape, np.float32)
    env.step(action)
    before = env.integration_state()
    _break(env, how)
    with pytest.raises(StateError, match=rf"broke down in step 2 .* {how}, .*Call reset"):
        env.step(action)
    with pytest.raises(EnvError, match="call reset"):
        env.step(action)
    env.restore(before)  # a state before it is as good as ever
    env.step(action)
    env.reset(seed=0)
    env.step(action)


def test_recorded_ctrl_that_is_none_is_an_error(make: Make) -> None:
    env = make()
    env.reset(seed=0)
    with pytest.raises(StateError, match="BADCTRL"):
        env.apply_ctrl(np.full((12, 8), np.nan))


# --- options ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "juggle"}, r"task='juggle' is unknown; choose from \['reach', 'pick', 'place'"),
        ({"task": "lift_tray"}, r"task='lift_tray' .* choose from \['reach', 'pick', 'place'"),
        ({"task": "pick", "arms": 2}, r"task='pick' .* choose from \['lift_tray', 'handover'"),
        ({"arms": 3}, r"arms=3 is unknown; choose from \[1, 2\]"),
        ({"task": ["pick"]}, r"task=\['pick'\] is unknown"),
        ({"control": "torque"}, r"control='torque' is unknown; .*'ee_delta', 'ee_pose', 'joint'"),
        ({"control_hz": 40}, r"control_hz=40 is unknown; choose from \[20, 25, 30, 50, 60"),
        ({"control_hz": 0}, "control_hz=0"),
        ({"reward": "shaped"}, r"reward='shaped' is unknown; choose from \['sparse', 'dense'\]"),
        ({"render_mode": "ansi"}, r"render_mode='ansi' is unknown; .*'human', 'rgb_array'"),
        ({"camera": "top"}, r"camera='top' is unknown; choose from \['front', 'side'"),
        ({"time_limit_s": 0.0}, "time_limit_s must be a finite number of seconds > 0, got 0.0"),
        ({"time_limit_s": -1}, "time_limit_s"),
        ({"time_limit_s": np.nan}, "time_limit_s"),
        ({"time_limit_s": np.inf}, "time_limit_s"),
        ({"time_limit_s": "10"}, "time_limit_s"),
        ({"width": 0}, "width must be 1 to 8192 pixels, got 0"),
        ({"height": 10.5}, "height must be 1 to 8192 pixels, got 10.5"),
    ],
)
def test_an_unknown_option_lists_the_known_ones(options: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        PicoPandaEnv(**options)


def test_a_misspelt_option_is_an_error() -> None:
    with pytest.raises(OptionError, match="contorl"):
        gym.make("PicoPanda-v0", contorl="joint")


@pytest.mark.parametrize("control_hz", [np.int64(100), 100.0])
def test_numbers_may_be_numpys(make: Make, control_hz: float) -> None:
    env = make(control_hz=control_hz, time_limit_s=np.float64(0.5), width=np.int32(64))
    env.reset(seed=0)
    env.step(np.zeros(7, np.float32))
    assert env.control_hz == 100
    assert env.metadata["render_fps"] == 100
    assert type(env.n_substeps) is int


def test_environments_share_nothing(make: Make) -> None:
    """Neither models nor metadata nor limits."""
    one, two = make(control_hz=20), make(control_hz=100)
    assert one.model is not two.model
    assert (one.metadata["render_fps"], two.metadata["render_fps"]) == (20, 100)
    assert PicoPandaEnv.metadata["render_fps"] == 50
    one.model.opt.gravity[:] = 0.0
    assert two.model.opt.gravity[2] < -9.0


def test_the_agents_view(make: Make) -> None:
    env = make()
    env.reset(seed=0)
    assert env.sides == (RIGHT,)
    assert env.speed_limits.linear == 1.0
    workspace = env.workspace(RIGHT)
    np.testing.assert_array_equal(workspace.lower, [0.20, -0.50, 0.01])
    np.testing.assert_array_equal(workspace.upper, [0.80, 0.50, 0.85])
    command = env.commanded(RIGHT)
    kept = command.position.copy()
    env.step(
        env.encode(
            {RIGHT: EndEffectorTarget(RIGHT, kept + 0.005, command.quat_wxyz, command.closure)}
        )
    )
    np.testing.assert_array_equal(command.position, kept, "no view of the controller")
