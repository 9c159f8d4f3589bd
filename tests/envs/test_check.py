"""Model checks: each finds its fault, and finds nothing once it is mended; our models are clean."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from envs.check import (
    Finding,
    Report,
    Severity,
    Subject,
    check,
    environment_subject,
    file_subject,
    masses,
    motion,
    still,
)
from envs.commands import main
from envs.errors import ModelError
from envs.panda_env import PicoPandaEnv
from envs.robots import MODELS, SPEC_FILE, ArmSpec, GripperSpec, load_spec
from envs.tasks import TASKS

Make = Callable[..., PicoPandaEnv]

FLOOR = '<geom name="floor" type="plane" size="1 1 0.1"/>'


def _arm(joint: str = "", servo: str = "", more: str = "", link: str = "", option: str = "") -> str:
    """Return one hinge about y with a rod and a servo, lying level, held by gravcomp."""
    return f"""
    <mujoco>
      <compiler angle="radian" autolimits="true"/>
      <option integrator="implicitfast" {option}/>
      <worldbody>
        {more}
        <body name="rod" {link or 'gravcomp="1"'}>
          <joint name="elbow" axis="0 1 0" damping="1" {joint or 'range="-1 1"'}/>
          <geom name="rod" type="capsule" fromto="0.05 0 0 0.4 0 0" size="0.02" mass="1"/>
        </body>
      </worldbody>
      <actuator>
        {servo or '<position name="elbow" joint="elbow" kp="100" kv="10" ctrlrange="-1 1"/>'}
      </actuator>
      <keyframe><key name="home" qpos="0" ctrl="0"/></keyframe>
    </mujoco>"""


def _world(inside: str, rest: str = "", before: str = "") -> str:
    return f"<mujoco>{before}<worldbody>{inside}</worldbody>{rest}</mujoco>"


def _box(joint: str, more: str = "", name: str = "box") -> str:
    return (
        f'<body name="{name}" {more}>{joint}'
        f'<geom name="{name}" type="box" size="0.05 0.05 0.05"/></body>'
    )


FREE = '<freejoint name="free"/>'
LOOSE = '<default><joint damping="0.5" armature="0.1"/></default>'


def _two_boxes(weld: str, keys: str = "") -> str:
    one = _box('<freejoint name="f1"/>', 'pos="0 0 0.05"', "one")
    two = _box('<freejoint name="f2"/>', 'pos="0.3 0 0.05"', "two")
    weld = f'<equality><weld name="grasp" body1="one" body2="two" {weld}/></equality>'
    return _world(FLOOR + one + two, weld + keys)


APART = '<keyframe><key name="home" qpos="0 0 0.05 1 0 0 0 0 0.5 0.05 1 0 0 0"/></keyframe>'
PADDED = '<keyframe><key name="home" qpos="0 0 0 1 0 0 0"/></keyframe>'
MOTOR = '<motor name="elbow" joint="elbow" ctrlrange="-1 1" gear="{gear}"/>'
MESH = '<asset><mesh name="wedge" scale="{scale}" vertex="0 0 0 .1 0 0 0 .1 0 0 0 .1"/></asset>'
TOUCHES_NOTHING = 'contype="0" conaffinity="0"'
SHELL = f'<geom name="shell" size="0.1" {TOUCHES_NOTHING} {{mass}}/>'
WEDGE = '<body name="b"><geom name="g" type="mesh" mesh="wedge"/></body>'

CASES: dict[str, tuple[Severity, str, str]] = {
    # code: severity, with the fault, mended
    "time-constant": (
        Severity.WARNING,
        _world(FLOOR.replace("/>", ' solref="0.003 1"/>')),
        _world(FLOOR.replace("/>", ' solref="0.004 1"/>')),
    ),
    "free-joint-default": (
        Severity.WARNING,
        _world(FLOOR + _box('<joint name="free" type="free"/>', 'pos="0 0 0.05"'), before=LOOSE),
        _world(FLOOR + _box(FREE, 'pos="0 0 0.05"'), before=LOOSE),
    ),
    "weld-torquescale": (
        Severity.WARNING,
        _two_boxes('torquescale="0" relpose="0.3 0 0 1 0 0 0"'),
        _two_boxes('torquescale="0.1" relpose="0.3 0 0 1 0 0 0"'),
    ),
    "weld-target": (
        Severity.WARNING,
        _two_boxes('active="false"', APART),
        _two_boxes('active="false" relpose="0 0.5 0 1 0 0 0"', APART),
    ),
    "site-hidden": (
        Severity.NOTE,
        _world('<site name="tip" group="4"/>'),
        _world('<site name="tip" group="2"/>'),
    ),
    "no-name": (
        Severity.WARNING,
        _arm(servo='<position joint="elbow" kp="100" kv="10" ctrlrange="-1 1"/>'),
        _arm(),
    ),
    "inertia-large": (
        Severity.WARNING,
        _arm(link='gravcomp="1"').replace(
            'mass="1"/>', 'mass="0"/><inertial mass="1" pos="0.2 0 0" diaginertia="9 9 9"/>'
        ),
        _arm(),
    ),
    "density": (Severity.WARNING, _arm().replace('mass="1"', 'mass="1000"'), _arm()),
    "inertia-small": (
        Severity.WARNING,
        _arm().replace('mass="1"', 'mass="1e-9"'),
        _arm(joint='range="-1 1" armature="0.1"').replace('mass="1"', 'mass="1e-9"'),
    ),
    "servo-explicit": (
        Severity.WARNING,
        _arm(
            servo='<position name="elbow" joint="elbow" kp="900" kv="90" ctrlrange="-1 1"/>'
        ).replace("implicitfast", "Euler"),
        _arm(servo='<position name="elbow" joint="elbow" kp="900" kv="90" ctrlrange="-1 1"/>'),
    ),
    "ctrl-unlimited": (
        Severity.NOTE,
        _arm(servo='<position name="elbow" joint="elbow" kp="100" kv="10"/>'),
        _arm(),
    ),
    "ctrl-beyond-range": (
        Severity.NOTE,
        _arm(servo='<position name="elbow" joint="elbow" kp="100" kv="10" ctrlrange="-2 1"/>'),
        _arm(),
    ),
    "mirrored": (
        Severity.WARNING,
        _world(WEDGE, before=MESH.format(scale="1 -1 1")),
        _world(WEDGE, before=MESH.format(scale="1 1 1")),
    ),
    "no-home": (
        Severity.NOTE,
        _arm().replace("<keyframe>", "<!--").replace("</keyframe>", "-->"),
        _arm(),
    ),
    "key-padded": (
        Severity.WARNING,
        _world(_box(FREE, 'pos="0.5 0 0.05"'), PADDED),
        _world(_box(FREE, 'pos="0.5 0 0.05"'), PADDED.replace("0 0 0 1", "0.4 0 0.05 1")),
    ),
    "key-outside-range": (
        Severity.ERROR,
        _arm(joint='range="0.1 1"'),
        _arm(joint='range="-0.1 1"'),
    ),
    "key-ctrl-outside": (
        Severity.WARNING,
        _arm(servo='<position name="elbow" joint="elbow" kp="9" kv="1" ctrlrange="0.1 1"/>'),
        _arm(),
    ),
    "limit-at-home": (
        Severity.WARNING,
        _arm(joint='range="0.1 1"'),
        _arm(joint='range="-0.1 1"'),
    ),
    "penetration": (
        Severity.ERROR,
        _world(FLOOR + _box(FREE, 'pos="0 0 0.04"')),
        _world(FLOOR + _box(FREE, 'pos="0 0 0.05"')),
    ),
    "breakdown": (
        Severity.ERROR,
        _arm(
            option='timestep="0.01"',
            servo='<general name="elbow" joint="elbow" ctrlrange="-1 1" '
            'biastype="affine" biasprm="1 1e6 0"/>',
            joint="armature='0'",
        ),
        _arm(),
    ),
    "outside-range": (
        Severity.WARNING,
        _arm(
            link='gravcomp="0"',
            joint='range="-1 0.01" solreflimit="0.5 1"',
            servo=MOTOR.format(gear="1"),
        ),
        _arm(link='gravcomp="1"', joint='range="-1 0.01"', servo=MOTOR.format(gear="1")),
    ),
    "restless": (
        Severity.WARNING,
        _arm(
            joint='range="-1 1"',
            servo='<position name="elbow" joint="elbow" kp="9" ctrlrange="-1 1"/>',
            link='gravcomp="0"',
        ).replace('damping="1"', 'damping="0"'),
        _arm(),
    ),
    "home-drift": (
        Severity.WARNING,
        _arm().replace('ctrl="0"', 'ctrl="0.5"'),
        _arm().replace('qpos="0" ctrl="0"', 'qpos="0.5" ctrl="0.5"'),
    ),
    "servo-sag": (Severity.WARNING, _arm(link='gravcomp="0"'), _arm(link='gravcomp="1"')),
    "saturated": (
        Severity.WARNING,
        _arm(link='gravcomp="0"', joint='range="-1 1" actuatorfrcrange="-1 1"'),
        _arm(link='gravcomp="1"', joint='range="-1 1" actuatorfrcrange="-1 1"'),
    ),
    "falls": (
        Severity.WARNING,
        _world(
            FLOOR
            + _box(FREE, 'pos="3 0 0.5"').replace('type="box"', 'type="box" ' + TOUCHES_NOTHING)
        ),
        _world(FLOOR + _box(FREE, 'pos="0 0 0.1"')),
    ),
    "limit-gives-way": (
        Severity.WARNING,
        _arm(joint='range="-1 1" solreflimit="0.2 1" actuatorfrcrange="-20 20"'),
        _arm(joint='range="-1 1" solreflimit="0.01 1" actuatorfrcrange="-20 20"'),
    ),
    "visual-mass": (
        Severity.WARNING,
        _arm().replace("</body>", SHELL.format(mass="") + "</body>"),
        _arm().replace("</body>", SHELL.format(mass='mass="0"') + "</body>"),
    ),
}


def _check(text: str) -> Report:
    spec = mujoco.MjSpec.from_string(text)
    return check(Subject("test", spec.compile(), spec))


def _found(report: Report, code: str, least: Severity = Severity.NOTE) -> list[Finding]:
    return [found for found in report.findings if found.code == code and found.severity >= least]


@pytest.mark.parametrize("code", CASES)
def test_a_check_finds_its_fault_and_nothing_once_mended(code: str) -> None:
    severity, faulty, mended = CASES[code]
    found = _found(_check(faulty), code)
    assert [one.severity for one in found][:1] == [severity]
    for one in found:
        assert one.where
        assert one.advice
    assert not _found(_check(mended), code, severity)


def test_every_check_has_a_case() -> None:
    """What the modules can report, by their own text."""
    sources = [Path(module.__file__ or "") for module in (still, masses, motion)]
    lines = [line.strip() for file in sources for line in file.read_text("utf-8").splitlines()]
    after = [b.strip('",') for a, b in itertools.pairwise(lines) if _is_severity(a)]
    codes = {code for code in after if code.replace("-", "").isalpha()}
    always = {"rows-at-home", "rest-cut", "limits-left-out"}  # counted below
    assert codes - always == {*CASES} - {"visual-mass"}


def _is_severity(line: str) -> bool:
    return line.startswith("Severity.") or line == "severity,"


def test_the_numbers_are_those_of_the_model() -> None:
    """A rod of 1 kg and 0.225 m lever on a spring of 100 N m/rad sags by m g l / k."""
    (sag,) = _found(_check(CASES["servo-sag"][1]), "servo-sag")
    assert sag.where == "actuator elbow"
    assert sag.unit == "rad"
    expected = 9.81 * 0.225 / 100.0
    assert sag.measured == pytest.approx(expected, rel=0.01)
    (depth,) = _found(_check(CASES["penetration"][1]), "penetration")
    assert depth.measured == pytest.approx(0.01, abs=1e-6)
    assert depth.where == "geom floor, geom box"
    (snap,) = _found(_check(CASES["weld-target"][1]), "weld-target")
    assert snap.measured == pytest.approx(np.hypot(0.3, 0.5), abs=1e-9)


def test_a_limit_that_gives_way_names_the_worst_joint_and_its_solreflimit() -> None:
    (found,) = _found(_check(CASES["limit-gives-way"][2]), "limit-gives-way")
    assert found.severity is Severity.NOTE
    assert "solreflimit 0.01 1" in found.what
    assert "20 N m" in found.what
    (soft,) = _found(_check(CASES["limit-gives-way"][1]), "limit-gives-way")
    assert soft.measured > 5 * found.measured


def test_rows_at_home_are_counted() -> None:
    (found,) = _found(_check(_two_boxes('relpose="0.3 0 0 1 0 0 0"')), "rows-at-home")
    assert "equality 6" in found.what
    assert found.measured >= 6


def test_the_model_is_left_as_it_was() -> None:
    model = mujoco.MjModel.from_xml_string(_arm(joint='range="-1 1" actuatorfrcrange="-9 9"'))
    before = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, before)
    check(Subject("test", model))
    after = np.empty_like(before)
    mujoco.mj_saveModel(model, None, after)
    np.testing.assert_array_equal(before, after)


def test_a_slow_model_is_cut_short_and_says_so() -> None:
    model = mujoco.MjModel.from_xml_string(_arm())
    found = motion.rest(model, still.at_home(model), budget_s=0.0)
    assert found.cut
    assert [one.code for one in motion.breakdown(model, found)] == ["rest-cut"]


def test_a_big_model_is_pressed_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(motion, "MAX_PUSHED", 0)
    report = _check(_arm(joint='range="-1 1" actuatorfrcrange="-9 9"'))
    assert _found(report, "limits-left-out")


# --- our own ---


@pytest.mark.parametrize("path", sorted(MODELS.glob("*/*.xml")), ids=lambda path: path.stem)
def test_our_files_are_clean(path: Path) -> None:
    assert _serious(check(file_subject(path))) == []


@pytest.mark.parametrize("task", TASKS)
def test_our_environments_are_clean(make: Make, task: str) -> None:
    report = check(environment_subject(make(task=task), task))
    assert _serious(report) == []
    assert [reason.split(":")[0] for reason in report.left_out] == ["visual-mass"]


@pytest.mark.parametrize(
    "options",
    [
        {"task": "reach", "robot": "desk_arm"},
        {"task": "pick", "end_effector": "parallel_85"},
        {"task": "reach", "robot": "desk_arm", "end_effector": "franka_hand"},
    ],
)
def test_our_other_robots_are_clean(make: Make, options: dict[str, Any]) -> None:
    assert _serious(check(environment_subject(make(**options), str(options)))) == []


def _serious(report: Report) -> list[str]:
    bad = [found for found in report.findings if found.severity > Severity.NOTE]
    return [f"{one.code}: {one.where}: {one.measured:.4g} {one.unit}" for one in bad]


def test_checking_leaves_the_environment_alone(make: Make) -> None:
    env = make()
    before = env.model_sha256
    assert environment_subject(env, "pick").model is not env.model
    env._sha256 = None
    assert env.model_sha256 == before


# --- robots ---


def _robot_copy(folder: Path, name: str, **changes: tuple[str, str]) -> Subject:
    """Copy a robot of ours, replace texts in its files (``toml`` or ``xml``), and read it."""
    shutil.copytree(MODELS / name, folder / name)
    for kind, (old, new) in changes.items():
        file = folder / name / (SPEC_FILE if kind == "toml" else f"{name}.xml")
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")
    return file_subject(folder / name / f"{name}.xml")


ROBOT_FAULTS = [
    ("panda", "servo-time", {"toml": ("servo_time = 0.1", "servo_time = 0.2")}),
    (
        "panda",
        "not-a-servo",
        {"xml": ('name="joint3" joint="joint3"', 'name="joint3" joint="joint2"')},
    ),
    ("panda", "home-differs", {"xml": ('qpos="0 ', 'qpos="0.1 ')}),
    ("panda", "option-lost", {"xml": ('impratio="20"', 'impratio="10"')}),
    ("franka_hand", "frame-turned", {"xml": ('site name="ee"', 'site name="ee" euler="0.1 0 0"')}),
    (
        "franka_hand",
        "frame-off-centre",
        {"xml": ('site name="ee" pos="0 0 ', 'site name="ee" pos="0 0.01 ')},
    ),
    ("franka_hand", "gripper-ctrl", {"toml": ("ctrl_open = 0.04", "ctrl_open = 0.4")}),
    (
        "franka_hand",
        "floating-root",
        {"xml": ('<inertial mass="0.73', '<freejoint/><inertial mass="0.73')},
    ),
]


@pytest.mark.parametrize(("name", "code", "changes"), ROBOT_FAULTS)
def test_a_robot_that_its_spec_does_not_fit(
    tmp_path: Path, name: str, code: str, changes: dict[str, tuple[str, str]]
) -> None:
    report = check(_robot_copy(tmp_path / "user é 目录", name, **changes))
    assert _found(report, code, Severity.WARNING)


@pytest.mark.parametrize("name", ["panda", "franka_hand"])
def test_a_robot_that_its_spec_fits_anywhere(tmp_path: Path, name: str) -> None:
    """From a folder with spaces and letters beyond ASCII."""
    assert _serious(check(_robot_copy(tmp_path / "user test é 目录", name))) == []


def test_a_tool_that_does_not_point_down(make: Make, robot_file: Callable[..., str]) -> None:
    home = list(load_spec(ArmSpec, "panda").home)
    home[5] += 0.2
    robot = robot_file("panda", home=home, gripper="franka_hand")
    report = check(environment_subject(make(task="reach", robot=robot), "turned"))
    assert _found(report, "frame-turned", Severity.ERROR)


# --- files of others ---


def test_a_file_without_a_spec_says_what_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "their arm.xml"
    path.write_text(_arm(), encoding="utf-8")
    left_out = " ".join(check(file_subject(path)).left_out)
    assert "frame-turned" in left_out
    assert "option-lost" in left_out


def test_a_robots_other_file_is_not_taken_for_it(tmp_path: Path) -> None:
    _robot_copy(tmp_path, "panda")
    other = tmp_path / "panda" / "other.xml"
    other.write_text(_arm(), encoding="utf-8")
    assert file_subject(other).robots == ()


@pytest.mark.parametrize("folder", ["plain", "user test é 目录"])
def test_includes_and_meshes_are_found_beside_the_file(tmp_path: Path, folder: str) -> None:
    home = tmp_path / folder
    (home / "parts").mkdir(parents=True)
    (home / "parts" / "floor.xml").write_text(
        f"<mujoco><worldbody>{FLOOR}</worldbody></mujoco>", encoding="utf-8"
    )
    path = home / "whole.xml"
    path.write_text('<mujoco><include file="parts/floor.xml"/></mujoco>', encoding="utf-8")
    assert file_subject(path).model.ngeom == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<mujoco", "cannot load model"),
        ("", "cannot load model"),
        (_world('<geom type="ball"/>'), "ball"),
        (_world('<body><geom size="-1"/></body>'), "cannot compile"),
        ('<mujoco><include file="nowhere.xml"/></mujoco>', "nowhere.xml"),
        (_world(WEDGE), "wedge"),
    ],
)
def test_a_broken_file_is_told_in_words(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "broken.xml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ModelError, match=r"broken\.xml") as caught:
        file_subject(path)
    assert says in str(caught.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.xml"
    path.write_bytes(b"\xff\xfe\x00<mujoco/>")
    with pytest.raises(ModelError, match=r"binary\.xml as text"):
        file_subject(path)


# --- the command ---


@pytest.mark.parametrize(
    ("text", "strict", "code"),
    [
        (_world(FLOOR), False, 0),
        (_world(FLOOR), True, 0),
        (CASES["free-joint-default"][1], False, 0),
        (CASES["free-joint-default"][1], True, 1),
        (CASES["penetration"][1], False, 1),
    ],
)
def test_the_exit_code_is_that_of_a_linter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, strict: bool, code: int
) -> None:
    path = tmp_path / ("long" * 25) / "model.xml"  # wider than a terminal, and yet in one piece
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    assert main(["check", str(path), *["--strict"] * strict]) == code
    said = capsys.readouterr().out
    assert f"{path}: " in said
    assert "left out" in said


def test_json_is_strict_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.xml"
    path.write_text(CASES["penetration"][1], encoding="utf-8")
    assert main(["check", str(path), "--json"]) == 1
    (report,) = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert report["worst"] == "error"
    first = report["findings"][0]
    assert (first["severity"], first["code"], first["unit"]) == ("error", "penetration", "m")


def test_an_environment_by_its_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "envs:PicoDualPanda-v0", "--task", "lift_tray", "--strict"]) == 0
    assert "PicoDualPanda-v0, task lift_tray: 0 errors, 0 warnings" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.xml",), "there is no file"),
        (("PicoPandas-v0",), "neither a file"),
        (("PicoPanda-v0", "--task", "handover"), "choose from ['reach', 'pick'"),
    ],
)
def test_what_cannot_be_checked_is_told(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *arguments]) == 1
    assert words in capsys.readouterr().err


def test_gripper_specs_are_specs_too() -> None:
    subject = file_subject(MODELS / "parallel_85" / "parallel_85.xml")
    assert [type(spec) for _, spec in subject.robots] == [GripperSpec]
