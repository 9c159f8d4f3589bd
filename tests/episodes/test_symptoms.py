"""Symptoms: every kind of each fault is found, and nothing that an operator may do is one."""

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scripted as support
from choreography import Script
from scripted import DONE, explore, make_env, scripted, to_the_floor, work

from envs.servo import JointServo
from episodes.commands import main
from episodes.reader import Episode, open_run
from episodes.symptoms import Finding, Symptom, Verdict, chain_of, marks, symptoms, symptoms_of
from episodes.symptoms.axes import ORDERS, SIGNED_AXES, axes_findings, fit_axes
from episodes.symptoms.chain import Chain, Poses, Stage, joined
from episodes.symptoms.delays import lag_finding
from episodes.symptoms.links import Link, Order
from episodes.symptoms.stretches import frozen_finding, jump_finding
from episodes.symptoms.turns import product, quats_of
from kinematics import Side
from teleop_agent.arm import ArmMapper
from teleop_agent.config import TeleopConfig
from teleop_agent.guard import GuardConfig
from teleop_agent.limits import StepLimiter
from teleop_agent.turns import turn_matrix, turn_quat

RIGHT, LEFT = Side.RIGHT, Side.LEFT
Hand = tuple[np.ndarray, np.ndarray]
AFTER_HAND = (Stage.TARGET, Stage.ACCEPTED, Stage.TOOL)
MIRROR_X = np.diag([-1.0, 1.0, 1.0])


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Episode:
    """Return an episode with all that an operator does."""
    return scripted(tmp_path_factory.mktemp("work"), work(), make_env())


@pytest.fixture(scope="module")
def chain(worked: Episode) -> Chain:
    return chain_of(worked, RIGHT)


def by_symptom(findings: list[Finding], side: Side = RIGHT) -> dict[Symptom, Finding]:
    return {found.symptom: found for found in findings if found.side is side}


def verdicts(findings: list[Finding], side: Side = RIGHT) -> dict[Symptom, Verdict]:
    return {symptom: found.verdict for symptom, found in by_symptom(findings, side).items()}


def found_in(findings: list[Finding], side: Side = RIGHT) -> set[Symptom]:
    return {s for s, verdict in verdicts(findings, side).items() if verdict is Verdict.FOUND}


def spoiled(chain: Chain, stages: tuple[Stage, ...], change: Callable[[Poses], Poses]) -> Chain:
    """Return the chain with some stages' poses changed."""
    poses = {s: change(p) if s in stages else p for s, p in chain.poses.items()}
    return dataclasses.replace(chain, poses=poses)


def rows_of(chain: Chain, rows: Any) -> Chain:
    """Return some rows of a chain as a chain of their own."""
    poses = {
        stage: Poses(*(getattr(p, f.name)[rows] for f in dataclasses.fields(Poses)))
        for stage, p in chain.poses.items()
    }
    arrays = {
        f.name: getattr(chain, f.name)[rows] for f in dataclasses.fields(Chain) if f.name != "poses"
    }
    arrays["joined"] = arrays["joined"].copy()
    arrays["joined"][1:] &= np.diff(np.arange(chain.n_rows)[rows]) == 1
    arrays["joined"][:1] = False
    return Chain(poses=poses, **arrays)


def test_nothing_that_an_operator_may_do_is_a_fault(worked: Episode, chain: Chain) -> None:
    assert chain.free.mean() < 0.99 and chain.walled.any() and chain.slowed.any()
    assert len(set(chain.scale.tolist())) > 2 and not chain.moves.all() and not chain.turns.all()
    assert (chain.reason != "").any() and (~chain.joined[1:]).any()
    assert set(verdicts(symptoms([worked])).values()) == {Verdict.NONE}
    assert marks(worked, RIGHT) == {}


def test_no_part_of_it_is_one_either(chain: Chain) -> None:
    rng = np.random.default_rng(1)
    for _ in range(6):
        begin, end = sorted(rng.integers(0, chain.n_rows, 2).tolist())
        part = rows_of(chain, slice(begin, end + 2))
        assert found_in(symptoms_of(part, RIGHT)) == set(), (begin, end)


def test_two_of_them_in_a_run_do_not_follow_each_other(chain: Chain) -> None:
    both = joined([chain, chain])
    assert both.n_rows == 2 * chain.n_rows and not both.joined[chain.n_rows]
    assert set(verdicts(symptoms_of(both, RIGHT)).values()) == {Verdict.NONE}


@pytest.mark.parametrize("turns", [False, True], ids=["position", "rotation"])
def test_every_way_to_name_axes_is_told(chain: Chain, turns: bool) -> None:
    for first, second in ((Stage.HAND, Stage.TARGET), (Stage.SAMPLE, Stage.HAND)):
        link = Link(chain, first, second)
        windows = link.turns(0.0) if turns else link.moves(0.0)
        for axes in SIGNED_AXES:
            wrong = dataclasses.replace(windows, second=windows.second @ axes.T)
            fit = fit_axes(wrong, link.least(turns))
            assert fit.axes is not None
            np.testing.assert_array_equal(fit.axes, axes)
            assert fit.right == np.array_equal(axes, np.eye(3))


def test_axes_along_which_nothing_moved_are_not_judged(chain: Chain) -> None:
    windows = Link(chain, Stage.HAND, Stage.TARGET).moves(0.0)
    for seen in (np.diag([1.0, 1.0, 0.0]), np.diag([0.0, 0.0, 1.0])):
        for axes in SIGNED_AXES:
            first = windows.first @ seen
            part = dataclasses.replace(windows, first=first, second=first @ axes.T)
            fit = fit_axes(part, 0.001)
            assert fit.seen == int(np.trace(seen))
            assert fit.axes is not None
            np.testing.assert_array_equal(fit.axes @ seen, axes @ seen)
    still = dataclasses.replace(windows, first=0.0 * windows.first)
    assert fit_axes(still, 0.001).axes is None


@pytest.mark.parametrize(
    ("axes", "symptom"),
    [
        (MIRROR_X, Symptom.MIRRORED),
        (np.diag([1.0, 1.0, -1.0]), Symptom.MIRRORED),
        (np.eye(3)[[0, 2, 1]], Symptom.SWAPPED),
        (np.eye(3)[[1, 2, 0]], Symptom.SWAPPED),
    ],
)
@pytest.mark.parametrize("stage", [Stage.HAND, Stage.TARGET, Stage.ACCEPTED, Stage.TOOL])
def test_wrong_axes_are_found_where_they_came_in(
    chain: Chain, axes: np.ndarray, symptom: Symptom, stage: Stage
) -> None:
    stages = list(Stage)[list(Stage).index(stage) :]
    wrong = spoiled(
        chain, tuple(stages), lambda p: dataclasses.replace(p, position=p.position @ axes.T)
    )
    link = Link(wrong, list(Stage)[list(Stage).index(stage) - 1], stage)
    found = by_symptom(axes_findings(wrong, [link], RIGHT))
    assert found[symptom].verdict is Verdict.FOUND
    assert stage.of(RIGHT) in found[symptom].evidence
    assert [f.verdict for f in found.values()].count(Verdict.FOUND) == 1


COMMON = [o for o in ORDERS if o.columns in ((0, 1, 2, 3), (1, 2, 3, 0), (3, 0, 1, 2))]


@pytest.mark.parametrize("order", COMMON, ids=str)
def test_a_quaternion_in_another_order_is_found(chain: Chain, order: Order) -> None:
    """The command turns as a misread hand does, or it is itself stored in another order."""
    link = Link(chain, Stage.HAND, Stage.TARGET)
    if order.of_first:
        read, frame = order.read(chain.poses[Stage.HAND])
        change = {"quat": product(quats_of(frame), read)}
    else:
        inverse = np.argsort(order.columns)
        stored = chain.poses[Stage.TARGET].quat
        change = {"quat": (stored * ([1, -1, -1, -1] if order.inverted else 1))[:, inverse]}
    wrong = spoiled(chain, (Stage.TARGET,), lambda p: dataclasses.replace(p, **change))
    link = Link(wrong, Stage.HAND, Stage.TARGET)
    found = by_symptom(axes_findings(wrong, [link], RIGHT))[Symptom.QUATERNION]
    assert found.verdict is Verdict.FOUND
    assert ("inverted" in found.evidence) == order.inverted
    assert ("x, y, z, w" in found.evidence) == (order.columns != (0, 1, 2, 3))


def test_a_table_that_is_mirrored_or_tilted_is_found(chain: Chain) -> None:
    for axes, symptom in (
        (np.diag([1.0, -1.0, 1.0]), Symptom.MIRRORED),
        (np.eye(3)[[2, 0, 1]], Symptom.SWAPPED),
    ):
        wrong = spoiled(
            chain, (Stage.HAND,), lambda p, a=axes: dataclasses.replace(p, R_world=a @ p.R_world)
        )
        found = by_symptom(axes_findings(wrong, [], RIGHT))[symptom]
        assert found.verdict is Verdict.FOUND and "T_world_tracking" in found.evidence


@pytest.mark.parametrize("rows", [-3, -1, 1, 2, 5, 15])
@pytest.mark.parametrize("stage", [Stage.HAND, Stage.TARGET, Stage.ACCEPTED])
def test_a_lag_is_found_where_it_came_in(chain: Chain, stage: Stage, rows: int) -> None:
    late = spoiled(
        chain,
        tuple(list(Stage)[list(Stage).index(stage) :]),
        lambda p: dataclasses.replace(
            p, position=np.roll(p.position, rows, axis=0), quat=np.roll(p.quat, rows, axis=0)
        ),
    )
    links = [Link(late, list(Stage)[list(Stage).index(stage) - 1], stage)]
    found = lag_finding(late, links, RIGHT, 0.02)
    expected = 20.0 * rows + (25.0 if stage is Stage.HAND else 0.0)
    assert found.figures["delay_ms"] == pytest.approx(expected, rel=0.06, abs=8.0)
    if stage is not Stage.HAND or abs(rows) > 1:  # its lag is known to 25 ms, not to a row
        assert found.verdict is Verdict.FOUND
        assert stage.of(RIGHT) in found.evidence


def test_a_jump_or_a_frozen_stretch_is_found_at_every_stage(chain: Chain) -> None:
    (row, _), *_ = [r for r in _calm(chain) if r[1] - r[0] > 20]
    for stage in (Stage.SAMPLE, Stage.HAND, *AFTER_HAND):

        def leap(p: Poses) -> Poses:
            position = p.position.copy()
            position[row + 5 :] += 0.15
            return dataclasses.replace(p, position=position)

        def stand(p: Poses) -> Poses:
            position, quat = p.position.copy(), p.quat.copy()
            position[row + 5 : row + 15], quat[row + 5 : row + 15] = (
                position[row + 5],
                quat[row + 5],
            )
            return dataclasses.replace(p, position=position, quat=quat)

        jumped = jump_finding(spoiled(chain, (stage,), leap), RIGHT)
        assert jumped.verdict is Verdict.FOUND and stage.of(RIGHT) in jumped.evidence
        assert row + 5 in {place.row for place in jumped.places}
        frozen = frozen_finding(spoiled(chain, (stage,), stand), RIGHT)
        assert frozen.verdict is Verdict.FOUND and stage.of(RIGHT) in frozen.evidence
        assert (row + 6, row + 15) in {(place.row, place.end) for place in frozen.places}


def _calm(chain: Chain) -> list[tuple[int, int]]:
    """Return stretches in which the hand moves the tool freely and at some speed."""
    from episodes.arrays import runs

    speed = np.linalg.norm(np.diff(chain.poses[Stage.HAND].position, axis=0, prepend=0), axis=1)
    on = chain.rows_of(Stage.ACCEPTED) & chain.free & ~chain.slowed & chain.moves & chain.turns
    return runs(on & (speed > 0.002))


def mapped(change: Callable[[Hand], Hand], at: int = 1) -> AbstractContextManager[None]:
    """Let every ``at``-th arm be moved by a hand that is not where it is said to be."""
    step, patch, arms = ArmMapper.step, pytest.MonkeyPatch(), list[ArmMapper]()

    def wrong(self: ArmMapper, hand: Hand, *rest: Any) -> Any:
        if self not in arms:
            arms.append(self)
        last = (arms.index(self) + 1) % at == 0
        return step(self, change(hand) if last else hand, *rest)

    patch.setattr(ArmMapper, "step", wrong)
    return patched(patch)


class patched(AbstractContextManager[None]):  # noqa: N801  reads as a function
    """Undo a patch at the end."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def __exit__(self, *error: object) -> None:
        self._patch.undo()


def winding_up() -> AbstractContextManager[None]:
    """Clip the target at limits, but leave the clutch's anchor where it is."""
    step, patch = ArmMapper.step, pytest.MonkeyPatch()
    names = ("_hand_position", "_hand_turn_inv", "_position", "_turn")

    def wrong(self: Any, hand: Hand, commanded: Any, engagement: int, ratio: Any) -> Any:
        kept = [getattr(self._clutch, name) for name in names]
        goes_on = engagement == self._engagement
        target = step(self, hand, commanded, engagement, ratio)
        if goes_on:
            for name, value in zip(names, kept, strict=True):
                setattr(self._clutch, name, value)
        return target

    patch.setattr(ArmMapper, "step", wrong)
    return patched(patch)


def gluing() -> AbstractContextManager[None]:
    """Stop the target altogether where it would pass a wall."""
    inside, patch = StepLimiter._keep_inside, pytest.MonkeyPatch()

    def wrong(self: StepLimiter, position: np.ndarray, move: np.ndarray) -> np.ndarray:
        kept = inside(self, position, move)
        return move if kept is move else np.zeros(3)

    patch.setattr(StepLimiter, "_keep_inside", wrong)
    return patched(patch)


def soft_servo() -> AbstractContextManager[None]:
    """Leave the velocity feed-forward out: what the servo is told of its time is about nil."""
    begin, patch = JointServo.__init__, pytest.MonkeyPatch()

    def wrong(self: JointServo, *arguments: Any) -> None:
        n, n_substeps, n_ticks, timestep, _, ctrlrange = arguments
        begin(self, n, n_substeps, n_ticks, timestep, 1e-9, ctrlrange)

    patch.setattr(JointServo, "__init__", wrong)
    patch.setattr("scripted.make_env", make_env.__wrapped__)
    return patched(patch)


def as_it_is() -> AbstractContextManager[None]:
    return mapped(lambda hand: hand)


def exploring(script: Script) -> None:
    explore(script)


def floor(script: Script) -> None:
    script.move(0.3, (0.0, 0.05, 0.0))
    to_the_floor(script, 0.0)


def leaping(script: Script) -> None:
    explore(script)
    script.right.position = script.right.position + np.array([0.0, 0.3, 0.0])
    script.hold(0.5)


def freezing(script: Script) -> None:
    explore(script)
    script.right.frozen = True
    script.move(0.4, (0.0, 0.05, 0.05))
    script.right.frozen = False
    script.hold(0.4)


UNGUARDED = GuardConfig(max_speed=1e3, max_turn_rate=1e5, max_still_ns=10**12)
FAULTS: dict[str, tuple[Any, Callable[[Script], None], GuardConfig, set[Symptom]]] = {
    "mirrored axis": (
        lambda: mapped(lambda hand: (MIRROR_X @ hand[0], hand[1])),
        exploring,
        GuardConfig(),
        {Symptom.MIRRORED},
    ),
    "rotation right, position not": (
        lambda: mapped(lambda hand: (np.eye(3)[[1, 2, 0]] @ hand[0], hand[1])),
        exploring,
        GuardConfig(),
        {Symptom.SWAPPED},
    ),
    "quaternion order": (
        lambda: mapped(lambda hand: (hand[0], turn_matrix(turn_quat(hand[1])[[3, 0, 1, 2]]))),
        exploring,
        GuardConfig(),
        {Symptom.QUATERNION},
    ),
    "soft servo": (soft_servo, exploring, GuardConfig(), {Symptom.TRAILING}),
    "winding up": (winding_up, floor, GuardConfig(), {Symptom.STICKING}),
    "gluing": (gluing, floor, GuardConfig(), {Symptom.STICKING}),
    "leap": (as_it_is, leaping, UNGUARDED, {Symptom.JUMP}),
    "frozen": (as_it_is, freezing, UNGUARDED, {Symptom.FROZEN}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_program_is_found_in_what_it_records(name: str, tmp_path: Path) -> None:
    fault, act, guard, expected = FAULTS[name]
    script = Script(jitter_m=1e-4)
    script.engage()
    act(script)
    script.press(*DONE)
    with fault():
        env = support.make_env()
        episode = scripted(tmp_path, script, env, teleop=TeleopConfig(guard=guard))
    assert found_in(symptoms([episode])) == expected


def test_what_the_guard_held_is_told_apart(tmp_path: Path) -> None:
    script = Script(jitter_m=1e-4)
    script.engage()
    freezing(script)
    leaping(script)
    script.press(*DONE)
    told = verdicts(symptoms([scripted(tmp_path, script, make_env())]))
    assert (told[Symptom.FROZEN], told[Symptom.JUMP]) == (Verdict.HELD, Verdict.HELD)
    assert Verdict.FOUND not in told.values()


def test_each_arm_is_judged_by_itself(tmp_path: Path) -> None:
    script = Script(yaw=-1.0, jitter_m=1e-4)
    script.left.grip = 0.0
    script.engage()
    script.engage(LEFT)
    explore(script, RIGHT, 0.25)
    explore(script, LEFT, 0.25)
    script.press(*DONE)
    with mapped(lambda hand: (MIRROR_X @ hand[0], hand[1]), at=2):  # the second arm: left
        episode = scripted(tmp_path, script, make_env("lift_tray"))
    findings = symptoms([episode])
    assert found_in(findings, LEFT) == {Symptom.MIRRORED}
    assert found_in(findings, RIGHT) == set()
    assert verdicts(findings, RIGHT)[Symptom.MIRRORED] is Verdict.NONE


def test_one_faulty_episode_does_not_drown_in_a_run(chain: Chain) -> None:
    wrong = spoiled(
        chain, AFTER_HAND, lambda p: dataclasses.replace(p, position=p.position @ MIRROR_X)
    )
    over_all = symptoms_of(joined([chain] * 5 + [wrong]), RIGHT)
    assert by_symptom(over_all)[Symptom.MIRRORED].verdict is not Verdict.FOUND  # five to one
    assert by_symptom(symptoms_of(wrong, RIGHT))[Symptom.MIRRORED].verdict is Verdict.FOUND


def test_too_little_is_never_an_alarm(chain: Chain) -> None:
    still = np.flatnonzero(~chain.engaged)
    for part in (rows_of(chain, still), rows_of(chain, slice(0, 1)), rows_of(chain, slice(0, 8))):
        told = verdicts(symptoms_of(part, RIGHT))
        assert set(told) == set(Symptom)
        assert set(told.values()) <= {Verdict.UNKNOWN, Verdict.NONE}
        assert told[Symptom.MIRRORED] is Verdict.UNKNOWN


def test_report_prints_them(
    worked: Episode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = worked.path.parents[1]
    assert len(open_run(run)) == 2  # the rewound branch too
    assert main(["report", str(run), "--no-draw"]) == 0
    out = capsys.readouterr().out
    for symptom in Symptom:
        assert symptom in out
    assert "FOUND" not in out and not list(run.rglob("*.png"))
