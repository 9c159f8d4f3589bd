"""Delay, smoothness and robustness of the filters."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from teleop_agent.errors import TeleopError
from teleop_agent.filters import (
    ExponentialConfig,
    KalmanConfig,
    KalmanFilter,
    LowPassFilter,
    OneEuroConfig,
    PoseFilter,
)

MAKERS: dict[str, Callable[[], PoseFilter]] = {
    "kalman": KalmanFilter,
    "one_euro": lambda: LowPassFilter(OneEuroConfig()),
    "exponential": lambda: LowPassFilter(ExponentialConfig()),
}
every_filter = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
EYE = np.eye(3)
START = 5_000_000_000


def times(hz: float, seconds: float) -> np.ndarray:
    """Return stamps [ns]."""
    return START + np.round(np.arange(round(hz * seconds)) * 1e9 / hz).astype(np.int64)


def along_x(values: np.ndarray) -> np.ndarray:
    return np.stack([values, 0 * values, 0 * values], axis=1)


def about_y(angles: np.ndarray) -> np.ndarray:
    return Rotation.from_rotvec(np.stack([0 * angles, angles, 0 * angles], axis=1)).as_matrix()


def run(
    f: PoseFilter,
    stamps: np.ndarray,
    positions: np.ndarray,
    turns: np.ndarray | None = None,
    control: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return positions (n, 3) and rotation vectors (n, 3) at the control instants."""
    control = stamps if control is None else control
    outputs, k = [], 0
    for now in control:
        while k < len(stamps) and stamps[k] <= now:
            f.update(int(stamps[k]), positions[k], EYE if turns is None else turns[k])
            k += 1
        outputs.append(f.evaluate(int(now)))
    turned = Rotation.from_matrix([turn for _, turn in outputs]).as_rotvec()
    return np.array([position for position, _ in outputs]), turned


def delay_ms(stamps: np.ndarray, output: np.ndarray, raw: np.ndarray) -> float:
    """Return the delay of a 1 Hz sine [ms], after 3 s."""
    late = stamps >= START + 3_000_000_000
    wave = np.exp(-2j * np.pi * (stamps[late] - START) * 1e-9)
    return float(-np.angle((output[late] @ wave) / (raw[late] @ wave)) / (2 * np.pi) * 1e3)


def jerk(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.diff(values[200:], 3, axis=0) ** 2)))


def shaky(stamps: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a hand's tremor (0.4 mm, 8 to 12 Hz) and a tracker's noise (0.6 mm), (n, 3) [m]."""
    s = (stamps - START)[:, None] * 1e-9
    tremor = 0.4e-3 * np.sin(2 * np.pi * rng.uniform(8, 12, 3) * s + rng.uniform(0, 6, 3))
    return tremor + rng.normal(0.0, 0.6e-3, (len(stamps), 3))


@pytest.mark.parametrize(("hz", "alpha", "beta"), [(90, 0.472, 0.150), (72, 0.549, 0.216)])
def test_kalman_reaches_the_steady_gains_of_its_rate(hz, alpha, beta) -> None:
    f = KalmanFilter()
    run(f, times(hz, 2.0), np.zeros((2 * hz, 3)))
    assert f.gains == pytest.approx((alpha, beta), abs=5e-4)  # the rounding of the numbers
    # In closed form (Kalata 1984), from the tracking index q dt^2 / r.
    index = 1.0 / hz**2 / 0.6e-3
    root = (4.0 + index - np.sqrt(8.0 * index + index**2)) / 4.0
    assert f.gains[0] == pytest.approx(1.0 - root**2, abs=1e-6)
    assert f.gains[1] == pytest.approx(2.0 * (1.0 - root) ** 2, abs=1e-6)


@pytest.mark.parametrize("hz", [72, 90, 120])
def test_kalman_delays_a_1_hz_motion_by_25_ms(hz) -> None:
    stamps = times(hz, 12.0)
    wave = np.sin(2 * np.pi * (stamps - START) * 1e-9)
    positions, turned = run(KalmanFilter(), stamps, along_x(0.1 * wave), about_y(0.5 * wave))
    assert delay_ms(stamps, positions[:, 0], wave) == pytest.approx(25.3, abs=0.1)
    assert delay_ms(stamps, turned[:, 1], wave) == pytest.approx(25.3, abs=0.1)


@pytest.mark.parametrize(("hz", "one_euro", "exponential"), [(72, 24.6, 24.4), (90, 22.7, 25.5)])
def test_delays_of_the_options(hz, one_euro, exponential) -> None:
    stamps = times(hz, 12.0)
    wave = np.sin(2 * np.pi * (stamps - START) * 1e-9)
    for name, expected, within in [("one_euro", one_euro, 3.0), ("exponential", exponential, 0.3)]:
        positions, _ = run(MAKERS[name](), stamps, along_x(0.1 * wave))
        assert delay_ms(stamps, positions[:, 0], wave) == pytest.approx(expected, abs=within)


@pytest.mark.parametrize(("hz", "ratio"), [(72, 0.083), (90, 0.063)])
@pytest.mark.parametrize("moving", [False, True])
def test_kalman_takes_the_jerk_out_of_a_shaky_hand(hz, ratio, moving) -> None:
    stamps = times(hz, 20.0)
    path = 0.11 * np.sin(np.pi * (stamps - START) * 1e-9) * moving
    raw = along_x(path) + shaky(stamps, np.random.default_rng(1))
    positions, _ = run(KalmanFilter(), stamps, raw)
    # A fifth: tremor and noise stand in another proportion here than in the reference figures.
    assert jerk(positions) / jerk(raw) == pytest.approx(ratio, rel=0.2)


def test_kalman_takes_the_jerk_out_of_a_shaky_wrist() -> None:
    stamps = times(90, 20.0)
    rng = np.random.default_rng(2)
    shake = Rotation.from_rotvec(rng.normal(0.0, 2e-3, (len(stamps), 3)))
    angles = 0.6 * np.sin(np.pi * (stamps - START) * 1e-9)
    raw = shake * Rotation.from_matrix(about_y(angles))
    _, turned = run(KalmanFilter(), stamps, np.zeros((len(stamps), 3)), raw.as_matrix())
    assert jerk(turned) / jerk(raw.as_rotvec()) == pytest.approx(0.058, rel=0.2)


def test_kalman_follows_a_shaky_hand_and_rests() -> None:
    stamps = times(90, 20.0)
    s = (stamps - START) * 1e-9
    noise = np.random.default_rng(3).normal(0.0, 0.3e-3, (len(stamps), 3))
    positions, _ = run(KalmanFilter(), stamps, along_x(0.11 * np.sin(np.pi * s)) + noise)
    error = positions - along_x(0.11 * np.sin(np.pi * (s - 0.0253)))
    assert np.percentile(np.linalg.norm(error[200:], axis=1), 95) < 0.5e-3  # m, 3 axes together
    positions, _ = run(KalmanFilter(), stamps, noise)
    assert np.percentile(np.linalg.norm(positions[200:], axis=1), 95) < 0.5e-3


@every_filter
@pytest.mark.parametrize("device_hz", [72, 90])
@pytest.mark.parametrize("control_hz", [50, 100, 200])
def test_a_steady_drag_does_not_beat_against_the_control_rate(make, device_hz, control_hz) -> None:
    stamps = times(device_hz, 8.0)
    control = times(control_hz, 7.9) + 7_000_000
    positions, _ = run(make(), stamps, along_x(0.2 * (stamps - START) * 1e-9), control=control)
    velocity = np.diff(positions[2 * control_hz :, 0]) * control_hz
    assert velocity == pytest.approx(0.2, abs=1e-4)  # m/s; the newest sample has 34 mm/s rms
    assert np.abs(np.diff(velocity) * control_hz).max() < 0.01  # m/s2; it has 3.9 to 23 rms


def test_stamp_jitter_is_no_motion() -> None:
    rng = np.random.default_rng(4)
    stamps = times(90, 10.0) + rng.integers(0, 4_000_000, 900)
    control = times(50, 9.8) + 9_000_000
    positions, _ = run(
        KalmanFilter(), stamps, along_x(0.2 * (stamps - START) * 1e-9), None, control
    )
    assert np.diff(positions[100:, 0]) * 50 == pytest.approx(0.2, abs=1e-4)


@every_filter
def test_the_estimate_hardly_depends_on_the_sample_rate(make) -> None:
    control = times(50, 4.0) + 20_000_000
    outputs = []
    for hz in (72, 90, 120):
        stamps = times(hz, 4.2)
        s = (stamps - START) * 1e-9
        wave = 0.1 * np.sin(2 * np.pi * 0.7 * s)
        outputs.append(run(make(), stamps, along_x(wave), about_y(3 * wave), control))
    for positions, turned in outputs[1:]:
        assert np.abs(positions - outputs[0][0])[50:].max() < 2e-3  # m of 100 mm
        assert np.abs(turned - outputs[0][1])[50:].max() < 6e-3  # rad of 0.3


@every_filter
def test_a_time_step_of_zero_or_less_changes_nothing(make) -> None:
    f = make()
    stamps = times(90, 1.0)
    run(f, stamps, along_x(0.1 * (stamps - START) * 1e-9))
    now = int(stamps[-1]) + 5_000_000
    before = f.evaluate(now)
    for late in (0, 1, 50_000_000, 10**12):
        f.update(int(stamps[-1]) - late, np.full(3, 9.0), about_y(np.array([1.0]))[0])
    after = f.evaluate(now)
    assert np.array_equal(before[0], after[0])
    assert np.array_equal(before[1], after[1])


@every_filter
def test_the_smallest_step_of_time_stays_finite(make) -> None:
    f = make()
    f.update(START, np.zeros(3), EYE)
    f.update(START + 1, np.full(3, 1e-3), about_y(np.array([1e-3]))[0])
    for ahead in (0, 1, 10_000_000, 10**12):
        position, turn = f.evaluate(START + ahead)
        assert np.isfinite(position).all() and np.isfinite(turn).all()


@every_filter
def test_extrapolation_is_bounded(make) -> None:
    f = make()
    stamps = times(90, 2.0)
    seconds = (stamps - START) * 1e-9
    run(f, stamps, along_x(seconds), about_y(seconds))
    last = int(stamps[-1])
    far, farther = f.evaluate(last + 60_000_000), f.evaluate(last + 10**12)
    assert np.array_equal(far[0], farther[0])
    assert np.array_equal(far[1], farther[1])
    assert far[0][0] - seconds[-1] <= 0.0251  # m at 1 m/s


@every_filter
def test_a_long_gap_and_a_reset_start_anew(make) -> None:
    for forget in (False, True):
        f = make()
        stamps = times(90, 1.0)
        run(f, stamps, along_x((stamps - START) * 1e-9))
        t_ns = int(stamps[-1]) + (10_000_000 if forget else 300_000_000)
        if forget:
            f.reset()
            assert not f.ready
        f.update(t_ns, np.full(3, 7.0), EYE)
        assert f.ready
        position, turn = f.evaluate(t_ns + 20_000_000)
        assert np.array_equal(position, np.full(3, 7.0))
        assert np.allclose(turn, EYE, atol=1e-15)


@every_filter
def test_turning_on_and_on_takes_the_short_way_past_half_a_turn(make) -> None:
    stamps = times(90, 8.0)
    angles = 2.0 * (stamps - START) * 1e-9  # two and a half turns
    f = make()
    for k, turn in enumerate(about_y(angles)):
        f.update(int(stamps[k]), np.zeros(3), turn)
        off = Rotation.from_matrix(f.evaluate(int(stamps[k]))[1].T @ turn).magnitude()
        assert off < 0.12  # rad: 2 rad/s for the delay


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (lambda: KalmanConfig(noise=0.0), "noise of KalmanConfig must be > 0, got 0.0"),
        (lambda: KalmanConfig(lag_s=-1.0), "lag_s must be within"),
        (lambda: OneEuroConfig(min_cutoff=float("nan")), "min_cutoff of OneEuroConfig"),
        (lambda: OneEuroConfig(beta=-1.0), "beta must be >= 0"),
        (lambda: ExponentialConfig(time_constant_s=0.0), "time_constant_s of ExponentialConfig"),
    ],
)
def test_config_is_checked(config, words) -> None:
    with pytest.raises(TeleopError, match=words):
        config()
