"""The simulated operator, moving tools that follow at once and know no physics."""

import ast
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import teleop_agent.devices.sim as sim_module
from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import facing_yaw, quat_wxyz, rotation
from teleop_agent.buttons import EpisodeEvent
from teleop_agent.devices import SceneView
from teleop_agent.devices.sim import SimConfig, SimDevice
from teleop_agent.devices.sim.acts import ActConfig
from teleop_agent.devices.sim.body import BodyConfig
from teleop_agent.devices.sim.faults import Fault, FaultConfig, FaultKind
from teleop_agent.devices.sim.hand import HandConfig
from teleop_agent.devices.sim.intent import MindConfig
from teleop_agent.devices.sim.noise import NoiseConfig
from teleop_agent.errors import TeleopError
from teleop_agent.frame import Button, OperatorFrame
from teleop_agent.policy import PolicyStep

TOOL_DOWN = (0.0, 1.0, 0.0, 0.0)
STEP_NS = 40_000_000
"""25 Hz: half the work of 50, and later sights."""
STILL = NoiseConfig((8.0, 12.0), (0.0, 0.0), 0.0, 0.0, 0.0, 0.003, 0.0)
"""A hand without tremor, measured exactly and received after 3 ms."""


def waypoint(
    position: Sequence[float],
    closure: float = 0.0,
    turn: Sequence[float] = (0.0, 0.0, 0.0),
    side: Side = Side.RIGHT,
) -> Waypoint:
    """Return a waypoint with the tool pointing down, then turned by a rotation vector [rad]."""
    quat = quat_wxyz(Rotation.from_rotvec(turn) * rotation(TOOL_DOWN))
    return Waypoint(EndEffectorTarget(side, np.array(position), quat, closure), 0.01, 0.1)


class Stage:
    """Show a device waypoints, to each hand one after the other; tools follow its hands at once."""

    def __init__(self, session: Callable, device: SimDevice, goals: list[Waypoint], **env) -> None:
        made = session(control_hz=10**9 // STEP_NS, **env)
        self.env, self.policy, self.device = made.env, made.policy, device
        self.goals = list(goals)
        self.now_ns = 5_000_000_000
        self.running = True
        self.frames: list[OperatorFrame] = []
        self.steps: list[PolicyStep] = []
        self.tools: list[EndEffectorTarget] = []

    def tick(self) -> None:
        """Do one control step."""
        new = self.device.read(self.now_ns)
        step = self.policy.act(None, new, self.now_ns)
        self.env.step(step.action)
        tools = {side: self.env.commanded(side) for side in self.env.sides}
        firsts = {goal.target.side: goal for goal in reversed(self.goals)}
        done = [goal for side, goal in firsts.items() if self._met(tools[side], goal)]
        self.goals = [goal for goal in self.goals if goal not in done]
        engaged = {side: hand.engaged for side, hand in step.hands.items()}
        self.device.watch(SceneView(self.now_ns, tools, engaged, tuple(self.goals), self.running))
        self.frames += new
        self.steps.append(step)
        self.tools.append(tools[Side.RIGHT])
        self.now_ns += STEP_NS

    def run(self, seconds: float) -> "Stage":
        """Do control steps for so long."""
        for _ in range(round(seconds * 1e9 / STEP_NS)):
            self.tick()
        return self

    def finish(self, limit_s: float = 12.0) -> "Stage":
        """Do control steps until every goal is met."""
        while self.goals and limit_s > 0.0:
            self.tick()
            limit_s -= STEP_NS * 1e-9
        assert not self.goals, f"not met: {self.goals}"
        return self

    @staticmethod
    def _met(tool: EndEffectorTarget, goal: Waypoint) -> bool:
        target = goal.target
        angle = (rotation(target.quat_wxyz) * rotation(tool.quat_wxyz).inv()).magnitude()
        near = np.linalg.norm(target.position - tool.position) <= goal.tolerance_m
        return near and angle <= goal.tolerance_rad and abs(target.closure - tool.closure) < 0.05

    def events(self) -> list[EpisodeEvent]:
        """Return all that the buttons asked for."""
        return [event for step in self.steps for event in step.events]

    def right(self, value: Callable) -> np.ndarray:
        """Return something of the right controller in every frame."""
        return self.of(Side.RIGHT, value)

    def of(self, side: Side, value: Callable) -> np.ndarray:
        """Return something of a controller in every frame."""
        return np.array([value(frame.controllers[side]) for frame in self.frames])

    def positions(self) -> np.ndarray:
        """Return the right controller's positions (n, 3) [m, tracking]."""
        return self.right(lambda c: c.pose.matrix[:, 3])


@pytest.fixture
def stage(session):
    """Return a function that opens a stage with a connected device."""

    def make(goals, config: SimConfig | None = None, seed: int = 0, **env) -> Stage:
        device = SimDevice(seed, config)
        device.connect()
        return Stage(session, device, goals, **env)

    return make


NEAR = (0.5, 0.05, 0.22)
"""From the tool's start at (0.5, 0, 0.3): 0.16 m for the hand."""
FAR = (0.3, -0.3, 0.05)
"""0.73 m for the hand."""
BOTH = (Side.RIGHT, Side.LEFT)
LEFT_WORK = (
    waypoint((0.45, -0.05, 0.25), side=Side.LEFT),
    waypoint((0.45, -0.05, 0.25), closure=1.0, side=Side.LEFT),
    waypoint((0.5, 0.1, 0.3), closure=1.0, side=Side.LEFT),
)
"""There, close, and bring it, for the left hand."""


def content(frames: list[OperatorFrame]) -> list:
    return [
        (
            frame.seq,
            frame.t_device_ns,
            frame.t_recv_ns,
            frame.head.matrix.tobytes(),
            *(
                (c.pose.matrix.tobytes(), c.pose.valid, c.grip, c.trigger, c.buttons)
                for c in frame.controllers.values()
            ),
        )
        for frame in frames
    ]


# The stream.


def test_the_same_seed_and_views_give_the_same_bits(stage) -> None:
    goals = [waypoint(FAR), *LEFT_WORK]
    first, again, other = (stage(goals, seed=seed, sides=BOTH).run(4.0) for seed in (3, 3, 4))
    assert content(first.frames) == content(again.frames)
    assert first.frames[0].head.matrix.tobytes() != other.frames[0].head.matrix.tobytes()


def test_connecting_again_brings_the_same_person() -> None:
    device = SimDevice(7)
    days = []
    for _ in range(2):
        with device:
            days.append(content(device.read(0) + device.read(300_000_000)))
    assert len(days[0]) > 20
    assert days[0] == days[1]


@pytest.mark.parametrize("read_ms", [1, 7, 50])
def test_the_times_of_reads_change_nothing(stage, read_ms: int) -> None:
    reference = stage([waypoint(NEAR), *LEFT_WORK], sides=BOTH)
    views, show = [], reference.device.watch

    def watch(view: SceneView) -> None:
        views.append(view)
        show(view)

    reference.device.watch = watch
    reference.run(2.0)
    frames: list[OperatorFrame] = []
    with SimDevice(0) as device:
        begin_ns = views[0].t_ns
        for now_ns in range(begin_ns, begin_ns + 1_900_000_000, read_ms * 1_000_000):
            while views[0].t_ns < now_ns:
                device.watch(views.pop(0))
            frames += device.read(now_ns)
    assert content(frames) == content(reference.frames)[: len(frames)]


@pytest.mark.parametrize("hz", [72, 90])
def test_frames_come_at_the_devices_rate_with_latency(stage, hz: int) -> None:
    frames = stage([], SimConfig(device_hz=hz)).run(2.0).frames
    measured = np.array([frame.t_device_ns for frame in frames])
    received = np.array([frame.t_recv_ns for frame in frames])
    assert [frame.seq for frame in frames] == list(range(len(frames)))
    np.testing.assert_allclose(np.diff(measured), 1e9 / hz, atol=1.0)  # whole ns
    assert np.all(np.diff(received) >= 0)
    delay_ms = (received - measured) * 1e-6
    assert 3.0 <= delay_ms.min() < 3.5  # of 3 .. 7 ms, uniform
    assert 6.5 < delay_ms.max() <= 7.0


def test_poses_are_rigid_single_precision_and_tracked(stage) -> None:
    for frame in stage([waypoint(FAR)]).run(3.0).frames:
        for pose in (frame.head, *(c.pose for c in frame.controllers.values())):
            assert pose.connected
            assert pose.valid
            assert pose.tracked
            np.testing.assert_array_equal(pose.matrix, pose.matrix.astype(np.float32))
            turn = pose.matrix[:, :3]
            np.testing.assert_allclose(turn.T @ turn, np.eye(3), atol=1e-6)  # float32
            assert np.linalg.det(turn) > 0.0


def test_a_resting_hand_trembles_a_little(stage) -> None:
    held = stage([]).run(4.0)
    positions = held.positions()
    deviation = positions.std(axis=0)
    # A sine of 0.3 .. 0.5 mm has 0.21 .. 0.35 mm rms; with 0.3 mm noise 0.37 .. 0.46.
    assert np.all((deviation > 0.33e-3) & (deviation < 0.5e-3))
    assert len({pose.tobytes() for pose in held.right(lambda c: c.pose.matrix)}) == len(positions)
    spectrum = np.abs(np.fft.rfft(positions - positions.mean(axis=0), axis=0))
    peak_hz = np.argmax(spectrum, axis=0) * 90.0 / len(positions)
    assert np.all((peak_hz > 7.5) & (peak_hz < 12.5))


def test_without_noise_a_resting_hand_is_still(stage) -> None:
    assert len({p.tobytes() for p in stage([], SimConfig(noise=STILL)).run(1.0).positions()}) == 1


def test_the_head_looks_where_the_body_faces(stage) -> None:
    config = SimConfig(body=BodyConfig(facing=2.0))
    for frame in stage([], config).run(3.0).frames[::10]:
        yaw = facing_yaw(Rotation.from_matrix(frame.head.matrix[:, :3]))
        assert yaw == pytest.approx(2.0, abs=np.deg2rad(5.0))  # 1.5 degrees of sway, and noise


def test_it_knows_no_task() -> None:
    folder = Path(sim_module.__file__).parent
    files = sorted(folder.glob("*.py"))
    assert len(files) > 5
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                assert node.module is not None
                assert node.module.partition(".")[0] not in {"envs", "episodes", "session"}
    code = "import sys, teleop_agent.devices.sim; sys.exit('envs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# What it does.


def test_it_rests_until_there_is_something_to_do(stage) -> None:
    idle = stage([]).run(1.0)
    assert not idle.right(lambda c: c.grip).any()
    idle.goals = [waypoint(NEAR)]
    idle.finish()
    assert idle.device.episodes == 1


def test_it_reacts_late(stage) -> None:
    acting = stage([waypoint(NEAR)]).run(1.0)
    first = next(f for f in acting.frames if f.controllers[Side.RIGHT].grip > 0.0)
    assert 0.2 <= (first.t_device_ns - acting.frames[0].t_device_ns) * 1e-9 < 0.35


@pytest.mark.parametrize("degrees", [0, 90, 180, -90])
def test_it_reaches_facing_any_way(stage, degrees: int) -> None:
    config = SimConfig(body=BodyConfig(facing=np.deg2rad(degrees)))
    acting = stage([waypoint(NEAR, turn=(0.0, 0.0, 0.6))], config).finish()
    assert acting.device.clutches == 1


@pytest.mark.parametrize("seed", range(2))
def test_beliefs_may_be_wrong(stage, seed: int) -> None:
    sign = 1.0 if seed % 2 else -1.0
    mind = MindConfig(scale_error=0.1 * sign, facing_error=0.16)
    body = BodyConfig(start_offset=(0.04, -0.04, 0.04 * sign))
    acting = stage([waypoint(FAR)], SimConfig(mind=mind, body=body), seed=seed).finish()
    assert acting.device.clutches >= 2


def test_a_stroke_is_smooth_and_unhurried(stage) -> None:
    acting = stage([waypoint(NEAR)], SimConfig(noise=STILL)).finish().run(0.5)
    velocity = np.diff(acting.positions(), axis=0) * 90.0
    speed = np.linalg.norm(velocity, axis=1)
    assert 0.2 < speed.max() < 0.55 * 1.15 * 1.02  # 1.15: the fastest of people
    acceleration = np.linalg.norm(np.diff(velocity, axis=0), axis=1) * 90.0
    assert acceleration.max() < 6.0  # m/s2; minimum jerk over 0.16 m in 0.5 s has 3.7


def test_it_reclutches_when_the_arm_runs_out(stage) -> None:
    acting = stage([waypoint(FAR)], SimConfig(noise=STILL)).finish()
    assert acting.device.clutches >= 2
    rest = acting.positions()[0]
    out = np.linalg.norm(acting.positions() - rest, axis=1)
    assert 0.3 < out.max() < 0.35 + 0.05  # corrections may go 5 cm beyond
    assert {hand.state for step in acting.steps for hand in step.hands.values()} >= {
        "ready",
        "engaged",
    }


def test_it_reclutches_when_the_wrist_runs_out(stage) -> None:
    acting = stage([waypoint((0.5, 0.0, 0.3), turn=(0.0, 0.0, 2.4))]).finish()
    assert acting.device.clutches >= 2
    turns = Rotation.from_matrix(acting.right(lambda c: c.pose.matrix[:, :3]))
    twist = (turns * turns[0].inv()).magnitude()
    assert np.deg2rad(50.0) < twist.max() < np.deg2rad(70.0) + 0.15


def test_it_arrives_before_it_closes_and_keeps_closed(stage) -> None:
    goals = [waypoint(NEAR), waypoint(NEAR, closure=1.0), waypoint((0.5, 0.0, 0.3), closure=1.0)]
    acting = stage(goals).finish()
    closing = [tool for tool in acting.tools if 0.0 < tool.closure < 1.0]
    assert closing
    first = next(i for i, tool in enumerate(acting.tools) if tool.closure > 0.0)
    np.testing.assert_allclose(acting.tools[first].position, NEAR, atol=0.01)
    lifted = [tool for tool in acting.tools[first:] if tool.position[2] > 0.25]
    assert lifted[0].closure == 1.0


def test_it_presses_b_once_and_rests(stage) -> None:
    acting = stage([waypoint(NEAR, closure=1.0)]).finish().run(2.5)
    assert acting.events() == [EpisodeEvent.GOOD]
    pressed = acting.right(lambda c: Button.SECONDARY in c.buttons)
    assert 0.1 < pressed.sum() / 90.0 < 0.2
    assert acting.right(lambda c: c.grip)[-1] == 0.0
    assert acting.right(lambda c: c.trigger)[-1] == 0.0
    positions = acting.positions()
    np.testing.assert_allclose(positions[-1], positions[0], atol=0.03)


def test_it_says_done_only_when_it_stays_done(stage) -> None:
    acting = stage([waypoint(NEAR)]).finish()
    for _ in range(5):  # done, not done, as at a boundary
        acting.run(0.2)
        acting.goals = [waypoint(FAR)]
        acting.run(0.2)
        acting.goals = []
    assert not acting.right(lambda c: c.buttons).any()
    acting.run(5.0)
    assert acting.events() == [EpisodeEvent.GOOD]


def test_a_short_word_that_the_episode_is_over_is_noticed(stage) -> None:
    acting = stage([waypoint(FAR)]).run(1.5)
    assert acting.device.episodes == 1
    acting.running = False
    acting.tick()
    acting.running = True
    acting.run(0.6)
    assert acting.right(lambda c: c.grip)[-1] == 0.0
    acting.finish()
    assert acting.device.episodes == 2


def test_when_episodes_stop_it_rests(stage) -> None:
    acting = stage([waypoint(FAR)]).run(1.5)
    acting.running = False
    acting.run(3.0)
    assert acting.right(lambda c: c.grip)[-1] == 0.0
    positions = acting.positions()
    np.testing.assert_allclose(positions[-1], positions[0], atol=0.03)
    assert acting.device.episodes == 1


def test_the_left_hand_comes_up_works_and_goes_back_to_the_hip(stage) -> None:
    acting = stage(list(LEFT_WORK), sides=BOTH).finish().run(4.0)
    height = acting.of(Side.LEFT, lambda c: c.pose.matrix[1, 3])
    grip = acting.of(Side.LEFT, lambda c: c.grip)
    assert grip.max() == 1.0
    assert (height[grip > 0.0] > height[0] + 0.2).all()  # 0.4 m up, less half of what it has to do
    assert height[-1] == pytest.approx(height[0], abs=0.03)
    assert acting.device.clutches == 1
    assert acting.events() == [EpisodeEvent.GOOD]


def test_both_hands_work_at_the_same_time(stage) -> None:
    acting = stage([waypoint(FAR), *LEFT_WORK], sides=BOTH).finish()
    engaged = [all(hand.engaged for hand in step.hands.values()) for step in acting.steps]
    assert sum(engaged) * STEP_NS * 1e-9 > 0.5
    speed = [
        np.linalg.norm(np.diff(acting.of(side, lambda c: c.pose.matrix[:, 3]), axis=0), axis=1) * 90
        for side in BOTH
    ]
    assert (np.minimum(*speed) > 0.1).sum() / 90 > 0.5  # s in which both move, by more than noise


@pytest.mark.parametrize("trouble", ["new grip", "dropout"])
def test_what_happens_to_one_hand_is_nothing_to_the_other(stage, trouble: str) -> None:
    """To the bit: the left hand does the same, whatever the right one is up to."""
    calm = stage([waypoint(NEAR, closure=1.0), *LEFT_WORK], sides=BOTH)
    config, goal = SimConfig(), waypoint(NEAR, closure=1.0)
    if trouble == "new grip":
        goal = waypoint(FAR)
    else:
        config = SimConfig(faults=FaultConfig((Fault(FaultKind.DROPOUT, 1.2, 0.3),)))
    busy = stage([goal, *LEFT_WORK], config, sides=BOTH)
    for one in (calm, busy):
        while any(goal.target.side is Side.LEFT for goal in one.goals):
            one.tick()
    assert busy.of(Side.RIGHT, lambda c: c.grip)[:-1].min() == 0.0
    assert busy.device.clutches > calm.device.clutches
    one, other = (
        [(c.pose.matrix.tobytes(), c.grip, c.trigger) for c in left]
        for left in ([f.controllers[Side.LEFT] for f in s.frames] for s in (calm, busy))
    )
    assert one == other


def test_a_hand_that_is_done_holds_on_while_the_other_works(stage) -> None:
    acting = stage([waypoint(FAR), waypoint(NEAR), waypoint(FAR), *LEFT_WORK], sides=BOTH)
    while any(goal.target.side is Side.LEFT for goal in acting.goals):
        acting.tick()
    done = len(acting.frames)
    acting.finish()
    assert len(acting.frames) > done + 90
    assert acting.of(Side.LEFT, lambda c: c.grip)[done:].min() == 1.0
    assert acting.of(Side.LEFT, lambda c: c.trigger)[done:].min() == 1.0


def test_the_idle_hand_only_hangs(stage) -> None:
    left = [f.controllers[Side.LEFT] for f in stage([waypoint(FAR)]).run(4.0).frames]
    assert all(c.grip == c.trigger == 0.0 and c.buttons is Button.NONE for c in left)
    assert all(c.input_valid for c in left)
    assert np.ptp([c.pose.matrix[:, 3] for c in left], axis=0).max() < 5e-3


# What goes wrong.

FAULTS = [
    Fault(FaultKind.DROPOUT, 1.2, 0.3),
    Fault(FaultKind.JUMP, 1.2, 0.05),
    Fault(FaultKind.FROZEN, 1.2, 0.4),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind.value)
def test_a_fault_holds_the_arm_and_a_new_squeeze_goes_on(stage, fault: Fault) -> None:
    acting = stage([waypoint(FAR)], SimConfig(faults=FaultConfig((fault,)))).finish()
    assert acting.device.clutches >= 3
    held = [i for i, s in enumerate(acting.steps) if i > 10 and s.hands[Side.RIGHT].reason]
    again = next(s for s in acting.steps[held[-1] :] if s.hands[Side.RIGHT].engaged)
    begin_ns, end_ns = (acting.steps[held[0]].frame.t_device_ns, again.frame.t_device_ns)
    between = [f for f in acting.frames if begin_ns < f.t_device_ns < end_ns]
    assert min(f.controllers[Side.RIGHT].grip for f in between) == 0.0
    still = np.ptp([acting.tools[i].position for i in held[1:]], axis=0)
    assert still.max() == 0.0


def test_a_fault_while_closing_is_made_good(stage) -> None:
    goals = [waypoint(NEAR, closure=1.0)]
    clean = stage(goals).finish()
    at = next(f for f in clean.frames if 0.3 < f.controllers[Side.RIGHT].trigger < 1.0)
    start_s = (at.t_device_ns - clean.frames[0].t_device_ns) * 1e-9
    fault = Fault(FaultKind.DROPOUT, start_s, 0.3)
    acting = stage(goals, SimConfig(faults=FaultConfig((fault,)))).finish()
    assert acting.tools[-1].closure > 0.95
    assert acting.device.clutches == 2


@pytest.mark.parametrize("kind", FaultKind)
def test_each_episode_gets_its_fault_while_the_arm_is_held(stage, kind: FaultKind) -> None:
    faults = FaultConfig(each_episode=kind, duration_s=0.3, window_s=(0.1, 0.5))
    acting = stage([waypoint(FAR)], SimConfig(faults=faults), seed=2).finish()
    engaged = [step.hands[Side.RIGHT].engaged for step in acting.steps]
    held = [step.hands[Side.RIGHT].reason is not None for step in acting.steps]
    assert any(engaged[i - 1] and held[i] for i in range(1, len(held)))


# Settings.


@pytest.mark.parametrize(
    "make",
    [
        lambda: SimConfig(device_hz=10),
        lambda: BodyConfig(facing=np.nan),
        lambda: BodyConfig(start_offset=(0.0, np.inf, 0.0)),
        lambda: BodyConfig(eye_m=(1.7, 1.5)),
        lambda: HandConfig(peak_speed=0.0),
        lambda: HandConfig(pace=(0.0, 1.0)),
        lambda: ActConfig(reaction_s=0.01),
        lambda: MindConfig(scale_error=-1.0),
        lambda: ActConfig(aim_error=-0.1),
        lambda: ActConfig(press_s=-0.1),
        lambda: NoiseConfig(tracker_m=-1e-3),
        lambda: Fault(FaultKind.JUMP, -1.0, 0.1),
        lambda: FaultConfig(window_s=(2.0, 1.0)),
    ],
)
def test_senseless_settings_are_refused(make: Callable) -> None:
    with pytest.raises(TeleopError):
        make()


def test_one_setting_leaves_the_other_draws_alone() -> None:
    frames = []
    for noise in (NoiseConfig(), replace(STILL, latency_s=0.01)):
        with SimDevice(5, SimConfig(noise=noise)) as device:
            frames.append((device.read(0) + device.read(20_000_000))[0])
    np.testing.assert_allclose(frames[0].head.matrix, frames[1].head.matrix, atol=0.01)
