"""A display that nobody sees, for tests that open a window."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

PATIENCE_S = 60.0  # bound of a wait, not an expectation


class Screen:
    """A virtual display whose pixels can be read from a file."""

    def __init__(self, name: str, file: Path) -> None:
        """Keep the display's name and its frame buffer's file."""
        self.name = name
        self._file = file

    def pixels(self) -> npt.NDArray[np.uint8]:
        """Return the screen (height, width, 3) RGB. The file is an XWD dump, 32 bits a pixel."""
        raw = self._file.read_bytes()
        header = np.frombuffer(raw, ">u4", 20)
        start, height, row = int(header[0] + 12 * header[19]), int(header[5]), int(header[12])
        rows = np.frombuffer(raw, np.uint8, height * row, start).reshape(height, row // 4, 4)
        return rows[:, :, 2::-1]

    def red(self) -> int:
        """Return how many pixels are red."""
        p = self.pixels()
        return int(np.sum((p[:, :, 0] > 150) & (p[:, :, 1] < 80) & (p[:, :, 2] < 80)))

    def blue(self) -> int:
        """Return how many pixels are blue."""
        p = self.pixels()
        return int(np.sum((p[:, :, 2] > 150) & (p[:, :, 1] < 80) & (p[:, :, 0] < 80)))

    def white(self) -> int:
        """Return how many pixels are white, as text is."""
        return int(np.sum(np.all(self.pixels() > 200, axis=2)))


@pytest.fixture
def screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """Start a virtual display of its own and name it in DISPLAY."""
    server = shutil.which("Xvfb")
    if server is None:
        pytest.skip("Xvfb is not installed (Debian: apt-get install xvfb)")
    command = [server, "-displayfd", "1", "-screen", "0", "1024x768x24", "-fbdir", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            name = ":" + process.stdout.readline().strip()
            monkeypatch.setenv("DISPLAY", name)
            monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
            yield Screen(name, tmp_path / "Xvfb_screen0")
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@pytest.fixture
def no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the display away."""
    if sys.platform != "linux":
        pytest.skip("only on Linux a window needs DISPLAY")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
