"""From rows to files, and what the operator is told."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from choreography import Script, ScriptedDevice

import episodes
from envs.errors import StateError
from envs.panda_env import PicoPandaEnv
from episodes.reader import Episode, open_run
from episodes.replay import Mode, replay
from episodes.verify import verify_episode
from kinematics import Side
from session.collector import Collector, StatusLine
from session.loop import Session, SessionConfig, Verdict
from session.records import episode_info
from teleop_agent.clock import VirtualClock
from teleop_agent.config import TeleopConfig
from teleop_agent.errors import DeviceClosedError
from teleop_agent.frame import Button
from teleop_agent.haptics import Cue, Haptics
from teleop_agent.policy import TeleopPolicy

B = (Side.RIGHT, Button.SECONDARY)
X = (Side.LEFT, Button.PRIMARY)
Y = (Side.LEFT, Button.SECONDARY)


class Desk:
    """Join a scripted device, an environment and a recorder, as the program does."""

    def __init__(self, env: PicoPandaEnv, script: Script, folder: Path) -> None:
        clock, config = VirtualClock(10**12), TeleopConfig()
        self.clock = clock
        model = episodes.CompiledModel.of(env.model)
        info = episode_info(env, "script", "anonymous", config, clock, model.sha256)
        self.device = ScriptedDevice(script.frames)
        self.run = episodes.Run.open(folder, episodes.RunSpec.of(info))
        self.recorder = episodes.Recorder(self.run)
        self.haptics = haptics = Haptics(env.control_hz)
        self.collector = Collector(
            env, self.recorder, info, model, self.device, clock, None, 9, haptics
        )
        policy = TeleopPolicy(env, config)
        self.session = Session(
            env, self.device, policy, clock, self.collector, SessionConfig(auto_success=False)
        )
        self.collector.session = self.session

    def run_out(self) -> None:
        """Run episodes to the end of the script."""
        with pytest.raises(DeviceClosedError), self.recorder:
            for seed in itertools.count():
                self.session.run_episode(seed)

    def stored(self) -> list[Episode]:
        return open_run(self.run.folder)


def act(script: Script, *press: Side | Button, seconds: float = 0.15) -> None:
    script.engage()
    script.hold(0.5)
    script.press(*press, seconds=seconds)


def test_an_episode_whose_simulation_breaks_down_is_kept_as_it_was(
    panda: Callable[..., PicoPandaEnv], tmp_path: Path
) -> None:
    script = Script()
    script.engage()
    script.hold(3.0)
    env = panda()
    desk, step = Desk(env, script, tmp_path), env.step

    def breaking(action: np.ndarray) -> object:
        if env.data.time > 1.5:
            env.data.qvel[0] = 1e11
        return step(action)

    with pytest.MonkeyPatch.context() as patch, desk.recorder:
        patch.setattr(env, "step", breaking)
        with pytest.raises(StateError, match="BADQVEL"):
            desk.session.run_episode(0)
    (found,) = desk.stored()
    assert found.attrs["outcome"] == "failure"
    assert found.attrs["interrupted"]
    assert "BADQVEL" in str(found.attrs["end_reason"])
    assert verify_episode(found) == []
    assert all(replay(found, mode).ok for mode in Mode)


def test_only_what_is_kept_is_written_and_numbers_have_no_gaps(
    panda: Callable[..., PicoPandaEnv], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script()
    act(script, *B)
    act(script, *X)
    act(script, *B, seconds=1.0)
    act(script, *Y)
    act(script, *B)
    script.engage()
    script.hold(0.5)  # too short to be kept when the script ends
    desk = Desk(panda(), script, tmp_path)
    desk.run_out()
    found = desk.stored()
    assert [episode.number for episode in found] == [0, 1, 2]
    assert [episode.seed for episode in found] == [0, 2, 4]
    assert [e.attrs["outcome"] for e in found] == ["success", "failure", "success"]
    assert [e.attrs["end_reason"] for e in found] == ["button"] * 3
    assert not any(episode.success for episode in found)  # the task's own word
    assert desk.collector.kept == [Verdict.SUCCESS, Verdict.FAILURE, Verdict.SUCCESS]
    said = capsys.readouterr().out
    assert said.count("episode discarded") == 2
    assert said.count("episode reset") == 1
    assert str(found[2].path) in said


def test_pictures_are_not_recorded_and_come_again_from_the_states(
    panda: Callable[..., PicoPandaEnv], tmp_path: Path
) -> None:
    script = Script()
    act(script, *B)
    camera = {"cameras": ("wrist",), "camera_width": 32, "camera_height": 32}
    env = panda(**camera)
    desk, step = Desk(env, script, tmp_path), env.step
    seen: list[np.ndarray] = []

    def noting(action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, object]:
        taken = step(action)
        seen.append(taken[0]["wrist_image"])
        return taken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(env, "step", noting)
        desk.run_out()
    (episode,) = desk.stored()
    assert set(episode.observations()) == set(env.observation_space) - {"wrist_image"}
    assert verify_episode(episode) == []
    assert replay(episode, Mode.CTRL).ok
    again = panda(**camera)
    states = episode.array("states")
    for row in (1, len(states) - 1):
        again.restore(states[row])
        np.testing.assert_array_equal(again.observe()["wrist_image"], seen[row - 1])


def test_the_file_holds_all_raw_frames_of_the_episode(
    panda: Callable[..., PicoPandaEnv], tmp_path: Path
) -> None:
    script = Script()
    script.hold(0.4)
    act(script, *B)
    script.hold(0.1)
    desk = Desk(panda(), script, tmp_path)
    desk.run_out()
    (episode,) = desk.stored()
    numbers = episode.array("operator_raw/seq")
    assert numbers.tolist() == list(range(numbers[0], numbers[-1] + 1))
    clutch = episode.array("operator/right_clutch")
    assert clutch[0]
    for number, matrix in zip(numbers, episode.array("operator_raw/right/matrix"), strict=True):
        want = script.frames[number].controllers[Side.RIGHT].pose.matrix
        np.testing.assert_array_equal(matrix, want)


def test_overflow_is_counted_for_each_episode(
    panda: Callable[..., PicoPandaEnv], tmp_path: Path
) -> None:
    script = Script()
    act(script, *B)
    act(script, *B)
    script.hold(0.1)
    desk = Desk(panda(), script, tmp_path)
    desk.device.lost = 5
    inner = desk.collector.row

    def row(value: object) -> None:
        inner(value)
        desk.device.lost += 1 if not desk.collector.kept else 0

    desk.collector.row = row  # type: ignore[method-assign]
    desk.run_out()
    first, second = desk.stored()
    assert first.attrs["device_overflow"] == first.n_rows
    assert second.attrs["device_overflow"] == 0


def test_a_failed_save_stops_the_session_and_the_episode_can_still_be_saved(
    panda: Callable[..., PicoPandaEnv], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script()
    for _ in range(3):
        act(script, *B)
    desk = Desk(panda(), script, tmp_path)
    with desk.recorder:
        desk.session.run_episode(0)
        with monkeypatch.context() as patch:
            patch.setattr("episodes.writer.write_file", _no_space)
            desk.session.run_episode(1)
        assert desk.session.stopped is not None
        assert "No space left" in desk.session.stopped
        assert "No space left" in str(desk.collector.error)
        assert desk.collector.kept == [Verdict.SUCCESS]
        assert desk.session.run_episode(2).interrupted  # nothing more is recorded
    assert [episode.seed for episode in desk.stored()] == [0, 1]  # tried again at the end


def _no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_rewound_slip_replays_bit_for_bit_on_both_branches(
    panda: Callable[..., PicoPandaEnv], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = panda(task="pick")
    script = Script()
    script.engage()
    script.right.trigger = 0.3
    script.move(0.8, (0.0, -0.15, -0.10))
    script.rotate(0.4, (0.1, 0.3, 0.0))
    script.press(*Y, seconds=1.2)
    script.hold(0.3)
    script.engage()
    script.move(0.8, (0.10, 0.05, 0.05))
    script.press(*Y, seconds=1.0)  # and once more
    script.engage()
    script.move(0.5, (0.0, 0.05, 0.0))
    script.press(*B)
    desk = Desk(env, script, tmp_path)
    desk.run_out()
    episode, *branches = desk.stored()
    assert episode.attrs["branch_row"] == -1
    assert len(branches) == 2
    assert len({e.attrs["attempt_id"] for e in (episode, *branches)}) == 1
    assert episode.attrs["outcome"] == "success"
    states = episode.array("states")
    kept = episode.array("operator_raw/seq").tolist()
    for branch in branches:
        row = branch.attrs["branch_row"]
        assert (branch.attrs["outcome"], branch.attrs["end_reason"]) == ("failure", "rewound")
        first = branch.array("states")[0]
        if row < len(states):
            np.testing.assert_array_equal(first, states[row])
        assert set(kept).isdisjoint(branch.array("operator_raw/seq").tolist())
    for stored in (episode, *branches):
        assert verify_episode(stored) == []
        for mode in Mode:
            report = replay(stored, mode)
            assert report.ok, (stored, mode, report)
    with h5py.File(tmp_path / "dataset.hdf5") as file:
        assert [name.decode() for name in file["mask/success"][:]] == [episode.name]
    assert "rewound to" in capsys.readouterr().out
    assert desk.collector.kept == [Verdict.SUCCESS]


def test_discarding_discards_the_branches_too(
    panda: Callable[..., PicoPandaEnv], tmp_path: Path
) -> None:
    script = Script()
    script.engage()
    script.hold(1.0)
    script.press(*Y, seconds=1.2)
    script.engage()
    script.hold(0.5)
    script.press(*X)
    act(script, *B)
    desk = Desk(panda(), script, tmp_path)
    desk.run_out()
    assert [episode.attrs["branch_row"] for episode in desk.stored()] == [-1]


def test_the_last_episode_is_deleted_when_asked_for_twice(
    panda: Callable[..., PicoPandaEnv], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script()
    act(script, *B)
    script.engage()
    script.hold(1.0)
    script.press(*Y, seconds=1.2)
    script.engage()
    script.hold(0.5)
    script.press(*B)
    script.press(*X, seconds=1.0)
    script.press(*X, seconds=1.0)  # with its branch
    script.press(*X, seconds=1.0)
    script.hold(6.0)
    script.press(*X, seconds=1.0)  # too late to mean the same
    act(script, *B)
    desk = Desk(panda(), script, tmp_path)
    desk.run_out()
    assert [episode.number for episode in desk.stored()] == [0, 3]
    assert [episode.number for episode in open_run(tmp_path / "dataset.hdf5")] == [0, 3]
    deleted = sorted(path.name for path in (tmp_path / "deleted").iterdir())
    assert deleted == ["demo_000001.hdf5", "demo_000002.hdf5"]
    said = capsys.readouterr().out
    assert said.count("hold X again") == 3
    assert said.count("deleted ") == 1
    assert desk.collector.kept == [Verdict.SUCCESS] * 2


def test_there_may_be_nothing_to_delete(
    panda: Callable[..., PicoPandaEnv], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Script()
    script.hold(0.2)
    script.press(*X, seconds=1.0)
    desk = Desk(panda(), script, tmp_path)
    desk.run_out()
    assert "no episode of this session is left to delete" in capsys.readouterr().out


def test_each_hands_state_and_reason_are_shown_and_recorded(
    panda: Callable[..., PicoPandaEnv],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(StatusLine, "PERIOD_S", 0.0)
    script = Script()
    script.right.grip = script.left.grip = 0.0
    script.hold(0.1)
    script.right.grip = script.left.grip = 1.0
    script.hold(0.2)
    script.left.tracked = False
    script.hold(0.3)
    script.left.tracked, script.headset_worn = True, False
    script.hold(0.3)
    script.press(*B)
    desk = Desk(panda(task="lift_tray"), script, tmp_path)
    desk.run_out()
    (episode,) = desk.stored()

    def told(side: Side) -> list[tuple[str, str]]:
        columns = [f"operator/{side}_guard_{name}" for name in ("state", "reason")]
        codes = [episode.dataset_attrs(column)["codes"] for column in columns]
        rows = zip(*(episode.array(column) for column in columns), strict=True)
        named = [tuple(code[n] for code, n in zip(codes, row, strict=True)) for row in rows]
        return [key for key, _ in itertools.groupby(named)]

    off = ("held", "headset taken off")
    assert told(Side.RIGHT) == [("engaged", ""), off]
    assert told(Side.LEFT) == [("engaged", ""), ("held", "tracking lost"), off]
    shown = capsys.readouterr().out
    assert "right engaged, left held: tracking lost" in shown
    assert "right held: headset taken off, left held: headset taken off" in shown
    worn = episode.array("operator_raw/headset_worn")
    assert worn[0] and not worn[-1]
    assert np.count_nonzero(np.diff(worn.astype(int))) == 1


# Slower than real time.


def slow_session(
    env: PicoPandaEnv, folder: Path, slow: Callable[[int], float], seconds: float = 4.2
) -> Episode:
    """Return an episode whose step k takes ``slow(k)`` periods, of the session's clock."""
    script = Script()
    script.engage()
    script.hold(seconds)
    script.press(*B)
    desk, step, steps = Desk(env, script, folder), env.step, itertools.count()

    def working(action: np.ndarray) -> object:
        taken = step(action)
        desk.clock.sleep_until(desk.clock.now_ns() + round(20_000_000 * slow(next(steps))))
        return taken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(env, "step", working)
        desk.run_out()
    (episode,) = desk.stored()
    assert verify_episode(episode) == []
    return episode


def test_what_holds_an_arm_off_is_shown_and_judged(
    panda: Callable[..., PicoPandaEnv],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The right hand pushes its arm against the left one."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(StatusLine, "PERIOD_S", 0.0)
    script = Script()
    for side in Side:
        script.engage(side)
    script.move(1.2, (-0.45, 0.0, 0.0), Side.RIGHT)
    script.press(*B)
    desk = Desk(panda(task="lift_tray"), script, tmp_path)
    desk.run_out()
    (episode,) = desk.stored()
    assert episode.array("control/robot0_clearance").min() == pytest.approx(0.02, abs=0.003)
    shown = capsys.readouterr().out
    assert re.search(r"right engaged held off 2\d mm from touching", shown)
    assert re.search(r"links (19|2\d) mm apart at the nearest", shown)


@pytest.mark.parametrize(("n_late", "first", "warned"), [(2, 204, 0), (3, 204, 1), (30, 105, 1)])
def test_above_one_percent_of_late_ticks_the_operator_is_warned_once(
    panda: Callable[..., PicoPandaEnv],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    n_late: int,
    first: int,
    warned: int,
) -> None:
    def slow(k: int) -> float:
        return 1.6 if k in range(first, first + 3 * n_late, 3) else 0.5

    episode = slow_session(panda(), tmp_path, slow)
    assert 215 <= episode.n_rows < 250  # 2 late ticks are less than 1 percent, 3 are more
    said = capsys.readouterr().out
    assert said.count("slower than real time") == warned
    assert ("real-time priority would help" in said) == bool(warned)
    assert int(episode.array("timing/overrun").sum()) == episode.attrs["late_ticks"] == n_late
    assert episode.attrs["late_share"] == pytest.approx(n_late / episode.n_rows)
    assert episode.attrs["lateness_max_ns"] == 12_000_000
    assert (episode.attrs["lost_ns"], episode.attrs["stalls"]) == (0, 0)
    assert episode.attrs["realtime_priority"] is False


def test_a_stall_is_told_of_and_stored(
    panda: Callable[..., PicoPandaEnv], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Time is never stretched in silence: what the simulation lost is in the file."""
    episode = slow_session(panda(), tmp_path, lambda k: {100: 10.0, 130: 100.0}.get(k, 0.5))
    assert "the program stood still for 2.0 s: open the grip, then squeeze" in (
        capsys.readouterr().out
    )
    attrs = episode.attrs
    assert (attrs["late_ticks"], attrs["stalls"]) == (2, 1)  # 0.2 s are no stall yet
    assert (attrs["lateness_max_ns"], attrs["lost_ns"]) == (1_980_000_000, 2_160_000_000)
    begun, simulated = episode.array("timing/t_obs_ns"), episode.array("timing/t_sim")
    lost = (begun[-1] - begun[0]) * 1e-9 - (simulated[-1] - simulated[0])
    assert lost == pytest.approx(attrs["lost_ns"] * 1e-9, abs=1e-6)


def test_the_hands_feel_what_becomes_of_an_episode(
    panda: Callable[..., PicoPandaEnv], tmp_path: Path
) -> None:
    """A success is felt once it is on the disk; a failure and a discarded one are told apart."""
    script = Script()
    for press, seconds in ((B, 0.15), (B, 1.0), (X, 0.15)):
        act(script, *press, seconds=seconds)
        script.hold(1.0)
    desk = Desk(panda(), script, tmp_path)
    played: list[Cue] = []
    desk.haptics.play = lambda cue, sides=(): played.append(cue)  # type: ignore[method-assign]
    desk.run_out()
    ends = [cue for cue in played if cue in (Cue.SAVED, Cue.FAILED, Cue.DISCARDED, Cue.RECORDING)]
    assert ends == [
        *(Cue.RECORDING, Cue.SAVED),
        *(Cue.RECORDING, Cue.FAILED),
        *(Cue.RECORDING, Cue.DISCARDED),
    ]
    felt = desk.device.felt
    assert len(felt) == len(desk.device.reads) - 1  # at every tick but the one that found the end
