"""Compiling the stand-in runtime's library."""

import shutil
import subprocess
import sys
from pathlib import Path

from .layout import c_header

_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
_FLAGS += ["-fvisibility=hidden"]
_SOURCE = Path(__file__).with_name("vrclient.c")


def why_not_here() -> str | None:
    """Return why the runtime cannot be built on this computer, or None if it can."""
    if not sys.platform.startswith("linux"):
        return f"the stand-in OpenVR runtime is a Linux library; this is {sys.platform}"
    if _compiler() is None:
        return f"no C compiler for the stand-in OpenVR runtime; looked for {', '.join(_COMPILERS)}"
    return None


def build_library(folder: Path) -> Path:
    """Compile into ``folder`` and return the runtime's folder, as a path registry names it."""
    compiler = _compiler()
    if compiler is None:
        raise RuntimeError(why_not_here())
    runtime = folder / "SteamVR"
    library = runtime / "bin" / "linux64" / "vrclient.so"
    library.parent.mkdir(parents=True)
    (folder / "layout.h").write_text(c_header(), encoding="utf-8")
    command = [compiler, *_FLAGS, f"-I{folder}", "-o", str(library), str(_SOURCE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{result.stderr}")
    return runtime


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, _COMPILERS)), None)
