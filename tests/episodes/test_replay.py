"""A replay gives the same bits in a new process, and one wrong bit anywhere is found."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample import SPEC, make_env, make_info, open_run, record_into, record_run

from episodes import EpisodesError, Recorder, ReplayError, Run, RunSpec, schema
from episodes.compare import first_difference
from episodes.environment import make_env as rebuild
from episodes.reader import Episode, open_episode
from episodes.reader import open_run as open_run_folder
from episodes.replay import Mode, replay
from episodes.verify import verify_episode
from episodes.verify_run import verify
from kinematics.edits import ModelEdits


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_run(tmp_path_factory.mktemp("run"), n_episodes=1)


@pytest.fixture
def episode(run: Path, tmp_path: Path) -> Episode:
    """Return an episode in a folder of its own, to be damaged."""
    shutil.copytree(run, tmp_path / "copy")
    return open_episode(tmp_path / "copy" / "episodes" / "demo_000000.hdf5")


def edit(episode: Episode, path: str, index: object, value: object) -> None:
    with h5py.File(episode.path, "r+") as file:
        file[f"data/{episode.name}/{path}"][index] = value


def edit_attr(episode: Episode, name: str, value: object) -> Episode:
    with h5py.File(episode.path, "r+") as file:
        file[f"data/{episode.name}"].attrs[name] = value
    return open_episode(episode.path)


@pytest.mark.parametrize("mode", list(Mode))
def test_every_mode_meets_the_file(run: Path, mode: Mode) -> None:
    report = replay(open_episode(run / "dataset.hdf5"), mode)
    assert report.ok and report.divergence is None and report.max_position_error == 0.0
    assert report.success_stored is True
    assert report.success_replayed is (None if mode is Mode.STATE else True)


@pytest.mark.parametrize("mode", list(Mode))
def test_same_bits_in_a_new_process(run: Path, subprocess_env: dict[str, str], mode: Mode) -> None:
    command = [sys.executable, "-m", "episodes", "replay", str(run), "--mode", mode, "--json"]
    done = subprocess.run(command, env=subprocess_env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = json.loads(done.stdout)["replays"]
    assert report["ok"] and report["divergence"] is None and report["max_position_error"] == 0.0


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(row=st.integers(0, 59), substep=st.integers(0, 11), bit=st.integers(0, 51))
def test_one_flipped_bit_of_ctrl_fails(run: Path, row: int, substep: int, bit: int) -> None:
    """Also one that the physics swallows, such as the last bit of a small number."""
    folder = Path(tempfile.mkdtemp(dir=run))
    shutil.copy(run / "episodes" / "demo_000000.hdf5", folder)
    episode = open_episode(folder / "demo_000000.hdf5")
    ctrl = episode.array(schema.CTRL)
    ctrl.view(np.uint64)[row, substep, 0] ^= np.uint64(1) << np.uint64(bit)
    edit(episode, schema.CTRL, ..., ctrl)
    report = replay(episode, Mode.CTRL)
    assert not report.ok and report.notes[0] == "sim/ctrl is not what was written"
    assert report.divergence is None or report.divergence.row > row
    assert report.divergence is not None or bit < 45


def test_a_file_with_one_flipped_bit_fails_on_the_command_line(
    episode: Episode, subprocess_env: dict[str, str]
) -> None:
    ctrl = episode.array(schema.CTRL)
    ctrl.view(np.uint64)[31, 5, 0] ^= np.uint64(1)
    edit(episode, schema.CTRL, ..., ctrl)
    command = [sys.executable, "-m", "episodes", "replay", str(episode.path)]
    done = subprocess.run(command, env=subprocess_env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "DIFFERS" in done.stdout and "row 32" in done.stdout


def test_a_changed_state_or_success_is_found(episode: Episode) -> None:
    state = episode.array(schema.STATES)[20]
    state[1] = np.nextafter(state[1], 1.0)
    edit(episode, schema.STATES, 20, state)
    report = replay(episode, Mode.CTRL)
    assert not report.ok and report.divergence is not None
    assert (report.divergence.row, report.divergence.component) == (20, "qpos[0]")
    edit(episode, schema.STATES, 20, replay_state(episode, 20))
    edit(episode, schema.SUCCESS, 0, True)
    report = replay(episode, Mode.CTRL)
    assert not report.ok and "success of row 0 was True, now False" in report.notes
    assert report.divergence is None


def replay_state(episode: Episode, row: int) -> np.ndarray:
    env = rebuild(episode)
    env.restore(episode.array(schema.STATES)[0])
    for ctrl in episode.array(schema.CTRL)[:row]:
        env.apply_ctrl(ctrl)
    return env.integration_state()


def test_a_changed_final_state_is_found(episode: Episode) -> None:
    edit(episode, schema.STATE_FINAL, 3, 9.0)
    report = replay(episode, Mode.CTRL)
    assert not report.ok and report.divergence is not None
    assert report.divergence.row == episode.n_rows


def test_an_episode_cut_in_the_middle_still_replays(episode: Episode) -> None:
    """The whole integration state is stored, so any row is a start, in contact and in motion."""
    env, states = rebuild(episode), episode.array(schema.STATES)
    start = 40
    env.restore(states[start])
    for row in range(start, episode.n_rows - 1):
        env.apply_ctrl(episode.array(schema.CTRL)[row])
        assert env.integration_state().tobytes() == states[row + 1].tobytes()


def test_action_mode_says_where_it_left_the_path(episode: Episode) -> None:
    edit(episode, schema.ACTIONS, (10, 0), -0.9)
    report = replay(episode, Mode.ACTION)
    assert not report.ok and report.max_position_error > 1e-6
    assert report.divergence is not None and report.divergence.row == 11


def test_action_mode_needs_the_seed(episode: Episode) -> None:
    report = replay(edit_attr(episode, "seed", 7), Mode.ACTION)
    assert not report.ok and report.divergence is not None and report.divergence.row == 0


def test_state_mode_finds_an_observation_that_is_not_of_its_state(episode: Episode) -> None:
    edit(episode, "obs/robot0_eef_pos", (30, 0), 0.5)
    report = replay(episode, Mode.STATE)
    assert not report.ok and "obs/robot0_eef_pos of row 30" in report.notes[0]


@pytest.mark.parametrize("mode", [Mode.CTRL, Mode.ACTION])
def test_another_mujoco_is_refused_but_for_states(episode: Episode, mode: Mode) -> None:
    older = edit_attr(episode, "mujoco_version", "3.0.0")
    with pytest.raises(ReplayError, match=r"MuJoCo 3\.0\.0.*--mode state"):
        replay(older, mode)
    assert replay(older, Mode.STATE).ok


def heavier(episode: Episode) -> Episode:
    """Return the episode as if its environment had changed since."""
    spec = EnvSpec(id=SPEC.id, entry_point=SPEC.entry_point, kwargs={"mass": 0.2})
    return edit_attr(episode, "env_spec", spec.to_json())


@pytest.mark.parametrize("mode", [Mode.CTRL, Mode.ACTION])
def test_another_model_is_refused_but_for_states(episode: Episode, mode: Mode) -> None:
    other = heavier(episode)
    with pytest.raises(ReplayError, match=r"recorded on model.*--mode state"):
        replay(other, mode)
    report = replay(other, Mode.STATE)
    assert report.ok and "its environment now builds" in report.notes[0]


def test_states_without_environment_or_model_are_refused(episode: Episode) -> None:
    other = heavier(episode)
    other.model_file.unlink()
    with pytest.raises(ReplayError, match=r"model .* is missing; copy the run's models"):
        replay(other, Mode.STATE)


def test_a_damaged_model_is_refused(episode: Episode) -> None:
    other = heavier(episode)
    data = bytearray(other.model_file.read_bytes())
    data[100] ^= 1
    other.model_file.write_bytes(bytes(data))
    with pytest.raises(ReplayError, match="damaged"):
        replay(other, Mode.STATE)


def test_an_environment_that_is_not_installed_is_named(episode: Episode) -> None:
    spec = EnvSpec(id="Gone-v0", entry_point="no_such_room:GoneEnv")
    other = edit_attr(episode, "env_spec", spec.to_json())
    with pytest.raises(ReplayError, match="no_such_room"):
        replay(other, Mode.CTRL)
    assert replay(other, Mode.STATE).ok


def test_an_environment_that_cannot_replay_is_named(episode: Episode) -> None:
    spec = EnvSpec(id="Cart-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
    other = edit_attr(episode, "env_spec", spec.to_json())
    with pytest.raises(ReplayError, match=r"lacks.*restore"):
        replay(other, Mode.CTRL)


def test_a_failure_replays_as_a_failure(tmp_path: Path) -> None:
    env = make_env()
    with Recorder(Run.open(tmp_path, RunSpec.of(make_info(env)))) as recorder:
        record_into(recorder, n_rows=10, env=env)
    report = replay(open_episode(tmp_path / "dataset.hdf5"), Mode.CTRL)
    assert report.ok and report.success_stored is False and report.success_replayed is False


def test_first_difference_counts_every_bit() -> None:
    parts = {"time": 1, "qpos": 2}
    stored = np.array([0.0, 1.0, 2.0])
    assert first_difference(0, stored, stored.copy(), parts) is None
    minus = first_difference(3, stored, np.array([-0.0, 1.0, 2.0]), parts)
    assert minus is not None and minus.component == "time[0]" and minus.error == 0.0
    broken = first_difference(3, stored, np.array([0.0, 1.0, np.nan]), parts)
    assert broken is not None and broken.component == "qpos[1]" and broken.error == np.inf


# --- edited models ---


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run whose two episodes have cubes of another mass."""
    folder = tmp_path_factory.mktemp("drawn")
    spec = EnvSpec(id="Slider-v0", entry_point="slider_env:SliderEnv", kwargs={"spread": 0.5})
    with Recorder(open_run(folder, spec)) as recorder:
        for seed in (3, 4):
            record_into(recorder, seed, env=make_env(spec), spec=spec)
    return folder


@pytest.fixture
def edited(drawn: Path, tmp_path: Path) -> Episode:
    """Return an episode on an edited model in a folder of its own, to be damaged."""
    shutil.copytree(drawn, tmp_path / "copy")
    return open_episode(tmp_path / "copy" / "episodes" / "demo_000000.hdf5")


@pytest.mark.parametrize("mode", list(Mode))
def test_an_episode_s_edits_are_put_back(drawn: Path, mode: Mode) -> None:
    """Each its own, on the one model of the run, also one after another in one environment."""
    found = open_run_folder(drawn)
    assert len(list((drawn / "models").iterdir())) == 1
    assert len({episode.edits.sha256 for episode in found}) == 2
    assert not verify(drawn)
    env = rebuild(found[0])
    for episode in (*found, *found):
        report = replay(episode, mode, env)
        assert report.ok and report.divergence is None
    assert all(replay(episode, mode).ok for episode in found)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("path", [schema.EDIT_FIELD, schema.EDIT_INDEX, schema.EDIT_VALUE])
def test_changed_edits_are_refused(edited: Episode, path: str, mode: Mode) -> None:
    values = edited.array(path)
    name = edited.edits.fields[0]
    values[0] = b"cam_fovy" if path == schema.EDIT_FIELD else np.nextafter(values[0], 9) + 1
    assert name != "cam_fovy"
    edit(edited, path, ..., values)
    with pytest.raises(EpisodesError, match="not what was recorded"):
        replay(edited, mode)
    assert any("not what was recorded" in fault.what for fault in verify_episode(edited))


def test_other_edits_with_a_hash_of_their_own_are_found(drawn: Path, edited: Episode) -> None:
    """Whoever makes a whole set of edits cannot make the states that follow from them."""
    other = open_run_folder(drawn)[1]
    edit(edited, schema.EDIT_VALUE, ..., other.array(schema.EDIT_VALUE))
    forged = edit_attr(edited, "edits_sha256", other.attrs["edits_sha256"])
    assert forged.edits == other.edits
    report = replay(forged, Mode.CTRL)
    assert not report.ok and report.divergence is not None
    with pytest.raises(ReplayError, match="draws others from the same seed"):
        replay(forged, Mode.ACTION)


def test_edits_of_another_model_are_refused(edited: Episode) -> None:
    stored = edited.edits
    far = stored.indices + 1000
    edit(edited, schema.EDIT_INDEX, ..., far)
    sha256 = ModelEdits(stored.fields, far, stored.values).sha256
    for mode in (Mode.CTRL, Mode.STATE):
        with pytest.raises(ReplayError, match="do not fit the model"):
            replay(edit_attr(edited, "edits_sha256", sha256), mode)


def test_an_environment_that_cannot_be_edited_is_named(
    edited: Episode, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = rebuild(edited)
    monkeypatch.delattr(type(env), "edit")
    with pytest.raises(ReplayError, match=r"no edit\(\)"):
        replay(edited, Mode.CTRL, env)
