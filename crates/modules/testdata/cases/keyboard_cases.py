"""The layout of the keyboard."""

from record_calls import Said

CASES = []
for family in ("Debian", "RedHat", "Gentoo"):
    for missing in ([], ["localectl"]):
        grains = {"os_family": family}
        for said in ('XKBLAYOUT="de"', "VC Keymap=us", "keymap=de-latin1=x", "", Said("", 1, "no")):
            CASES.append({"fun": "keyboard.get_sys", "says": [("", said)], "grains": grains, "missing": missing})
        CASES.append({"fun": "keyboard.set_sys", "args": ["dvorak"], "grains": grains, "missing": missing, "answers": {"file.sed": {}}})
for said in ("layout:     us,de", "layout:", "nothing"):
    CASES.append({"fun": "keyboard.get_x", "says": [("", said)]})
CASES.append({"fun": "keyboard.set_x", "args": ["dvorak"]})
