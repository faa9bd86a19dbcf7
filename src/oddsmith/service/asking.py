"""Panel: asks the experts, within their time, and has the judge weigh what they say."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from typing import Any

from oddsmith.arrays import Array, Bools
from oddsmith.decision import Odds
from oddsmith.errors import InvalidInput
from oddsmith.experts.answered import Answer
from oddsmith.experts.guarded import Guarded
from oddsmith.service.learner import Now

__all__ = ["Panel"]

_THREADS = 8


class Panel:
    """Where experts are asked: our own banks on the event loop, other people's code in threads, for it may be slow.

    Policies without a judge are asked for their odds as they are.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="experts")  # which start when they are needed

    async def odds(self, now: Now, context: Any, eligible: Bools | None, step: int) -> tuple[Odds, Array | None]:
        """The odds in this context, and the votes they were made from."""
        if now.judge is None or now.experts is None:
            return await self._whole(now, context, eligible, step), None
        if isinstance(now.experts, Guarded) and now.experts.inline:
            answer = Answer(*now.experts.advise(now.state.experts, context, eligible))
            if not answer.ballots.any() and (said := now.experts.objection(now.state.experts, context, eligible)):
                raise said  # nobody is broken: it is the context
        else:
            own = deepcopy(context)  # which they may write into, also when they are late: what is recorded stays
            ask = partial(now.experts.advise, now.state.experts, own, eligible)
            answer = Answer(*await asyncio.get_running_loop().run_in_executor(self._threads, ask))
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
        self._threads.shutdown(wait=False, cancel_futures=True)
