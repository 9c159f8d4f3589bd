"""A listener that remembers, and running an episode with it."""

from collections.abc import Callable, Sequence

from choreography import Script, ScriptedDevice

from session.loop import EpisodeEnd, Phase, Rejected, Row, Session, SessionConfig
from teleop_agent.clock import Clock, VirtualClock
from teleop_agent.config import TeleopConfig
from teleop_agent.frame import OperatorFrame
from teleop_agent.policy import PolicyStep, TeleopPolicy

LONG_BEFORE_NS = 10**12
"""Sessions begin at any reading of the clock."""


class Diary:
    """Remember what a session told."""

    def __init__(self) -> None:
        self.seeds: list[int] = []
        self.rows: list[Row] = []
        self.ends: list[EpisodeEnd] = []
        self.rejected: list[Rejected] = []
        self.deletions = 0
        self.phases: list[Phase] = []
        self.notices: list[str] = []
        self.heard: list[int] = []
        self.policy: PolicyStep | None = None
        self.on_frames: Callable[[Sequence[OperatorFrame], PolicyStep], None] = lambda f, p: None
        self.on_row: Callable[[Row], None] = lambda row: None
        self.on_tick: Callable[[Phase], None] = lambda phase: None

    def started(self, seed: int) -> None:
        self.seeds.append(seed)

    def frames(self, frames: Sequence[OperatorFrame], policy: PolicyStep) -> None:
        self.heard += [frame.seq for frame in frames]
        self.on_frames(frames, policy)

    def row(self, row: Row) -> None:
        self.rows.append(row)
        self.on_row(row)

    def rewound(self, rejected: Rejected) -> None:
        self.rejected.append(rejected)

    def asked_to_delete(self) -> None:
        self.deletions += 1

    def ended(self, end: EpisodeEnd) -> None:
        self.ends.append(end)

    def tick(self, phase: Phase, policy: PolicyStep, late: int) -> None:
        self.phases.append(phase)
        self.notices += policy.notices
        self.policy = policy
        self.on_tick(phase)


class Stage:
    """Hold a session and all that it joins."""

    def __init__(
        self,
        env: object,
        script: Script,
        config: SessionConfig | None = None,
        teleop: TeleopConfig | None = None,
        clock: Clock | None = None,
        end: Exception | None = None,
        eyes: bool = False,
        diary: Diary | None = None,
    ) -> None:
        self.env = env
        self.device = ScriptedDevice(script.frames, end, eyes)
        self.policy = TeleopPolicy(env, teleop)
        self.clock = clock or VirtualClock(LONG_BEFORE_NS)
        self.diary = diary or Diary()
        self.session = Session(env, self.device, self.policy, self.clock, self.diary, config)

    def run(self, seed: int = 7) -> EpisodeEnd:
        """Run one episode."""
        return self.session.run_episode(seed)
