"""The only room that imports pytest. Each module is one feature with its options, hooks and helpers."""

pytest_plugins = [
    "pytest_codereval.plugin.signals",
    "pytest_codereval.plugin.agents",
    "pytest_codereval.plugin.isolation",
    "pytest_codereval.plugin.spending",
    "pytest_codereval.plugin.options",
    "pytest_codereval.plugin.collection",
    "pytest_codereval.plugin.hidden_folders",
    "pytest_codereval.plugin.selection",
    "pytest_codereval.plugin.fixtures",
    "pytest_codereval.plugin.outcome",
    "pytest_codereval.plugin.session",
    "pytest_codereval.plugin.refusals",
    "pytest_codereval.plugin.terminal",
    "pytest_codereval.plugin.leaks",
    "pytest_codereval.plugin.junit",
]
