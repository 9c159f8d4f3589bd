"""Devices by name."""

import subprocess
import sys
from pathlib import Path

import pytest

from teleop_agent.devices import make_device
from teleop_agent.devices.openvr_device import OpenVRDevice
from teleop_agent.devices.trace_file import TraceDevice
from teleop_agent.errors import TraceError, UnknownDeviceError


def test_names_make_devices(tmp_path: Path) -> None:
    assert isinstance(make_device("openvr"), OpenVRDevice)
    device = make_device(f"trace:{tmp_path / 'a:b.jsonl'}")
    assert isinstance(device, TraceDevice)
    with pytest.raises(TraceError, match=r"a:b\.jsonl"):
        device.connect()


@pytest.mark.parametrize("name", ["", "trace", "trace:", "OpenVR", "openxr", "sim:3"])
def test_an_unknown_name_lists_the_valid_ones(name: str) -> None:
    with pytest.raises(UnknownDeviceError) as caught:
        make_device(name)
    assert str(caught.value) == (
        f"no device is called {name!r}; choose one of openvr, sim, trace:FILE"
    )


def test_openvr_is_imported_by_connecting_only() -> None:
    code = (
        "import sys; from teleop_agent.devices import make_device; make_device('openvr');"
        "sys.exit('openvr' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
