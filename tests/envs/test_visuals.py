"""The mesh Panda: pictures change, nothing else does."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from envs.errors import OptionError
from envs.panda_env import PicoPandaEnv
from envs.visuals import MeshPandas

Make = Callable[..., PicoPandaEnv]
BODIES = (*(f"link{i}" for i in range(8)), "hand", "left_finger", "right_finger")
TETRAHEDRON = "v 0 0 0\nv 90 0 0\nv 0 90 0\nv 0 0 90\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
SMALL = {"render_mode": "rgb_array", "width": 160, "height": 120}


def _write_root(root: Path, bodies: tuple[str, ...] = BODIES) -> Path:
    """Write a Menagerie of one robot, whose every link is a tetrahedron of 90 mm."""
    folder = root / "franka_emika_panda"
    (folder / "assets").mkdir(parents=True)
    (folder / "assets" / "corner.obj").write_text(TETRAHEDRON, encoding="utf-8")
    links = "".join(
        f'<body name="{name}"><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>'
        '<geom mesh="corner" class="visual" material="green" pos="0 0 0.01"/>'
        '<geom type="sphere" size="0.1" group="3"/></body>'
        for name in bodies
    )
    (folder / "panda.xml").write_text(
        '<mujoco><compiler meshdir="assets"/><default><mesh scale="0.001 0.001 0.001"/>'
        '<default class="visual"><geom type="mesh" contype="0" conaffinity="0" group="2"/>'
        '</default></default><asset><material name="green" rgba="0 1 0 1"/>'
        f'<mesh file="corner.obj"/></asset><worldbody>{links}</worldbody></mujoco>',
        encoding="utf-8",
    )
    return root


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let MENAGERIE_ROOT name a folder of our own, in a path of any letters."""
    path = _write_root(tmp_path / "größe 尺")
    monkeypatch.setenv("MENAGERIE_ROOT", str(path))
    return path


def _run(env: PicoPandaEnv, steps: int = 200) -> tuple[list[Any], list[Any]]:
    """Return the states and ctrl of random steps."""
    env.reset(seed=3)
    rng = np.random.default_rng(0)
    states, ctrl = [env.integration_state()], []
    for _ in range(steps):
        env.step(rng.uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32))
        states.append(env.integration_state())
        ctrl.append(env.ctrl.copy())
    return states, ctrl


def _same_physics(make: Make, task: str) -> None:
    plain = make(task=task, terminate_on_success=False)
    dressed = make(task=task, terminate_on_success=False, visuals="menagerie", **SMALL)
    assert isinstance(dressed._pictures._meshes, MeshPandas)
    assert dressed.model_sha256 == plain.model_sha256, "each replays the other's episodes"
    (states, ctrl), (others, _) = _run(plain), _run(dressed)
    np.testing.assert_array_equal(np.array(states), np.array(others))
    dressed.render()
    dressed.restore(states[0])
    for row, state in zip(ctrl, states[1:], strict=True):
        dressed.apply_ctrl(row)
        np.testing.assert_array_equal(dressed.integration_state(), state)


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("task", ["pick", "handover"])
def test_physics_and_hash_do_not_know_the_looks(make: Make, task: str) -> None:
    _same_physics(make, task)


@pytest.mark.usefixtures("root")
def test_pictures_show_the_meshes_where_the_simulation_is(make: Make) -> None:
    plain, dressed = make(**SMALL), make(visuals="menagerie", **SMALL)
    pictures = []
    for env in (plain, dressed):
        _run(env, 20)
        env.model.geom("scene/table_top").rgba[:] = (0.0, 0.0, 1.0, 1.0)
        env.model.cam_pos[env.model.camera("front").id, 0] += 0.2
        pictures.append(np.asarray(env.render()).astype(int))
    green = [(p[..., 1] > 2 * p[..., 0]) & (p[..., 1] > 2 * p[..., 2]) for p in pictures]
    assert green[0].sum() == 0
    assert green[1].sum() > 20, "the meshes, in their material"
    assert dressed._pictures._meshes is not None
    shown = dressed._pictures._meshes.follow(dressed.data)
    model, base = dressed._pictures._meshes.model, dressed.model
    np.testing.assert_array_equal(shown.xpos, dressed.data.xpos)
    np.testing.assert_array_equal(shown.cam_xpos[0] - shown.cam_xpos[1], _between(dressed))
    meshes = [i for i in range(model.ngeom) if model.geom_group[i] == 2 and not model.geom(i).name]
    assert len(meshes) == len(BODIES)
    assert not model.geom_contype[meshes].any()
    assert not model.geom_conaffinity[meshes].any()
    np.testing.assert_array_equal(model.body_mass, base.body_mass)
    np.testing.assert_array_equal(model.body_inertia, base.body_inertia)


def _between(env: PicoPandaEnv) -> np.ndarray:
    """Return the way between two cameras, once the simulation knows that one has moved."""
    mujoco.mj_forward(env.model, env.data)
    return env.data.cam_xpos[0] - env.data.cam_xpos[1]


@pytest.mark.usefixtures("root")
def test_another_gripper_keeps_its_own_looks(make: Make) -> None:
    env = make(visuals="menagerie", end_effector="parallel_85", **SMALL)
    assert env._pictures._meshes is not None
    assert env._pictures._meshes.model.nmesh == 1
    env.reset(seed=0)
    assert env.render() is not None


def test_without_pictures_no_meshes_are_needed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that an episode recorded with them replays where they cannot be had."""
    monkeypatch.delenv("MENAGERIE_ROOT", raising=False)
    monkeypatch.setitem(sys.modules, "mujoco_menagerie", None)
    env = make(visuals="menagerie")
    assert env.spec is not None
    assert env.spec.kwargs["visuals"] == "menagerie"
    with pytest.raises(OptionError, match=r"\[menagerie\].*MENAGERIE_ROOT"):
        make(visuals="menagerie", **SMALL)


def test_a_root_without_the_panda(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path))
    with pytest.raises(OptionError, match=r"panda\.xml is missing.*\[menagerie\]"):
        make(visuals="menagerie", **SMALL)
    _write_root(tmp_path, BODIES[:-1])
    with pytest.raises(OptionError, match=r"no visual meshes on \['right_finger'\]"):
        make(visuals="menagerie", **SMALL)
    (tmp_path / "franka_emika_panda" / "assets" / "corner.obj").unlink()
    monkeypatch.setattr("envs.visuals._HAND", ())
    with pytest.raises(OptionError, match=r"cannot read .*corner\.obj"):
        make(visuals="menagerie", **SMALL)


def test_a_download_that_fails(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stub:
        MenagerieError = LookupError

        def get(self, name: str) -> None:
            raise LookupError(f"no network for {name}")

    monkeypatch.delenv("MENAGERIE_ROOT", raising=False)
    monkeypatch.setitem(sys.modules, "mujoco_menagerie", Stub())  # pyright: ignore
    with pytest.raises(OptionError, match=r"no network for franka_emika_panda.*MENAGERIE_ROOT"):
        make(visuals="menagerie", **SMALL)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"visuals": "photo"}, r"choose from \['primitive', 'menagerie'\]"),
        ({"visuals": "menagerie", "robot": "desk_arm", "task": "reach"}, r"not of \['desk_arm'\]"),
    ],
)
def test_what_there_is_not(make: Make, options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        make(**options)


@pytest.mark.menagerie
def test_the_real_meshes(make: Make) -> None:
    _same_physics(make, "pick")
    env = make(visuals="menagerie", **SMALL)
    assert env._pictures._meshes is not None
    assert env._pictures._meshes.model.nmesh > 50
