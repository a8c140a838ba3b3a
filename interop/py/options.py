"""Prints every option this Salt has: those of its tables, and those its core asks for beside them."""

import ast
import json
import pathlib

import salt
import salt.config as config

ROOT = pathlib.Path(salt.__file__).parent
# Plug-ins read options of their own, which nobody sets without the plug-in.
PLUG_INS = {
    "_vendor", "auth", "beacons", "cache", "cloud", "engines", "executors", "ext", "fileserver", "grains", "log_handlers",
    "metaproxy", "modules", "netapi", "output", "pillar", "proxy", "queues", "renderers", "resource", "resources", "returners",
    "roster", "runners", "sdb", "serializers", "spm", "states", "thorium", "tokens", "tops", "wheel",
}
OPTIONS = {"opts", "__opts__", "minion_opts", "master_opts", "_opts"}


def is_options(node):
    if isinstance(node, ast.Name):
        return node.id in OPTIONS
    return isinstance(node, ast.Attribute) and node.attr in OPTIONS


def asked(node):
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        if is_options(node.func.value) and node.args:
            return node.args[0]
    if isinstance(node, ast.Subscript) and is_options(node.value):
        return node.slice
    if isinstance(node, ast.Compare) and len(node.comparators) == 1 and is_options(node.comparators[0]):
        return node.left
    return None


names = set(config.VALID_OPTS) | set(config.DEFAULT_MASTER_OPTS) | set(config.DEFAULT_MINION_OPTS)
for path in ROOT.rglob("*.py"):
    parts = path.relative_to(ROOT).parts
    if parts[0] in PLUG_INS or parts[:2] == ("client", "ssh"):
        continue
    for node in ast.walk(ast.parse(path.read_text())):
        name = asked(node)
        if isinstance(name, ast.Constant) and isinstance(name.value, str) and not name.value.startswith("__"):
            names.add(name.value)
print(json.dumps(sorted(names)))
