"""What ``doctor`` says of SteamVR, headset and controllers, and that it names each fault."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openvr
import pytest
from openvr_standin import StandInRuntime, pose_matrix

from kinematics import Side
from teleop_agent import computer
from teleop_agent.commands import main
from teleop_agent.devices.openvr_device import OpenVRDevice
from teleop_agent.devices.openvr_doctor import check_registry, check_steamvr, registry_path
from teleop_agent.findings import Finding, Level, ok

RIGHT, LEFT = 1, 2
SECONDS = 0.4


@contextmanager
def moving(runtime: StandInRuntime, *indices: int, hz: float = 90.0) -> Iterator[None]:
    """Move controllers meanwhile, as hands do."""
    stop = threading.Event()

    def move() -> None:
        step = 0
        while not stop.wait(1.0 / hz):
            step += 1
            for index in indices:
                runtime.move(index, pose_matrix((0.1, 1.0, 1e-4 * step)))

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def ready(runtime: StandInRuntime) -> StandInRuntime:
    """Return a runtime with both controllers."""
    for index, side in ((RIGHT, Side.RIGHT), (LEFT, Side.LEFT)):
        runtime.add_controller(index, side)
        runtime.describe(index, f"PICO 4 ({side} Controller)", battery=0.8)
    return runtime


@pytest.fixture
def no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the picture out, which has a test of its own and takes seconds."""
    monkeypatch.setattr(computer, "check_pictures", lambda: ok("OpenGL", "left out"))


def look(runtime: StandInRuntime, *, still: bool = False) -> dict[str, Finding]:
    """Return the doctor's findings by what they are about; the worst one of each."""
    order = list(Level)
    found: dict[str, Finding] = {}
    with moving(runtime, *(() if still else (RIGHT, LEFT))):
        for finding in check_steamvr(SECONDS):
            before = found.get(finding.what)
            if before is None or order.index(finding.level) > order.index(before.level):
                found[finding.what] = finding
    return found


def test_all_is_well(ready: StandInRuntime) -> None:
    found = look(ready)
    sound = ("OpenVR registry", "drivers", "SteamVR", "headset", "overlay", "buttons")
    for what in (*sound, "right controller", "left controller"):
        assert found[what].level is Level.OK, found[what]
    assert "2.16.7" in found["SteamVR"].found
    for part in ("PICO 4 (right Controller)", "type pico_controller", "battery 80 %"):
        assert part in found["right controller"].found
    assert "100 % tracked" in found["left motion"].found
    assert ready.counters.inits == ready.counters.cleanups == 1


def no_controller(runtime: StandInRuntime) -> None:
    runtime.assign(LEFT, None)


def switched_off(runtime: StandInRuntime) -> None:
    runtime.disconnect(LEFT)


def empty(runtime: StandInRuntime) -> None:
    runtime.describe(LEFT, "PICO 4", battery=0.1)


def out_of_view(runtime: StandInRuntime) -> None:
    runtime.track(LEFT, openvr.TrackingResult_Running_OutOfRange, valid=True)


def dashboard(runtime: StandInRuntime) -> None:
    runtime.open_dashboard(True)


def blocked(runtime: StandInRuntime) -> None:
    with runtime.changing() as world:
        world.input_available = 0


def headset_off(runtime: StandInRuntime) -> None:
    runtime.disconnect(0)


def headset_blind(runtime: StandInRuntime) -> None:
    runtime.track(0, openvr.TrackingResult_Calibrating_InProgress, valid=False)


def quitting(runtime: StandInRuntime) -> None:
    threading.Timer(0.2, runtime.quit).start()


def not_running(runtime: StandInRuntime) -> None:
    with runtime.changing() as world:
        world.server_up = 0


@pytest.mark.parametrize(
    ("break_it", "what", "level", "fix"),
    [
        (no_controller, "left controller", Level.FAULT, "switch it on"),
        (switched_off, "left controller", Level.FAULT, "switch it on"),
        (empty, "left controller", Level.WARNING, "battery"),
        (out_of_view, "left motion", Level.WARNING, "view"),
        (dashboard, "buttons", Level.WARNING, "close the dashboard"),
        (dashboard, "left buttons", Level.WARNING, "close the dashboard"),
        (blocked, "buttons", Level.WARNING, "dashboard"),
        (headset_off, "headset", Level.FAULT, "wake"),
        (headset_blind, "headset", Level.WARNING, "put the headset on"),
        (quitting, "SteamVR", Level.FAULT, "start"),
        (not_running, "SteamVR", Level.FAULT, "start PICO Connect"),
    ],
)
def test_each_fault_is_named_with_its_fix(
    ready: StandInRuntime, break_it: object, what: str, level: Level, fix: str
) -> None:
    assert callable(break_it)
    break_it(ready)
    finding = look(ready)[what]
    assert (finding.level, fix in finding.fix) == (level, True), finding


def test_a_controller_that_sleeps_is_told(ready: StandInRuntime) -> None:
    finding = look(ready, still=True)["right motion"]
    assert finding.level is Level.WARNING
    assert "never changes" in finding.found


def test_a_slow_stream_is_told(ready: StandInRuntime) -> None:
    with moving(ready, RIGHT, LEFT, hz=20.0):
        motion = [finding for finding in check_steamvr(1.0) if finding.what == "right motion"]
    assert motion[0].level is Level.WARNING
    assert "router" in motion[0].fix


def test_a_session_in_use_is_told(ready: StandInRuntime) -> None:
    with OpenVRDevice():
        found = list(check_steamvr(SECONDS))
    assert found[-1].level is Level.FAULT
    assert "in use" in found[-1].found


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_registries(tmp_path: Path) -> None:
    path = tmp_path / "openvrpaths é.vrpath"
    assert [f.level for f in check_registry(path)] == [Level.FAULT]
    for odd in ("", "{", "[]", "{}", '{"runtime": 3}', '{"runtime": [3]}', '{"runtime": []}'):
        path.write_text(odd, encoding="utf-8")
        (found,) = check_registry(path)
        assert found.level is Level.FAULT, odd
        assert found.fix
    (gone,) = check_registry(write(path, {"runtime": [str(tmp_path / "gone")]}))
    assert (gone.level, "gone" in gone.found) == (Level.FAULT, True)
    drivers: list[str] | None
    for drivers, level in (
        (None, Level.OK),
        (["/opt/PICO Connect/driver"], Level.OK),
        (["/opt/pico/a", "/opt/Pico/b"], Level.WARNING),
    ):
        content = {"runtime": [str(tmp_path)], "external_drivers": drivers}
        assert [f.level for f in check_registry(write(path, content))] == [Level.OK, level]


def test_where_the_registry_is(tmp_path: Path) -> None:
    """By OpenVR's own rules."""
    file = Path("openvr") / "openvrpaths.vrpath"
    assert registry_path({}, "linux", tmp_path) == tmp_path / ".config" / file
    assert registry_path({"XDG_CONFIG_HOME": "/x"}, "linux", tmp_path) == Path("/x") / file
    assert registry_path({"LOCALAPPDATA": "C"}, "win32", tmp_path) == Path("C") / file
    assert registry_path({}, "win32", tmp_path) == tmp_path / "AppData" / "Local" / file
    assert registry_path({"VR_PATHREG_OVERRIDE": "/y/z"}, "linux", tmp_path) == Path("/y/z")


def test_the_command(
    ready: StandInRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str], no_picture: None
) -> None:
    with moving(ready, RIGHT, LEFT):
        assert main(["doctor", "--seconds", str(SECONDS), "--folder", str(tmp_path)]) == 0
        out = capsys.readouterr().out
        assert "ok      right controller: PICO 4 (right Controller)" in out
        switched_off(ready)
        time.sleep(0.05)
        assert main(["doctor", "--seconds", str(SECONDS), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    (left,) = [one for one in found if one["what"] == "left controller"]
    assert left["level"] == "fault"
    assert left["fix"]
    assert main(["doctor", "--no-headset", "--json"]) == 0
    assert "SteamVR" not in capsys.readouterr().out
    assert main(["doctor", "--seconds", "-1"]) == 2
