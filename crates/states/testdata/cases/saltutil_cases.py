"""Custom modules that are fetched while states run."""

from record_calls import Raise

CASES = []
KINDS = ["beacons", "clouds", "engines", "executors", "grains", "log_handlers", "matchers", "modules", "output", "outputters", "pillar",
         "proxymodules", "renderers", "resources", "returners", "sdb", "serializers", "states", "thorium", "tops", "utils", "wrapper"]


def add(kind, answer, **kwargs):
    for test in (False, True):
        CASES.append({"state": "saltutil.sync_" + kind, "answers": {"saltutil.sync_" + kind: answer}, "args": ["fetch"], "kwargs": kwargs,
                      "test": test})


for kind in KINDS:
    add(kind, [kind + ".a", kind + ".b"])
    add(kind, [], refresh=True)
add("grains", Raise("no file server"))
add("all", {"beacons": [], "grains": ["grains.a"], "modules": ["modules.b"]}, refresh=False, saltenv="dev")
add("all", {"beacons": [], "grains": []})
add("all", Raise("no file server"))
