"""Log files: formats, folders and numbers of lines."""

from pathlib import Path

from oddsmith.core.errors import BadFile, InvalidInput
from oddsmith.logs import dsjson, jsonl

__all__ = ["SUFFIXES", "files_in", "form_of", "lines_in", "path_of"]

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".dsjson": "dsjson",
} | dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl")
"""Format by file suffix."""


def files_in(folder: Path, form: str | None) -> list[Path]:
    """Return the log files of a folder in the order of their names, all of one format.
    Files whose names begin with a point or _ are skipped."""
    files = []
    for path in sorted(folder.iterdir()):
        if not path.is_file() or path.name.startswith((".", "_")):
            continue
        if form is not None or path.suffix.lower() in SUFFIXES:
            files.append(path)
    if not files:
        raise BadFile(
            f"{folder} must have log files in it ({', '.join(SUFFIXES)}); it has none"
        )
    if form is not None:
        return files
    forms: dict[str, Path] = {}
    for path in files:
        forms.setdefault(form_of(path), path)
    if len(forms) > 1:
        some = " and ".join(f"{path.name} ({one})" for one, path in forms.items())
        raise BadFile(
            f"{folder} must have log files of one format; it has {some}: name the "
            "files of the log"
        )
    return files


_LOOKS = 16  # number of positions at which the lines of a text file are sampled
_LOOK = 65_536  # bytes per sample


def lines_in(path: Path) -> int:
    """Return the number of lines of a text file: exact for a small file, otherwise
    estimated from sampled line lengths."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= _LOOKS * _LOOK:
            return file.read().count(b"\n")
        lines = 0
        for look in range(_LOOKS):
            file.seek(look * (size - _LOOK) // (_LOOKS - 1))
            lines += file.read(_LOOK).count(b"\n")
    return round(size * lines / (_LOOKS * _LOOK))


def path_of(source: object) -> Path:
    """Return the path of a file that exists."""
    if not isinstance(source, str | Path):
        raise InvalidInput(
            "source must be a path, a Log, or a table with the Arrow stream interface; "
            f"got {type(source).__name__}"
        )
    path = Path(source)
    if not path.is_file():
        problem = "it is a folder" if path.is_dir() else "there is none"
        raise BadFile(f"{path} must be a file; {problem}")
    return path


def form_of(path: Path) -> str:
    """Return the format by suffix, and for JSON by the first line."""
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise BadFile(
            f"{path} must end in one of {', '.join(SUFFIXES)}; give format=… for any "
            "other name"
        )
    if form == "jsonl":
        _, rows = next(jsonl.objects(path, 1), (0, [{}]))
        if dsjson.looks_like(rows[0]):
            return "dsjson"
    return form
