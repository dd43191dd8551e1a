"""Faults of accounting: what privacy loss composes to."""

from tests.faults.fault import Fault

HERE = "tests/budget/"
GAUSSIAN, LOSS, SPENDING, CALIBRATION, MEANING = (
    f"{HERE}test_{name}.py" for name in ("gaussian", "loss", "spending", "calibration", "meaning")
)
TIGHT = f"{GAUSSIAN}::test_mu_and_delta_are_on_the_safe_side_and_tight"
CLOSED = "budget/closed_forms.py"

FAULTS = [
    # Closed forms, rounded to the safe side.
    Fault("the first tail of Gaussian noise is rounded down", CLOSED,
          "up.div(tail(minus_first, bits, up=True), 2)", "down.div(tail(minus_first, bits, up=False), 2)", TIGHT),
    Fault("a very small delta is none", CLOSED, "return SMALLEST\n", "return Fraction(0)\n", f"{GAUSSIAN}::test_no_noise_and_tiny_deltas"),
    Fault("the largest mu is a millionth more", CLOSED,
          "return round_bits(begin * (1 - Fraction(rest)), 56, up=False)", "return round_bits(begin * (1 - Fraction(rest)) * Fraction(1_000_001, 10**6), 56, up=True)", TIGHT),
    Fault("an epsilon that fits a mu is rounded up", CLOSED, "return most * (1 - Fraction(1, 2**30))", "return most * (1 + Fraction(1, 2**30))",
          f"{SPENDING}::test_what_a_mu_allows_is_allowed_and_nearly_the_most"),
    Fault("the epsilon of zCDP forgets its order", CLOSED, "1 / (order * delta)", "1 / (order**2 * delta)", f"{SPENDING}::test_zero_concentrated_privacy_by_the_best_order"),
    Fault("the delta of zCDP is at an epsilon beyond", CLOSED, "rate, gap = _moderate(rho), epsilon - rho", "rate, gap = _moderate(rho), epsilon",
          f"{SPENDING}::test_zero_concentrated_privacy_by_the_best_order"),
    Fault("a rho may have twice its delta", CLOSED, "if zcdp_delta(middle, epsilon) <= delta:", "if zcdp_delta(middle, epsilon) <= 2 * delta:",
          f"{SPENDING}::test_the_limit_of_rho_is_within_and_near"),
    Fault("of many events one is left out", CLOSED, "down.mul(down.log1p(convert(-delta, down)), count)", "down.mul(down.log1p(convert(-delta, down)), count - 1)",
          f"{LOSS}::test_joined_delta"),
    # Losses, and how they compose.
    Fault("of noise and of events the larger delta counts", "budget/loss.py",
          "self.additive_delta + leak + (1 - leak) * noise", "max(self.additive_delta + leak, noise)", f"{LOSS}::test_failure_is_added"),
    Fault("joint bounds of two losses do not add up", "budget/loss.py",
          "pure=self._laplace_total() + other._laplace_total() if joint", "pure=max(self._laplace_total(), other._laplace_total()) if joint", f"{LOSS}::test_a_joint_bound_of_laplace_noises_counts"),
    Fault("Gaussian noise that is scaled loses too little", "budget/loss.py", "gaussian=self.gaussian / multiplier**2", "gaussian=self.gaussian / multiplier**3", f"{LOSS}::test_addition"),
    Fault("an epsilon has the delta that is spent on events", "budget/loss.py", "room = target - self.least_delta\n", "room = target\n", f"{LOSS}::test_epsilon_is_the_inverse_of_delta"),
    Fault("of many mechanisms one may fail", "budget/loss.py", "kept *= 1 - joined_delta(delta, count)", "kept *= 1 - joined_delta(delta, 1)", f"{LOSS}::test_approximate_beside_gaussian"),
    Fault("beside Gaussian noise pure losses are none", "budget/loss.py", "return gaussian_delta(epsilon - loss, self.gaussian)", "return gaussian_delta(epsilon, self.gaussian)", f"{LOSS}::test_laplace_beside_gaussian"),
    Fault("Gaussian noise is left out of a mixture", "budget/loss.py", "return gaussian_delta(epsilon - loss, self.gaussian)", "return gaussian_delta(epsilon - loss, Fraction(0))",
          f"{LOSS}::test_approximate_beside_gaussian"),
    # Distributions of losses.
    Fault("coins have a side less", CLOSED, "weight = up.div(up.mul(weight, up.mul(odds, count - left)), left + 1)", "weight = up.div(up.mul(weight, up.mul(odds, count - left)), left + 2)",
          f"{LOSS}::test_equal_laplace_noises"),
    Fault("the rest of an average is left out", CLOSED, "rest = left if growing else", "rest = convert(0, up) if growing else", f"{LOSS}::test_averages_that_stop_early_are_no_smaller_and_hardly_larger"),
    # Calibration: the least noise.
    Fault("thresholds leave no room for rounding", "budget/calibration.py", "kept = delta * (1 - ROOM)", "kept = delta", f"{CALIBRATION}::test_threshold_delta_is_what_the_certificate_proves"),
    Fault("noise has all of delta beside events", "budget/calibration.py",
          "return log_ratio(max(Fraction(0), total - loss.least_delta), self.delta - loss.least_delta)", "return log_ratio(max(Fraction(0), total - loss.least_delta), self.delta)", f"{CALIBRATION}::test_closed_forms"),
    Fault("a multiplier is taken without a look", "budget/calibration.py",
          "return self._within_sum(multiplier) and not self._within_sum(less)", "return True", f"{CALIBRATION}::test_sums_that_are_not_linear"),
    # What is left, and what epsilon means.
    Fault("a budget within another has what is left of the larger", "budget/budget.py", "Unspent(*map(min, zip(", "Unspent(*map(max, zip(", f"{HERE}ledger/test_ledger.py::test_analysts_together_never_pass_the_cap_of_the_dataset"),
    Fault("what is left is rounded up", "budget/budget.py", "return text if Fraction(text) <= number else repr(round_down(number))", "return text", f"{SPENDING}::test_what_is_said_to_be_left_may_be_asked"),
    Fault("mechanisms of other kinds have no price", "budget/loss.py", "return gaussian + laplace + others", "return gaussian + laplace", "tests/certificate/test_release.py::test_what_is_paid_is_at_least_what_is_proved"),
    Fault("the least belief is rounded up", "budget/epsilon_meaning.py", "round_down(least / (1 + least))", "round_up(least / (1 + least))", f"{MEANING}::test_beliefs_and_guesses_are_no_less_than_those_of_high_precision"),
    Fault("a delta of 1 is admitted", "budget/epsilon_delta.py", "if not 0 <= number < 1 or", "if not 0 <= number <= 1 or", f"{SPENDING}::test_what_is_no_budget_is_refused"),
    Fault("chances of events are not compared with the proof", "budget/loss.py", '        ("a chance of events", loss.least_delta, certificate.events),\n', "", "tests/certificate/test_release.py::test_what_is_paid_is_at_least_what_is_proved"),
]  # fmt: skip
