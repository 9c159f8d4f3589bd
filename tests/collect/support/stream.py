"""Streams for the stand-in runtime: what the hands do, and what the runtime does meanwhile."""

from collections.abc import Callable, Mapping

import gymnasium as gym
import openvr
from choreography import Script
from openvr_standin import Player, StandInRuntime

from envs import ENV_IDS
from envs.panda_env import PicoPandaEnv
from envs.tasks import TASKS
from episodes.reader import Episode
from kinematics import Side
from session.loop import EpisodeEnd, Session
from teleop_agent.clock import VirtualClock
from teleop_agent.devices import Device, SceneView, make_device
from teleop_agent.frame import Controller, OperatorFrame, TrackedPose
from teleop_agent.policy import TeleopPolicy

Cue = Callable[["Conductor"], None]
JITTER_M = 1e-4
"""More than single precision swallows, as any tracked hand has."""


class Conductor(Player):
    """Play a script; at its marks the runtime does more than frames say."""

    def __init__(
        self,
        runtime: StandInRuntime,
        script: Script,
        cues: Mapping[str, Cue] | None = None,
        waits: Mapping[str, Callable[[], bool]] | None = None,
    ) -> None:
        """``cues`` and ``waits`` by the script's marks."""
        self.marks = script.marks
        self.indices = {Side.RIGHT: 1, Side.LEFT: 2}
        """Of the devices that have the hands' roles."""
        self._cues = {script.marks[name]: cue for name, cue in (cues or {}).items()}
        numbered = {script.marks[name]: wanted for name, wanted in (waits or {}).items()}
        super().__init__(runtime, script.frames, self.indices, numbered)

    @property
    def runtime(self) -> StandInRuntime:
        return self._runtime

    def t_ns(self, mark: str) -> int:
        """Return when the first frame after a mark was served."""
        return self.served[self.marks[mark]].t_recv_ns

    def _serve(self, frame: OperatorFrame) -> None:
        with self._runtime.changing():  # both become visible together
            if frame.seq in self._cues:
                self._cues[frame.seq](self)
            super()._serve(frame)


def open_dashboard(conductor: Conductor) -> None:
    conductor.runtime.open_dashboard(True)


def close_dashboard(conductor: Conductor) -> None:
    conductor.runtime.open_dashboard(False)


def tell_of_recentring(conductor: Conductor) -> None:
    """The script moves the poses; the runtime says why."""
    conductor.runtime.send(openvr.VREvent_ChaperoneUniverseHasChanged)


def take_roles_away(conductor: Conductor) -> None:
    for index in conductor.indices.values():
        conductor.runtime.assign(index, None)


def give_roles(conductor: Conductor) -> None:
    for side, index in conductor.indices.items():
        conductor.runtime.assign(index, side)


def swap_roles(conductor: Conductor) -> None:
    """Let each controller have the other hand's role; script and frames follow roles."""
    indices = conductor.indices
    indices[Side.RIGHT], indices[Side.LEFT] = indices[Side.LEFT], indices[Side.RIGHT]
    give_roles(conductor)


def switch_right_off(conductor: Conductor) -> None:
    conductor.runtime.send(openvr.VREvent_TrackedDeviceDeactivated, conductor.indices[Side.RIGHT])


def come_back_elsewhere(conductor: Conductor) -> None:
    """The right controller is back under another index; the old one keeps role and silence."""
    conductor.indices[Side.RIGHT] = 7
    conductor.runtime.add_controller(7, Side.RIGHT, serial="CONTROLLER-right")


def raw_frames(episode: Episode) -> list[OperatorFrame]:
    """Return what an episode recorded of its device."""

    def of(name: str) -> list[TrackedPose]:
        fields = ("connected", "valid", "tracked", "matrix")
        columns = [episode.array(f"operator_raw/{name}/{field}") for field in fields]
        return [TrackedPose(*map(bool, row[:3]), row[3]) for row in zip(*columns, strict=True)]

    heads, hands = of("head"), {side: of(side.value) for side in Side}
    times = [episode.array(f"operator_raw/{name}") for name in ("seq", "t_device_ns", "t_recv_ns")]
    return [
        OperatorFrame(*map(int, stamps), head, {side: Controller(hands[side][n]) for side in Side})
        for n, (head, *stamps) in enumerate(zip(heads, *times, strict=True))
    ]


class Overheard(Device):
    """Keep what another device publishes."""

    realtime, has_eyes = False, True

    def __init__(self, device: Device) -> None:
        self._device = device
        self.frames: list[OperatorFrame] = []

    def connect(self) -> None:
        self._device.connect()

    def close(self) -> None:
        self._device.close()

    def watch(self, view: SceneView) -> None:
        self._device.watch(view)

    def read(self, now_ns: int) -> list[OperatorFrame]:
        frames = self._device.read(now_ns)
        self.frames += frames
        return frames


class Silence:
    """Listen to a session and do nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def simulated(task: str, seed: int) -> tuple[EpisodeEnd, list[OperatorFrame]]:
    """Let the simulated operator do an episode; return how it ended and all its frames."""
    name = ENV_IDS[TASKS[task].n_arms]
    made = gym.make(name, task=task, terminate_on_success=False, disable_env_checker=True)
    env: PicoPandaEnv = made.unwrapped
    with Overheard(make_device("sim", seed=seed)) as device:
        session = Session(env, device, TeleopPolicy(env), VirtualClock(), Silence())
        return session.run_episode(seed), device.frames
