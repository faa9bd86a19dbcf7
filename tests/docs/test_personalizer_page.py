"""The page about Personalizer's API names every route that is answered otherwise than
the original, or not at all."""

from pathlib import Path

import oddsmith as od
from oddsmith.server.compat.personalizer import evaluations, facts
from oddsmith.server.compat.personalizer.routes import TABLE

PAGE = (
    Path(od.__file__).parents[2] / "docs" / "reference" / "personalizer.md"
).read_text()
LEFT_OUT = (
    "logs/interactions",
    "logs/observations",
    "featureImportances",
    "metrics/learning",
)


def test_routes_that_are_left_out_or_different_stand_in_the_table() -> None:
    differences = PAGE.partition("\n## Differences from the original\n")[2]
    ours = {facts.__name__, evaluations.__name__}
    paths = {
        way.route.path.removeprefix("/personalizer/")
        for way in TABLE
        if way.route.handler.__module__ in ours
    }
    assert len(paths) >= 9
    answered = {way.route.path.removeprefix("/personalizer/") for way in TABLE}
    assert not answered & set(LEFT_OUT)
    for path in (*paths, *LEFT_OUT):
        # which is as it was
        assert f"`{path}`" in differences or path == "logs/properties", path
