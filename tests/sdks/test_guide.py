"""The guide "From Personalizer": its client, as the page has it."""

import re
import sys
from pathlib import Path

import pytest

from docs.test_from_personalizer import COMMANDS, PAGE
from docs.test_service_walks import printed, served


def test_the_client_of_the_page(tmp_path: Path) -> None:
    pytest.importorskip(
        "azure.cognitiveservices.personalizer",
        reason="Personalizer's SDK is not installed",
    )
    (program,) = re.findall(r"^```py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    with served(tmp_path, COMMANDS[-1][0]) as port:
        more = (
            "from azure.cognitiveservices.personalizer.models import RankRequest, "
            "RankableAction\n"
            "actions = [RankableAction(id=name, features=[{'topic': name}]) for name "
            "in ('art', 'tech')]\n"
            "answer = client.rank(RankRequest(actions=actions, "
            "context_features=[{'hour': 9}]))\n"
            "client.events.reward(answer.event_id, value=-1.0)\n"
            "print(answer.reward_action_id, len(answer.ranking))\n"
        )
        said = printed(
            sys.executable, "-c", program.replace(":8000", f":{port}") + more
        )
    assert re.fullmatch(r"(art|tech) 2\n", said)
    assert (tmp_path / "news.toml").exists()
