"""The simulated operator: a person at the controllers, as a device."""

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from kinematics import Side

from ...errors import DeviceClosedError, TeleopError
from ...frame import Controller, OperatorFrame, TrackedPose
from ..base import Device, SceneView
from .acts import ActConfig, Actor
from .body import BodyConfig, SimBody
from .faults import FaultConfig, FaultInjector
from .hand import HandConfig, SimHand
from .intent import MindConfig
from .mind import SimMind
from .noise import NoiseConfig, Tracker, Transport, Tremor
from .sight import Sight
from .stroke import SECOND_NS


@dataclass(frozen=True, slots=True)
class SimConfig:
    """Configure the simulated operator; ``dataclasses.asdict`` gives JSON types."""

    device_hz: int = 90
    """Samples a second: Pico's highest rate; its other one is 72."""
    body: BodyConfig = field(default_factory=BodyConfig)
    hand: HandConfig = field(default_factory=HandConfig)
    acts: ActConfig = field(default_factory=ActConfig)
    mind: MindConfig = field(default_factory=MindConfig)
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    faults: FaultConfig = field(default_factory=FaultConfig)

    def __post_init__(self) -> None:
        if not 20 <= self.device_hz <= 1000:
            raise TeleopError(f"device_hz must be within 20 .. 1000, got {self.device_hz}")


class SimDevice(Device):
    """Publish the frames of a person who sees the scene and works on what is to be done.

    The person stands anywhere, faces any way, acts on what it saw a reaction time ago and knows
    no task: waypoints say what to do. All that it does follows from ``seed`` and the views; the
    times of reads change nothing. Views must be shown within a reaction time.
    """

    realtime: ClassVar[bool] = False
    has_eyes: ClassVar[bool] = True

    def __init__(self, seed: int = 0, config: SimConfig | None = None) -> None:
        self._seed, self._config = seed, config or SimConfig()
        self._person: _Person | None = None

    def connect(self) -> None:
        """Let the person step in, the same one each time; time begins with the first read."""
        self._person = _Person(self._seed, self._config)

    def read(self, now_ns: int) -> list[OperatorFrame]:
        """Return the frames received up to ``now_ns`` [ns]; see ``Device.read``."""
        return self._connected().read(now_ns)

    def watch(self, view: SceneView) -> None:
        """Show the scene to the person, at least five times a second."""
        self._connected().sight.watch(view)

    def close(self) -> None:
        """Let the person go; calling it twice is fine."""
        self._person = None

    @property
    def episodes(self) -> int:
        """Return how many episodes the person has begun to work on."""
        return self._connected().mind.episodes

    @property
    def clutches(self) -> int:
        """Return how often the person has squeezed a grip, with either hand."""
        return sum(actor.clutches for actor in self._connected().actors.values())

    def _connected(self) -> "_Person":
        if self._person is None:
            raise DeviceClosedError("the simulated operator is not there: call connect() first")
        return self._person


class _Person:
    """Hold all that has a state between connecting and closing."""

    def __init__(self, seed: int, config: SimConfig) -> None:
        # Streams of their own: an option of one does not change what another draws.
        body, mind, tremor, tracker, transport, faults = (
            np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(6)
        )
        self._hz = config.device_hz
        self._body = SimBody(config.body, body)
        pace = float(mind.uniform(*config.hand.pace))
        self._hands = {
            side: SimHand(
                self._body.start(side),
                self._body.rest(side),
                self._body.work(side),
                config.hand,
                pace,
            )
            for side in Side
        }
        self.sight = Sight(round(config.acts.reaction_s * SECOND_NS))
        self.actors = {
            side: Actor(side, hand, self.sight, config.acts, rng)
            for (side, hand), rng in zip(self._hands.items(), mind.spawn(len(Side)), strict=True)
        }
        self.mind = SimMind(self.sight, self.actors, self._body.yaw, config.mind)
        self._tremor = {side: Tremor(config.noise, tremor) for side in Side}
        self._tracker = Tracker(config.noise, tracker)
        self._transport = Transport(config.noise, transport)
        self._faults = FaultInjector(config.faults, faults)
        self._begin_ns: int | None = None
        self._seq, self._episodes = 0, 0
        self._on_the_way: deque[OperatorFrame] = deque()

    def read(self, now_ns: int) -> list[OperatorFrame]:
        if self._begin_ns is None:
            self._begin_ns = now_ns
        while (since_ns := self._seq * SECOND_NS // self._hz) <= now_ns - self._begin_ns:
            self._on_the_way.append(self._sample(self._begin_ns, since_ns))
            self._seq += 1
        due: list[OperatorFrame] = []
        while self._on_the_way and self._on_the_way[0].t_recv_ns <= now_ns:
            due.append(self._on_the_way.popleft())
        return due

    def _sample(self, begin_ns: int, since_ns: int) -> OperatorFrame:
        t_ns = begin_ns + since_ns
        self.mind.advance(t_ns)
        if self.mind.episodes != self._episodes:
            self._episodes = self.mind.episodes
            self._faults.begin_episode()
        holding = [side for side, actor in self.actors.items() if actor.holds]
        if holding:
            self._faults.work(since_ns, holding, SECOND_NS // self._hz)
        return OperatorFrame(
            seq=self._seq,
            t_device_ns=t_ns,
            t_recv_ns=self._transport.receive(t_ns),
            head=self._tracked(self._tracker.measure(self._body.head(since_ns)), "SIM-HEAD"),
            controllers={side: self._controller(side, t_ns, since_ns) for side in Side},
        )

    def _controller(self, side: Side, t_ns: int, since_ns: int) -> Controller:
        hand = self._hands[side]
        shake = self._tremor[side].offset(since_ns)
        pose = self._tracked(self._tracker.measure(hand.pose(t_ns), shake), f"SIM-{side.name}")
        return Controller(
            pose=self._faults.apply(since_ns, side, pose),
            input_valid=True,
            trigger=hand.trigger.value(t_ns),
            grip=hand.grip.value(t_ns),
            buttons=hand.buttons,
        )

    @staticmethod
    def _tracked(matrix: np.ndarray, serial: str) -> TrackedPose:
        return TrackedPose(True, True, True, matrix, serial)
