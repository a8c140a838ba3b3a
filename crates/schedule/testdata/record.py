"""Records what the real scheduler does: which definition fires when, with a clock that is set by this program.

Run it with the interpreter of a Salt 3008.5 installation. It writes `fires.json`, `cron.json` and `dates.json` beside it.
"""

import datetime
import itertools
import json
import logging
import os
import random
import sys
import tempfile
import warnings

import croniter
import dateutil.parser
import salt.utils.schedule as subject

HERE = os.path.dirname(os.path.abspath(__file__))
REAL = datetime.datetime
NOW = [REAL(2024, 2, 28, 22, 0, 0)]


class Picked:
    """In place of chance: the middle."""

    @staticmethod
    def randint(low, high):
        return (low + high) // 2


class Messages(logging.Handler):
    def __init__(self):
        super().__init__(logging.ERROR)
        self.texts = []

    def emit(self, record):
        text = record.getMessage()
        if text not in self.texts:
            self.texts.append(text)


class Functions(dict):
    def __contains__(self, name):
        return name != "config.merge"


def schedule_of(definition, pillar, grains, running):
    opts = {
        "schedule": definition, "loop_interval": 1, "pillar": pillar, "grains": grains, "__role": "minion",
        "cachedir": tempfile.mkdtemp(), "multiprocessing": False,
    }
    made = subject.Schedule.__new__(subject.Schedule, opts, Functions(), returners={}, utils={}, new_instance=True)
    subject.clean_proc_dir = lambda opts: None
    subject.salt.utils.minion.running = lambda opts: running
    subject.salt.utils.process.os_is_running = lambda pid: True
    return made


def play(case):
    """Looks at the schedule each second and notes when which job runs."""
    fires, messages = [], Messages()
    subject.log.addHandler(messages)
    start = REAL.fromisoformat(case["start"])
    definition = json.loads(json.dumps(case["schedule"]))
    schedule = schedule_of(definition, case.get("pillar", {}), case.get("grains", {}), case.get("running", []))
    schedule._run_job = lambda func, data, jid=None: fires.append([NOW[0].isoformat(), data["name"], func])
    for second in range(case["seconds"]):
        NOW[0] = start + datetime.timedelta(seconds=second)
        try:
            schedule.eval(now=NOW[0])
        except Exception as error:  # pylint: disable=broad-except
            text = f"Exception {error} occurred in scheduled job"
            if text not in messages.texts:
                messages.texts.append(text)
    subject.log.removeHandler(messages)
    return {**case, "fires": fires, "messages": messages.texts}


def cases():
    day = "2024-02-28T22:00:00"

    def case(job, seconds=200, start=day, **other):
        shared = other.pop("shared", {})
        return {"start": start, "seconds": seconds, "schedule": {**shared, "job": {"function": "test.ping", **job}}, **other}

    for number in (1, 2, 7, 60):
        yield case({"seconds": number})
        yield case({"seconds": number, "run_on_start": False})
        yield case({"seconds": str(number)})
        yield case({"seconds": number, "splay": 10}, 400)
        yield case({"seconds": number, "splay": {"start": 3, "end": 5}}, 400)
        yield case({"seconds": number, "run_on_start": False, "splay": 4}, 400)
        yield case({"seconds": number, "enabled": False})
        yield case({"seconds": number, "dry_run": True})
        yield case({"seconds": number, "maxrunning": 1}, running=[{"schedule": "job", "pid": 1}])
        yield case({"seconds": number, "maxrunning": 2}, running=[{"schedule": "job", "pid": 1}])
        yield case({"seconds": number, "jid_include": False}, running=[{"schedule": "job", "pid": 1}])
        yield case({"seconds": number, "until": "2024-02-28T22:01:30"})
        yield case({"seconds": number, "after": "2024-02-28T22:01:30", "run_on_start": False})
        yield case({"seconds": number, "after": "2024-02-28T22:01:30"})
        yield case({"seconds": number, "range": {"start": "10:01pm", "end": "10:02pm"}})
        yield case({"seconds": number, "range": {"start": "22:01", "end": "22:02", "invert": True}})
        yield case({"seconds": number, "range": {"start": "22:02", "end": "22:01"}})
        yield case({"seconds": number, "range": {"start": "soon", "end": "22:01"}})
        yield case({"seconds": number, "range": {"start": "22:01", "end": "late"}})
        yield case({"seconds": number, "range": "22:01"})
        yield case({"seconds": number, "skip_during_range": {"start": "22:01", "end": "22:02"}})
        yield case({"seconds": number, "skip_during_range": {"start": "22:02", "end": "22:01"}})
        yield case({"seconds": number, "skip_during_range": "x"})
        yield case({"seconds": number, "skip_during_range": {"start": "x", "end": "22:01"}})
        yield case({"seconds": number}, shared={"enabled": False})
        yield case({"seconds": number}, shared={"splay": 5})
        yield case({"seconds": number}, shared={"skip_during_range": {"start": "22:01", "end": "22:02"}})
        yield case({"seconds": number, "skip_during_range": {"start": "22:01", "end": "22:02"}},
                   shared={"skip_function": "test.skip"})
        yield case({"seconds": number, "range": {"start": "22:01", "end": "22:02"}}, shared={"skip_function": "test.skip"})
        yield case({"seconds": number, "range": {"start": "10pm", "end": "11:59pm"}}, 300, "2024-02-28T23:57:30")
        yield case({"seconds": number, "splay": {"start": 5, "end": 3}})
    for unit, number in itertools.product(("minutes", "hours", "days"), (1, 2)):
        seconds = {"minutes": 60, "hours": 3600, "days": 86400}[unit] * number
        if unit != "days":
            yield case({unit: number}, seconds * 2 + 5)
            yield case({unit: number, "run_on_start": False}, seconds * 2 + 5)
        yield case({unit: number, "seconds": 5}, min(seconds + 20, 4000))
    for word in ("abc", "1.5", ""):
        yield case({"seconds": word})
    for once in ("2024-02-28T22:00:00", "2024-02-28T22:00:30", "2024-02-28T21:59:59", "2024-02-28T21:00:00", "soon", "2024-02-28"):
        yield case({"once": once})
        yield case({"once": once, "run_on_start": True})
        yield case({"once": once, "enabled": False})
    for once, form in (("28.02.2024 22:01", "%d.%m.%Y %H:%M"), ("10:01 PM, Feb 28 2024", "%I:%M %p, %b %d %Y"), ("22:01", "%H:%M")):
        yield case({"once": once, "once_fmt": form})
    for when in ("10:01pm", "22:01:30", "2024-02-28T22:01:00", "Feb 28 2024 10:01pm", "28 Feb 22:01", "Wednesday 10:01pm",
                 "Thursday 10:01pm", "10:00pm", "9:59pm", "tomorrow", "2024-02-27 22:01", "02/28/2024 22:02"):
        yield case({"when": when})
        yield case({"when": when, "run_on_start": True})
        yield case({"when": when, "splay": 10})
        yield case({"when": [when, "22:03:10"]}, 250)
        yield case({"when": ["22:02:30", when]}, 250)
        yield case({"when": when, "range": {"start": "22:01:30", "end": "22:02:30"}})
        yield case({"when": when, "until": "22:01:30"})
    yield case({"when": ["22:00:10", "22:00:20", "22:00:40", "22:02"]})
    yield case({"when": ["tea", "22:02"]}, pillar={"whens": {"tea": "10:01pm"}})
    yield case({"when": "tea"}, grains={"whens": {"tea": "10:01pm"}})
    yield case({"when": "tea"}, pillar={"whens": ["tea"]})
    yield case({"when": "tea"}, grains={"whens": ["tea"]})
    yield case({"when": "tea"}, pillar={"whens": {"tea": "x"}})
    for cron in ("* * * * *", "*/2 * * * *", "1-3 22 * * *", "2 22 28 2 *", "2 22 * * 3", "2 22 * * mon", "2 22 1 * 3", "0 0 * * *",
                 "* * * * * */20", "60 * * * *", "* * * *", "x", "@hourly", "@daily", "15 10,23 * * *", "3 22 l * *"):
        yield case({"cron": cron}, 400)
        yield case({"cron": cron, "splay": 10}, 400)
        yield case({"cron": cron, "range": {"start": "22:01:30", "end": "22:03:30"}}, 400)
        yield case({"cron": cron}, 8000, "2024-02-28T21:58:13")
    yield case({"cron": "* * * * *", "when": "22:01"})
    yield case({"once": "2024-02-28T22:01:00", "when": "22:01"})
    yield case({"once": "2024-02-28T22:01:00", "cron": "* * * * *"})
    yield case({"seconds": 30, "when": "22:01"})
    yield case({"seconds": 30, "cron": "* * * * *"})
    yield case({"seconds": 30, "once": "2024-02-28T22:01:10"})
    yield case({})
    for key in ("func", "fun"):
        yield {"start": day, "seconds": 40, "schedule": {"job": {key: "test.ping", "seconds": 10}}}
    explicit = [{"time": "2024-02-28T22:01:10", "time_fmt": "%Y-%m-%dT%H:%M:%S"}]
    yield case({"seconds": 30, "run_explicit": explicit})
    yield case({"cron": "*/5 * * * *", "run_explicit": explicit})
    yield case({"seconds": 30, "run_on_start": False, "skip_during_range": {"start": "22:01", "end": "22:02:10"},
                "run_after_skip_range": True})


def croniters():
    starts = ["2024-02-28T22:17:33", "2024-02-29T23:59:59", "2023-12-31T00:00:00", "2024-03-30T12:30:00", "2100-02-28T10:00:00"]
    texts = [
        "* * * * *", "*/5 * * * *", "0 0 * * *", "30 4 1,15 * 5", "0 22 * * 1-5", "23 0-20/2 * * *", "5 4 * * sun", "0 0 29 2 *",
        "0 0 31 * *", "0 0 31 2 *", "0 0 l * *", "0 0 l 2 *", "0 0 * * 1#1", "0 0 * * fri#2", "0 0 * * l5", "0 0 * * mon#5",
        "0 0 15w * *", "0 0 1w * *", "0 0 31w * *", "0 0 1 * mon", "0 0 1-7 * mon", "0 0 */2 * *", "0 0 * jan *", "0 0 * jan-mar *",
        "0 0 * nov-feb *", "0 0 * oct-apr/2 *", "0 0 * * fri-mon", "0 0 * * 5-1/2", "0 0 * * 7", "0 0 * * 0", "0 0 * * 0,7",
        "50-10 * * * *", "50-10/7 * * * *", "59/15 * * * *", "10/20 * * * *", "1-1/3 * * * *", "@yearly", "@annually", "@monthly",
        "@weekly", "@daily", "@midnight", "@hourly", "@reboot", "* * * * * *", "* * * * * 15", "* * * * * */7",
        "0 0 1 1 * 0 2030", "0 0 1 1 * 0 2020", "* * * * * 0 2024-2026/2", "? * * * *", "0 0 ? * *", "0 0 * * ?", "0 0 1 * ?",
        "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *", "* * * * 8", "*/0 * * * *", "a * * * *",
        "-1 * * * *", "1-60 * * * *", "1,2,3 4,5 * * *", "* * * * mon,wed,fri", "* * * * MON-FRI", "0 12 * * 1#1,3#2", "0 12 * * 1,3#2",
        "0 0 w15 * *", "0 0 15w,20 * *", "0 0 15,l * *", "*,5 * * * *", "0 0 1-31 * 1", "0 0 * * 0-6", "0 0 5 * 0-6", "0 0 5 * */1",
        "H * * * *", "0-5/2,30 * * * *", "5-5 * * * *", "0 0 13 * 5", "0 0 * 2 1#5", "", "* * * * * * * *", "0 0 30 2 1",
    ]
    for text in texts:
        for start in starts:
            at, found = REAL.fromisoformat(start), []
            try:
                walker = croniter.croniter(text, at)
                for _ in range(4):
                    found.append(walker.get_next(REAL).isoformat())
            except (ValueError, KeyError, AttributeError, TypeError, IndexError) as error:
                if not isinstance(error, croniter.CroniterBadDateError):
                    found = None
            yield {"cron": text, "start": start, "next": found}


def dates():
    today = REAL(2024, 2, 28, 15, 30, 12)
    texts = [
        "5:00pm", "5pm", "5 pm", "5:30 PM", "17:30", "17:30:15", "17:30:15.25", "12am", "12pm", "12:30am", "0:30", "24:00", "25:00",
        "13:00pm", "Monday 5:00pm", "mon 17:00", "Wednesday 5pm", "wed", "Thursday", "2024-03-01", "2024-03-01 12:00",
        "2024-03-01T12:00:00", "20240301", "20240301T120000", "20240301T1200", "202403011200", "20240301120005", "03/01/2024",
        "3/1/24", "13/01/2024", "01.03.2024", "1.3.24", "01-03-2024", "2024/03/01", "2024.03.01", "Mar 1 2024", "March 1, 2024",
        "1 March 2024", "1st March 2024", "2nd of March 2024", "Mar 1", "1 Mar", "Mar 2025", "March", "May", "15", "31", "32", "2025",
        "Dec 31 2024 11:59pm", "11:59pm Dec 31 2024", "Fri, 01 Mar 2024 10:00:00", "Fri Mar 1 10:00:00 2024", "1-Mar-2024", "1/Mar/2024",
        "Mar-1-2024", "19June2000", "10h", "10h30", "10h30m", "10 h 30 m", "10h30m15s", "10 hours", "at 5pm", "on Monday at 5pm", "noon", "tomorrow",
        "", " ", "x", "5:", ":5", "2024-13-01", "2024-02-30", "2023-02-29", "99-01-02", "99-12", "12-99", "02-30", "11-12",
        "5:00 a.m.", "5:00 p.m.", "5p", "5a", "10:00am Monday", "2024-3-1 5:05:05pm", "1 2 3", "2024 3 1", "240301", "240301 101112",
        "8:00", "8", "08:00", "8.30", "8,30", "Sept 5", "Sep 5 08:00", "2024-02-28T22:00:00.123456", "00:00", "23:59:59", "5:60", "5:00:61",
        "Monday, 4 March 2024 at 9:15 pm", "12/25", "25/12", "12/25 8am", "2024-060", "1e5", "12:30:05,5", "Feb 29", "Feb 30",
    ]
    for text in texts:
        try:
            found = dateutil.parser.parse(text, default=today.replace(hour=0, minute=0, second=0, microsecond=0)).isoformat()
        except (ValueError, OverflowError, TypeError):
            found = None
        yield {"text": text, "date": found}


def main():
    warnings.simplefilter("ignore")
    subject.random = Picked
    subject.log.setLevel(logging.ERROR)

    plain_parse = dateutil.parser.parse

    def parse_today(text, *more, **other):
        """What a text does not say is that of the day that is played."""
        return plain_parse(text, *more, default=NOW[0].replace(hour=0, minute=0, second=0, microsecond=0), **other)

    subject.dateutil_parser = type("Parser", (), {"parse": staticmethod(parse_today)})
    played = [play(case) for case in cases()]
    write("fires.json", played)
    write("cron.json", list(croniters()))
    write("dates.json", list(dates()))
    print(len(played), "definitions,", sum(len(case["fires"]) for case in played), "runs")


def write(name, rows):
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    sys.exit(main())
