"""Panel: a policy's real experts, asked again in the contexts of old decisions."""

from collections.abc import Callable

import numpy as np

from oddsmith.audit.checks import CLOSE, Opinions, check_advice, same_odds
from oddsmith.audit.verdicts import CheckResult, Untested
from oddsmith.audit.walking import Visit
from oddsmith.contexts import single
from oddsmith.decision import Context, Decision, State
from oddsmith.experts.base import Experts
from oddsmith.experts.guarded import Guarded
from oddsmith.policies.base import Policy
from oddsmith.policies.judge import gts_inside
from oddsmith.storage.base import Erased
from oddsmith.storage.folding import Folded

__all__ = ["Panel"]


class Panel:
    """Asks without a limit of time; an expert that raises sleeps."""

    def __init__(self) -> None:
        self._policy: Policy | None = None
        self._bank: Experts | None = None

    def advice_answer(self, visit: Visit) -> CheckResult:
        """Whether the experts say what was recorded."""
        return self._answer(visit, self._check_advice)

    def odds_answer(self, visit: Visit) -> CheckResult:
        """Whether the policy, with its models, gives the recorded odds, to 1e-9."""
        return self._answer(visit, _check_odds)

    def _answer(self, visit: Visit, check: Callable[[Visit, Folded, Decision], CheckResult]) -> CheckResult:
        """What a check says, where the experts can be asked."""
        if visit.folded is None or visit.decision is None:
            return Untested(visit.why or "the state it was made with is not known", visit.erased)
        if isinstance(visit.decision.context, Erased) or isinstance(visit.decision.features, Erased):
            return Untested("its context was erased", excused=True)
        try:
            return check(visit, visit.folded, visit.decision)
        except Exception as error:  # whatever the experts of others raise
            return Untested(f"the experts cannot be asked: {type(error).__name__}")

    def _check_advice(self, visit: Visit, folded: Folded, decision: Decision) -> CheckResult:
        if decision.advice is None:
            return Untested("it has no advice")
        opinions = self._ask(folded.policy, folded.state, decision)
        if opinions is None:
            return Untested("its policy records no advice", excused=True)
        return check_advice(decision, visit.evidence.votes, opinions)

    def _ask(self, policy: Policy, state: State, decision: Decision) -> Opinions | None:
        inner, context = gts_inside(policy), _question(decision)
        if inner is None:
            advice = policy.odds(state, context, eligible=decision.eligible, step=decision.step).advice
            names = [f"expert {i}" for i in range(0 if advice is None else len(advice))]
            return None if advice is None else Opinions(names, advice, None, np.True_)
        if policy is not self._policy or self._bank is None:
            bank = inner.experts
            self._policy, self._bank = policy, Guarded(bank.experts if isinstance(bank, Guarded) else bank)
        answer = self._bank.advise(state.experts, context, decision.eligible)
        return Opinions(inner.experts.names, *answer, inner.prior > 0)


def _check_odds(_: Visit, folded: Folded, decision: Decision) -> CheckResult:
    context, step = _question(decision), decision.step
    again = folded.policy.odds(folded.state, context, eligible=decision.eligible, step=step)
    return same_odds(decision.propensities, again.propensities, CLOSE)


def _question(decision: Decision) -> Context:
    """What the policy was asked: the offer, or the context."""
    return decision.question if decision.arms is not None else single(decision.context)
