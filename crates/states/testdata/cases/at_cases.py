"""Commands that run later."""

CASES = []


def add(fun, answers, *args, tests=(False, True), **kwargs):
    for test in tests:
        CASES.append({"state": "at." + fun, "answers": dict(answers), "args": list(args), "kwargs": kwargs, "test": test})


JOB = {"job": 5, "date": "2026-01-05", "time": "03:05:00", "queue": "a", "user": "root", "tag": "t"}
for said in ({"jobs": [JOB]}, {"jobs": []}, {"jobs": [], "error": "invalid timespec"}):
    for known in ([JOB], []):
        for user in ({"uid": 1}, {}):
            answers = {"at.at": said, "at.jobcheck": {"jobs": known}, "user.info": user}
            add("present", answers, "reboot", "9:09 11/04/15")
            add("present", answers, "reboot", "now", "t", "alice", "/sbin/reboot")
            add("present", answers, "reboot", "now", unique_tag=True)
            add("present", answers, "reboot", "now", tag="t", unique_tag=True)
            add("watch", answers, "reboot", "now", "t", "alice")
            add("mod_watch", answers, "reboot", timespec="now", tag="t", sfun="watch", __reqs__={})
            add("mod_watch", answers, "reboot", timespec="now", tag="t", sfun="present", __reqs__={})
for removed in (["5"], []):
    for jobs in ([JOB], [], [JOB, JOB]):
        answers = {"at.atq": {"jobs": jobs}, "at.atrm": {"jobs": {"removed": removed, "tag": None}}, "at.jobcheck": {"jobs": jobs}}
        add("absent", answers, "x")
        add("absent", answers, "x", limit=3)
        add("absent", answers, "x", "5")
        add("absent", answers, "x", tag="t", day=5)
