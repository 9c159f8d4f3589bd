"""Run the program with a wrong adapter: ``mutant.py NAME`` and then the program's options."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS.parent), *map(str, (TESTS / "standins", TESTS / "teleop_agent/devices"))]

import test_openvr_mutants as mutants  # noqa: E402

import collect  # noqa: E402
from teleop_agent.devices import openvr_device  # noqa: E402

if __name__ == "__main__":
    openvr_device.OpenVRSession = getattr(mutants, sys.argv.pop(1))
    sys.exit(collect.main())
