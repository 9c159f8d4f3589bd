"""The life of an episode: when it begins, what its rows hold, and every way it ends."""

import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from choreography import Script
from diary import Diary, Stage
from stub_env import StubEnv

from envs.errors import StateError
from envs.panda_env import PicoPandaEnv
from kinematics import Side
from session.loop import EpisodeEnd, Phase, Row, SessionConfig, Verdict
from teleop_agent.clock import VirtualClock
from teleop_agent.errors import DeviceClosedError, DeviceFailedError
from teleop_agent.frame import Button
from teleop_agent.reasons import Reason

B, X, Y = (
    (Side.RIGHT, Button.SECONDARY),
    (Side.LEFT, Button.PRIMARY),
    (Side.LEFT, Button.SECONDARY),
)
TICK_NS = 20_000_000


def engaged(seconds: float = 1.5, idle: float = 0.0) -> Script:
    """Return a script that waits, engages and holds."""
    script = Script()
    if idle:
        script.hold(idle)
    script.engage()
    script.hold(seconds)
    return script


# The beginning.


def test_the_environment_stands_until_the_first_engagement(
    panda: Callable[..., PicoPandaEnv],
) -> None:
    env = panda()
    observation, _ = env.reset(seed=7)
    state, memory = env.integration_state(), env.controller_memory()
    script = engaged(idle=1.0)
    script.press(*B)
    stage = Stage(env, script)
    stage.run(seed=7)
    first = stage.diary.rows[0]
    np.testing.assert_array_equal(first.state, state)
    np.testing.assert_array_equal(first.memory, memory)
    for key, value in observation.items():
        np.testing.assert_array_equal(first.observation[key], value)
    assert first.policy.engaged
    assert stage.diary.phases.count(Phase.WAITING) >= 50  # the idle second
    assert stage.diary.seeds == [7]


def test_nothing_is_told_of_an_episode_that_never_began() -> None:
    script = Script()
    script.hold(0.5)
    script.press(*X)
    stage = Stage(StubEnv(), script)
    end = stage.run()
    assert stage.diary.seeds == stage.diary.rows == []
    assert stage.env.steps == 0
    assert (end.verdict, end.rows) == (Verdict.DISCARD, 0)


@pytest.mark.parametrize("hold", [0.15, 1.0])
def test_b_before_the_first_engagement_keeps_nothing(hold: float) -> None:
    script = Script()
    script.hold(0.2)
    script.press(*B, seconds=hold)
    script.engage()
    script.hold(0.5)
    script.press(*B)
    stage = Stage(StubEnv(), script)
    end = stage.run()
    assert (end.verdict, end.rows) == (Verdict.SUCCESS, len(stage.diary.rows))
    assert 25 <= end.rows <= 50
    assert stage.diary.ends == [end]


def test_y_before_the_first_engagement_repeats_the_seed() -> None:
    script = Script()
    script.hold(0.2)
    script.press(*Y)
    assert Stage(StubEnv(), script).run().verdict is Verdict.RESET


def test_pausing_before_the_first_engagement_does_nothing() -> None:
    script = Script()
    script.hold(0.2)
    script.pull_both_triggers()
    script.engage()
    script.hold(0.5)
    script.press(*B)
    stage = Stage(StubEnv(), script)
    assert stage.run().verdict is Verdict.SUCCESS
    assert Phase.PAUSED not in stage.diary.phases


def test_a_device_with_eyes_is_given_up_on_when_it_does_not_engage() -> None:
    script = Script()
    script.hold(3.0)
    stage = Stage(StubEnv(), script, SessionConfig(waiting_limit_s=2.0), eyes=True)
    end = stage.run()
    assert (end.verdict, end.reason, end.rows) == (Verdict.DISCARD, "nobody engaged", 0)
    assert len(stage.diary.phases) == 101  # 2 s, and the tick that noticed
    assert [view.running for view in stage.device.views] == [True] * 100 + [False]


def test_a_pause_counts_as_waiting() -> None:
    """Else a simulated operator, who does not know of it, would stand there for ever."""
    script = engaged(0.5)
    script.pull_both_triggers()
    script.hold(3.0)
    stage = Stage(StubEnv(), script, SessionConfig(waiting_limit_s=2.0), eyes=True)
    end = stage.run()
    assert Phase.PAUSED in stage.diary.phases
    assert (end.verdict, end.reason) == (Verdict.DISCARD, "nobody engaged")


# The end by a button.


@pytest.mark.parametrize(
    ("button", "hold", "verdict"),
    [
        (B, 0.15, Verdict.SUCCESS),
        (B, 1.0, Verdict.FAILURE),
        (X, 0.15, Verdict.DISCARD),
        (Y, 0.15, Verdict.RESET),
    ],
)
def test_the_buttons_end_an_episode(
    button: tuple[Side, Button], hold: float, verdict: Verdict
) -> None:
    script = engaged()
    script.press(*button, seconds=hold)
    script.hold(1.0)
    stage = Stage(StubEnv(), script)
    end = stage.run(seed=3)
    assert (end.verdict, end.reason, end.seed) == (verdict, "button", 3)
    assert not end.interrupted
    assert end.rows == len(stage.diary.rows) == stage.env.steps
    assert stage.diary.ends == [end]
    assert 75 <= end.rows <= 140  # it ends at the press, not with the script


def test_the_operator_goes_before_the_task() -> None:
    script = engaged()
    script.press(*X)
    stage = Stage(StubEnv(), script)
    assert stage.run().verdict is Verdict.DISCARD
    pressed = next(k for k, row in enumerate(stage.diary.rows) if row.policy.events)
    both = Stage(StubEnv(), script)
    both.env.success = lambda k: k > pressed + 1 - 25  # solved long enough with the same step
    assert both.run().verdict is Verdict.DISCARD
    sooner = Stage(StubEnv(), script)
    sooner.env.success = lambda k: k > pressed - 25
    assert sooner.run().verdict is Verdict.SUCCESS


def test_the_tasks_word_is_kept_beside_the_operators() -> None:
    script = engaged()
    script.press(*B, seconds=1.0)
    env = StubEnv()
    env.success = lambda k: True
    end = Stage(env, script, SessionConfig(auto_success=False)).run()
    assert (end.verdict, end.success) == (Verdict.FAILURE, True)


def test_a_press_under_way_at_the_end_does_not_reach_the_next_episode() -> None:
    script = engaged(1.0)
    script.right.buttons = Button.SECONDARY
    script.hold(1.5)  # held: ends the first as a failure, and goes on
    script.right.buttons = Button.NONE
    script.engage()
    script.hold(1.0)
    script.press(*X)
    stage = Stage(StubEnv(), script)
    assert stage.run().verdict is Verdict.FAILURE
    assert stage.run().verdict is Verdict.DISCARD


# The end by itself.


def test_half_a_second_of_success_ends_an_episode() -> None:
    stage = Stage(StubEnv(), engaged(3.0))
    stage.env.success = lambda k: 20 <= k < 44 or k >= 60  # 24 steps are not enough
    end = stage.run()
    assert (end.verdict, end.reason, end.success) == (Verdict.SUCCESS, "task", True)
    assert end.rows == 84  # steps 60 .. 84: 25 times success


def test_without_auto_success_only_the_operator_ends_it() -> None:
    script = engaged(3.0)
    script.press(*B)
    stage = Stage(StubEnv(), script, SessionConfig(auto_success=False))
    stage.env.success = lambda k: True
    end = stage.run()
    assert (end.reason, end.success) == ("button", True)
    assert end.rows >= 150


@pytest.mark.parametrize(
    ("drop", "solved", "verdict"),
    [
        (False, False, Verdict.FAILURE),
        (True, False, Verdict.DISCARD),
        (False, True, Verdict.SUCCESS),
        (True, True, Verdict.SUCCESS),
    ],
)
def test_the_time_limit(drop: bool, solved: bool, verdict: Verdict) -> None:
    stage = Stage(StubEnv(limit=60), engaged(3.0), SessionConfig(drop_failures=drop))
    stage.env.success = lambda k: solved and k > 50
    end = stage.run()
    assert (end.verdict, end.reason, end.rows) == (verdict, "time limit", 60)
    assert stage.diary.rows[-1].truncated


# Pauses.


def test_a_pause_stops_the_environment_and_asks_for_a_new_engagement() -> None:
    script = engaged(1.0)
    script.pull_both_triggers()
    script.engage()  # while it pauses: moves nothing, and does not count afterwards
    script.move(0.5, (0.1, 0.0, 0.0))
    script.pull_both_triggers()
    script.hold(0.5)
    script.engage()
    script.hold(0.5)
    script.press(*B)
    stage = Stage(StubEnv(), script)
    end = stage.run()
    assert end.verdict is Verdict.SUCCESS
    rows = stage.diary.rows
    times = np.diff([row.t_tick_ns for row in rows])
    gap = int(np.argmax(times))
    assert times[gap] > 1.0e9  # the engagement, the stroke, most of the second pull
    assert set(np.delete(times, gap)) == {TICK_NS}
    assert [int(row.state[0]) for row in rows] == list(range(len(rows)))
    after = [row.policy.engaged for row in rows[gap + 1 :]]
    assert not after[0]
    assert after[-1]
    assert stage.diary.phases.count(Phase.PAUSED) * TICK_NS == times[gap] - TICK_NS


@pytest.mark.parametrize("button", [B, X, Y])
def test_the_buttons_work_in_a_pause(button: tuple[Side, Button]) -> None:
    script = engaged(1.0)
    script.pull_both_triggers()
    script.press(*button)
    stage = Stage(StubEnv(), script)
    end = stage.run()
    assert end.verdict is {B: Verdict.SUCCESS, X: Verdict.DISCARD, Y: Verdict.RESET}[button]
    assert stage.diary.phases[-1] is Phase.PAUSED


def test_a_pause_asked_for_at_the_last_step_does_not_outlive_the_episode() -> None:
    script = engaged(1.0)
    script.pull_both_triggers()
    script.pull_both_triggers()
    script.hold(1.0)
    free = Stage(StubEnv(), script)
    with pytest.raises(DeviceClosedError):
        free.run()
    asking = next(k for k, row in enumerate(free.diary.rows) if row.policy.events)
    stage = Stage(StubEnv(limit=asking + 1), script)
    assert stage.run().reason == "time limit"


# The end from outside.


@pytest.mark.parametrize(("rows", "verdict"), [(49, Verdict.DISCARD), (50, Verdict.FAILURE)])
def test_an_interrupted_episode_is_kept_from_one_second_on(rows: int, verdict: Verdict) -> None:
    stage = Stage(StubEnv(), engaged(3.0))

    def stop(row: Row) -> None:
        if len(stage.diary.rows) == rows:
            stage.session.stop("SIGINT")

    stage.diary.on_row = stop
    end = stage.run()
    assert end == EpisodeEnd(verdict, "SIGINT", False, 7, rows, 0, interrupted=True)
    assert stage.session.stopped == "SIGINT"


def test_stopping_while_nobody_is_engaged_ends_at_once() -> None:
    stage = Stage(StubEnv(), engaged(idle=1.0))
    stage.session.stop("SIGTERM")
    end = stage.run()
    assert (end.verdict, end.rows, end.interrupted) == (Verdict.DISCARD, 0, True)
    assert stage.env.steps == 0


def test_stopping_in_a_pause_keeps_the_episode() -> None:
    script = engaged(1.0)
    script.pull_both_triggers(2.0)
    stage = Stage(StubEnv(), script)

    def stop(phase: Phase) -> None:
        if phase is Phase.PAUSED:
            stage.session.stop("SIGINT")

    stage.diary.on_tick = stop
    end = stage.run()
    assert (end.verdict, end.interrupted) == (Verdict.FAILURE, True)


def test_a_decided_episode_is_not_interrupted_by_a_later_stop() -> None:
    stage = Stage(StubEnv(limit=60), engaged(3.0))
    stage.env.during = lambda k: stage.session.stop("SIGINT") if k == 59 else None
    end = stage.run()
    assert (end.reason, end.interrupted) == ("time limit", False)


@pytest.mark.parametrize("error", [DeviceClosedError("it quit"), DeviceFailedError("it broke")])
@pytest.mark.parametrize(("seconds", "verdict"), [(0.4, Verdict.DISCARD), (2.0, Verdict.FAILURE)])
def test_a_device_that_ends_is_an_interruption(
    error: Exception, seconds: float, verdict: Verdict
) -> None:
    stage = Stage(StubEnv(), engaged(seconds), end=error)
    with pytest.raises(type(error), match=str(error)):
        stage.run()
    (end,) = stage.diary.ends
    assert (end.verdict, end.reason, end.interrupted) == (verdict, str(error), True)
    assert end.rows == len(stage.diary.rows)


@pytest.mark.parametrize(("step", "verdict"), [(20, Verdict.DISCARD), (90, Verdict.FAILURE)])
def test_a_simulation_that_breaks_down_is_an_interruption(step: int, verdict: Verdict) -> None:
    """The rows so far are kept, and the state that they ended in."""
    stage = Stage(StubEnv(), engaged(3.0))

    def diverge(k: int) -> None:
        if k == step:
            stage.env.steps = 0  # as MuJoCo does
            raise StateError("broke down")

    stage.env.during = diverge
    with pytest.raises(StateError, match="broke down"):
        stage.run()
    (end,) = stage.diary.ends
    assert (end.verdict, end.reason, end.interrupted) == (verdict, "broke down", True)
    assert end.rows == len(stage.diary.rows) == step
    assert stage.env.integration_state() == [step]


def test_a_device_that_ends_before_the_beginning_leaves_nothing() -> None:
    script = Script()
    script.hold(0.5)
    stage = Stage(StubEnv(), script)
    with pytest.raises(DeviceClosedError):
        stage.run()
    assert stage.diary.seeds == stage.diary.rows == []
    assert [end.verdict for end in stage.diary.ends] == [Verdict.DISCARD]


@pytest.mark.parametrize("call", ["started", "frames", "row", "ended", "tick"])
def test_an_error_of_the_listener_is_not_swallowed(call: str) -> None:
    class Failing(Diary):
        def __getattribute__(self, name: str) -> object:
            if name == call:
                raise ZeroDivisionError(name)
            return super().__getattribute__(name)

    script = engaged(1.0)
    script.press(*B)
    stage = Stage(StubEnv(), script, diary=Failing())
    with pytest.raises(ZeroDivisionError, match=call):
        stage.run()


# Rows.


def test_a_row_holds_what_stood_before_its_action() -> None:
    script = engaged()
    script.press(*B)
    stage = Stage(StubEnv(), script)
    stage.run()
    for k, row in enumerate(stage.diary.rows):
        assert row.observation["step"] == k
        assert row.state == k
        assert row.memory == -k
        assert row.policy.action[0] == np.float32(k / 1000)
        assert (row.reward, row.info["n_clipped"]) == (k + 1, k + 1)  # of the step itself


def test_a_rows_instants_follow_each_other_on_the_sessions_clock() -> None:
    script = engaged()
    script.press(*B)
    stage = Stage(StubEnv(), script, clock=Ticking(10**12))
    stage.run()
    for row in stage.diary.rows[1:]:
        instants = (
            row.t_due_ns,
            row.t_tick_ns,
            row.policy.t_target_ns,
            row.t_policy_ns,
            row.t_apply_ns,
            row.t_physics_ns,
            row.t_done_ns,
        )
        assert all(np.diff(instants) > 0)
        assert instants[-1] - instants[0] < TICK_NS


def test_a_row_of_the_real_environment_leads_to_the_next(
    panda: Callable[..., PicoPandaEnv],
) -> None:
    env = panda()
    script = engaged(0.1)
    script.move(0.5, (0.0, 0.1, 0.1))
    script.press(*B)
    stage = Stage(env, script)
    stage.run(seed=5)
    rows = stage.diary.rows
    env.reset(seed=5)
    for row in rows:
        np.testing.assert_array_equal(env.integration_state(), row.state)
        np.testing.assert_array_equal(env.controller_memory(), row.memory)
        for key, value in env.observe().items():
            np.testing.assert_array_equal(value, row.observation[key])
        env.step(row.policy.action)
    assert np.linalg.norm(rows[-1].observation["robot0_eef_pos"]) > 0.1


def test_the_rows_hold_all_frames_of_the_episode_once_and_in_order() -> None:
    script = engaged(idle=0.5)
    script.press(*B)
    stage = Stage(StubEnv(control_hz=200), script)
    stage.run()
    numbers = [frame.seq for row in stage.diary.rows for frame in row.frames]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert stage.diary.heard == list(range(numbers[-1] + 1))  # those before it too, for the eye
    assert script.frames[numbers[0]].controllers[Side.RIGHT].grip == 1.0  # engaged with it
    assert min(len(row.frames) for row in stage.diary.rows) == 0  # 200 Hz outruns the device
    for row in stage.diary.rows:
        assert all(frame.t_recv_ns <= row.t_tick_ns for frame in row.frames)


@pytest.mark.parametrize("control_hz", [20, 50, 200])
def test_ticks_are_periods_apart_and_read_the_device_once(control_hz: int) -> None:
    script = engaged()
    script.press(*B)
    stage = Stage(StubEnv(control_hz), script)
    stage.run()
    assert set(np.diff(stage.device.reads)) == {10**9 // control_hz}
    assert len(stage.device.reads) == len(stage.diary.phases)
    ticks = [row.t_tick_ns for row in stage.diary.rows]
    assert ticks == stage.device.reads[-len(ticks) :]


def test_the_same_frames_make_the_same_rows(panda: Callable[..., PicoPandaEnv]) -> None:
    script = engaged(0.1)
    script.right.trigger = 0.7
    script.move(0.4, (0.05, -0.1, -0.1))
    script.rotate(0.4, (0.2, 0.1, 0.3))
    script.press(*B)
    runs = []
    for _ in range(2):
        stage = Stage(panda(), script)
        stage.run(seed=11)
        runs.append(stage.diary.rows)
    assert len(runs[0]) == len(runs[1]) > 40
    for one, two in zip(*runs, strict=True):
        assert one.state.tobytes() == two.state.tobytes()
        assert one.memory.tobytes() == two.memory.tobytes()
        assert one.policy.action.tobytes() == two.policy.action.tobytes()
        assert one.t_tick_ns == two.t_tick_ns
        mine, other = one.policy.hands[Side.RIGHT], two.policy.hands[Side.RIGHT]
        assert mine.target.position.tobytes() == other.target.position.tobytes()
        assert (mine.state, mine.reason, mine.clamps) == (other.state, other.reason, other.clamps)


def test_a_device_with_eyes_sees_every_tick() -> None:
    script = engaged()
    script.press(*B)
    stage = Stage(StubEnv(), script, eyes=True)
    end = stage.run()
    views = stage.device.views
    assert len(views) == len(stage.diary.phases)
    assert [view.running for view in views] == [True] * (len(views) - 1) + [False]
    assert sum(view.engaged[Side.RIGHT] for view in views) == end.rows


# Deadlines.


class Busy(VirtualClock):
    """Let time pass while something works."""

    def work(self, ns: int) -> None:
        self.sleep_until(self.now_ns() + ns)


class Ticking(VirtualClock):
    """Let 1 us pass with every look at it."""

    def now_ns(self) -> int:
        self.sleep_until(super().now_ns() + 1_000)
        return super().now_ns()


def stalled(stalls: dict[int, int], seconds: float = 4.0) -> tuple[Stage, EpisodeEnd]:
    """Run an episode whose step k takes ``stalls[k]`` ns."""
    script = engaged(seconds)
    script.press(*B)
    clock = Busy(10**12)
    stage = Stage(StubEnv(), script, clock=clock)
    stage.env.during = lambda k: clock.work(stalls.get(k, 0))
    return stage, stage.run()


def test_steps_within_their_period_are_on_time() -> None:
    stage, end = stalled(dict.fromkeys(range(1000), 19_000_000))
    assert end.late == 0
    assert set(np.diff([row.t_tick_ns for row in stage.diary.rows])) == {TICK_NS}
    assert {row.t_done_ns - row.t_apply_ns for row in stage.diary.rows} == {19_000_000}


def test_a_short_delay_is_made_up_for() -> None:
    stage, end = stalled({60: 65_000_000})
    late = [k for k, row in enumerate(stage.diary.rows) if row.late]
    assert late == [61, 62]  # 45 and 25 ms behind; 5 ms is no delay
    assert end.late == 2
    ticks = [row.t_tick_ns for row in stage.diary.rows]
    assert (ticks[100] - ticks[0]) == 100 * TICK_NS  # on the old grid again


def test_a_long_stall_is_not_caught_up_with() -> None:
    stage, end = stalled({60: 1_000_000_000})
    ticks = np.diff([row.t_tick_ns for row in stage.diary.rows])
    assert ticks[60] == 1_000_000_000
    assert set(np.delete(ticks, 60)) == {TICK_NS}
    late = stage.diary.rows[61]
    assert (end.late, late.late) == (1, True)
    assert late.t_tick_ns - late.t_due_ns == 980_000_000  # all of it, not what a new grid says


@pytest.mark.parametrize(
    ("stall_ms", "where"), [(260, "step"), (1_000, "listener"), (4_000, "step")]
)
def test_after_a_stall_the_arm_stands_until_the_next_engagement(
    panda: Callable[..., PicoPandaEnv], stall_ms: int, where: str
) -> None:
    """The hand went on meanwhile, and the backlog of its motion is there at once."""
    script = engaged(0.5)
    script.move(1.5, (0.0, 0.3, 0.0))
    script.hold(4.0)
    script.engage()
    script.move(0.5, (0.0, 0.0, 0.05))
    script.press(*B)
    clock, env = Busy(10**12), panda()
    stage = Stage(env, script, SessionConfig(auto_success=False), clock=clock)
    step, position = env.step, list[np.ndarray]()

    def noting(action: np.ndarray) -> object:
        if where == "step" and len(position) == 60:
            clock.work(stall_ms * 1_000_000)
        taken = step(action)
        position.append(env.commanded(Side.RIGHT).position.copy())
        return taken

    def listening(row: Row) -> None:
        if where == "listener" and len(position) == 61:
            clock.work(stall_ms * 1_000_000)

    stage.diary.on_row = listening
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(env, "step", noting)
        stage.run(seed=5)
    rows = stage.diary.rows
    hands = [row.policy.hands[Side.RIGHT] for row in rows]
    assert hands[60].engaged
    assert hands[61].reason is Reason.STALLED
    again = next(k for k in range(61, len(rows)) if hands[k].engaged)
    assert again > 61 + 10
    np.testing.assert_array_equal(np.ptp(position[60:again], axis=0), 0.0)
    assert np.linalg.norm(np.diff(position, axis=0), axis=1).max() <= env.speed_limits.linear / 50
    assert position[-1][0] < position[60][0] - 0.01  # and goes on then
    assert np.abs(position[-1][2] - position[60][2]) < 1e-3


def test_a_step_that_is_stuck_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    script = engaged()
    script.press(*B)
    stage = Stage(StubEnv(), script, SessionConfig(tick_limit_s=0.05))
    told = threading.Event()
    caplog.handler.addFilter(lambda record: told.set() or True)

    def stuck_in_a_step(k: int) -> None:
        if k == 20:
            assert told.wait(60.0)  # a bound, not an expectation

    stage.env.during = stuck_in_a_step
    stage.run()
    (record,) = caplog.records
    assert "stuck_in_a_step" in record.message


def test_the_frames_of_a_stall_are_recorded_all_the_same() -> None:
    script = engaged(0.5)
    script.move(2.0, (0.0, 0.3, 0.0))
    script.press(*B)
    clock = Busy(10**12)
    stage = Stage(StubEnv(), script, clock=clock)
    stage.env.during = lambda k: clock.work(1_000_000_000 if k == 60 else 0)
    stage.run()
    numbers = [frame.seq for row in stage.diary.rows for frame in row.frames]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))  # recorded all the same


def test_a_computer_that_is_too_slow_is_late_at_every_tick() -> None:
    _, end = stalled(dict.fromkeys(range(1000), 25_000_000))
    assert end.late > 0.8 * end.rows


# Rewinding.


def slip(rewound: float) -> Script:
    """Return a script that works, goes back for ``rewound`` seconds, works again, and is good."""
    script = engaged(2.0)
    script.mark("rewind")
    script.press(*Y, seconds=0.8 + rewound)
    script.hold(0.3)
    script.engage()
    script.hold(1.0)
    script.press(*B)
    return script


@pytest.mark.parametrize("rewound", [0.2, 0.5, 30.0])
def test_a_rewind_goes_on_from_an_earlier_row(rewound: float) -> None:
    stage = Stage(StubEnv(), slip(rewound))
    end = stage.run()
    (rejected,) = stage.diary.rejected
    done = rejected.state[0]
    assert 2.8 * 50 <= done <= 3.0 * 50  # Y is held 0.8 s before it means anything
    back = min(done, 2 * 50 * rewound)  # twice as fast as it was done
    assert rejected.first == pytest.approx(done - back, abs=8)
    assert rejected.first == 0 or rewound < 1.0
    rows = stage.diary.rows
    kept = rows[: rejected.first] + rows[int(done) :]
    assert [row.state[0] for row in kept] == list(range(len(kept)))
    assert [row.observation["step"][0] for row in kept] == list(range(len(kept)))
    assert (end.verdict, end.rows, stage.env.steps) == (Verdict.SUCCESS, len(kept), len(kept))
    assert stage.diary.seeds == [7]
    assert rejected.observation["step"][0] == done


def test_after_a_rewind_nothing_is_done_before_the_next_engagement() -> None:
    script = engaged(2.0)
    script.press(*Y, seconds=1.3)
    script.hold(3.0)  # with the grip still squeezed
    stage = Stage(StubEnv(), script)
    with pytest.raises(DeviceClosedError):
        stage.run()
    (rejected,) = stage.diary.rejected
    assert len(stage.diary.rows) == rejected.state[0]
    assert stage.env.steps == rejected.first
    assert Phase.REWINDING in stage.diary.phases
    assert stage.diary.phases[-1] is Phase.WAITING


def test_what_the_task_said_is_taken_back_too() -> None:
    script = slip(0.5)
    env = StubEnv()
    env.success = lambda k: 120 <= k < 160
    stage = Stage(env, script, SessionConfig(auto_success=False))
    end = stage.run()
    (rejected,) = stage.diary.rejected
    assert rejected.first < 120
    assert not end.success or env.steps >= 120
    assert end.late == sum(row.late for row in stage.diary.rows) - rejected.late


@pytest.mark.parametrize("ending", ["button", "stop", "device"])
def test_an_end_in_the_middle_of_a_rewind_keeps_all_rows(ending: str) -> None:
    script = engaged(2.0)
    script.left.buttons = Button.SECONDARY
    script.hold(1.2)
    if ending == "button":
        script.press(*B)
        script.hold(1.0)
    stage = Stage(StubEnv(), script)
    if ending == "stop":
        stage.diary.on_tick = lambda phase: (
            stage.session.stop("told to") if phase is Phase.REWINDING else None
        )
    if ending == "device":
        with pytest.raises(DeviceClosedError):
            stage.run()
    else:
        stage.run()
    (end,) = stage.diary.ends
    assert stage.diary.rejected == []
    assert end.rows == len(stage.diary.rows) == stage.env.steps
    assert end.verdict is (Verdict.SUCCESS if ending == "button" else Verdict.FAILURE)


def test_a_rewind_stands_still_while_the_link_is_silent() -> None:
    script = engaged(2.0)
    script.left.buttons = Button.SECONDARY
    script.hold(1.0)
    frames = len(script.frames)
    script.hold(3.0)
    script.left.buttons = Button.NONE
    script.hold(0.1)
    del script.frames[frames : frames + 225]  # 2.5 s of silence, Y held
    stage = Stage(StubEnv(), script)
    with pytest.raises(DeviceClosedError):
        stage.run()
    (rejected,) = stage.diary.rejected
    assert 0 < rejected.state[0] - rejected.first < 80


@pytest.mark.parametrize("phase", ["waiting", "paused"])
def test_rewinding_takes_rows_whenever_there_are_some(phase: str) -> None:
    script = Script()
    if phase == "paused":
        script.engage()
        script.hold(1.0)
        script.pull_both_triggers()
    script.hold(0.2)
    script.press(*Y, seconds=1.1)
    script.hold(0.2)
    stage = Stage(StubEnv(), script)
    with pytest.raises(DeviceClosedError):
        stage.run()
    assert len(stage.diary.rejected) == (phase == "paused")


def test_deleting_is_asked_for_at_any_time() -> None:
    script = Script()
    script.hold(0.2)
    script.press(*X, seconds=1.0)
    script.engage()
    script.press(*X, seconds=1.0)
    script.hold(0.2)
    stage = Stage(StubEnv(), script)
    with pytest.raises(DeviceClosedError):
        stage.run()
    assert stage.diary.deletions == 2
    assert len(stage.diary.ends) == 1


def test_garbage_of_an_episode_goes_with_the_next() -> None:
    """What stays for the loop's sake must not stay for ever: a session may last for hours."""

    class Ring:
        def __init__(self) -> None:
            self.itself = self

    script = engaged()
    script.press(*B)
    ring = Ring()
    gone = weakref.ref(ring)
    Stage(StubEnv(), script).run()
    del ring
    Stage(StubEnv(), script).run()
    assert gone() is None
