"""The modules that are mutated, and the tests that must notice: those of their room,
and the module's own examples."""

__all__ = ["IGNORED", "MODULES", "SLOW"]

MODULES: dict[str, tuple[str, ...]] = {
    "core/weights": ("tests/core/test_weights.py",),
    "core/losses": ("tests/core/test_losses.py",),
    "core/decision": ("tests/core/test_decision.py",),
    "core/draw": ("tests/core/test_drawing.py",),
    "core/gts": (
        "tests/core/test_gts.py",
        "tests/core/test_gts_formula.py",
        "tests/core/test_gts_refusals.py",
    ),
    "policies/bounds": (
        "tests/policies/test_bounds.py",
        "tests/policies/test_bounds_verbs.py",
    ),
    "policies/parts/projection": ("tests/policies/test_bounds.py",),
    "theory/constants": (
        "tests/theory/test_constants.py",
        "tests/theory/test_vectors.py",
    ),
    "theory/bounds": (
        "tests/theory/test_bound_parts.py",
        "tests/theory/test_vectors.py",
    ),
    "theory/intervals": ("tests/theory/test_intervals.py",),
    "theory/identities": ("tests/theory/test_identities.py",),
    "theory/expressions": ("tests/theory/test_expressions.py",),
    "theory/proofs": (
        "tests/theory/test_proof_parts.py",
        "tests/theory/test_proofs.py",
    ),
    "theory/conditions": (
        "tests/theory/test_certificates.py",
        "tests/theory/test_certify.py",
    ),
    "core/checks": ("tests/core/test_checks.py",),
    "experts/ballots": (
        "tests/experts/learners/test_ballots.py",
        "tests/policies/test_rivals.py",
    ),
    "experts/learners/name_table": ("tests/experts/learners/test_name_table.py",),
    "experts/learners/pool": ("tests/experts/learners/test_pool.py",),
    "files/dependencies": (
        "tests/files/test_dependency_values.py",
        "tests/files/test_dependencies.py",
    ),
    "lab/checks": ("tests/lab/worlds/test_own_world.py", "tests/core/test_checks.py"),
    "evaluation/estimators": (
        "tests/evaluation/test_terms_by_hand.py",
        "tests/evaluation/test_estimators.py",
    ),
    "evaluation/intervals": (
        "tests/evaluation/test_diagnostics_by_hand.py",
        "tests/evaluation/test_intervals.py",
        "tests/evaluation/test_anytime.py",
        "tests/evaluation/test_drawn_odds.py",
    ),
    "evaluation/diagnostics": (
        "tests/evaluation/test_diagnostics_by_hand.py",
        "tests/evaluation/test_refusals.py",
        "tests/evaluation/test_missing_rewards.py",
        "tests/evaluation/test_rounding.py",
    ),
    "evaluation/terms": (
        "tests/evaluation/test_terms_by_hand.py",
        "tests/evaluation/test_intervals.py",
        "tests/evaluation/test_anytime.py",
    ),
    "evaluation/rows": (
        "tests/evaluation/test_rounding.py",
        "tests/evaluation/test_terms_by_hand.py",
    ),
    "evaluation/bets": (
        "tests/evaluation/test_anytime.py",
        "tests/evaluation/test_missing_rewards.py",
    ),
    "evaluation/mean_bounds": ("tests/evaluation/test_anytime.py",),
    "server/fold/accounts": ("tests/server/fold/test_accounts.py",),
    "server/fold/fold": ("tests/server/fold/test_fold.py",),
}
SLOW = (
    "ostgres",
    "own_losses_say",
    "exact_constants_of_square",
    "cover_at_every_time",
    "cover_at_every_row",
    "refused_or_covered",
    "healthy_logs_are_answered",
    "taken_as_exact",
    "without_the_rule",
    "are_covered_by",
    "anytime_cover",
    "answers_cover",
    "chosen_settings_do_better",
)
"""Words of names of tests that are left out: they take long and notice nothing that
others do not."""

IGNORED = (r"^\s*raise ",)
"""Lines that are not mutated: what an error says. Tests pin the sentences that
matter."""
