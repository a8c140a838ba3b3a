"""Records what the real Jinja2 makes of the cases in cases.py: PYTHON record.py > cases.json, with Salt's Python."""

import json
import sys

import cases
import cases_filters  # noqa: F401 (adds its cases)
import cases_statements  # noqa: F401 (adds its cases)
import oracle


def main():
    recorded = []
    for case in cases.CASES:
        if isinstance(case, str):
            case = {"source": case}
        case = dict(case)
        case["result"] = oracle.run(case["source"], case.get("templates"), case.get("options"))
        recorded.append(json.dumps(case))
    print('{"context": %s, "cases": [\n%s\n]}' % (json.dumps(oracle.CONTEXT), ",\n".join(recorded)))
    print(len(recorded), "cases", file=sys.stderr)


main()
