"""CloudWatch's anomaly detectors, as stored settings: no band is computed from them."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import json
from typing import Any

_SINGLE = ("Namespace", "MetricName", "Dimensions", "Stat")
_KEYS = (*_SINGLE, "SingleMetricAnomalyDetector", "MetricMathAnomalyDetector")


def _detectors(self: Any) -> dict[str, dict[str, Any]]:
    # State that was stored before has none.
    return vars(self.cloudwatch_backend).setdefault("anomaly_detectors", {})


def _metric_asked(self: Any) -> dict[str, Any]:
    """Return the request's metric, in the form of its own member, which AWS prefers to the older members."""
    from moto.cloudwatch.exceptions import InvalidParameterCombination

    dimensions_given = {name: self._get_param(name) for name in _KEYS if self._get_param(name)}
    forms = [
        bool(set(dimensions_given) & set(_SINGLE)),
        *(name in dimensions_given for name in _KEYS[4:]),
    ]
    if sum(forms) != 1:
        raise InvalidParameterCombination(
            "Exactly one of SingleMetricAnomalyDetector, MetricMathAnomalyDetector, or the metric's own members "
            "is required."
        )
    return {"SingleMetricAnomalyDetector": dimensions_given} if forms[0] else dimensions_given


def _put_anomaly_detector(self: Any) -> Any:
    from moto.core.responses import ActionResult
    from moto.moto_api._internal import mock_random

    metric = _metric_asked(self)
    known = {_identity(known_detector): id_ for id_, known_detector in _detectors(self).items()}
    id_ = known.get(_identity(metric)) or str(mock_random.uuid4())
    _detectors(self)[id_] = {
        "AnomalyDetectorId": id_,
        **metric,
        **(metric.get("SingleMetricAnomalyDetector") or {}),
        "Configuration": {"ExcludedTimeRanges": []} | (self._get_param("Configuration") or {}),
        "StateValue": "PENDING_TRAINING",
    }
    if characteristics := self._get_param("MetricCharacteristics"):
        _detectors(self)[id_]["MetricCharacteristics"] = characteristics
    return ActionResult({"AnomalyDetectorId": id_})


def _describe_anomaly_detectors(self: Any) -> Any:
    from moto.core.responses import ActionResult

    ids = self._get_param("AnomalyDetectorIds")
    kinds = self._get_param("AnomalyDetectorTypes") or ["SINGLE_METRIC"]
    criteria = {
        name: self._get_param(name)
        for name in ("Namespace", "MetricName", "Dimensions")
        if self._get_param(name)
    }
    rows = [
        detector
        for id_, detector in _detectors(self).items()
        if (id_ in ids if ids else _kind(detector) in kinds)
        and all(detector.get(name) == value for name, value in criteria.items())
    ]
    return ActionResult({"AnomalyDetectors": rows})


def _delete_anomaly_detector(self: Any) -> Any:
    from moto.cloudwatch.exceptions import ResourceNotFoundException
    from moto.core.responses import EmptyResult

    id_ = self._get_param("AnomalyDetectorId")
    if not id_:
        known = {_identity(each): id_ for id_, each in _detectors(self).items()}
        id_ = known.get(_identity(_metric_asked(self)))
    if id_ not in _detectors(self):
        raise ResourceNotFoundException()
    del _detectors(self)[id_]
    return EmptyResult()


_CALLS = {
    "put_anomaly_detector": _put_anomaly_detector,
    "describe_anomaly_detectors": _describe_anomaly_detectors,
    "delete_anomaly_detector": _delete_anomaly_detector,
}


def add_calls(module: Any) -> None:
    """Add the calls that put, describe and delete anomaly detectors."""
    for name, call in _CALLS.items():
        setattr(module.CloudWatchResponse, name, call)


def _kind(detector: dict[str, Any]) -> str:
    return "METRIC_MATH" if "MetricMathAnomalyDetector" in detector else "SINGLE_METRIC"


def _identity(detector: dict[str, Any]) -> str:
    """Return what two detectors must differ in: their metric, without the order of its dimensions."""
    math = detector.get("MetricMathAnomalyDetector")
    if math:
        return json.dumps(math, sort_keys=True)
    single = detector["SingleMetricAnomalyDetector"]
    dimensions = sorted(
        json.dumps(dimension, sort_keys=True) for dimension in single.get("Dimensions") or ()
    )
    return json.dumps({**single, "Dimensions": dimensions}, sort_keys=True)
