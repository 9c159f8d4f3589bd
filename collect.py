"""Collect demonstrations: a person with a headset, or the simulated operator, moves the arm.

python collect.py --task pick                    with Pico controllers, through SteamVR
python collect.py --task pick --device sim       without a headset
"""

import contextlib
import dataclasses
import logging
import secrets
import signal
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal, cast

import gymnasium as gym
import tyro

import episodes
from envs import ENV_IDS
from envs.errors import EnvError, OptionError
from envs.options import check_choice
from envs.panda_env import PicoPandaEnv
from envs.tasks import TASKS
from envs.viewer import ViewerProcess
from session.collector import Collector
from session.loop import Session, SessionConfig, Verdict
from session.priority import Priority, raised_priority
from session.records import episode_info
from teleop_agent.clock import Clock, RealClock, VirtualClock
from teleop_agent.clutch import ClutchConfig
from teleop_agent.config import FilterName, TeleopConfig
from teleop_agent.devices import Device, make_device
from teleop_agent.errors import (
    DeviceClosedError,
    RuntimeUnavailableError,
    TeleopError,
    UnknownDeviceError,
)
from teleop_agent.haptics import Haptics
from teleop_agent.policy import TeleopPolicy

DONE, ERROR, USAGE, NO_RUNTIME, GAVE_UP, INTERRUPTED = 0, 1, 2, 3, 4, 130
TRIES = 5
"""Tries an episode that the simulated operator gets."""
RETRY_S = 2.0
"""Between two looks for the VR runtime."""
GATHERING_S = 20.0
"""The simulated operator engages within a few seconds, or something is wrong."""


@dataclass(frozen=True)
class Options:
    """Collect demonstrations of a task into a folder."""

    task: str = "pick"
    """What to do: see `python -m envs list`."""
    device: str = "openvr"
    """openvr (a headset, through SteamVR), sim (the simulated operator) or trace:FILE."""
    episodes: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 10
    """Episodes to keep."""
    out: Path | None = None
    """Folder of the run; an existing one is continued. Default: datasets/<task>/<date-time>."""
    control: str = "ee_delta"
    """Meaning of an action: ee_delta, ee_pose or joint."""
    control_hz: int = 50
    """Actions and rows a second: 20, 25, 30, 50, 60, 100 or 200."""
    randomize: tuple[Literal["visual", "dynamics", "sizes"], ...] = ()
    """What every episode draws anew: visual (lights, colours, cameras, distractors), dynamics
    (friction, mass, gains, sensor noise) or both."""
    seed: int | None = None
    """Seed of the first episode's scene, counted up from there. Default: drawn."""
    operator: str = "anonymous"
    """A pseudonym, stored with every episode."""
    scale: float | None = None
    """Metres of tool a metre of hand. Default: what suits the arm's size."""
    swap_hands: bool = False
    """Each arm follows the other hand; a single arm follows the left one."""
    grip_position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Metres from the controller's own origin to the middle of the hand, along the controller's
    axes (x right, y up, z back): set it if turning the hand on the spot moves the tool."""
    require_headset: bool = True
    """Hold the arms while the headset is off the head; not for who looks at the screen instead."""
    filter: FilterName = "kalman"
    """How hand motion is smoothed."""
    haptics: float = 1.0
    """How strong the controllers' vibrations are: 0 (none) to 1."""
    time_limit: float | None = None
    """Seconds an episode may last. Default: the task's."""
    viewer: bool = True
    """Show the scene in a window."""
    realtime: bool = False
    """Run sim and traces in real time too, instead of as fast as the computer goes."""
    priority: bool = True
    """Go before other programs where the system grants it; not for a computer that must do more."""
    wait: bool = True
    """Wait for SteamVR if it is not running."""
    auto_success: bool = True
    """End an episode once the task has been solved for half a second; else B ends it."""
    drop_failures: bool = False
    """Discard what runs into the time limit, instead of keeping it as a failure; the simulated
    operator's is always discarded."""


class UsageError(Exception):
    """Report an option that cannot be; the message says which and what can be."""


def teleop_config(options: Options, env: PicoPandaEnv) -> TeleopConfig:
    """Return the agent's settings for the options."""
    scale = env.motion_scale if options.scale is None else options.scale
    clutch = ClutchConfig(scale=scale, grip_position=options.grip_position)
    return TeleopConfig(
        filter=options.filter,
        swap_hands=options.swap_hands,
        require_headset=options.require_headset,
        clutch=clutch,
    )


def make_env(options: Options) -> PicoPandaEnv:
    """Make the environment that is recorded, with the task's arms; collect alone ends episodes."""
    check_choice("task", options.task, TASKS)
    drawn: dict[str, Any] = {"randomize": options.randomize} if options.randomize else {}
    made = gym.make(
        ENV_IDS[TASKS[options.task].n_arms],
        task=options.task,
        control=options.control,
        control_hz=options.control_hz,
        time_limit_s=options.time_limit,
        terminate_on_success=False,
        **drawn,
        disable_env_checker=True,
    )
    return cast(PicoPandaEnv, made.unwrapped)


def connect(device: Device, wait: bool, stop: "Stop") -> None:
    """Connect; wait for a runtime that may still come up, unless told to stop."""
    told = ""
    while not stop.reason:
        try:
            device.connect()
            return
        except RuntimeUnavailableError as error:
            if not (wait and error.waiting_helps):
                raise
            if str(error) != told:
                told = str(error)
                print(f"waiting: {told}\n{NO_HEADSET}", flush=True)
        time.sleep(RETRY_S)


NO_HEADSET = "Without a headset: python collect.py --device sim"


class Stop:
    """Turn Ctrl-C and SIGTERM into a clean end; a second Ctrl-C ends at once."""

    def __init__(self) -> None:
        self.reason = ""
        self.session: Session | None = None
        signal.signal(signal.SIGINT, self._signalled)
        signal.signal(signal.SIGTERM, self._signalled)

    def attend(self, session: Session) -> None:
        """Stop this session when told to, also if that was before it was there."""
        self.session = session
        if self.reason:
            session.stop(self.reason)

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if self.reason:
            raise KeyboardInterrupt
        self.reason = signal.Signals(number).name
        if self.session is not None:
            self.session.stop(self.reason)


def run_episodes(session: Session, collector: Collector, options: Options) -> int:
    """Run episodes until enough are kept; return the exit code."""
    tries, seed = 0, options.seed or 0
    while len(collector.kept) < options.episodes:
        before = len(collector.kept)
        end = session.run_episode(seed)
        if session.stopped:
            return INTERRUPTED
        tries = 0 if len(collector.kept) > before else tries + 1
        if options.device == "sim" and tries >= TRIES:
            collector.say(f"the simulated operator gave up after {TRIES} tries")
            return GAVE_UP
        if end.verdict is not Verdict.RESET:
            seed += 1
    return DONE


def collect(options: Options, device: Device, env: PicoPandaEnv, stop: Stop) -> int:
    """Connect, record and save; return the exit code."""
    connect(device, options.wait, stop)
    if stop.reason:
        return INTERRUPTED
    config = teleop_config(options, env)
    clock: Clock = RealClock() if device.realtime or options.realtime else VirtualClock()
    model = episodes.CompiledModel.of(env.model)
    device_name = options.device.partition(":")[0]
    info = episode_info(env, device_name, options.operator, config, clock, model.sha256)
    now = datetime.now().astimezone().strftime("%Y-%m-%d_%H-%M-%S")
    run = episodes.Run.open(options.out or DATASETS / options.task / now, episodes.RunSpec.of(info))
    with contextlib.ExitStack() as stack:
        viewer = stack.enter_context(ViewerProcess(env.model)) if options.viewer else None
        recorder = stack.enter_context(episodes.Recorder(run))
        haptics = Haptics(env.control_hz, options.haptics)
        priority: Priority | None = None
        if options.priority and isinstance(clock, RealClock):
            priority = stack.enter_context(raised_priority())
            info = dataclasses.replace(info, realtime_priority=priority.realtime)
        wanted = options.episodes
        collector = Collector(env, recorder, info, model, device, clock, viewer, wanted, haptics)
        policy = TeleopPolicy(env, config)
        session = Session(env, device, policy, clock, collector, session_config(options, device))
        stop.attend(session)
        collector.session = session
        if priority is not None:
            collector.say(f"{priority}")
        if left := episodes.left_by_crashes(run.folder.parent):
            collector.say(
                f"crashes have left {len(left)} episodes: to have them, "
                f'python -m episodes repair "{run.folder.parent}"'
            )
        collector.say(f"recording into {run.folder}; squeeze the grip to begin, Ctrl-C to end")
        try:
            code = run_episodes(session, collector, options)
        except DeviceClosedError as error:
            collector.say(f"{error}")
            code = NO_RUNTIME if device.realtime else (DONE if collector.kept else ERROR)
    good = collector.kept.count(Verdict.SUCCESS)
    collector.say(f"kept {len(collector.kept)} episodes, {good} successes, in {run.folder}")
    if collector.error is not None:
        raise collector.error
    return code


def session_config(options: Options, device: Device) -> SessionConfig:
    """Return when episodes end by themselves: a person may rest, a simulated one has no reason."""
    simulated = device.has_eyes
    return SessionConfig(
        auto_success=options.auto_success,
        drop_failures=options.drop_failures or simulated,
        waiting_limit_s=GATHERING_S if simulated else None,
    )


DATASETS = Path(__file__).resolve().parent / "datasets"


def main() -> int:
    """Read the options, collect, and turn errors into words and exit codes."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    options = tyro.cli(Options, prog="collect.py", description=__doc__)
    stop = Stop()
    try:
        if options.episodes < 1:
            raise UsageError(f"--episodes must be at least 1, got {options.episodes}")
        if options.seed is not None and options.seed < 0:
            raise UsageError(f"--seed must be at least 0, got {options.seed}")
        seed = secrets.randbits(31) if options.seed is None else options.seed
        device = make_device(options.device, seed=seed)
        env = make_env(options)
        teleop_config(options, env)
        Haptics(env.control_hz, options.haptics)
    except (UsageError, UnknownDeviceError, OptionError, TeleopError) as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    try:
        with contextlib.closing(env), contextlib.closing(device):
            return collect(dataclasses.replace(options, seed=seed), device, env, stop)
    except RuntimeUnavailableError as error:
        print(f"error: {error}\n{NO_HEADSET}", file=sys.stderr)
        return NO_RUNTIME
    except (TeleopError, EnvError, episodes.EpisodesError) as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
