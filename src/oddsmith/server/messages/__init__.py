"""Types of the messages (requests and answers) of the routes."""

__all__: list[str] = []
