"""What `forensics log` makes of a few lines."""

from vllm_forensics.diagnosis.incident.explain import explain_incident, explain_incidents
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import Incident, IncidentReading


def reading_of(*lines: str) -> IncidentReading:
    """The clues in the lines."""
    return parse_incident_log(["".join(f"{line}\n" for line in lines).encode()])


def incident_of(*lines: str) -> Incident:
    """The first incident, which there must be."""
    incident = explain_incident(reading_of(*lines), "log")
    assert incident is not None
    return incident


def incidents_of(*lines: str) -> tuple[Incident, ...]:
    """All of them."""
    return explain_incidents(reading_of(*lines), "log")
