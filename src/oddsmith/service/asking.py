"""Panel: asks the experts, within their time, and has the judge weigh what they say."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from oddsmith.arrays import Array, Bools
from oddsmith.decision import Odds, Policy
from oddsmith.errors import InvalidInput
from oddsmith.experts.answered import Answer
from oddsmith.policies.judge import weighed
from oddsmith.service.learner import Now

__all__ = ["Panel"]

_THREADS = 8


class Panel:
    """Where experts are asked: our own banks on the event loop, other people's code in threads, for it may be slow.

    Policies without a judge are asked for their odds as they are.
    """

    def __init__(self, policy: Policy, budget: float) -> None:
        inner: Any = weighed(policy)
        bank = None if inner is None else getattr(inner.experts, "experts", inner.experts)
        self._threads = (
            None if getattr(bank, "own", False) else ThreadPoolExecutor(_THREADS, thread_name_prefix="experts")
        )

    async def odds(self, now: Now, context: Any, eligible: Bools | None, step: int) -> tuple[Odds, Array | None]:
        """The odds in this context, and the votes they were made from."""
        if now.judge is None or now.experts is None:
            return await self._whole(now, context, eligible, step), None
        if self._threads is None:
            answer = Answer(*now.experts.advise(now.state.experts, context, eligible))
        else:
            loop = asyncio.get_running_loop()
            ask = partial(now.experts.advise, now.state.experts, context, eligible)
            answer = Answer(*await loop.run_in_executor(self._threads, ask))
        return now.judge.odds(now.state, answer, eligible=eligible, step=step), answer.ballots

    async def _whole(self, now: Now, context: Any, eligible: Bools | None, step: int) -> Odds:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(
                self._threads, lambda: now.policy.odds(now.state, context, eligible=eligible, step=step)
            )
        except InvalidInput:
            raise
        except Exception as error:  # no guard stands between a policy of one's own and the service
            raise InvalidInput(
                f"context must be one that the policy can read; {type(error).__name__}: {error}"
            ) from error

    def close(self) -> None:
        """End the threads; a call that never returns is left behind."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
