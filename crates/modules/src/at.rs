//! `at` — commands that run once, later.

use std::sync::LazyLock;

use exec::{Call, Context, Error, KwArgs, Module, Result, VarArgs, function};
use regex::Regex;
use value::{Map, Value, list, map};

use crate::util;

/// Registers the functions of `at`.
pub static MODULE: Module = Module::new(
    "at",
    "Functions that look at commands that are to run later, add and remove them.",
    &[&AT, &ATC, &ATQ, &ATRM, &JOBCHECK],
)
.only_if(|_| match util::which("at") {
    Some(_) => Ok(()),
    None => Err("The at module could not be loaded: at command not found".into()),
});

fn program(ctx: &Context, name: &str) -> Result<String> {
    util::program(ctx, name).ok_or_else(|| Error::CommandNotFound(format!("{name}: command not found")))
}

fn run(ctx: &Context, name: &str, args: &[&str]) -> Result<String> {
    let words: Vec<Value> =
        std::iter::once(program(ctx, name)?.into()).chain(args.iter().map(|arg| Value::from(*arg))).collect();
    let call = Call { args: vec![words.into()], kwargs: map! { "python_shell" => false } };
    // stderr stays out: `at -c` and `atq` print warnings there that would be read as lines of the queue.
    Ok(ctx.call_with("cmd.run_stdout", call)?.to_string())
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Reads "Thu Dec 11 19:48:47 2014" as "2014-12-11" and "19:48:00"; the seconds are dropped.
fn date_and_time(words: &[&str]) -> Option<(String, String)> {
    let [_, month, day, clock, year] = words else { return None };
    let month = MONTHS.iter().position(|known| known.eq_ignore_ascii_case(month))? + 1;
    let day: u8 = day.parse().ok()?;
    let mut parts = clock.split(':').map(|part| part.parse::<u8>().ok());
    // Seconds are cut off because Salt keeps only the first five fields of the time it parses.
    let (hour, minute) = (parts.next()??, parts.next()??);
    let year: u16 = year.parse().ok()?;
    Some((format!("{year:04}-{month:02}-{day:02}"), format!("{hour:02}:{minute:02}:00")))
}

/// Reads a line of the queue: job number, date, time, queue and user.
fn queued(line: &str, redhat: bool) -> Option<(i64, [String; 4])> {
    // Both implementations end the job number with a tab; the rest is columns of varying width.
    let (job, rest) = line.split_once('\t')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let fields = if redhat {
        // The Red Hat family patched its `at` to print an ISO date, so there is nothing to convert.
        let [date, time, queue, user, ..] = words[..] else { return None };
        [date, time, queue, user].map(str::to_owned)
    } else {
        let (date, time) = date_and_time(words.get(..5)?)?;
        [date, time, (*words.get(5)?).to_owned(), (*words.get(6)?).to_owned()]
    };
    Some((job.trim().parse().ok()?, fields))
}

/// Returns the tag in the text of a job, or an empty text.
fn tag_of(text: &str) -> &str {
    static TAG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^### SALT: (\w+)").expect("the pattern is constant"));
    // The last one counts, as in Salt: the environment that `at` writes first may hold the same text.
    text.lines().filter_map(|line| Some(TAG.captures(line)?.get(1)?.as_str())).next_back().unwrap_or_default()
}

fn jobs(ctx: &Context, tag: &Value) -> Result<Vec<Map>> {
    let redhat = ctx.grains.get_str("os_family") == Some("RedHat");
    // Salt asks `at -l` here; it is the same program as `atq` under another name.
    let text = if redhat { run(ctx, "at", &["-l"])? } else { run(ctx, "atq", &[])? };
    let mut found = Vec::new();
    for line in text.lines() {
        let unread = || Error::execution(format!("failed to read the line '{line}' of the queue"));
        let (job, [date, time, queue, user]) = queued(line, redhat).ok_or_else(unread)?;
        // A queue has no place for a tag: it is a comment in the job itself, so each job must be printed.
        let content = run(ctx, "at", &["-c", &job.to_string()])?;
        let own = tag_of(&content);
        let wanted = tag.to_string();
        if !tag.truthy() || wanted == own || wanted == job.to_string() {
            found.push(map! {
                "job" => job, "date" => date, "time" => time, "queue" => queue, "user" => user, "tag" => own,
            });
        }
    }
    Ok(found)
}

fn numbers(jobs: &[Map]) -> Vec<String> {
    jobs.iter().filter_map(|job| job.get("job")).map(Value::to_string).collect()
}

/// Returns the pending jobs, all of them or those with a tag or number.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' at.atq
///     salt '*' at.atq [tag]
#[function]
fn atq(ctx: &Context, #[default(Value::Null)] tag: Value) -> Result<Map> {
    Ok(map! { "jobs" => jobs(ctx, &tag)? })
}

/// Removes jobs by number, all of them, or all with a tag, and returns which.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' at.atrm 5 8
///     salt '*' at.atrm all [tag]
#[function]
fn atrm(ctx: &Context, args: VarArgs) -> Result<Map> {
    let args: Vec<String> = args.0.iter().map(Value::to_string).collect();
    let (removed, tag) = match args.first().map(String::as_str) {
        None => (Vec::new(), Value::Null),
        // Salt removes everything only when the first word says so; later words then are a tag, not job numbers.
        Some("all") => {
            let tag = args.get(1).map_or(Value::Null, |tag| tag.as_str().into());
            (numbers(&jobs(ctx, &tag)?), tag)
        }
        Some(_) => {
            let mut known = numbers(&jobs(ctx, &Value::Null)?);
            known.retain(|job| args.contains(job));
            (known, Value::Null)
        }
    };
    // Without a job number `at -d` prints its usage and fails.
    if !removed.is_empty() {
        let words: Vec<&str> = ["-d"].into_iter().chain(removed.iter().map(String::as_str)).collect();
        run(ctx, "at", &words)?;
    }
    Ok(map! { "jobs" => map! { "removed" => removed, "tag" => tag } })
}

/// Finds the job number in the output of `at`, below its warnings.
fn number(said: &str) -> Option<i64> {
    let line = said.lines().find(|line| line.starts_with("job "))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Adds a job: when it runs, and the command. ``tag`` and ``runas`` can be given. Returns the job.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' at.at 12:05am '/sbin/reboot' tag=reboot
///     salt '*' at.at '3:05am +3 days' 'bin/myscript' tag=nightly runas=jim
#[function]
fn at(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    let [when, command @ ..] = &args.0[..] else { return Ok(map! { "jobs" => list![] }) };
    if command.is_empty() {
        return Ok(map! { "jobs" => list![] });
    }
    let given = kwargs.given();
    let command = command.iter().map(Value::to_string).collect::<Vec<_>>().join(" ");
    // Read back by `tag_of`. The shell that runs the job takes the line for a comment.
    let tag = given.get("tag").map(|tag| format!("### SALT: {tag}\n")).unwrap_or_default();
    // The command goes through standard input, where no shell expands it. The patched `at` of the Red Hat family
    // appends its own delimiter right behind the last byte, so the newline at the end is needed.
    let mut more = map! { "stdin" => format!("{tag}{command}\n"), "python_shell" => false };
    if let Some(user) = given.get("runas") {
        more.insert("runas", user.clone());
    }
    let words = list![program(ctx, "at")?, when.clone()];
    let said = ctx.call_with("cmd.run", Call { args: vec![words], kwargs: more })?.to_string();
    // `at` has no specific exit code for this.
    if said.ends_with("Garbled time") {
        return Ok(map! { "jobs" => list![], "error" => "invalid timespec" });
    }
    let job = number(&said).ok_or_else(|| Error::execution(format!("at did not take the job: {said}")))?;
    Ok(map! { "jobs" => jobs(ctx, &job.into())? })
}

/// Returns the script of a job.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' at.atc 5
#[function]
fn atc(ctx: &Context, jobid: Value) -> Result<Value> {
    let text = run(ctx, "at", &["-c", &jobid.to_string()])?;
    Ok(match text.is_empty() {
        true => map! { "error" => format!("invalid job id '{jobid}'") }.into(),
        false => text.into(),
    })
}

/// Returns whether a job meets all conditions.
fn fits(job: &Map, asked: &Map) -> bool {
    let part = |name: &str| job.get_str(name).unwrap_or_default();
    let wanted = |name: &str| asked.get(name).filter(|value| value.truthy()).map(Value::to_string);
    let two = |name: &str, own: Option<&str>| {
        wanted(name).is_none_or(|number| {
            number.trim().parse::<u32>().is_ok_and(|number| Some(format!("{number:02}").as_str()) == own)
        })
    };
    // Salt takes two digits for a year of this century.
    let year = wanted("year").map(|year| if year.len() == 2 { format!("20{year}") } else { year });
    let (date, time): (Vec<&str>, Vec<&str>) = (part("date").split('-').collect(), part("time").split(':').collect());
    wanted("runas").is_none_or(|user| user == part("user"))
        && wanted("tag").is_none_or(|tag| tag == part("tag"))
        && two("hour", time.first().copied())
        && two("minute", time.get(1).copied())
        && two("day", date.get(2).copied())
        && two("month", date.get(1).copied())
        && year.is_none_or(|year| Some(year.as_str()) == date.first().copied())
}

/// Returns the jobs that match: ``runas``, ``tag``, ``hour``, ``minute``, ``day``, ``month``, ``year``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' at.jobcheck runas=jam day=13
#[function]
fn jobcheck(ctx: &Context, kwargs: KwArgs) -> Result<Map> {
    let asked = kwargs.given();
    if asked.is_empty() {
        return Ok(map! { "error" => "You have given a condition" });
    }
    let all = jobs(ctx, &Value::Null)?;
    let none = all.is_empty();
    let found: Vec<Map> = all.into_iter().filter(|job| fits(job, &asked)).collect();
    // An empty queue has no note: Salt returns before it compares anything.
    if found.is_empty() && !none {
        return Ok(map! { "jobs" => list![], "note" => "No match jobs or time format error" });
    }
    Ok(map! { "jobs" => found })
}
