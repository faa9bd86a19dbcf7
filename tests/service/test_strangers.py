"""Who has no key, or does not behave, gets a refusal and holds nothing up."""

import socket

from oddsmith.service.limits import HttpScope, Limits
from oddsmith.service.response import Refusal, Response
from oddsmith.service.wire import server_config
from service.live import Echo, listen, serving, talk

HOST = b"Host: 127.0.0.1\r\n"
POST = b"POST /v1/decide HTTP/1.1\r\n" + HOST


def test_who_is_refused_by_the_head_alone_may_go_on_after_a_short_body() -> None:
    """A body that is still on its way is dropped; one that may be long, or does not end, ends the connection."""

    def enter(scope: HttpScope) -> HttpScope | Response:
        known = any(name == b"authorization" for name, _ in scope["headers"])
        return scope if known else Refusal(401, "unauthorized", "no").response()

    app = Echo()
    with serving(server_config(Limits(app, enter=enter), host="127.0.0.1", port=0)) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            for _ in range(3):
                line.sendall(POST + b"Content-Length: 10\r\n\r\n")
                assert listen(line).status == 401
                line.sendall(b"0123456789")
            line.sendall(POST + b"Authorization: x\r\nContent-Length: 10\r\n\r\n0123456789")
            assert listen(line).body == b'{"bytes": 10}'
        for long in (b"Content-Length: 2000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"):
            answer = talk(port, POST + long)
            assert (answer.status, answer.headers["connection"]) == (401, "close")
    assert app.asked == 1
