"""Record what a script's hands do in the real environment, as the operator's program does."""

import functools
import itertools
from pathlib import Path

import gymnasium as gym
import numpy as np
from choreography import Script, ScriptedDevice

import episodes
from envs import ENV_IDS
from envs.panda_env import PicoPandaEnv
from envs.tasks import TASKS
from episodes.reader import Episode
from kinematics import Side
from session.collector import Collector
from session.loop import Session, SessionConfig
from session.records import episode_info
from teleop_agent.clock import VirtualClock
from teleop_agent.config import TeleopConfig
from teleop_agent.devices import Device
from teleop_agent.errors import DeviceClosedError
from teleop_agent.frame import Button
from teleop_agent.haptics import Haptics
from teleop_agent.policy import TeleopPolicy

DONE = (Side.RIGHT, Button.SECONDARY)
REWIND = (Side.LEFT, Button.SECONDARY)


@functools.cache
def make_env(task: str = "reach", control_hz: int = 50) -> PicoPandaEnv:
    """Return an environment that ends no episode, the same one each time: reset it."""
    name = ENV_IDS[TASKS[task].n_arms]
    options = {"terminate_on_success": False, "time_limit_s": 300.0, "disable_env_checker": True}
    return gym.make(name, task=task, control_hz=control_hz, **options).unwrapped


def record(
    folder: Path,
    device: Device,
    env: PicoPandaEnv,
    teleop: TeleopConfig | None = None,
    count: int = 1,
    seed: int = 3,
) -> list[Episode]:
    """Record ``count`` episodes, or as many as the device has, and return all that are kept."""
    clock, config = VirtualClock(10**12), teleop or TeleopConfig()
    model = episodes.CompiledModel.of(env.model)
    info = episode_info(env, "script", "anonymous", config, clock, model.sha256)
    run = episodes.Run.open(folder, episodes.RunSpec.of(info))
    with episodes.Recorder(run) as recorder, device:
        haptics = Haptics(env.control_hz)
        collector = Collector(env, recorder, info, model, device, clock, None, count, haptics)
        policy, settings = TeleopPolicy(env, config), SessionConfig(auto_success=False)
        session = Session(env, device, policy, clock, collector, settings)
        collector.session = session
        try:
            for number in itertools.count(seed):
                if len(collector.kept) >= count:
                    break
                session.run_episode(number)
        except DeviceClosedError:
            pass
    return episodes.reader.open_run(folder)


def flick(script: Script, side: Side, x: float = 0.0, y: float = 0.0) -> None:
    """Flick a thumb stick."""
    hand = script.hand(side)
    script.hold(0.05)
    hand.stick = (x, y)
    script.hold(0.05)
    hand.stick = (0.0, 0.0)
    script.hold(0.05)


def explore(script: Script, side: Side = Side.RIGHT, seconds: float = 0.25) -> None:
    """Move and turn an engaged hand to and fro in every direction, ``seconds`` a stroke."""
    script.rotate(seconds, (0.3 * np.array([1.0, -0.7, 0.9])).tolist(), side)  # to no whole angles
    for axis in np.eye(3):
        for way in (1.0, -1.0):
            script.move(seconds, way * 0.2 * seconds * axis, side)
    for axis in np.eye(3):
        for way in (1.0, -1.0):
            script.rotate(seconds, way * 0.8 * seconds * axis, side)


def work(yaw: float = 0.4) -> Script:
    """Return a right hand that does all that an operator may: nothing of it is a fault."""
    script = Script(yaw=yaw, jitter_m=1e-4)
    script.engage()
    explore(script, seconds=0.4)
    script.right.buttons = Button.STICK  # fine mode
    script.move(0.5, (0.05, 0.03, -0.02))
    script.right.buttons = Button.NONE
    script.engage()  # again, elsewhere
    flick(script, Side.RIGHT, y=1.0)
    script.move(0.5, (-0.05, 0.02, 0.03))
    flick(script, Side.RIGHT, y=-1.0)
    for _ in range(3):  # the locks: move only, turn only, tool axis
        flick(script, Side.RIGHT, x=1.0)
        script.move(0.4, (0.04, -0.02, 0.03))
        script.rotate(0.4, (0.2, 0.1, -0.2))
    flick(script, Side.RIGHT, x=1.0)
    script.right.tracked = False  # out of the cameras' sight, and back elsewhere
    script.hold(0.2)
    script.right.position = script.right.position + np.array([0.06, 0.02, 0.0])
    script.right.tracked = True
    script.hold(0.2)
    script.engage()
    script.move(0.5, (0.0, 0.05, 0.03))
    script.press(*REWIND, seconds=1.2)
    script.engage()
    script.move(0.4, (0.02, -0.04, 0.0))
    to_the_floor(script, yaw)
    script.hold(0.3)
    script.press(*DONE)
    return script


def to_the_floor(script: Script, yaw: float, side: Side = Side.RIGHT) -> None:
    """Reach forth, push down onto the workspace's floor, slide along it and come back up."""
    forth = np.array([-np.sin(yaw), 0.0, -np.cos(yaw)])
    down, across = np.array([0.0, -1.0, 0.0]), np.cross(forth, (0.0, 1.0, 0.0))
    script.move(0.6, 0.35 * forth, side)
    script.move(1.2, 0.9 * down, side)
    script.move(0.4, 0.1 * down + 0.08 * across, side)
    script.move(0.5, 0.1 * down - 0.15 * across + 0.05 * forth, side)
    script.move(0.4, -0.1 * down, side)
    script.move(0.4, 0.2 * down, side)
    script.move(0.6, -0.2 * down, side)


def scripted(folder: Path, script: Script, env: PicoPandaEnv, **more: object) -> Episode:
    """Record a script's one episode; of its branches, the one that was kept."""
    found = record(folder, ScriptedDevice(script.frames), env, **more)  # type: ignore[arg-type]
    return next(e for e in found if e.attrs["branch_row"] < 0)
