"""What the OpenVR device says when the runtime does not start, and that it starts later."""

import json
import sys
from pathlib import Path

import openvr
import pytest
from openvr_standin import StandInRuntime
from watching import frames_until

from teleop_agent.devices.openvr_device import OpenVRConfig, OpenVRDevice
from teleop_agent.errors import RuntimeUnavailableError


def connect_fails() -> RuntimeUnavailableError:
    device = OpenVRDevice(OpenVRConfig(poll_hz=500))
    with pytest.raises(RuntimeUnavailableError) as caught:
        device.connect()
    device.close()
    return caught.value


@pytest.fixture
def installation(runtime: StandInRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that the path registry names as the runtime's; it does not exist."""
    folder = tmp_path / "SteamVR"
    registry = tmp_path / "registry.vrpath"
    paths = {"runtime": [str(folder)], "config": [str(tmp_path)], "log": [str(tmp_path)]}
    registry.write_text(json.dumps(paths))
    monkeypatch.setenv("VR_PATHREG_OVERRIDE", str(registry))
    return folder


def test_no_path_registry(
    runtime: StandInRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VR_PATHREG_OVERRIDE", str(tmp_path / "none.vrpath"))
    error = connect_fails()
    assert "not installed" in str(error)
    assert "110, Init_PathRegistryNotFound" in str(error)
    assert not error.waiting_helps


@pytest.mark.parametrize(
    ("folder", "code", "text"),
    [
        (None, "100, Init_InstallationNotFound", "not installed"),
        (".", "101, Init_InstallationCorrupt", "damaged"),
        ("bin/linux64", "102, Init_VRClientDLLNotFound", "damaged"),
    ],
)
def test_parts_of_the_installation_are_missing(
    installation: Path, folder: str | None, code: str, text: str
) -> None:
    if folder is not None:
        (installation / folder).mkdir(parents=True)
    error = connect_fails()
    assert text in str(error)
    assert code in str(error)
    assert not error.waiting_helps


@pytest.mark.parametrize(
    ("code", "text", "waiting_helps"),
    [
        (openvr.VRInitError_Init_HmdNotFound, "wake the headset", True),
        (openvr.VRInitError_Init_HmdNotFoundPresenceFailed, "wake the headset", True),
        (openvr.VRInitError_Init_ShuttingDown, "wait a moment", True),
        (openvr.VRInitError_Init_InitCanceledByUser, "cancelled", True),
        (openvr.VRInitError_Init_InterfaceNotFound, "update SteamVR", False),
        (openvr.VRInitError_Driver_Failed, "Driver_Failed", True),
        (4242, "4242, unknown to the Python package", True),
    ],
)
def test_an_init_error_is_explained(
    runtime: StandInRuntime, code: int, text: str, waiting_helps: bool
) -> None:
    with runtime.changing() as world:
        world.init_error = code
    error = connect_fails()
    assert text in str(error)
    assert str(int(code)) in str(error)
    assert error.waiting_helps == waiting_helps


def test_a_server_that_comes_up_later(runtime: StandInRuntime) -> None:
    with runtime.changing() as world:
        world.server_up = 0
    device = OpenVRDevice(OpenVRConfig(poll_hz=500))
    for _ in range(3):
        with pytest.raises(RuntimeUnavailableError, match="start PICO Connect, then SteamVR") as e:
            device.connect()
        assert e.value.waiting_helps
    with runtime.changing() as world:
        world.server_up = 1
    with device:
        assert frames_until(device, lambda frame: True)[0].seq == 0


def test_an_old_runtime_lacks_the_interface(runtime: StandInRuntime) -> None:
    with runtime.changing() as world:
        world.outdated = 1
    error = connect_fails()
    assert "update SteamVR" in str(error)
    assert openvr.IVRSystem_Version in str(error)
    assert not error.waiting_helps
    assert runtime.counters.cleanups == 1
    with runtime.changing() as world:
        world.outdated = 0
    with OpenVRDevice() as device:
        frames_until(device, lambda frame: True)


def test_the_python_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvr", None)
    error = connect_fails()
    assert "pip install openvr" in str(error)
    assert not error.waiting_helps
