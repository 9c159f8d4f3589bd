"""Edits go into a model and out of it again without losing a bit, and damage is found."""

import pickle

import mujoco
import numpy as np
import pytest

from kinematics.edits import FIELDS, EditError, ModelEditor, ModelEdits

BOX = """
<mujoco>
  <worldbody>
    <light pos="0 0 2"/><camera name="c"/>
    <body name="box"><freejoint/><geom size="0.1 0.2 0.3" type="box" rgba="0 0 0 1"/></body>
  </worldbody>
</mujoco>
"""


@pytest.fixture
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(BOX)


def saved(model: mujoco.MjModel) -> bytes:
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return buffer.tobytes()


def edited(model: mujoco.MjModel) -> ModelEdits:
    editor = ModelEditor(model)
    model.geom_rgba[0] = (0.1, -0.0, 0.3, 1.0)  # -0 is another number than 0
    model.body_mass[1] *= np.pi
    model.vis.headlight.diffuse[:] = 1 / 3
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return editor.edits()


def test_another_model_becomes_the_same_and_goes_back(model: mujoco.MjModel) -> None:
    other = mujoco.MjModel.from_xml_string(BOX)
    base, edits, editor = saved(model), edited(model), ModelEditor(other)
    assert {"geom_rgba", "body_mass", "body_subtreemass", "dof_invweight0"} <= set(edits.fields)
    assert len(edits) == len(edits.fields) < 30
    copy = pickle.loads(pickle.dumps(edits))
    assert copy == edits and copy != ModelEdits()
    for _ in range(3):
        editor.apply(copy)
        assert saved(other) == saved(model)
        with editor.base():
            assert saved(other) == base
        assert saved(other) == saved(model)
        assert editor.edits() == edits
        editor.reset()
        assert saved(other) == base and not editor.edits()


def test_every_field_is_one_of_floats(model: mujoco.MjModel) -> None:
    """What is none would have to be checked for more than finiteness."""
    editor = ModelEditor(model)
    assert {array.dtype.kind for array in editor._arrays.values()} == {"f"}
    assert set(editor._arrays) == set(FIELDS)


def test_what_does_not_fit_changes_nothing(model: mujoco.MjModel) -> None:
    base, editor = saved(model), ModelEditor(model)
    for index in (-1, 2):
        edits = ModelEdits(("body_mass",) * 2, np.array([1, index]), np.array([9.0, 9.0]))
        with pytest.raises(EditError, match=rf"body_mass\[{index}\], the model has 2"):
            editor.apply(edits)
        assert saved(model) == base


@pytest.mark.parametrize(
    ("fields", "indices", "values", "says"),
    [
        (("geom_bodyid",), [0], [0.0], "geom_bodyid"),
        (("body_mass",), [0], [np.nan], "edit 0 of body_mass is nan"),
        (("body_mass",), [0, 1], [1.0], "as many"),
    ],
)
def test_damage_is_named(fields: tuple, indices: list, values: list, says: str) -> None:
    with pytest.raises(EditError, match=says):
        ModelEdits(fields, np.array(indices), np.array(values))


def test_the_hash_covers_every_part() -> None:
    one = ModelEdits(("body_mass", "cam_fovy"), np.array([1, 2]), np.array([3.0, 4.0]))
    others = [
        ModelEdits(("body_mass", "cam_pos"), one.indices, one.values),
        ModelEdits(one.fields, np.array([1, 3]), one.values),
        ModelEdits(one.fields, one.indices, np.nextafter(one.values, 9.0)),
        ModelEdits(),
    ]
    assert len({edits.sha256 for edits in (one, *others)}) == 5
    assert all(one != other for other in others)
