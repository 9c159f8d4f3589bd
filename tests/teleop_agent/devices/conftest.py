"""Fixtures of the device tests."""

from openvr_standin.fixtures import openvr_library, runtime

__all__ = ["openvr_library", "runtime"]
