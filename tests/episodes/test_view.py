"""An episode in its environment's pictures, with the frames that its rows hold."""

from pathlib import Path

import numpy as np
import pytest
from choreography import Script
from sample import record_run
from scripted import DONE, make_env, scripted, to_the_floor

from episodes.commands import main
from episodes.errors import ReplayError
from episodes.reader import Episode, open_run
from episodes.symptoms import chain_of
from episodes.view import frames_of, mapped_hand, view
from kinematics import Side


@pytest.fixture(scope="module")
def episode(tmp_path_factory: pytest.TempPathFactory) -> Episode:
    """Return a short way that ends below the workspace's floor."""
    script = Script(jitter_m=1e-4)
    script.engage()
    script.move(0.3, (0.0, 0.03, 0.0))
    script.rotate(0.3, (0.2, 0.1, 0.0))
    to_the_floor(script, 0.0)
    script.press(*DONE)
    return scripted(tmp_path_factory.mktemp("run"), script, make_env())


def test_the_hand_is_drawn_where_it_asks_the_tool_to_be(episode: Episode) -> None:
    frames = frames_of(episode)
    assert list(frames) == ["right hand", "right target", "right tool"]
    hand, target, tool = frames.values()
    engaged = episode.array("operator/right_clutch")
    assert np.isfinite(hand).all(axis=1).tolist() == engaged.tolist()
    free = np.flatnonzero(engaged)[:25]  # before any limit acts
    np.testing.assert_allclose(hand[free], target[free], atol=1e-6)
    low = int(np.argmin(hand[:, 2]))
    assert hand[low, 2] < -0.05, "the hand went on below the floor"
    assert target[low, 2] >= 0.01 - 1e-9, "and the target did not"
    assert np.linalg.norm(tool[1:, :3] - target[:-1, :3], axis=1).max() < 0.05
    np.testing.assert_array_equal(mapped_hand(chain_of(episode, Side.RIGHT)), hand)


def test_every_row_is_shown_with_its_frames(
    episode: Episode, monkeypatch: pytest.MonkeyPatch
) -> None:
    from envs.panda_env import PicoPandaEnv

    marked: list[tuple[dict[str, np.ndarray], str]] = []
    shown: list[np.ndarray] = []
    monkeypatch.setattr(
        PicoPandaEnv, "mark", lambda self, m, words: marked.append((dict(m), words))
    )
    monkeypatch.setattr(PicoPandaEnv, "render", lambda self: self.integration_state())
    rows = view(episode, render_mode="rgb_array", seen=lambda row, state: shown.append(state))
    assert rows == episode.n_rows == len(marked)
    np.testing.assert_array_equal(shown, episode.array("states"))
    frames = frames_of(episode)
    for name, poses in frames.items():
        np.testing.assert_array_equal([m[name] for m, _ in marked], poses)
    assert marked[3][1].startswith(f"demo_000000 row 3 of {rows}, 0.06 s\nright engaged")


def test_the_frames_are_in_the_pictures(episode: Episode, monkeypatch: pytest.MonkeyPatch) -> None:
    from envs.panda_env import PicoPandaEnv

    class Enough(Exception):  # noqa: N818  not an error
        pass

    pictures: list[np.ndarray] = []

    def seen(row: int, image: np.ndarray) -> None:
        pictures.append(image)
        raise Enough

    with pytest.raises(Enough):
        view(episode, render_mode="rgb_array", seen=seen)
    monkeypatch.setattr(PicoPandaEnv, "mark", lambda self, marks, words: None)
    with pytest.raises(Enough):
        view(episode, render_mode="rgb_array", seen=seen)
    marked, bare = pictures
    assert 50 < (marked != bare).any(axis=2).sum() < 0.05 * marked[..., 0].size


def test_what_cannot_be_shown_is_refused(
    episode: Episode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ReplayError, match="speed must be > 0"):
        view(episode, speed=0.0)
    slider = record_run(tmp_path, n_rows=4)
    with pytest.raises(ReplayError, match="draws no frames"):
        view(open_run(slider)[0], render_mode="rgb_array")
    assert main(["replay", str(slider), "--view", "--speed", "0"]) == 4
    assert "refused: speed must be > 0" in capsys.readouterr().out
