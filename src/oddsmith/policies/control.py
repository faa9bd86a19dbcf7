"""Control: the policy with which another policy is compared, as propensities per
decision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import Context, Step
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import hint
from oddsmith.core.offer import OfferBatch
from oddsmith.core.policy import Policy, check_policy

__all__ = ["Control", "ControlKind"]

ControlKind: TypeAlias = Literal["first", "uniform", "arm", "incumbent", "policy"]
_PLAIN: tuple[ControlKind, ...] = ("first", "uniform", "incumbent")
_ARM = "arm:"
_ALLOWED = 'a policy, "first", "uniform", "incumbent" or "arm:NAME"'


@dataclass(frozen=True, eq=False)
class Control:
    """The control of an experiment.

    * `first`: the first eligible arm, in the order of the policy or of the call.
    * `uniform`: every eligible arm with the same propensity.
    * `arm`: one arm by name or, if it is not eligible, the first eligible arm.
    * `policy`: the odds of a policy that does not learn.
    * `incumbent`: the caller's own choice, which only the caller knows.

    >>> Control.of("arm:blue").odds(None, ("red", "blue"), None, 2)
    array([0., 1.])
    """

    kind: ControlKind
    arm: str | None = None
    policy: Policy | None = None
    name: str = ""

    @classmethod
    def of(cls, given: object, name: str | None = None) -> "Control":
        """Return the control described by a policy or a text."""
        if isinstance(given, Control):
            return given
        if isinstance(given, Policy):
            check_policy(given)
            return cls("policy", policy=given, name=name or type(given).__name__)
        if isinstance(given, str) and given.startswith(_ARM) and len(given) > len(_ARM):
            return cls("arm", arm=given.removeprefix(_ARM), name=given)
        for kind in _PLAIN:
            if given == kind:
                return cls(kind, name=kind)
        near = hint(given, _PLAIN) if isinstance(given, str) else ""
        raise InvalidInput(f"control must be {_ALLOWED}; got {given!r:.60}{near}")

    def check_arms(self, arms: Sequence[str] | None) -> None:
        """Raise if the control belongs to other arms. None means that arms are passed
        in each call."""
        if arms is None:
            return
        if self.arm is not None and self.arm not in arms:
            raise InvalidInput(
                f"control must be one of the arms {list(arms)[:8]}; got {self.arm!r}"
                f"{hint(self.arm, arms)}"
            )
        own = None if self.policy is None else self.policy.arms
        if own is not None and list(own) != list(arms):
            raise InvalidInput(
                f"control must have the arms {list(arms)[:8]}, in this order; got "
                f"{list(own)[:8]}"
            )

    def odds(
        self,
        question: Context,
        names: Any,
        eligible: Bools | None,
        n_arms: int,
        *,
        rows: int | None = None,
        step: Step = None,
    ) -> Array:
        """Return the propensities (…, K) of the control.

        `question` is the context or the offer. `names` are the arms' names, one list
        per row if rows have different arms. A batch of `rows` contexts has propensities
        (rows, K).
        """
        shape = (n_arms,) if rows is None else (rows, n_arms)
        mask = np.broadcast_to(True if eligible is None else eligible, shape)
        if self.policy is not None:
            return self._policy_odds(question, eligible, shape, step)
        if self.kind == "uniform":
            odds: Array = mask / mask.sum(axis=-1, keepdims=True)
            return odds
        if self.kind == "incumbent":
            raise InvalidInput(
                "control must not be an incumbent here, because only the caller knows "
                "its propensities"
            )
        chosen = mask.argmax(axis=-1)
        if self.arm is not None:
            chosen = self._places(question, names, mask, chosen)
        one_hot: Array = (np.arange(n_arms) == chosen[..., None]).astype(np.float64)
        return one_hot

    def _places(self, question: Context, names: Any, mask: Bools, first: Any) -> Any:
        """Return the number of the control's arm (…), or of the first eligible one."""
        if isinstance(question, OfferBatch):
            rows = zip(names, mask, first, strict=True)
            return np.array([self._place(*row) for row in rows])
        if mask.ndim == 1:
            return np.asarray(self._place(names, mask, first))
        return np.array(
            [self._place(names, *row) for row in zip(mask, first, strict=True)]
        )

    def _place(self, names: Sequence[str] | None, mask: Bools, first: Any) -> int:
        if names is None:
            raise InvalidInput(
                f"control must be the name of an arm; got {self.arm!r}, but arms have "
                "no names"
            )
        known = list(names)
        if self.arm in known and mask[known.index(self.arm)]:
            return known.index(self.arm)
        return int(first)

    def _policy_odds(
        self,
        question: Context,
        eligible: Bools | None,
        shape: tuple[int, ...],
        step: Step,
    ) -> Array:
        policy = self.policy
        assert policy is not None
        state = policy.init()
        odds = policy.odds(state, question, eligible=eligible, step=step).propensities
        if odds.shape[-1:] != shape[-1:]:
            raise InvalidInput(
                f"control must have {shape[-1]} arms; got propensities over "
                f"{odds.shape[-1]}"
            )
        return np.broadcast_to(odds, shape)
