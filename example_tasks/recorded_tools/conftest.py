"""A simulated service for service_simulator.yaml: a handler that is found by its name."""

from pytest_codereval import Reply

ANSWERING_CONNECTORS = {"c-2"}


def guardrails_service(call):
    """Lists, probes, creates and deletes guardrails; what it holds lives as long as the trial."""
    guardrails = call.state.setdefault("guardrails", {"old": {"name": "old", "connector": "c-1"}})
    name, connector = call.flag("name"), call.flag("connector")
    match call.verb:
        case "list":
            return Reply(json=list(guardrails.values()))
        case "probe" if connector:
            return Reply(json={"ok": True}) if connector in ANSWERING_CONNECTORS else failure("no answer", 4)
        case "create" if name and connector:
            if name in guardrails:
                return failure(f"{name} exists already", 9)
            guardrails[name] = {"name": name, "connector": connector}
            return Reply(json=guardrails[name])
        case "delete" if name in guardrails:
            return Reply(json=guardrails.pop(name))
        case "create" | "delete" | "probe":
            return failure("a required option is missing or unknown", 2)
    return None


def failure(message, exit_code):
    return Reply(stderr=f"guardrails: {message}\n", exit_code=exit_code)
