"""Alternatives."""

from record_calls import Said

CASES = []
SHOWN = """editor - auto mode
  link best version is /usr/bin/vim.basic
  link editor is /usr/bin/editor
/bin/nano - priority 40
/usr/bin/vim.basic - priority 50
"""
QUERY = "Name: editor\nLink: /usr/bin/editor\nStatus: auto\n\nAlternative: /bin/nano\nLink: /wrong\n"
GONE = Said("", 2, "update-alternatives: error: no alternatives for editor")
for os_family in ("Debian", "RedHat"):
    for says in ([("--display", Said(SHOWN)), ("--query", Said(QUERY)), ("", Said("done"))], [("", GONE)], [("", Said("odd", 1))]):
        for fun, args in (("display", []), ("show_link", []), ("check_exists", ["/bin/nano"]), ("check_exists", ["/bin/ed"]), ("auto", []),
                          ("set", ["/bin/nano"]), ("remove", ["/bin/nano"]), ("install", ["/usr/bin/editor", "/bin/ed", 5])):
            if fun != "show_link" or os_family == "Debian":
                CASES.append({"fun": "alternatives." + fun, "args": (["editor"] + args), "says": says, "grains": {"os_family": os_family}})
