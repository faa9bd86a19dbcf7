"""Policy files of feature flags: a boolean one, and others of every kind of value,
beside what is no flag."""

from pathlib import Path

POLICY = '[policy]\nkind = "auto"\nsize = "small"\n'
STICKY = "[service]\nsticky = true\ntimeout_ms = 60000\n"


def flag(
    folder: Path,
    name: str,
    arms: str = "['on', 'off']",
    more: str = "",
    service: str = STICKY,
) -> Path:
    """The policy file of a flag; `more` are further tables."""
    path = folder / f"{name}.toml"
    path.write_text(f"arms = {arms}\nseed = 5\n{POLICY}{more}{service}")
    return path


def all_kinds(folder: Path) -> list[Path]:
    """One flag of each kind, and three experiments that are none."""
    kinds = {
        "checkout": "{on = true, off = false}",
        "size": "{on = 3, off = 5}",
        "speed": "{on = 1, off = 2.5}",
        "look": "{on = {colour = 'red', sizes = [1, 2]}, off = {}}",
    }
    files = [
        flag(folder, name, more=f"[flag]\nvalues = {values}\n")
        for name, values in kinds.items()
    ]
    files.append(flag(folder, "banner", "['sports', 'é/ tech']"))
    files.append(flag(folder, "each-time", service="[service]\ntimeout_ms = 60000\n"))
    files.append(flag(folder, "watched", service=STICKY + "shadow = true\n"))
    site = folder / "site.toml"
    site.write_text(f"seed = 5\n{POLICY}{STICKY}")
    return [*files, site]
