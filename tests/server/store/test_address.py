"""Addresses as people may see them: no password, wherever it stands."""

from typing import Any

import pytest

import oddsmith as od
from oddsmith.cli.main import main
from oddsmith.server.audit.doctor import doctor
from oddsmith.server.experiment.settings import Settings
from oddsmith.server.store.address import public_address
from oddsmith.server.store.place import open_reader

SECRET = "s3cret"
SHOWN = {
    "postgresql://ann:s3cret@host/db": "postgresql://ann:…@host/db",
    "postgres://ann@host:5432/db": "postgres://ann@host:5432/db",
    "postgresql://host/db?password=s3cret": "postgresql://host/db?…",
    (
        "postgresql://host/db?user=ann&sslpassword=s3cret&passfile=/s3cret"
    ): "postgresql://host/db?…",
    "postgresql://ann:s3cret@host/db?password=s3cret": "postgresql://ann:…@host/db?…",
    "postgresql:///db?host=/run&password=s3cret": "postgresql:///db?…",
    "postgresql://a:5432,b:5433/db?password=s3cret": "postgresql://a:5432,b:5433/db?…",
    "postgresql://[::1]:5432/db?password=s3cret": "postgresql://[::1]:5432/db?…",
    "postgresql://:s3cret@host/db": "postgresql://:…@host/db",
    # not as addresses are written: there is no telling where a password ends
    "postgresql://ann:x#s3cret@host/db": "postgresql://…",
    "postgresql://ann:x/s3cret@host/db": "postgresql://…",
    "postgresql://ann:12/s3cret@host/db": "postgresql://…",
    "postgresql://ann:x?s3cret@host/db": "postgresql://…",
    "postgresql://ann:s3cret@x@host/db": "postgresql://…",
    "postgresql://ann:s3cret": "postgresql://…",
    "postgresql://host/db?password=x@s3cret": "postgresql://…",
    "postgresql://host/db#s3cret": "postgresql://…",
    "mysql://ann:s3cret@host/db": "mysql://…",
    "/srv/news.sqlite": "/srv/news.sqlite",
    "with@at and #.sqlite": "with@at and #.sqlite",
}


@pytest.mark.parametrize("place", SHOWN)
def test_passwords_are_not_shown(place: str) -> None:
    assert public_address(place) == Settings(place).place == SHOWN[place]


@pytest.mark.parametrize("place", [place for place in SHOWN if SECRET in place])
def test_nor_by_refusals_of_the_store_the_driver_and_the_doctor(
    place: str, capsys: Any, caplog: Any
) -> None:
    local = (
        place.replace("@host", "@127.0.0.1:1")
        .replace("//host", "//127.0.0.1:1")
        .replace("host=/run", "host=/no")
    )
    local = local.replace("a:5432,b:5433", "127.0.0.1:1,127.0.0.1:2").replace(
        "]:5432", "]:1"
    )
    with pytest.raises(od.OddsmithError) as caught:
        open_reader(local, "news")
    findings = doctor([local])
    assert main(["doctor", local]) == 3
    said = capsys.readouterr()
    for text in (str(caught.value), str(findings), said.out, said.err, caplog.text):
        assert SECRET not in text
