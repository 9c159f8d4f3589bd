"""Build one OpenGL context with one backend, and try a backend in a process of its own.

A failed attempt leaves its traces: PyOpenGL picks its platform at its first import and keeps it,
so after EGL has failed OSMesa cannot be loaded in the same process, and a broken driver may take
the process with it. ``probe`` therefore runs this file as a script, once a backend; hence no
relative imports here. Importing this module loads no OpenGL.
"""

import importlib
import subprocess
import sys
import warnings
from typing import Protocol

import mujoco

PROBE_TIMEOUT_S = 30.0
"""Importing MuJoCo and building a context takes 0.6 s; a dead X forwarding may never answer."""

FONT_SCALE = mujoco.mjtFontScale.mjFONTSCALE_100


class GLContext(Protocol):
    """What MuJoCo's backends have in common."""

    def make_current(self) -> None:
        """Bind the context to the calling thread."""
        ...

    def free(self) -> None:
        """Destroy the context."""
        ...


class ContextError(Exception):
    """Report that a backend gave no context; the message is the reason, in one line."""


def build(backend: str, width: int, height: int) -> GLContext:
    """Return a current context of ``backend`` (glfw, egl, osmesa, cgl); sizes in pixels.

    Raises ContextError, whatever the backend raised.
    """
    loaded = "OpenGL" in sys.modules
    try:
        if backend == "glfw":
            return _build_glfw(width, height)
        context = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
        context.make_current()
        return context
    except failures() as e:
        early = " (OpenGL was loaded before, perhaps for another platform)" if loaded else ""
        raise ContextError(_reason(e) + early) from e


def failures() -> tuple[type[Exception], ...]:
    """Return what the backends were seen to raise.

    AttributeError: PyOpenGL without the library. ImportError: no EGL device, another platform is
    loaded, no PyOpenGL. RuntimeError: no framebuffer configuration, context refused. OSError:
    library of another architecture. FatalError: MuJoCo found OpenGL too old. PyOpenGL's own
    errors exist only once it is loaded.
    """
    known = (AttributeError, ImportError, RuntimeError, OSError, mujoco.FatalError)
    gl_error = sys.modules.get("OpenGL.error")
    return known if gl_error is None else (*known, gl_error.Error)


def _build_glfw(width: int, height: int) -> GLContext:
    """Return a current context of an invisible window; MuJoCo's own class ignores failures."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        glfw = importlib.import_module("glfw")
        if glfw.init():
            context = importlib.import_module("mujoco.glfw").GLContext(width, height)
            context.make_current()
            if glfw.get_current_context():
                return context
    raise OSError("; ".join(str(w.message) for w in caught) or "GLFW gave no window")


def _reason(error: Exception) -> str:
    """Return ``error`` as one line, said plainly where the original is cryptic."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, AttributeError):
        return f"its library is missing or cannot be loaded ({text})"
    return text


def probe(backend: str) -> str | None:
    """Try ``backend`` in a process of its own; return None if it works, else the reason."""
    command = [sys.executable, "-P", __file__, backend]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {PROBE_TIMEOUT_S:g} s"
    except OSError as e:
        return f"cannot start {sys.executable!r} to try it ({e})"
    if done.returncode == 0:
        return None
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return lines[-1] if lines else f"its process ended with code {done.returncode}"


def _main(backend: str) -> int:
    """Build a context and MuJoCo's resources in it; write the reason if that fails."""
    try:
        context = build(backend, 16, 16)
        mujoco.MjrContext(mujoco.MjSpec().compile(), FONT_SCALE).free()
        context.free()
    except (ContextError, mujoco.FatalError) as e:
        sys.stdout.write(_reason(e) + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
