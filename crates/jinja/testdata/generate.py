"""Makes random templates, the same for the same seed, and records what the real Jinja2 makes of them.

PYTHON generate.py COUNT [SEED] writes JSON lines to standard output, with Salt's Python. The committed sample is
`generate.py 4000 | gzip -9n > generated.jsonl.gz`.
"""

import json
import random
import sys

import oracle

NAMES = ["name", "num", "neg", "pi", "yes", "no", "nothing", "empty", "words", "nums", "deep", "users", "pkgs", "text", "tags"]
LITERALS = ["1", "0", "-2", "2.5", "'a'", "'B c'", "''", "none", "true", "false", "[]", "{}", "[1, 'x']", "{'k': 1, 'z': [2]}", "(1, 2)", "'%s-%s'", "'{}!'", "10**20", "'x\\ny'", "'é'"]
METHODS = ["upper()", "lower()", "split()", "strip('a')", "keys()|list", "items()|list", "get('a')", "get('k', 5)", "replace('a', 'b')", "startswith('w')", "count('a')", "index(1)", "copy()", "title()", "format(num)", "join(words)", "pop()", "append(1)", "update({'q': 1})", "values()|list", "find('e')", "zfill(6)", "center(9)", "splitlines()", "nope()", "isdigit()", "rsplit(None, 1)", "partition('e')"]
ATTRIBUTES = [".a", ".b", "['a']", "[0]", "[-1]", "[1:]", "[::-1]", ".x", "[5]", "['name']", ".name", "[:2]", ".items", "._p", ".0"]
FILTERS = ["upper", "lower", "length", "list", "join(',')", "sort", "first", "last", "reverse|list", "default('d')", "default('d', true)", "int", "float", "string", "trim", "title", "capitalize", "unique|list", "map('string')|list", "map(attribute='name')|list", "select|list", "reject('none')|list", "select('string')|list", "sum", "min", "max", "abs", "round", "round(1)", "dictsort", "tojson", "replace('a', 'o')", "indent(2)", "truncate(5)", "wordwrap(7)", "batch(2)|list", "slice(2)|list", "escape", "e|upper", "urlencode", "center(8)", "wordcount", "filesizeformat", "groupby('name')|list", "sort(attribute='uid')", "selectattr('admin')|list", "items|list", "striptags", "format(num, name)", "count", "pprint", "xmlattr", "d(5)", "attr('upper')", "nope"]
TESTS = ["defined", "undefined", "none", "string", "number", "mapping", "sequence", "iterable", "odd", "even", "true", "integer", "float", "callable", "divisibleby(2)", "eq(1)", "in([1, 2])", "sameas(none)", "lower", "upper", "boolean", "gt 1", "nope"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">", "<=", ">=", "and", "or", "in", "not in"]
TEXTS = ["text ", "\n", "  ", "a\n  b", "- x: ", "", "{}", "#", "é"]


class Maker:
    def __init__(self, rng):
        self.rng = rng
        self.locals = []
        self.macros = []
        self.count = 0

    def pick(self, items):
        return self.rng.choice(items)

    def chance(self, percent):
        return self.rng.randrange(100) < percent

    def name(self):
        self.count += 1
        return self.pick("xyzuv") + self.pick(["", str(self.count)])

    def atom(self, depth):
        roll = self.rng.randrange(100)
        if roll < 30:
            return self.pick(LITERALS)
        if roll < 62 or not self.locals:
            return self.pick(NAMES)
        if roll < 92:
            return self.pick(self.locals)
        if roll < 96 and depth > 0:
            return "[%s]" % ", ".join(self.expr(depth - 1) for _ in range(self.rng.randrange(3)))
        if roll < 98 and depth > 0:
            return "{'k': %s, 2: %s}" % (self.expr(depth - 1), self.expr(depth - 1))
        return self.pick(["missing", "range(3)", "loop.index", "dict(a=1)"])

    def expr(self, depth):
        if depth <= 0:
            return self.atom(0)
        roll = self.rng.randrange(100)
        if roll < 22:
            return self.atom(depth)
        if roll < 36:
            return "%s|%s" % (self.wrapped(depth - 1), self.pick(FILTERS))
        if roll < 46:
            return "%s%s" % (self.wrapped(depth - 1), self.pick(ATTRIBUTES))
        if roll < 54:
            return "%s.%s" % (self.wrapped(depth - 1), self.pick(METHODS))
        if roll < 72:
            return "%s %s %s" % (self.wrapped(depth - 1), self.pick(BINARY), self.wrapped(depth - 1))
        if roll < 80:
            negation = self.pick(["is", "is", "is not"])
            return "%s %s %s" % (self.wrapped(depth - 1), negation, self.pick(TESTS))
        if roll < 86:
            text = "%s if %s" % (self.wrapped(depth - 1), self.expr(depth - 1))
            return text + (" else %s" % self.wrapped(depth - 1) if self.chance(80) else "")
        if roll < 90:
            return "%s%s" % (self.pick(["not ", "-", "+"]), self.wrapped(depth - 1))
        if roll < 93 and self.macros:
            macro, arity = self.pick(self.macros)
            return "%s(%s)" % (macro, ", ".join(self.expr(depth - 1) for _ in range(self.rng.randrange(arity + 2))))
        if roll < 96:
            return "'%%s|%%5s|%%d' %% (%s, %s, %s)" % tuple(self.wrapped(depth - 1) for _ in range(3))
        return "(%s)|%s" % (self.expr(depth - 1), self.pick(FILTERS))

    def wrapped(self, depth):
        text = self.expr(depth)
        return "(%s)" % text if self.chance(55) and depth > 0 else text

    def tag(self, text):
        return "{%%%s %s %s%%}" % (self.pick(["", "", "", "-", "+"]), text, self.pick(["", "", "", "-"]))

    def body(self, depth):
        kept = list(self.locals)
        text = "".join(self.statement(depth) for _ in range(self.rng.randrange(1, 4)))
        self.locals = kept
        return text

    def statement(self, depth):
        roll = self.rng.randrange(100)
        if roll < 20 or depth <= 0:
            return self.pick(TEXTS)
        if roll < 45:
            return "{{%s%s }}" % (self.pick([" ", " ", "- "]), self.expr(self.rng.randrange(1, 4)))
        if roll < 58:
            name = self.pick([self.name(), self.name(), self.pick(NAMES)])
            text = self.tag("set %s = %s" % (name, self.expr(2)))
            self.locals.append(name)
            return text
        if roll < 68:
            text = self.tag("if %s" % self.expr(2)) + self.body(depth - 1)
            if self.chance(30):
                text += self.tag("elif %s" % self.expr(1)) + self.body(depth - 1)
            if self.chance(40):
                text += self.tag("else") + self.body(depth - 1)
            return text + self.tag("endif")
        if roll < 82:
            return self.loop(depth)
        if roll < 88:
            return self.tag("do %s" % self.expr(2))
        if roll < 92:
            return self.macro(depth)
        if roll < 94:
            name = self.name()
            text = self.tag("set %s%s" % (name, self.pick(["", " | upper", " | indent"]))) + self.body(depth - 1) + self.tag("endset")
            self.locals.append(name)
            return text
        if roll < 96:
            name = self.name()
            kept = list(self.locals)
            start = self.tag("with %s = %s" % (name, self.expr(1)))
            self.locals.append(name)
            text = start + self.body(depth - 1) + self.tag("endwith")
            self.locals = kept
            return text
        if roll < 97:
            return self.tag("filter %s" % self.pick(["upper", "indent(2)", "replace('a', 'b')", "trim|title"])) + self.body(depth - 1) + self.tag("endfilter")
        if roll < 98:
            return "{# %s #}" % self.pick(["note", "a\nb", ""])
        return self.pick(["{% raw %}{{ x }}{% endraw %}", "{% break %}", "{% include 'part' %}", "{% from 'lib' import twice %}{{ twice(2) }}"])

    def loop(self, depth):
        kept = list(self.locals)
        if self.chance(25):
            names = ["k", "v"]
            head = "for k, v in %s" % self.pick(["pkgs.items()", "deep.items()", "pkgs|dictsort", self.expr(1), "[(1, 2), (3, 4)]"])
        else:
            names = [self.name()]
            head = "for %s in %s" % (names[0], self.pick(["nums", "words", "users", "range(3)", "pkgs", self.expr(2)]))
        if self.chance(15):
            head += " if %s" % self.pick(["%s" % names[0], "%s is defined" % names[-1], "not loop", "num"])
        self.locals += names
        if self.chance(50):
            self.locals += ["loop.index", "loop.last", "loop.length", "loop.first"]
        text = self.tag(head) + self.body(depth - 1)
        if self.chance(15):
            text += self.tag("if %s" % self.expr(1)) + self.tag(self.pick(["continue", "break"])) + self.tag("endif") + self.pick(TEXTS)
        if self.chance(15):
            text += self.tag("else") + self.body(depth - 1)
        self.locals = kept
        return text + self.tag("endfor")

    def macro(self, depth):
        name = "m%d" % self.rng.randrange(4)
        kept = list(self.locals)
        args = [self.name() for _ in range(self.rng.randrange(3))]
        args = sorted(set(args))
        shown = list(args)
        if shown and self.chance(40):
            shown[-1] += "=" + self.pick(LITERALS)
        self.locals += args
        if self.chance(20):
            self.locals += ["varargs", "kwargs"]
        text = self.tag("macro %s(%s)" % (name, ", ".join(shown))) + self.body(depth - 1) + self.tag("endmacro")
        self.locals = kept
        self.macros.append((name, len(args)))
        return text

    def template(self):
        text = "".join(self.statement(3) for _ in range(self.rng.randrange(1, 6)))
        if self.chance(6) and text:
            # Damage it: the diagnosis must be the same too.
            at = self.rng.randrange(len(text))
            text = self.pick([text[:at], text[:at] + text[at + 1:], text[:at] + self.pick("{}%()'|.,") + text[at:]])
        return text


TEMPLATES = {"part": "[{{ num }}{{ x|default('-') }}]", "lib": "{% macro twice(n) %}{{ n * 2 }}{% endmacro %}"}
OPTIONS = [{}, {}, {}, {}, {"trim_blocks": True}, {"trim_blocks": True, "lstrip_blocks": True}, {"undefined": "lenient"}]


def cases(count, seed):
    for number in range(count):
        rng = random.Random("%s-%s" % (seed, number))
        source = Maker(rng).template()
        options = rng.choice(OPTIONS)
        yield source, options


def main():
    count = int(sys.argv[1])
    seed = sys.argv[2] if len(sys.argv) > 2 else "1"
    print(json.dumps({"context": oracle.CONTEXT, "templates": TEMPLATES}))
    for source, options in cases(count, seed):
        result = oracle.run(source, TEMPLATES, dict(options))
        line = json.dumps({"source": source, "options": options, "result": result})
        if len(line) < 4000:
            print(line)


main()
