"""Colours and fonts of pages and reports in both themes, defined only here.

The style sheet of the dashboard has the same values, and a test compares the two. The
eight colours of lines are those of Okabe and Ito, darker on a light background and
lighter on a dark one. The contrast with the background is at least 3:1 for lines and
4.5:1 for text.
"""

__all__ = [
    "COLOURS",
    "EDGE",
    "INK",
    "MONO",
    "RULE",
    "SHEET",
    "SOFT",
    "THEMES",
    "TYPE",
    "variables",
]

# colour names: on light background, on dark background
THEMES: dict[str, tuple[str, str]] = {
    "ground": ("#f4f5f7", "#101317"),
    "sheet": ("#ffffff", "#171b21"),
    "raised": ("#f0f2f4", "#20262e"),
    "ink": ("#1d2126", "#e8eaed"),
    "soft": ("#565d66", "#a3abb5"),
    "rule": ("#dcdfe3", "#2e353e"),
    "edge": ("#868d96", "#6d7681"),
    "link": ("#005a9c", "#8ab4ff"),
    "well": ("#00674b", "#4fd0a5"),
    "look": ("#8a5a00", "#f0b429"),
    "broken": ("#b3261e", "#ff8a80"),
    "c1": ("#005a9c", "#6f9dff"),
    "c2": ("#b83a00", "#f06a2a"),
    "c3": ("#008563", "#1fb58a"),
    "c4": ("#c25a98", "#e59bc8"),
    "c5": ("#a87e00", "#f2c230"),
    "c6": ("#3592cc", "#7cd0f7"),
    "c7": ("#23282e", "#e9ecef"),
    "c8": ("#7b828b", "#868e98"),
}
TYPE = (
    'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
)
MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'
COLOURS = tuple(THEMES[f"c{i}"][0] for i in range(1, 9))
"""The colours of lines, as figures are drawn: on light ground."""
INK, SOFT, EDGE, RULE, SHEET = (
    THEMES[name][0] for name in ("ink", "soft", "edge", "rule", "sheet")
)

_DRAWN = ("ink", "soft", "edge", "rule", "sheet", *(f"c{i}" for i in range(1, 9)))


def variables() -> str:
    """Return CSS with colours and fonts as variables, and with rules that apply them to
    the shapes of figures.

    The dark theme applies only on screens, because paper is white. Figures have the
    light colours as attributes.
    """
    light = ";".join(f"--{name}:{colour}" for name, (colour, _) in THEMES.items())
    dark = ";".join(f"--{name}:{colour}" for name, (_, colour) in THEMES.items())
    lines = [
        f":root{{color-scheme:light;{light};--type:{TYPE};--mono:{MONO}}}",
        (
            "@media screen and "
            f"(prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}"
        ),
    ]
    for name in _DRAWN:
        colour, _ = THEMES[name]
        for part in ("fill", "stroke"):
            lines.append(f'[{part}="{colour}"]{{{part}:var(--{name})}}')
    return "\n".join(lines)
