"""The rows of what is not rank, reward or activate: policy, model, logs, status and
evaluations."""

from typing import Any

from server.compat.personalizer_table import PREVIEWS, V22, Row

__all__ = ["REST", "ask"]

_POLICY, _APPLY = "/configurations/policy", "/configurations/applyFromEvaluation"
_CONTRACT = "InvalidEvaluationContract"


def ask(**more: Any) -> dict[str, Any]:
    """The body of an evaluation."""
    times = {
        "startTime": "2020-01-01T00:00:00Z",
        "endTime": "2099-01-01T00:00:00.0000000Z",
    }
    return {"name": "all of it", **times, "policies": []} | more


def _bad(what: str, code: str = _CONTRACT, **more: Any) -> Row:
    return Row(f"evaluations: {what}", "POST", "/evaluations", 400, ask(**more), code)


def _policies(n: int, name: str = "p{}") -> list[dict[str, str]]:
    return [{"name": name.format(i), "arguments": "uniform"} for i in range(n)]


_FACTS = (
    Row("policy", "GET", _POLICY, 200, keys=frozenset({"name", "arguments"})),
    Row(
        "policy: PUT",
        "PUT",
        _POLICY,
        403,
        {"name": "a", "arguments": "--cb_type mtr"},
        "InvalidApiAccess",
    ),
    Row("policy: PUT without a body", "PUT", _POLICY, 403, code="InvalidApiAccess"),
    Row(
        "policy: DELETE", "DELETE", _POLICY, 200, keys=frozenset({"name", "arguments"})
    ),
    Row("policy: POST", "POST", _POLICY, 405, {}, "MethodNotAllowed"),
    Row("model", "GET", "/model", 200),
    Row("model: PUT", "PUT", "/model", 403, content=b"PK\3\4", code="InvalidApiAccess"),
    Row("model: DELETE", "DELETE", "/model", 403, code="InvalidApiAccess"),
    Row(
        "model properties",
        "GET",
        "/model/properties",
        200,
        keys=frozenset({"creationTime", "lastModifiedTime"}),
    ),
    Row("logs: GET", "GET", "/logs", 405, code="MethodNotAllowed"),
    Row(
        "logs properties", "GET", "/logs/properties", 200, keys=frozenset({"dateRange"})
    ),
    Row("logs: DELETE", "DELETE", "/logs", 204),
    Row(
        "status",
        "GET",
        "/status",
        200,
        keys=frozenset({"service", "apiStatus", "apiStatusMessage"}),
    ),
    Row("status: with a slash", "GET", "/status/", 200),
)
_ABOUT = {
    "id",
    "name",
    "startTime",
    "endTime",
    "jobId",
    "status",
    "evaluationType",
    "creationTime",
    "events",
    "why",
}
_EVALUATION = frozenset(_ABOUT | {"policyResults", "featureImportance"})
_EVALUATIONS = (
    Row("evaluations", "POST", "/evaluations", 201, ask(), keys=_EVALUATION),
    Row(
        "evaluations: 10 policies",
        "POST",
        "/evaluations",
        201,
        ask(policies=_policies(10)),
        keys=_EVALUATION,
    ),
    Row(
        "evaluations: offline",
        "POST",
        "/evaluations",
        201,
        ask(enableOfflineExperimentation=True),
    ),
    Row(
        "evaluations: their policy",
        "POST",
        "/evaluations",
        201,
        ask(policies=[{"name": "a", "arguments": "-q ::"}]),
    ),
    _bad("11 policies", policies=_policies(11)),
    _bad("no name", name=""),
    _bad("a name of 257 characters", name="x" * 257),
    _bad(
        "arguments of 1025 characters",
        policies=[{"name": "a", "arguments": "x" * 1025}],
    ),
    _bad("a policy without arguments", policies=[{"name": "a"}]),
    _bad("no time", startTime="yesterday"),
    _bad("a time that is a number", startTime=7),
    _bad("times in the wrong order", endTime="2019-01-01T00:00:00Z"),
    _bad("before all logs", "NoLogsExistInDateRange", endTime="2020-01-02T00:00:00Z"),
    _bad("after all logs", "NoLogsExistInDateRange", startTime="2098-01-02T00:00:00Z"),
    _bad("a policy twice", "DuplicateCustomPolicyNames", policies=_policies(2, "p")),
    _bad(
        "one of our own names",
        "DuplicateCustomPolicyNames",
        policies=_policies(1, "Online"),
    ),
    Row("evaluations: no body", "POST", "/evaluations", 400, code=_CONTRACT),
    Row("evaluations: list", "GET", "/evaluations", 200),
    Row("evaluation", "GET", "/evaluations/{id}", 200, keys=_EVALUATION),
    Row(
        "evaluation: unknown",
        "GET",
        "/evaluations/never",
        404,
        code="EvaluationNotFound",
    ),
    Row("evaluation: DELETE", "DELETE", "/evaluations/{id}", 204),
    Row(
        "evaluation: DELETE an unknown one",
        "DELETE",
        "/evaluations/never",
        404,
        code="EvaluationNotFound",
    ),
    Row(
        "evaluation: PUT",
        "PUT",
        "/evaluations/my%20own%2F{version}",
        201,
        ask(),
        keys=_EVALUATION,
    ),
    Row(
        "evaluation: PUT a long id",
        "PUT",
        f"/evaluations/{'x' * 257}",
        400,
        ask(),
        _CONTRACT,
    ),
    Row(
        "evaluation: PUT another",
        "PUT",
        "/evaluations/{id}",
        400,
        ask(name="b"),
        _CONTRACT,
    ),
)
_NEVER: dict[str, Any] = {"evaluationId": "never", "policyName": "Online"}
_APPLIED = (
    Row(
        "apply: an unknown one",
        "POST",
        _APPLY,
        404,
        _NEVER,
        "EvaluationNotFound",
        versions=(*PREVIEWS, V22),
    ),
    Row(
        "apply: no body",
        "POST",
        _APPLY,
        400,
        code="InvalidPolicyConfiguration",
        versions=(*PREVIEWS, V22),
    ),
)
REST: tuple[Row, ...] = (*_FACTS, *_EVALUATIONS, *_APPLIED)
