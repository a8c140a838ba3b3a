"""Renders templates with the real Jinja2 in the environment Salt gives it, and notes what comes of it."""

import sys
import traceback

import jinja2
import jinja2.sandbox
import salt.utils.jinja

UNDEFINED = {
    "strict": jinja2.StrictUndefined,
    "lenient": jinja2.Undefined,
    "chainable": jinja2.ChainableUndefined,
}

# What every template sees; JSON data only, so that it can be rebuilt elsewhere.
CONTEXT = {
    "name": "web01",
    "num": 7,
    "neg": -3,
    "pi": 3.14159,
    "yes": True,
    "no": False,
    "nothing": None,
    "empty": "",
    "words": ["pear", "Apple", "fig", "apple"],
    "nums": [3, 1, 2],
    "deep": {"a": {"b": [1, {"c": "d"}]}},
    "users": [
        {"name": "eve", "uid": 1002, "admin": True, "home": {"dir": "/home/eve"}},
        {"name": "Bob", "uid": 1001, "admin": False, "home": {"dir": "/srv/bob"}},
        {"name": "al", "uid": 1003, "admin": False, "home": {}},
    ],
    "pkgs": {"vim": "9.0", "curl": None, "Zsh": ["a", "b"]},
    "text": "one two\nthree  four\n\nfive",
    "tags": "<b>bold & 'q'</b>",
}


def context():
    return salt.utils.json.loads(salt.utils.json.dumps(CONTEXT))


def environment(templates=None, options=None):
    options = dict(options or {})
    undefined = UNDEFINED[options.pop("undefined", "strict")]
    return jinja2.sandbox.SandboxedEnvironment(
        undefined=undefined,
        loader=jinja2.DictLoader(templates or {}),
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols", salt.utils.jinja.SerializerExtension],
        **options,
    )


def run(source, templates=None, options=None):
    """Returns the text, or the class, the message and the lines of the error, outermost first."""
    try:
        return environment(templates, options).from_string(source).render(**context())
    except jinja2.TemplateSyntaxError as exc:
        return [type(exc).__name__, str(exc), [exc.lineno]]
    except Exception as exc:  # whatever Python raises is the answer
        trace = traceback.extract_tb(sys.exc_info()[2])
        lines = [frame.lineno for frame in trace if frame.filename == "<template>"]
        return [type(exc).__name__, str(exc), lines]
