"""Ids that programs send: of events, slots and evaluations, as text, and that of the request itself."""

from oddsmith.errors import InvalidInput
from oddsmith.service.doors.door import Visit
from oddsmith.service.doors.personalizer.messages import Id
from oddsmith.storage.events import LONGEST_ID, is_id

__all__ = ["checked_id", "event_id", "request_id", "text_of"]


def text_of(id: Id) -> str:
    """An id as text; numbers are written as JSON has them."""
    return id if isinstance(id, str) else str(id)


def checked_id(what: str, given: Id) -> str:
    """An id as text; one that cannot be kept is refused."""
    id = text_of(given)
    if not is_id(id):
        raise InvalidInput(f"{what} must have 1 to {LONGEST_ID} characters, none of them NUL; got {id!r:.60}")
    return id


def request_id(visit: Visit) -> str | None:
    """The id of the request, by which one that is sent again is known; None where there is none that can be kept."""
    sent = visit.header(b"x-ms-client-request-id")
    return sent if is_id(sent) else None


def event_id(given: Id | None, visit: Visit) -> str | None:
    """The id of an event: as it is given, or that of the request, so that one that is sent again is no second event."""
    return request_id(visit) if given is None else checked_id("eventId", given)
