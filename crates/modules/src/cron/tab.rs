//! A crontab: what Salt manages in it, and everything before.

use value::{Map, Value, map};

/// The line below which Salt manages the table.
const MARK: &str = "# Lines below here are managed by Salt, do not edit";
/// The word that introduces an identifier in a comment.
const IDENTIFIER: &str = "SALT_CRON_IDENTIFIER";
/// The identifier of a job that has none.
pub const NO_IDENTIFIER: &str = "NO ID SET";
/// The prefix of a disabled job.
const OFF: &str = "#DISABLED#";

/// When a job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// Minute, hour, day of the month, month, day of the week.
    Times([String; 5]),
    /// `@daily` and its like.
    Special(String),
}

/// The names of the five time fields.
pub const TIMES: [&str; 5] = ["minute", "hour", "daymonth", "month", "dayweek"];

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// When it runs.
    pub when: When,
    /// The command.
    pub cmd: String,
    /// The identifier it is found by.
    pub identifier: Option<String>,
    /// The comment above it.
    pub comment: Option<String>,
    /// Set when the job is disabled.
    pub commented: bool,
}

/// A crontab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tab {
    /// Lines that are not managed.
    pub pre: Vec<String>,
    /// Jobs with time fields.
    pub crons: Vec<Job>,
    /// Jobs with a special time such as `@daily`.
    pub special: Vec<Job>,
    /// Variables and their values.
    pub env: Vec<(String, String)>,
}

impl Job {
    /// Returns its identifier, or the placeholder.
    pub fn id(&self) -> &str {
        self.identifier.as_deref().filter(|id| !id.is_empty()).unwrap_or(NO_IDENTIFIER)
    }

    /// Returns whether this is the job with a command or an identifier.
    pub fn is(&self, cmd: &str, identifier: Option<&str>) -> bool {
        matched(self.id(), Some(self.cmd.as_str()) == Some(cmd), identifier)
    }

    /// Returns one of the time fields, unless it runs at a special time.
    pub fn time(&self, place: usize) -> Option<&str> {
        match &self.when {
            When::Times(times) => Some(&times[place]),
            When::Special(_) => None,
        }
    }

    /// The special time, if it runs at one.
    pub fn spec(&self) -> Option<&str> {
        match &self.when {
            When::Times(_) => None,
            When::Special(spec) => Some(spec),
        }
    }

    fn to_map(&self) -> Map {
        let mut shown = match &self.when {
            When::Times(times) => TIMES.into_iter().zip(times.iter().map(String::as_str)).collect(),
            When::Special(spec) => map! { "spec" => spec.as_str() },
        };
        shown.update(map! {
            "identifier" => self.identifier.clone(),
            "cmd" => self.cmd.as_str(),
            "comment" => self.comment.clone(),
            "commented" => self.commented,
        });
        shown
    }

    fn written(&self, text: &mut String) {
        // An empty comment still writes a line with a lone `#`, as in Salt.
        if self.comment.is_some() || self.identifier.is_some() {
            text.push('#');
            if let Some(comment) = self.comment.as_deref().filter(|comment| !comment.is_empty()) {
                text.push(' ');
                // Each line needs its own mark, or cron would read the rest of the comment as a job.
                text.push_str(&comment.replace('\n', "\n# "));
            }
            if let Some(identifier) = self.identifier.as_deref().filter(|identifier| !identifier.is_empty()) {
                text.push_str(&format!(" {IDENTIFIER}:{identifier}"));
            }
            text.push('\n');
        }
        let off = if self.commented { OFF } else { "" };
        let when = match &self.when {
            When::Times(times) => times.join(" "),
            When::Special(spec) => spec.clone(),
        };
        text.push_str(&format!("{off}{when} {}\n", self.cmd));
    }
}

/// Returns whether a job matches: `id` is the job's identifier, `same` is true if it has the wanted command.
fn matched(id: &str, same: bool, identifier: Option<&str>) -> bool {
    let wanted = identifier.filter(|identifier| !identifier.is_empty()).unwrap_or(NO_IDENTIFIER);
    // A job without an identifier is found by its command, so that tables from before identifiers still match. One that
    // has an identifier is found by that alone, so that its command can change.
    if id == NO_IDENTIFIER {
        return same || wanted != NO_IDENTIFIER && wanted == id;
    }
    wanted == id
}

/// Returns whether an entry of `cron.list_tab` is the one with a command or an identifier.
pub fn entry_is(entry: &Map, cmd: &str, identifier: Option<&str>) -> bool {
    let id = entry.get("identifier").filter(|id| id.truthy()).map_or(NO_IDENTIFIER.to_owned(), Value::to_string);
    matched(&id, entry.get_str("cmd") == Some(cmd), identifier)
}

/// Returns whether `new` replaces `old`: `random` replaces only `*`, and None replaces nothing.
pub fn needs_change(old: &Value, new: &Value) -> bool {
    old != new && if new.as_str() == Some("random") { old.as_str() == Some("*") } else { !new.is_null() }
}

impl Tab {
    /// Reads a crontab.
    pub fn parse(text: &str) -> Tab {
        let mut tab = Tab::default();
        let (mut managed, mut comment, mut identifier) = (false, None::<String>, None::<String>);
        for line in text.lines() {
            if line == MARK {
                managed = true;
                continue;
            }
            // Everything above the mark was written by a user and is kept to the letter.
            if !managed {
                tab.pre.push(line.to_owned());
                continue;
            }
            let (line, off) = line.strip_prefix(OFF).map_or((line, false), |line| (line, true));
            if line.starts_with('@') {
                // Runs of white space shrink to one space in these lines only, as in Salt.
                let words: Vec<&str> = line.split_whitespace().collect();
                if words.len() > 1 {
                    tab.special.push(Job {
                        when: When::Special(words[0].to_owned()),
                        cmd: words[1..].join(" "),
                        // Remarks belong to the next job, even with a variable or an unreadable line between.
                        identifier: identifier.take(),
                        comment: comment.take(),
                        commented: off,
                    });
                }
            } else if line.starts_with('#') {
                remark(line, &mut comment, &mut identifier);
            } else if let Some((name, value)) = variable(line) {
                tab.env.push((name.to_owned(), value.to_owned()));
            // Single spaces are counted and not words: the command keeps its inner spacing.
            } else if line.split(' ').count() > 5 {
                let mut words = line.splitn(6, ' ').map(str::to_owned);
                let times = std::array::from_fn(|_| words.next().unwrap_or_default());
                tab.crons.push(Job {
                    when: When::Times(times),
                    cmd: words.next().unwrap_or_default(),
                    identifier: identifier.take(),
                    comment: comment.take(),
                    commented: off,
                });
            }
        }
        tab
    }

    /// Returns the table as `cron.list_tab` shows it.
    pub fn to_map(&self) -> Map {
        let jobs = |jobs: &[Job]| jobs.iter().map(Job::to_map).collect::<Vec<_>>();
        let env = self.env.iter().map(|(name, value)| map! { "name" => name, "value" => value });
        map! {
            "pre" => self.pre.clone(),
            "crons" => jobs(&self.crons),
            "special" => jobs(&self.special),
            "env" => env.collect::<Vec<_>>(),
        }
    }

    /// Returns the text of the table.
    pub fn written(&self) -> String {
        let mut text: String = self.pre.iter().map(|line| format!("{line}\n")).collect();
        text.push_str(MARK);
        text.push('\n');
        for (name, value) in &self.env {
            // Vixie cron takes a line with nothing behind the equals sign for an error.
            text.push_str(&format!("{name}={}\n", if value.is_empty() { "\"\"" } else { value }));
        }
        for job in self.crons.iter().chain(&self.special) {
            job.written(&mut text);
        }
        text
    }
}

fn remark(line: &str, comment: &mut Option<String>, identifier: &mut Option<String>) {
    let mut text = line.trim_start_matches(['#', ' ']);
    if let Some((before, behind)) = text.split_once(IDENTIFIER) {
        text = before.trim_end();
        let behind = behind.split(IDENTIFIER).next().unwrap_or_default();
        if behind.len() > 1 {
            // One letter is skipped whatever it is: the separator is a colon today.
            *identifier = behind.char_indices().nth(1).map(|(place, _)| behind[place..].to_owned());
        }
    }
    match comment {
        Some(known) => {
            known.push('\n');
            known.push_str(text);
        }
        None => *comment = Some(text.to_owned()),
    }
}

fn variable(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    // A space before the equals sign means that it belongs to the command of a job.
    (!name.is_empty() && !name.contains(' ')).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# mine\n0 1 * * * /own\n# Lines below here are managed by Salt, do not edit\nPATH=/bin\nX=\"\"\n\
        # two\n# lines SALT_CRON_IDENTIFIER:one\n#DISABLED#1 2 3 4 5 echo  a b\n# SALT_CRON_IDENTIFIER:s\n@daily run it\n\
        * * * * * plain\n";

    #[test]
    fn a_table_is_read_and_written() {
        let tab = Tab::parse(TEXT);
        assert_eq!(tab.pre, ["# mine", "0 1 * * * /own"]);
        assert_eq!(tab.env[0], ("PATH".to_owned(), "/bin".to_owned()));
        let job = &tab.crons[0];
        assert_eq!((job.cmd.as_str(), job.identifier.as_deref(), job.commented), ("echo  a b", Some("one"), true));
        assert_eq!(job.comment.as_deref(), Some("two\nlines"));
        assert_eq!(tab.special[0].comment.as_deref(), Some(""));
        assert_eq!(Tab::parse(&tab.written()), Tab { env: tab.env.clone(), ..tab.clone() });
    }

    #[test]
    fn jobs_are_found() {
        let tab = Tab::parse(TEXT);
        assert!(tab.crons[0].is("other", Some("one")));
        assert!(!tab.crons[0].is("echo  a b", None));
        assert!(tab.crons[1].is("plain", None));
        assert!(tab.crons[1].is("plain", Some("new")));
        assert!(!tab.crons[1].is("other", Some("new")));
    }

    #[test]
    fn random_keeps_what_was_drawn() {
        assert!(needs_change(&"*".into(), &"random".into()));
        assert!(!needs_change(&"7".into(), &"random".into()));
        assert!(!needs_change(&"7".into(), &Value::Null));
        assert!(needs_change(&"7".into(), &"8".into()));
    }
}
