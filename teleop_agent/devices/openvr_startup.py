"""Starting and stopping OpenVR, and what to tell the user when it does not start."""

import threading
from dataclasses import dataclass
from typing import Any

from ..errors import RuntimeUnavailableError, TeleopError

_START_ADVICE = "start PICO Connect, then SteamVR"
_INSTALL_ADVICE = "install SteamVR with Steam and start it once"

# OpenVR is one per process: a second init shares the first's library, and the first shutdown
# unloads it under the feet of the second.
_process_slot = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Fault:
    """Say what an init error means and whether it may pass without installing anything."""

    text: str
    waiting_helps: bool


_NOT_INSTALLED = _Fault(f"SteamVR is not installed: {_INSTALL_ADVICE}", False)
_BROKEN = _Fault("the SteamVR installation is damaged: let Steam verify or reinstall it", False)
_NOT_RUNNING = _Fault(f"SteamVR is not running: {_START_ADVICE}", True)
_NO_HEADSET = _Fault(f"SteamVR finds no headset: wake the headset and {_START_ADVICE}", True)
_OUTDATED = _Fault("SteamVR is older than the Python package 'openvr': update SteamVR", False)
_BUSY = _Fault("SteamVR is starting, stopping or busy: wait a moment", True)
_CANCELLED = _Fault(f"the start of SteamVR was cancelled: {_START_ADVICE}", True)

# By the names of openvr.VRInitError_..., without that prefix.
_FAULTS = {
    "Init_PathRegistryNotFound": _NOT_INSTALLED,
    "Init_InstallationNotFound": _NOT_INSTALLED,
    "Init_NoConfigPath": _NOT_INSTALLED,
    "Init_NoLogPath": _NOT_INSTALLED,
    "Init_InstallationCorrupt": _BROKEN,
    "Init_VRClientDLLNotFound": _BROKEN,
    "Init_FileNotFound": _BROKEN,
    "Init_FactoryNotFound": _BROKEN,
    "Init_InterfaceNotFound": _OUTDATED,
    "Init_InvalidInterface": _OUTDATED,
    "Init_NoServerForBackgroundApp": _NOT_RUNNING,
    "IPC_ConnectFailed": _NOT_RUNNING,
    "Init_HmdNotFound": _NO_HEADSET,
    "Init_HmdNotFoundPresenceFailed": _NO_HEADSET,
    "Init_Retry": _BUSY,
    "Init_AnotherAppLaunching": _BUSY,
    "Init_ShuttingDown": _BUSY,
    "Init_RebootingBusy": _BUSY,
    "Init_FirmwareUpdateBusy": _BUSY,
    "Init_FirmwareRecoveryBusy": _BUSY,
    "Init_USBServiceBusy": _BUSY,
    "Init_InitCanceledByUser": _CANCELLED,
}


def start_openvr() -> tuple[Any, Any]:
    """Return the module ``openvr`` and its IVRSystem, as a background program.

    Such a program neither starts SteamVR nor keeps it running, and takes no picture. Pair it with
    ``stop_openvr``, in the same thread.
    """
    if not _process_slot.acquire(blocking=False):
        raise TeleopError("OpenVR is already in use in this process: close the other device first")
    try:
        openvr = _import_openvr()
        return openvr, _init(openvr)
    except BaseException:
        _process_slot.release()
        raise


def stop_openvr(openvr: Any) -> None:
    """Shut OpenVR down. It unloads the library: any handle used later crashes the process."""
    try:
        openvr.shutdown()
    finally:
        _process_slot.release()


def _import_openvr() -> Any:
    try:
        import openvr
    except ImportError as error:
        raise RuntimeUnavailableError(
            "the Python package 'openvr' is missing: python -m pip install openvr",
            waiting_helps=False,
        ) from error
    except OSError as error:  # its native library does not load here
        raise RuntimeUnavailableError(
            f"the Python package 'openvr' does not load here: {error}",
            waiting_helps=False,
        ) from error
    return openvr


def _init(openvr: Any) -> Any:
    try:
        return openvr.init(openvr.VRApplication_Background)
    except openvr.error_code.InitError as error:
        raise _unavailable(openvr, int(error.error_value)) from error
    except KeyError as error:  # a code that is newer than the Python package
        raise _unavailable(openvr, int(error.args[0])) from error
    except openvr.OpenVRError as error:
        # Without a code: the runtime lacks the version of IVRSystem that the package asks for.
        raise RuntimeUnavailableError(f"{_OUTDATED.text} ({error})", waiting_helps=False) from error


def _unavailable(openvr: Any, code: int) -> RuntimeUnavailableError:
    """Return the error for an init error ``code``."""
    names = {
        int(value): name.removeprefix("VRInitError_")
        for name, value in vars(openvr).items()
        if name.startswith("VRInitError_")
    }
    name = names.get(code, "unknown to the Python package 'openvr'")
    fault = _FAULTS.get(name, _Fault("SteamVR does not start: see its window for the cause", True))
    return RuntimeUnavailableError(
        f"{fault.text} (OpenVR init error {code}, {name})", waiting_helps=fault.waiting_helps
    )
