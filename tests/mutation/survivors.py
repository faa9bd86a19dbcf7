"""What became of a module's mutants: killed, explained on the page, or living."""

import ast
import difflib
import json
from pathlib import Path
from typing import NamedTuple

__all__ = ["Result", "Survivor", "result_of"]

_LIVES = (0, 33)  # mutmut's codes: all tests passed; no test came by


class Survivor(NamedTuple):
    """A change that no test noticed: where, and the line before and after."""

    function: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.function}\n    - {self.before}\n    + {self.after}"


class Result(NamedTuple):
    """The numbers of one module, and what lives there without a reason."""

    module: str
    mutants: int
    killed: int
    explained: int
    living: list[Survivor]

    def row(self) -> str:
        """A row of the table."""
        share = (self.killed + self.explained) / max(self.mutants, 1)
        numbers = (
            f"{self.mutants} | {self.killed} | {self.explained} | {len(self.living)}"
        )
        return f"| `{self.module}` | {numbers} | {share:.1%} |"


def result_of(module: str, mutated: Path, page: str) -> Result:
    """Read what mutmut left beside the mutated file; a survivor is explained where the
    page has it."""
    codes: dict[str, int | None] = json.loads(
        mutated.with_name(mutated.name + ".meta").read_text()
    )["exit_code_by_key"]
    if None in codes.values():
        raise RuntimeError(
            f"mutmut did not finish {module}; see mutmut.log under build/mutants"
        )
    bodies = _bodies(mutated.read_text())
    survivors = [
        _survivor(name.rpartition(".")[2], bodies)
        for name, code in codes.items()
        if code in _LIVES
    ]
    explained = [
        survivor
        for survivor in survivors
        if f"* `{module}`, `{survivor.function}`: `{survivor.after}`" in page
    ]
    living = [survivor for survivor in survivors if survivor not in explained]
    return Result(
        module, len(codes), len(codes) - len(survivors), len(explained), living
    )


def _bodies(source: str) -> dict[str, list[str]]:
    """The lines of every mutant, and of the functions they were made from."""
    lines, found = source.splitlines(), {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and "__mutmut_" in node.name:
            found[node.name] = [
                line.strip()
                for line in lines[node.body[0].lineno - 1 : node.end_lineno]
            ]
            arguments = ast.unparse(node.args)
            found[node.name].insert(0, arguments)
    return found


def _survivor(name: str, bodies: dict[str, list[str]]) -> Survivor:
    plain = name.rpartition("__mutmut_")[0]
    lines = list(
        difflib.unified_diff(
            bodies[f"{plain}__mutmut_orig"], bodies[name], lineterm="", n=0
        )
    )[2:]
    before, after = (
        " ".join(line[1:] for line in lines if line[0] == sign) for sign in "-+"
    )
    return Survivor(
        plain.removeprefix("x_").removeprefix("xǁ").replace("ǁ", "."), before, after
    )
