"""Many environments at once, shared out among processes."""

import multiprocessing
import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import (
    batch_space,
    create_shared_memory,
    read_from_shared_memory,
)

from .errors import ActionError, EnvError, OptionError
from .panda_env import PicoPandaEnv
from .workers import Worker

_Order = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments, by position and by name."""


class PicoPandaVectorEnv(VectorEnv[Any, npt.NDArray[np.float32], npt.NDArray[Any]]):
    """``num_envs`` environments shared out among processes; bit for bit the single ones.

    ``gym.make_vec("PicoPanda-v0", num_envs=8, task="reach")`` makes it. Spaces, seeds (``seed``,
    ``seed + 1``, ...), ``reset(options={"reset_mask": ...})``, ``autoreset_mode``, ``final_obs``,
    ``final_info``, ``render``, ``call``, ``get_attr`` and ``set_attr`` are those of
    ``gymnasium.vector.SyncVectorEnv``; ``n_workers`` and ``autoreset_mode`` are given among the
    options.

    The calling process holds the first share itself, so that ``n_workers`` processes are at work
    in all. Within a share environments are stepped one after the other. Processes and not threads:
    a third of a step is Python, in which threads take turns.

    If one environment's simulation breaks down, ``step`` raises its StateError; all must be reset.
    """

    def __init__(
        self,
        num_envs: int,
        n_workers: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        **options: Any,
    ) -> None:
        """Make environments of ``options``; ``n_workers`` None is one per core.

        With 1 everything runs in the calling process. With more, a script needs
        ``if __name__ == "__main__":``.
        """
        n_workers = os.cpu_count() or 1 if n_workers is None else n_workers
        for name, value in (("num_envs", num_envs), ("n_workers", n_workers)):
            if not isinstance(value, int | np.integer) or value < 1:
                raise OptionError(f"{name} must be a whole number >= 1, got {value!r}")
        if options.get("render_mode") == "human" and n_workers > 1:
            raise OptionError("render_mode='human' opens windows from this process: n_workers=1")
        first = PicoPandaEnv(**options)  # raises for wrong options before any process is started
        self._own: _Share | None = None
        self._workers: list[Worker] = []
        self.num_envs = int(num_envs)
        self.single_action_space = first.action_space
        self.single_observation_space = first.observation_space
        self.action_space = batch_space(first.action_space, self.num_envs)
        self.observation_space = batch_space(first.observation_space, self.num_envs)
        context = multiprocessing.get_context("spawn")
        memory = create_shared_memory(first.observation_space, self.num_envs, context)
        parts = np.array_split(np.arange(self.num_envs), min(int(n_workers), self.num_envs))
        self._shares = [slice(part[0], part[-1] + 1) for part in parts]
        make = partial(_Share, options, first.observation_space, memory, self.num_envs)
        try:
            for share in self._shares[1:]:
                self._workers.append(Worker(partial(make, share, autoreset_mode)))
            self._own = make(self._shares[0], autoreset_mode, first)
            for worker in self._workers:
                worker.answer()
        except BaseException:
            first.close()
            self.close()
            raise
        self._observations: Any = self._own.all_observations
        self.metadata, self.render_mode = self._own.metadata, self._own.render_mode
        self._ready = False

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those of ``options["reset_mask"]`` (num_envs,)."""
        if seed is None or isinstance(seed, int | np.integer):
            seeds = [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        self._check_reset(seeds, mask)
        orders: list[_Order | None] = []
        for share in self._shares:
            of_share = {} if mask is None else {"reset_mask": mask[share]}
            arguments = {"seed": seeds[share], "options": options | of_share or None}
            orders.append(((), arguments) if mask is None or mask[share].any() else None)
        self._ready = False  # should it be interrupted
        infos = self._do("reset", orders)
        self._ready = True
        return self._copied(), self._merged([info or {} for info in infos])

    def _check_reset(self, seeds: Sequence[int | None], mask: Any) -> None:
        if len(seeds) != self.num_envs:
            raise OptionError(f"seed must be one or {self.num_envs} numbers, got {len(seeds)}")
        if mask is None:
            return
        if getattr(mask, "shape", None) != (self.num_envs,) or mask.dtype != np.bool_:
            raise OptionError(f"reset_mask must be a bool array ({self.num_envs},), got {mask!r}")
        if not mask.any():
            raise OptionError("reset_mask must be True for at least one environment")
        if not self._ready:
            raise EnvError("reset_mask cannot be taken yet: reset all environments first")

    def step(self, actions: npt.NDArray[np.float32]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step every environment: actions (num_envs, width)."""
        if np.shape(actions) != self.action_space.shape:
            raise ActionError(
                f"actions must have shape {self.action_space.shape}, got {np.shape(actions)}"
            )
        wrong = np.argwhere(~np.isfinite(actions))
        if len(wrong):
            i, entry = wrong[0]
            raise ActionError(f"actions[{i}, {entry}] is {actions[i, entry]}")
        if not self._ready:
            raise EnvError("not all environments are ready: call reset() before step()")
        self._ready = False
        answers = self._do("step", [((actions[share],), {}) for share in self._shares])
        self._ready = True
        *results, infos = zip(*answers, strict=True)
        rewards, terminations, truncations = map(np.concatenate, results)
        return self._copied(), rewards, terminations, truncations, self._merged(infos)

    def render(self) -> tuple[Any, ...]:
        """Return a picture of each environment."""
        return self._chained(self._do("render", [((), {})] * len(self._shares)))

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return each environment's attribute ``name``, or what it returns if it is a method."""
        order = (name, *args), kwargs
        return self._chained(self._do("call", [order] * len(self._shares)))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return each environment's attribute ``name``."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment: a list or tuple of values, or one for all."""
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise OptionError(f"values must be one or {self.num_envs}, got {len(values)}")
        self._do("set_attr", [((name, values[share]), {}) for share in self._shares])

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return each environment's seed."""
        return self.get_attr("np_random_seed")

    @property
    def np_random(self) -> tuple[np.random.Generator, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return each environment's random number generator; of other processes, a copy."""
        return self.get_attr("np_random")

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environments and end the processes."""
        if self._own is not None:
            self._own.close()
        for worker in self._workers:
            worker.close()

    # The shares: the first is this process's own.

    def _do(self, name: str, orders: Sequence[_Order | None]) -> list[Any]:
        """Do ``name`` with every share at the same time, but for those without an order.

        Raises the first share's error, once all have answered.
        """
        if self._own is None or self.closed:
            raise EnvError(f"{name}() of closed environments: make them anew")
        for worker, order in zip(self._workers, orders[1:], strict=True):
            if order is not None:
                worker.ask(name, *order[0], **order[1])
        args, kwargs = orders[0] or ((), {})
        answer_self = partial(getattr(self._own, name), *args, **kwargs)
        answers, errors = [], []
        for order, answer in zip(
            orders, [answer_self, *(worker.answer for worker in self._workers)], strict=True
        ):
            try:
                answers.append(None if order is None else answer())
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return answers

    def _chained(self, answers: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        return tuple(value for answer in answers for value in answer)

    def _copied(self) -> dict[str, npt.NDArray[Any]]:
        return {key: array.copy() for key, array in self._observations.items()}

    def _merged(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return _merge(infos, [share.stop - share.start for share in self._shares])


class _Share(SyncVectorEnv):
    """Some of the environments; their observations go into memory that all shares have."""

    def __init__(
        self,
        options: dict[str, Any],
        space: spaces.Space[Any],
        memory: Any,
        num_envs: int,
        share: slice,
        autoreset_mode: str | AutoresetMode,
        first: PicoPandaEnv | None = None,
    ) -> None:
        """Make the environments of ``share`` out of ``num_envs``; ``first`` exists already."""
        make = [partial(PicoPandaEnv, **options)] * (share.stop - share.start)
        if first is not None:
            make[0] = lambda: first
        super().__init__(make, copy=False, autoreset_mode=autoreset_mode)
        self.all_observations: Any = read_from_shared_memory(space, memory, num_envs)
        self._observations = {key: part[share] for key, part in self.all_observations.items()}

    def reset(self, **arguments: Any) -> Any:
        """Return the infos."""
        return super().reset(**arguments)[1]

    def step(self, actions: Any) -> Any:
        """Return rewards, terminations, truncations and infos."""
        return super().step(actions)[1:]


def _merge(infos: Sequence[dict[str, Any]], counts: Sequence[int]) -> dict[str, Any]:
    """Join the infos of shares of ``counts`` environments as one SyncVectorEnv would have them.

    What a share does not have is filled as Gymnasium fills it: with None in arrays of objects,
    with zeros in all others.
    """
    merged: dict[str, Any] = {}
    for key in dict.fromkeys(key for info in infos for key in info):
        known = next(info[key] for info in infos if key in info)
        if isinstance(known, dict):
            merged[key] = _merge([info.get(key, {}) for info in infos], counts)
            continue
        fill = None if known.dtype.hasobject else 0
        merged[key] = np.concatenate(
            [
                info[key] if key in info else np.full((n, *known.shape[1:]), fill, known.dtype)
                for info, n in zip(infos, counts, strict=True)
            ]
        )
    return merged
