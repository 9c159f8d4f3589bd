"""Checks of SteamVR, the headset and the controllers."""

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kinematics import Side

from ..errors import RuntimeUnavailableError, TeleopError
from ..findings import Finding, fault, ok, warning
from ..frame import OperatorFrame, TrackedPose
from .openvr_session import OpenVRSession
from .openvr_startup import start_openvr, stop_openvr

_POLL_HZ = 500
"""Several times a headset's rate, so that every new pose is seen as one."""
_LOW_BATTERY = 0.2
_LOW_RATE_HZ = 60.0
"""Pico streams at 72 or 90 Hz; below 60 the wireless link drops frames."""
_START = "start PICO Connect, then SteamVR"


def check_steamvr(seconds: float) -> Iterator[Finding]:
    """Look at the installation, then watch what runs for ``seconds``."""
    registry = registry_path(os.environ, sys.platform, Path.home())
    yield from check_registry(registry)
    try:
        openvr, system = start_openvr()
    except RuntimeUnavailableError as error:
        fix = _START if error.waiting_helps else "see above; collect.py --device sim needs none"
        yield fault("SteamVR", str(error), fix)
        return
    except TeleopError as error:
        yield fault("SteamVR", str(error), "close the program that uses it")
        return
    try:
        session = OpenVRSession(openvr, system)
    except BaseException:
        stop_openvr(openvr)
        raise
    try:
        yield ok("SteamVR", f"version {_version(system)} runs")
        yield from _check_running(openvr, system, session, seconds)
    finally:
        session.close()


def registry_path(environment: Any, platform: str, home: Path) -> Path:
    """Return where OpenVR looks for its runtime, by its own rules (openvr's vrpathregistry)."""
    if override := environment.get("VR_PATHREG_OVERRIDE"):
        return Path(override)
    if platform == "win32":
        base = Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif platform == "darwin":
        base = home / "Library" / "Application Support" / "OpenVR" / ".openvr"
        return base / "openvrpaths.vrpath"
    else:
        base = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    return base / "openvr" / "openvrpaths.vrpath"


def check_registry(path: Path) -> Iterator[Finding]:
    """Look at the file that names SteamVR's folder and the drivers that were added to it."""
    what, install = "OpenVR registry", "install SteamVR with Steam and start it once"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        runtimes = [Path(entry) for entry in content["runtime"]]
        drivers = [str(entry) for entry in content.get("external_drivers") or ()]
    except FileNotFoundError:
        yield fault(what, f"{path} is not there", install)
        return
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        yield fault(what, f"{path} cannot be read: {error!r}", f"remove it, then {install}")
        return
    if not runtimes or not runtimes[0].is_dir():
        named = runtimes[0] if runtimes else "no folder"
        yield fault(what, f"{path} names {named}, which is not there", install)
        return
    yield ok(what, f"{path} names {runtimes[0]}")
    pico = [entry for entry in drivers if "pico" in entry.lower()]
    if len(pico) > 1:
        fix = "uninstall all but one of PICO's streaming programs: only one driver is loaded"
        yield warning("drivers", f"several of PICO's: {', '.join(pico)}", fix)
    elif drivers:
        yield ok("drivers", f"beside SteamVR's own: {', '.join(drivers)}")
    else:
        yield ok("drivers", "only SteamVR's own")


@dataclass(slots=True)
class _Watch:
    """Count what came of one device while it was watched."""

    serial: str = ""
    polls: int = 0
    connected: int = 0
    valid: int = 0
    inputs: int = 0
    changes: int = 0
    _last: Any = field(default=None)

    def take(self, pose: TrackedPose, inputs: bool) -> None:
        self.polls += 1
        self.connected += pose.connected
        self.valid += pose.connected and pose.valid and pose.tracked
        self.inputs += inputs
        self.serial = pose.serial or self.serial
        if self._last is not None and not np.array_equal(pose.matrix, self._last):
            self.changes += 1
        self._last = np.array(pose.matrix)


def _check_running(
    openvr: Any, system: Any, session: OpenVRSession, seconds: float
) -> Iterator[Finding]:
    head, hands = _Watch(), {side: _Watch() for side in Side}
    last: OperatorFrame | None = None
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        frame = session.poll()
        if frame is None:
            yield fault("SteamVR", "is quitting", _START)
            return
        head.take(frame.head, True)
        for side, hand in hands.items():
            hand.take(frame.controllers[side].pose, frame.controllers[side].input_valid)
        last = frame
        time.sleep(1.0 / _POLL_HZ)
    yield _headset(openvr, system, head, last)
    yield from _access(openvr, system)
    for side, hand in hands.items():
        yield from _controller(openvr, system, side, hand, seconds)


def _headset(openvr: Any, system: Any, watch: _Watch, last: OperatorFrame | None) -> Finding:
    what, index = "headset", int(openvr.k_unTrackedDeviceIndex_Hmd)
    if not watch.connected:
        return fault(what, "SteamVR has none", f"wake the headset, {_START}")
    found = _describe(openvr, system, index)
    if watch.valid < watch.polls:
        share = 100 * watch.valid / watch.polls
        fix = "put the headset on, in a lit room; without it forward is where you face at first"
        return warning(what, f"{found}; tracked {share:.0f} % of the time", fix)
    if last is not None and not last.headset_worn:
        fix = "put it on, or collect.py --no-require-headset to look at the screen instead"
        return warning(what, f"{found}; it is not worn", fix)
    return ok(what, found)


def _access(openvr: Any, system: Any) -> Iterator[Finding]:
    """See whether buttons reach other programs, and pictures could be laid over the view."""
    if not openvr.isInterfaceVersionValid(openvr.IVROverlay_Version):
        yield warning("overlay", "not offered in the version asked for", "update SteamVR")
        dashboard = False
    else:
        yield ok("overlay", f"{openvr.IVROverlay_Version} is offered")
        dashboard = bool(openvr.VROverlay().isDashboardVisible())
    if dashboard:
        yield warning("buttons", "blocked by SteamVR's dashboard", "close the dashboard")
    elif not system.isInputAvailable():
        fix = "close SteamVR's dashboard and other programs that take the input"
        yield warning("buttons", "blocked by another program", fix)
    else:
        yield ok("buttons", "reach this program")


def _controller(
    openvr: Any, system: Any, side: Side, watch: _Watch, seconds: float
) -> Iterator[Finding]:
    what, wake = f"{side} controller", "switch it on, hold it in the headset's view and move it"
    role = {
        Side.RIGHT: openvr.TrackedControllerRole_RightHand,
        Side.LEFT: openvr.TrackedControllerRole_LeftHand,
    }[side]
    index = int(system.getTrackedDeviceIndexForControllerRole(role))
    if not watch.connected:
        yield fault(what, "SteamVR has none for this hand", wake)
        return
    found = _describe(openvr, system, index)
    battery = _battery(openvr, system, index)
    if battery is not None:
        found += f", battery {100 * battery:.0f} %"
    if battery is not None and battery < _LOW_BATTERY:
        yield warning(what, found, "change or charge its battery")
    else:
        yield ok(what, found)
    rate, valid = watch.changes / seconds, 100 * watch.valid / watch.polls
    motion = f"{rate:.0f} new poses a second, {valid:.0f} % tracked"
    name = f"{side} motion"
    if watch.changes == 0:
        yield warning(name, "its pose never changes", f"it sleeps or lies still: {wake}")
    elif valid < 99.0:
        yield warning(name, motion, "hold it in the headset's view, away from bright light")
    elif rate < _LOW_RATE_HZ:
        yield warning(name, motion, "move closer to the router: 5 GHz, PC on a cable")
    else:
        yield ok(name, motion)
    if watch.inputs < watch.polls:
        share = 100 * watch.inputs / watch.polls
        fix = "close the dashboard; in SteamVR's controller settings choose the default binding"
        yield warning(f"{side} buttons", f"readable {share:.0f} % of the time", fix)


def _describe(openvr: Any, system: Any, index: int) -> str:
    names = ("ManufacturerName", "ModelNumber", "ControllerType", "SerialNumber")
    texts = [_text(openvr, system, index, getattr(openvr, f"Prop_{n}_String")) for n in names]
    maker, model, kind, serial = texts
    parts = [" ".join(filter(None, (maker, model))), kind and f"type {kind}", serial]
    return ", ".join(filter(None, parts)) or f"device {index}, which says nothing of itself"


def _text(openvr: Any, system: Any, index: int, prop: int) -> str:
    try:
        return system.getStringTrackedDeviceProperty(index, prop)
    except (openvr.OpenVRError, KeyError, UnicodeDecodeError):
        return ""


def _battery(openvr: Any, system: Any, index: int) -> float | None:
    """Return its charge, 0 .. 1, or None when it does not tell."""
    try:
        prop = openvr.Prop_DeviceBatteryPercentage_Float
        return float(system.getFloatTrackedDeviceProperty(index, prop))
    except (openvr.OpenVRError, KeyError):
        return None


def _version(system: Any) -> str:
    try:
        return system.getRuntimeVersion()
    except (AttributeError, UnicodeDecodeError):  # it returned no text
        return "unknown"
