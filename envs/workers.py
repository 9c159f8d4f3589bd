"""Processes that hold environments and do with them what they are asked."""

import contextlib
import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from .errors import EnvError

MAIN_GUARD = 'needs `if __name__ == "__main__":` around what it does'
_CLOSE_TIMEOUT_S = 3.0  # a control step and the end of the interpreter; then it is terminated


class Worker:
    """One process with an object of its own: ``ask`` it to do something, fetch the ``answer``.

    It ends with ``close`` and with this process, however that ends.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        """Start the process, which makes the object; the first ``answer`` says that it is there.

        ``make`` is pickled. Raises EnvError if the system refuses the process.
        """
        context = multiprocessing.get_context("spawn")  # forked, OpenGL and threads break
        self._link, remote = context.Pipe()
        self._process = context.Process(
            target=_serve,
            args=(remote, make),
            daemon=True,  # a forgotten close() must not keep this process from ending
        )
        self._pending, self._started = 1, False
        try:
            with remote:  # this process's copy; the worker keeps its own
                self._process.start()
        except OSError as error:  # also a broken pipe: it ended before it had read ``make``
            raise EnvError(f"cannot start a worker process: {error}. {self._advice()}") from error

    def ask(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Let the object's method ``name`` run with these arguments; does not wait for it."""
        while self._pending:  # somebody was interrupted before the answer came
            with contextlib.suppress(Exception):
                self.answer()
        try:
            self._link.send((name, args, kwargs))
        except OSError as error:
            raise self._lost() from error
        self._pending = 1

    def answer(self) -> Any:
        """Wait for what was asked for last; raise what it raised, or EnvError if it has died."""
        self._pending = 0
        try:
            fine, result = self._link.recv()
        except (EOFError, OSError) as error:
            raise self._lost() from error
        self._started = True
        if not fine:
            raise result
        return result

    def close(self) -> None:
        """End the process; calling it twice is fine."""
        self._link.close()  # the sign to end
        if self._process.pid is None:
            return
        self._process.join(_CLOSE_TIMEOUT_S)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()

    def _lost(self) -> EnvError:
        self._process.join(1.0)
        return EnvError(
            f"a worker process has ended with code {self._process.exitcode}. {self._advice()}"
        )

    def _advice(self) -> str:
        if self._started:
            return "Make the environments anew; -9 means that the system was out of memory"
        return f"A script that starts workers {MAIN_GUARD}; n_workers=1 does without"


def _serve(link: Connection, make: Callable[[], Any]) -> None:
    """Be a worker: make the object, then do what is asked until the link is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes us
    served: Any = None
    with link, contextlib.suppress(EOFError, OSError):  # the parent has closed its end, or is dead
        try:
            served = make()
            link.send((True, None))
            while True:
                name, args, kwargs = link.recv()
                _answer(link, getattr(served, name), args, kwargs)
        except (EOFError, OSError):
            raise
        except Exception as error:
            link.send((False, _portable(error)))
        finally:
            if served is not None:
                served.close()


def _answer(link: Connection, do: Callable[..., Any], args: Any, kwargs: Any) -> None:
    try:
        link.send((True, do(*args, **kwargs)))
    except (EOFError, OSError):
        raise
    except Exception as error:
        link.send((False, _portable(error)))


def _portable(error: Exception) -> Exception:
    """Return the error so that it can go to the other process, and say where it was raised."""
    error.add_note("In a worker process:\n" + traceback.format_exc().rstrip())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # an error with a constructor of its own
        return EnvError(f"{type(error).__name__}: {error}")
    return error
