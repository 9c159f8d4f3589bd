"""Every model file loads alone, with the same options and the same conventions."""

import warnings
import xml.etree.ElementTree as ET

import mujoco
import numpy as np
import pytest

NAMES = (
    "arena",
    "bar",
    "bin",
    "cube",
    "desk_arm",
    "desk_gripper",
    "drawer",
    "franka_hand",
    "lidded_box",
    "long_peg",
    "panda",
    "parallel_85",
    "peg",
    "puck",
    "sleeve",
    "small_cube",
    "socket",
    "stand",
    "table",
    "target",
    "tray",
    "zone",
)
JOINTED = tuple(
    name
    for name in NAMES
    if name not in ("arena", "bin", "socket", "stand", "table", "target", "zone")
)
OPTION = {
    "timestep": repr(1 / 600),
    "integrator": "implicitfast",
    "cone": "elliptic",
    "impratio": "20",
}
SECTIONS = (
    "compiler",
    "option",
    "statistic",
    "visual",
    "default",
    "asset",
    "worldbody",
    "contact",
    "tendon",
    "equality",
    "actuator",
    "keyframe",
)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Return the name of each file in turn."""
    return request.param


def test_every_folder_is_listed(models):
    """A new model folder cannot stay outside the battery."""
    assert sorted(path.parent.name for path in models.glob("*/*.xml")) == sorted(NAMES)


def test_no_python_in_models(models):
    """The folder holds models only."""
    assert not list(models.rglob("*.py"))


def test_loads_alone(models, name):
    """Each file compiles by itself and survives a second of simulation without a warning."""
    model = mujoco.MjModel.from_xml_path(str(models / name / f"{name}.xml"))
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 600)
    assert np.isfinite(data.qpos).all()
    assert not data.warning.number.any()


def test_option_is_shared(models, name):
    """Attaching drops a child's options, so all files state the same ones, 1/600 s exactly."""
    root = ET.parse(models / name / f"{name}.xml").getroot()
    assert root.find("option").attrib == OPTION
    assert root.find("compiler").attrib == {"angle": "radian", "autolimits": "true"}
    model = mujoco.MjModel.from_xml_path(str(models / name / f"{name}.xml"))
    assert model.opt.timestep == 1 / 600
    assert model.opt.integrator == int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST)
    assert model.opt.cone == int(mujoco.mjtCone.mjCONE_ELLIPTIC)


def test_sections_stand_in_order(models, name):
    """The sections follow one order, so that a reader finds them."""
    tags = [element.tag for element in ET.parse(models / name / f"{name}.xml").getroot()]
    assert tags == sorted(tags, key=SECTIONS.index)


def test_text_is_tidy(models, name):
    """Two-space indent, no tabs, lines of at most 100 characters."""
    for line in (models / name / f"{name}.xml").read_text().splitlines():
        assert len(line) <= 100, line
        assert "\t" not in line, line
        assert (len(line) - len(line.lstrip())) % 2 == 0 or not line.lstrip().startswith("<"), line


def test_groups(models, name):
    """Group 2 never collides and weighs nothing; what collides is in group 3, or 0 if seen."""
    model = mujoco.MjModel.from_xml_path(str(models / name / f"{name}.xml"))
    for i in range(model.ngeom):
        geom = model.geom(i)
        collides = bool(geom.contype[0] or geom.conaffinity[0])
        assert geom.name, f"geom {i} of {name} has no name"
        assert collides == (geom.group[0] in (0, 3)), geom.name


@pytest.mark.parametrize("jointed", JOINTED)
def test_home_keyframe(models, jointed):
    """A file with joints has one keyframe, `home`, inside every limit, its ctrl at rest."""
    model = mujoco.MjModel.from_xml_path(str(models / jointed / f"{jointed}.xml"))
    assert model.nkey == 1
    home = model.key("home")
    for joint in map(model.joint, range(model.njnt)):
        if model.jnt_limited[joint.id]:
            low, high = joint.range
            assert low <= home.qpos[joint.qposadr[0]] <= high
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    # Servo forces at home vanish: qpos and ctrl are the same decimal numbers.
    np.testing.assert_allclose(data.actuator_force, 0, atol=1e-9)


def test_composes_without_a_warning(load_part, scene_model):
    """All parts attach under prefixes; the names arrive, and the option is the parent's."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spec = load_part("arena")
        for side, y in (("right", -0.3), ("left", 0.3)):
            frame = spec.worldbody.add_frame(pos=[0, y, 0])
            spec.attach(load_part("panda"), prefix=f"{side}/", frame=frame)
            flange = spec.site(f"{side}/flange")
            spec.attach(load_part("franka_hand"), prefix=f"{side}/hand/", site=flange)
        model = spec.compile()
    assert model.opt.timestep == 1 / 600
    assert model.nu == 16
    for side in ("right", "left"):
        assert model.site(f"{side}/hand/ee").id >= 0
        assert model.camera(f"{side}/hand/wrist").id >= 0
        assert model.actuator(f"{side}/hand/fingers").id >= 0
    assert scene_model.nmocap == 1
    assert scene_model.camera("front").id >= 0
    assert scene_model.camera("side").id >= 0


def test_arm_and_hand_carry_their_weight(scene_model):
    """Gravity compensation stands on every body of arm and hand, and on no other."""
    for body in map(scene_model.body, range(1, scene_model.nbody)):
        expected = 1.0 if body.name.startswith("right/") else 0.0
        assert scene_model.body_gravcomp[body.id] == expected, body.name


def test_torque_limits_stand_on_the_joints(models):
    """The arm's actuators have no force range; limits, gains and ranges are the maker's."""
    model = mujoco.MjModel.from_xml_path(str(models / "panda" / "panda.xml"))
    assert not model.actuator_forcelimited.any()
    np.testing.assert_array_equal(model.jnt_actfrcrange[:, 1], [87] * 4 + [12] * 3)
    np.testing.assert_array_equal(model.jnt_actfrcrange[:, 0], -model.jnt_actfrcrange[:, 1])
    np.testing.assert_array_equal(model.actuator_ctrlrange, model.jnt_range)
    kp, kv = model.actuator_gainprm[:, 0], -model.actuator_biasprm[:, 2]
    np.testing.assert_array_equal(kp, [4500] * 2 + [3500] * 2 + [2000] * 3)
    # One lag for all joints, 0.1 s: the feed-forward depends on it. Decimal numbers, exact.
    np.testing.assert_array_equal(kv, kp / 10)


def test_table_top_is_at_zero(models):
    """The table's surface, seen and felt, is exactly z = 0."""
    model = mujoco.MjModel.from_xml_path(str(models / "table" / "table.xml"))
    for name in ("table_top", "table_collision"):
        geom = model.geom(name)
        assert geom.pos[2] + geom.size[2] == 0.0


def test_cube_rests_on_the_table(rig):
    """The cube settles within 0.1 mm of its ideal height: contact is soft, but not visibly."""
    rig.step(600)
    assert abs(rig.data.xpos[rig.cube][2] - 0.02) < 1e-4
    assert np.abs(rig.data.qvel[:6]).max() < 1e-4
