"""Bodies of decisions, contexts, facts and snapshots changed, dropped and moved."""

import sqlite3
from typing import Any

import numpy as np

from oddsmith.files.state import pack, unpack
from oddsmith.policies.roster import add_expert as added
from oddsmith.policies.roster import retire_expert as retired
from server.audit.served import ARMS, SEED
from server.audit.tampering import (
    BENCH,
    LIVES,
    MINE,
    MODELS,
    PLAIN,
    STRICT,
    about,
    body_of,
    fact,
    home,
    nth,
    numbers,
    put_numbers,
    rewrite,
    tampering,
)


@tampering(PLAIN)
def arm(c: sqlite3.Connection) -> None:
    other = (body_of(c, nth(c))["index"] + 1) % 3
    rewrite(c, nth(c), index=other, arm=ARMS[other], eligible=None)


@tampering(PLAIN)
def arm_under_another_name(c: sqlite3.Connection) -> None:
    rewrite(c, nth(c), arm="golf")


@tampering(PLAIN)
def odds(c: sqlite3.Connection) -> None:
    content = numbers(c, nth(c))
    values = np.frombuffer(content, dtype="<f8", count=3)
    values[1] = np.nextafter(values[1], 1.0)
    put_numbers(c, nth(c), bytes(content))


@tampering(STRICT)
def arm_and_odds_of_an_incumbent_that_was_none(c: sqlite3.Connection) -> None:
    other = (body_of(c, nth(c))["index"] + 1) % 3
    content = numbers(c, nth(c))
    np.frombuffer(content, dtype="<f8", count=3)[:] = np.eye(3)[other]
    put_numbers(c, nth(c), bytes(content))
    rewrite(c, nth(c), index=other, arm=ARMS[other], eligible=None, shadow=True)


@tampering(LIVES)
def odds_of_an_incumbent_that_was_none(c: sqlite3.Connection) -> None:
    content, number = numbers(c, nth(c)), body_of(c, nth(c))["index"]
    shadow = {
        "would": number,
        "odds": np.frombuffer(bytes(content), dtype="<f8", count=3).tolist(),
    }
    np.frombuffer(content, dtype="<f8", count=3)[:] = np.eye(3)[number]
    put_numbers(c, nth(c), bytes(content))
    rewrite(c, nth(c), shadow=shadow)


@tampering(PLAIN)
def vote(c: sqlite3.Connection) -> None:
    content = numbers(c, nth(c, place=15))
    content[-3] = (content[-3] + 1) % 3
    put_numbers(c, nth(c, place=15), bytes(content))


@tampering(STRICT)
def votes_dropped_and_odds_rewritten(c: sqlite3.Connection) -> None:
    content = numbers(c, nth(c))
    number = body_of(c, nth(c))["index"]
    np.frombuffer(content, dtype="<f8", count=3)[:] = np.eye(3)[number]
    put_numbers(c, nth(c), bytes(content))
    rewrite(c, nth(c), votes=...)


@tampering(LIVES)
def step_where_gamma_is_constant(c: sqlite3.Connection) -> None:
    rewrite(c, nth(c), step=10_000)


@tampering(PLAIN)
def body_damaged(c: sqlite3.Connection) -> None:
    c.execute(f"update {home(c)} set body = '{{' where position = ?", (nth(c),))


@tampering(MODELS)
def context(c: sqlite3.Connection) -> None:
    assert (
        c.execute(
            "update contexts set body = '[0.5, 0.25]' where position = ?", (nth(c),)
        ).rowcount
        == 1
    )


@tampering(PLAIN)
def context_dropped(c: sqlite3.Connection) -> None:
    """Erasing takes the oldest first."""
    assert c.execute("delete from contexts where position = ?", (nth(c),)).rowcount == 1


@tampering(LIVES)
def oldest_contexts_dropped(c: sqlite3.Connection) -> None:
    """Which is what erasing does."""
    assert c.execute("delete from contexts where position <= ?", (nth(c),)).rowcount > 1


@tampering(PLAIN)
def seed(c: sqlite3.Connection) -> None:
    about(c, seed=SEED + 1)


@tampering(STRICT)
def seed_dropped(c: sqlite3.Connection) -> None:
    about(c, seed=...)


@tampering(PLAIN)
def arms(c: sqlite3.Connection) -> None:
    about(c, arms=list(ARMS[::-1]))


@tampering(STRICT)
def arms_dropped(c: sqlite3.Connection) -> None:
    about(c, arms=...)


@tampering(PLAIN)
def judge_with_another_gamma(c: sqlite3.Connection) -> None:
    fact(c, "about", lambda facts: facts | {"judge": facts["judge"] | {"gamma": 0.2}})


@tampering(STRICT)
def judge_dropped(c: sqlite3.Connection) -> None:
    about(c, judge=None)


@tampering(PLAIN)
def fingerprint(c: sqlite3.Connection) -> None:
    fact(
        c,
        "fingerprint",
        lambda text: "0" + text[1:] if text[0] != "0" else "1" + text[1:],
    )


@tampering(PLAIN)
def description_of_the_policy(c: sqlite3.Connection) -> None:
    fact(c, "policy", lambda page: page | {"gamma": 0.2})


@tampering(PLAIN)
def names_of_the_experts(c: sqlite3.Connection) -> None:
    fact(c, "experts", lambda names: names[::-1])


@tampering(PLAIN)
def reward_rule(c: sqlite3.Connection) -> None:
    fact(c, "rule", lambda rule: "sum")


@tampering(MODELS)
def units_of_rewards(c: sqlite3.Connection) -> None:
    about(c, reward=[0.0, 20.0])


@tampering(MODELS)
def name_of_the_experiment(c: sqlite3.Connection) -> None:
    about(c, experiment="sport")


@tampering(PLAIN)
def snapshot_of_another_state(c: sqlite3.Connection) -> None:
    content = c.execute("select content from snapshots").fetchone()[0]
    grown = roster()
    state, meta = unpack(content, grown, "it")
    forged = state._replace(log_weights=np.nextafter(state.log_weights, -9.0))
    position = {"position": meta["position"]}
    c.execute("update snapshots set content = ?", (pack(grown, forged, position),))


@tampering(PLAIN)
def snapshot_moved(c: sqlite3.Connection) -> None:
    c.execute("update snapshots set position = position - 60")


@tampering(PLAIN)
def snapshot_damaged(c: sqlite3.Connection) -> None:
    c.execute("update snapshots set content = substr(content, 1, 200)")


@tampering(LIVES)
def snapshot_dropped(c: sqlite3.Connection) -> None:
    """It is only a help: the log is folded."""
    c.execute("delete from snapshots")


def roster() -> Any:
    """The policy after all changes of `lived`."""
    grown, state = added(MINE, MINE.init(), "late", 0.2, BENCH["late"])
    return retired(grown, state, "b")[0]
