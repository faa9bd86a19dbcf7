"""First policy file for the Personalizer-compatible API (`start_policy_file`): arms are
passed in each call, and rewards are from -1 to 1."""

from pathlib import Path

from oddsmith.core.errors import BadFile, InvalidInput
from oddsmith.files.policy import EXPERIMENT_NAME

__all__ = ["MADE", "start_policy_file"]

MADE = "{} was not there, and is made: arms come with the call, rewards go from -1 to 1"
"""What to say of a policy file that was made."""

_TEXT = """\
# The lines: "Policy files" and "The service" in the reference of oddsmith.
# Arms come with each call. Rewards and window are those of Personalizer.

[policy]
kind = "auto"

[reward]
low = -1
high = 1

[service]
store = "{name}.sqlite"
window_s = 600
default_reward = 0
"""


def start_policy_file(path: Path) -> bool:
    """Create the policy file and return True. Return False if it already exists; raise
    if it cannot be created."""
    if path.exists():
        return False
    if not path.parent.is_dir():
        raise InvalidInput(
            f"{path} must be in a folder that exists; got {str(path.parent)!r}: make "
            "it first"
        )
    if path.suffix != ".toml" or not EXPERIMENT_NAME.fullmatch(path.stem):
        allowed = "1 to 64 of a-z, 0-9, - and _, then .toml"
        raise InvalidInput(
            f"a policy file that is to be made must be named {allowed}; got "
            f"{path.name!r:.80}"
        )
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(_TEXT.format(name=path.stem))
    except FileExistsError:  # another process has created it in the meantime
        return False
    except OSError as error:
        raise BadFile(
            f"{path} must be a place where a file can be written; "
            f"{error.strerror or error}"
        ) from error
    return True
