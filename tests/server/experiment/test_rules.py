"""Rules in the service: arms are not eligible, propensities are exact, and the log has
the reasons."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.files.policy import read_policy
from oddsmith.server.audit import verify
from oddsmith.server.audit.story import story_of
from oddsmith.server.store import open_reader
from server.served import here, place, place_for_anything

LINES = '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n'


def rules(*tables: str) -> str:
    return "".join(f"[[rules]]\n{table}\n" for table in tables)


def test_rules_bar_arms_and_the_log_says_so(tmp_path: Path) -> None:
    """The experts read any context; a rule reads the age, another the arm."""
    path = place_for_anything(tmp_path)
    text = path.read_text() + rules(
        'never = ["tech"]\nwhen = "age < 18"', 'never = ["sports"]\nwhen = "vip"'
    )
    path.write_text(text)
    with here(path) as served:
        now = served.experiment().follower.now
        for context, free, barred in (
            ({"age": 30}, [1, 1, 1], {}),
            ({"age": 17}, [1, 1, 0], {"tech": "rule 1"}),
            (
                {"age": 17, "vip": True},
                [0, 1, 0],
                {"tech": "rule 1", "sports": "rule 2"},
            ),
        ):
            mask = np.array(free, dtype=bool)
            odds = now.policy.odds(now.state, context, eligible=mask).propensities
            id = f"v{len(barred)}"
            answer = served.post("decide", {"id": id, "context": context})
            assert list(answer["odds"].values()) == odds.tolist()
            record = served.get(f"/v1/decisions/{id}")
            assert record["barred"] == barred
            names = ("sports", "politics", "tech")
            eligible = [name for name in names if name not in barred]
            assert record["eligible"] == (eligible if barred else None)
            served.reward(id, 1.0)
        body = {"context": {"age": 3, "vip": True}, "eligible": ["tech", "sports"]}
        refused = served.post("decide", body, 422)
        assert "tech (rule 1)" in refused["error"]
        slate = served.post("decide", {"context": {"age": 3}, "slots": 2})
        assert {slot["arm"] for slot in slate["slots"]} == {"sports", "politics"}
        assert "must not outnumber" in str(
            served.post("decide", {"context": {"age": 3}, "slots": 3}, 422)
        )
    with closing(open_reader(str(path.with_suffix(".sqlite")))) as store:
        for policy in (None, read_policy(path).policy):
            report = verify(store, policy=policy)
            assert report.holds, str(report)
        assert "Not eligible: tech (rule 1)" in str(story_of(store, "v1"))
        assert store.about["design"]["rules"][0]["when"] == "age < 18"


def test_rules_read_features_of_offered_arms(tmp_path: Path) -> None:
    path = place_for_anything(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("arms"))
    path.write_text(text + rules("when = 'age < 18 and arm.topic == \"beer\"'"))
    arms = {"a": {"topic": "beer"}, "b": {"topic": "tea"}, "c": None}
    with here(path) as served:
        for age, free in ((17, {"b", "c"}), (18, {"a", "b", "c"})):
            body = {"context": {"age": age}, "arms": arms}
            answer = served.post("decide", body)
            odds: dict[str, Any] = answer["odds"]
            assert {arm for arm, p in odds.items() if p > 0} == free


def test_a_changed_rule_is_an_event(tmp_path: Path) -> None:
    path = place(tmp_path, experts=LINES + rules('never = ["tech"]'))
    with here(path) as served:
        assert served.decide("v1")["odds"]["tech"] == 0
    path = place(tmp_path, experts=LINES + rules('never = ["sports"]'))
    with here(path) as served:
        odds = served.decide("v2")["odds"]
        assert (odds["sports"], odds["tech"] > 0) == (0, True)
        (line,) = served.inner().of_setting("design")
        assert "sports" in str(line.body)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('never = ["tech"]\nwhen = "age <"', "rules 1.*character 6"),
        ('never = "tech"', "rules 1.never must be a list"),
        ('never = ["tehc"]', "did you mean tech"),
        ("", "rules 1.*got neither"),
        ('never = ["tech"]\nif = "x"', "did you mean|is not a key"),
    ],
)
def test_wrong_rules_are_refused_when_the_file_is_read(
    tmp_path: Path, table: str, message: str
) -> None:
    path = place(tmp_path, experts=LINES + rules(table))
    with pytest.raises(od.InvalidInput, match=message):
        read_policy(path)
