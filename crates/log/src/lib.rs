//! Salt's log: its levels, line formats, files and syslog, as a layer of `tracing`.
//!
//! Lines come from `tracing` macros. The logger name that people grep for is the event's `target` (`salt.master`); a
//! Rust path of Saltern as the target is replaced by Salt's name of the same part (`saltern_modules::cmd` is
//! `salt.modules.cmd`). Salt has three more levels: a field `critical = true` makes an error critical, `profile = true`
//! raises a debug line, `garbage = true` lowers a trace line.
//!
//! The fields `jid` and `minion_id`, of an event or of a span around it, go into `%(jid)s` and `%(minion_id)s`; other
//! fields follow the message in brackets. Lines are written by the thread that logs, whole and at once, so that
//! nothing is lost when the process ends, and the log can be opened before a daemon forks.
//!
//! Text from strangers cannot look like a separate line or command a terminal (see [`tame`]). Lines that peers cause
//! (see [`logscope`]) have a limited share of each output above `debug` (see [`limit`]).

mod caused;
mod early;
mod format;
mod level;
mod limit;
mod panics;
mod sink;
mod tame;
mod time;
mod writer;

use std::fmt::{self, Write};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use caused::Limited;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record as SpanRecord};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

pub use early::{Early, replay};
use format::Format;
use level::Granular;
pub use level::Level;
use panics::Panics;
pub use sink::LogFile;
use sink::{Sink, Syslog};
pub use time::local as local_time;
use writer::{Line, Output, Writer};

/// The reasons why the log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log file.
    #[error("Failed to open log file, do you have permission to write to {}? ({source})", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The log server.
    #[error("Failed to setup the Syslog logging handler: {address}: {what}")]
    Syslog {
        /// The address in the configuration.
        address: String,
        /// The problem.
        what: String,
    },
    /// A word that is not a level.
    #[error("config: option '{option}' must be a log level such as warning, not '{word}'")]
    Level {
        /// The option.
        option: &'static str,
        /// The word.
        word: String,
    },
    /// A format that is not understood.
    #[error("config: option '{option}' must be a log format, but has {what}")]
    Format {
        /// The option.
        option: &'static str,
        /// The part that is not understood.
        what: String,
    },
    /// The log was opened before.
    #[error("failed to open the log: it is open already")]
    Twice,
}

/// The settings of an output to open.
#[derive(Clone, Debug)]
pub struct Settings<'a> {
    /// Options of the daemon or program.
    pub log: &'a config::Log,
    /// Lines go to standard error.
    pub console: bool,
    /// File or address to use; [`config::Log::log_file`] for daemons, `key_logfile` for `salt-key`.
    pub file: Option<&'a str>,
    /// The user a new file shall belong to.
    pub user: Option<&'a str>,
}

impl<'a> Settings<'a> {
    /// Returns what a daemon opens: the console and its log file.
    pub fn daemon(log: &'a config::Log, user: &'a str) -> Self {
        Settings { log, console: true, file: Some(&log.log_file), user: Some(user) }
    }

    /// Returns what a program opens: the console alone.
    pub fn program(log: &'a config::Log) -> Self {
        Settings { log, console: true, file: None, user: None }
    }
}

/// Opens the log for the whole process.
///
/// # Errors
///
/// A level or a format that is not understood, a file or a log server that cannot be opened; and a second call.
pub fn init(settings: &Settings<'_>) -> Result<(), Error> {
    let subscriber = Registry::default().with(SaltLog::new(settings)?);
    // Checked after the log is open, so that the warning is the first line in it.
    tracing::subscriber::set_global_default(subscriber).map_err(|_| Error::Twice)?;
    panics::attend(if settings.file.is_some() { Panics::Log } else { Panics::Show });
    let level = level_of("log_level", &settings.log.log_level)?;
    if level.is_insecure() {
        tracing::warn!(target: "salt.utils.verify", "Insecure logging configuration detected! Sensitive data may be logged.");
    }
    Ok(())
}

fn level_of(option: &'static str, word: &str) -> Result<Level, Error> {
    Level::parse(word).ok_or_else(|| Error::Level { option, word: word.to_owned() })
}

/// The layer that writes lines.
#[derive(Debug)]
pub struct SaltLog {
    writer: Arc<Writer>,
    granular: Granular,
    /// Level of loggers without a specific level: the lowest of the outputs.
    root: Level,
    /// True if a line shows the ids of the span around it.
    shows_spans: bool,
}

impl SaltLog {
    /// Opens what the settings name.
    pub fn new(settings: &Settings<'_>) -> Result<Self, Error> {
        let outputs: Vec<Output> = [console(settings)?, file(settings)?].into_iter().flatten().collect();
        // A granular level may be lower than the root's: then the outputs still hold back what is below their own.
        let mut granular = Vec::new();
        for (name, word) in &settings.log.log_granular_levels {
            granular.push((name.to_string(), level_of("log_granular_levels", &word.to_string())?));
        }
        Ok(SaltLog {
            root: outputs.iter().map(|output| output.level).min().unwrap_or(Level::QUIET),
            shows_spans: outputs.iter().any(|output| output.format.shows_jid() || output.format.shows_minion_id()),
            granular: Granular::new(granular),
            writer: Arc::new(Writer::new(outputs, settings.log)),
        })
    }

    fn threshold(&self, logger: &str) -> Level {
        self.granular.of(logger).unwrap_or(self.root)
    }
}

const CONSOLE_FORMAT: &str = "[%(levelname)-8s] %(message)s";
const CONSOLE_DATE: &str = "%H:%M:%S";
const FILE_FORMAT: &str =
    "%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s";
const FILE_DATE: &str = "%Y-%m-%d %H:%M:%S";

fn or_default<'t>(text: &'t str, default: &'t str) -> &'t str {
    if text.is_empty() { default } else { text }
}

fn console(settings: &Settings<'_>) -> Result<Option<Output>, Error> {
    let level = level_of("log_level", &settings.log.log_level)?;
    if !settings.console || level == Level::QUIET {
        return Ok(None);
    }
    let format = or_default(&settings.log.log_fmt_console, CONSOLE_FORMAT);
    let format = Format::parse(format, or_default(&settings.log.log_datefmt, CONSOLE_DATE))
        .map_err(|what| Error::Format { option: "log_fmt_console", what })?;
    // A redirected log is read by programs and editors, which do not want colours.
    let colours = std::io::stderr().is_terminal();
    Ok(Some(Output { level, format, sink: Sink::Console { colours } }))
}

fn file(settings: &Settings<'_>) -> Result<Option<Output>, Error> {
    let log = settings.log;
    let level = match &log.log_level_logfile {
        Some(word) => level_of("log_level_logfile", word)?,
        None => level_of("log_level", &log.log_level)?,
    };
    // `quiet` opens no file at all.
    let Some(place) = settings.file.filter(|place| !place.is_empty() && level != Level::QUIET) else {
        return Ok(None);
    };
    let format = or_default(&log.log_fmt_logfile, FILE_FORMAT);
    let format = Format::parse(format, or_default(&log.log_datefmt_logfile, FILE_DATE))
        .map_err(|what| Error::Format { option: "log_fmt_logfile", what })?;
    let sink = if ["file://", "udp://", "tcp://"].iter().any(|scheme| place.starts_with(scheme)) {
        Sink::Syslog(Syslog::open(place)?.into())
    } else {
        let (bytes, backups) = (log.log_rotate_max_bytes, log.log_rotate_backup_count);
        Sink::File(LogFile::open(Path::new(place), bytes, backups, settings.user)?.into())
    };
    Ok(Some(Output { level, format, sink }))
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SaltLog {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        // The gravest the event can turn out to be.
        let highest = match *metadata.level() {
            tracing::Level::ERROR => Level::CRITICAL,
            tracing::Level::WARN => Level::WARNING,
            tracing::Level::INFO => Level::INFO,
            tracing::Level::DEBUG => Level::PROFILE,
            tracing::Level::TRACE => Level::TRACE,
        };
        // Spans carry ids for the lines in them, whatever their own level; they cost nothing where no line shows ids.
        (metadata.is_span() && self.shows_spans)
            || (metadata.is_event() && highest >= self.root && {
                let threshold = self.threshold(&logger_name(metadata.target()));
                highest >= threshold && (threshold <= Level::DEBUG || !repeats_itself(metadata.target()))
            })
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        use tracing::level_filters::LevelFilter;
        // Lets `tracing` skip the call sites that can never log.
        Some(match self.root {
            Level(0..=5) => LevelFilter::TRACE,
            Level(6..=15) => LevelFilter::DEBUG,
            // Spans that carry ids are made at these levels too.
            _ => LevelFilter::INFO,
        })
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut facts = Facts::default();
        attributes.record(&mut facts);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(facts);
        }
    }

    fn on_record(&self, id: &Id, values: &SpanRecord<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(facts) = span.extensions_mut().get_mut::<Facts>()
        {
            values.record(facts);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let logger = logger_name(metadata.target());
        let mut facts = Facts::default();
        event.record(&mut facts);
        let level = facts.level(*metadata.level());
        // Only now is the level known: fields such as `critical` raise or lower it.
        if level < self.threshold(&logger) {
            return;
        }
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(around) = span.extensions().get::<Facts>() {
                facts.inherit(around);
            }
        }
        let line = Line {
            logger: &logger,
            level,
            number: metadata.line().unwrap_or(0),
            path: metadata.file().unwrap_or_default(),
        };
        self.writer.write(&line, &facts, Limited::current().as_ref());
    }
}

/// Returns whether a library logs the same error with each attempt to reach a server. Who uses it tells the error once.
fn repeats_itself(target: &str) -> bool {
    target.split("::").next() == Some("async_nats")
}

/// Returns Salt's name for a target: its own, or that of the Rust path.
fn logger_name(target: &str) -> std::borrow::Cow<'_, str> {
    match target.strip_prefix("saltern") {
        Some("") => "salt".into(),
        // `saltern_modules::cmd` becomes `salt.modules.cmd`: only the first underscore separates crate and part.
        Some(rest) => format!("salt{}", rest.replacen('_', ".", 1).replace("::", ".")).into(),
        None if target.contains("::") => target.replace("::", ".").into(),
        None => target.into(),
    }
}

/// The fields of an event or a span.
#[derive(Debug, Default)]
struct Facts {
    text: String,
    others: String,
    jid: String,
    minion_id: String,
    /// The ids of the span around; lines show them where the format asks for them.
    around_jid: String,
    around_minion_id: String,
    shift: Option<Level>,
}

impl Facts {
    /// A message without fields.
    fn of_text(text: String) -> Self {
        Facts { text, ..Facts::default() }
    }

    fn level(&self, level: tracing::Level) -> Level {
        self.shift.unwrap_or(match level {
            tracing::Level::ERROR => Level::ERROR,
            tracing::Level::WARN => Level::WARNING,
            tracing::Level::INFO => Level::INFO,
            tracing::Level::DEBUG => Level::DEBUG,
            tracing::Level::TRACE => Level::TRACE,
        })
    }

    fn inherit(&mut self, around: &Facts) {
        // The innermost span comes first, so an id that is there stays.
        if self.around_jid.is_empty() {
            self.around_jid.clone_from(&around.jid);
        }
        if self.around_minion_id.is_empty() {
            self.around_minion_id.clone_from(&around.minion_id);
        }
    }

    fn jid(&self) -> &str {
        if self.jid.is_empty() { &self.around_jid } else { &self.jid }
    }

    fn minion_id(&self) -> &str {
        if self.minion_id.is_empty() { &self.around_minion_id } else { &self.minion_id }
    }

    /// The message with its fields; ids only where the format does not show them by itself.
    fn message(&self, shows_jid: bool, shows_minion_id: bool) -> String {
        let mut fields = self.others.clone();
        for (name, value, shown) in [("jid", &self.jid, shows_jid), ("minion_id", &self.minion_id, shows_minion_id)] {
            // Not repeated if the message has it anyway.
            if !value.is_empty() && !shown && !self.text.contains(value.as_str()) {
                add_field(&mut fields, name, value);
            }
        }
        match (self.text.is_empty(), fields.is_empty()) {
            (_, true) => self.text.clone(),
            (true, false) => fields,
            (false, false) => format!("{} ({fields})", self.text),
        }
    }

    fn put(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.text = value.to_owned();
            return;
        }
        let value = tame::field(value);
        match field.name() {
            "jid" => self.jid = value,
            "minion_id" => self.minion_id = value,
            "critical" | "profile" | "garbage" if value != "true" => {}
            "critical" => self.shift = Some(Level::CRITICAL),
            "profile" => self.shift = Some(Level::PROFILE),
            "garbage" => self.shift = Some(Level::GARBAGE),
            // The bridge from the crate `log` adds more fields.
            name if name.starts_with("log.") => {}
            name => add_field(&mut self.others, name, &value),
        }
    }
}

fn add_field(fields: &mut String, name: &str, value: &str) {
    if !fields.is_empty() {
        fields.push_str(", ");
    }
    let _ = write!(fields, "{name}={value}");
}

impl Visit for Facts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use logscope::Peer;
    use value::{Map, map};
    use wire::MinionId;

    use super::*;

    fn lines(options: Map, log_something: impl FnOnce()) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut options = options;
        options.insert("id", "m");
        options.insert("log_file", path.display().to_string());
        let minion = config::Minion::from_options(options).unwrap();
        let settings = Settings { console: false, ..Settings::daemon(&minion.log, "root") };
        let subscriber = Registry::default().with(SaltLog::new(&settings).unwrap());
        tracing::subscriber::with_default(subscriber, log_something);
        std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
    }

    fn caused_by<T>(peer: Peer, log_something: impl FnOnce() -> T) -> T {
        let _peer = logscope::enter(peer);
        log_something()
    }

    fn minion(id: &str) -> Peer {
        Peer::Minion(MinionId::new(id).unwrap())
    }

    fn stranger() -> Peer {
        Peer::Stranger(std::net::IpAddr::from(std::net::Ipv4Addr::LOCALHOST).into())
    }

    const SHORT: &str = "%(name)s %(levelname)s %(message)s";

    #[test]
    fn events_become_lines_of_salt() {
        let got = lines(map! { "log_fmt_logfile" => SHORT, "log_level" => "all" }, || {
            tracing::warn!(target: "salt.master", "hello");
            tracing::error!(critical = true, "worse");
            tracing::debug!(target: "saltern_modules::cmd", profile = true, count = 3, who = "me", "took long");
            tracing::trace!(target: "hyper::client", garbage = true, "x");
        });
        assert_eq!(
            got,
            [
                "salt.master WARNING hello",
                "salt.log.tests CRITICAL worse",
                "salt.modules.cmd PROFILE took long (count=3, who=me)",
                "hyper.client GARBAGE x",
            ]
        );
    }

    #[test]
    fn what_a_library_says_with_each_attempt_is_for_those_who_look_for_it() {
        let shown = |level: &str| {
            let options = map! { "log_fmt_logfile" => "%(name)s %(message)s", "log_level_logfile" => level };
            lines(options, || {
                tracing::error!(target: "async_nats::connector", "authorization violation");
                tracing::error!(target: "salt.master", "ours");
            })
        };
        assert_eq!(shown("info"), ["salt.master ours"]);
        assert_eq!(shown("debug"), ["async_nats.connector authorization violation", "salt.master ours"]);
    }

    #[test]
    fn levels_hold_back_lines() {
        let options = map! {
            "log_fmt_logfile" => "%(message)s",
            "log_level_logfile" => "info",
            "log_granular_levels" => map! { "salt.noisy" => "error", "salt.fine" => "debug" },
        };
        let got = lines(options, || {
            tracing::debug!(target: "salt.x", "1");
            tracing::info!(target: "salt.x", "2");
            tracing::warn!(target: "salt.noisy.part", "3");
            tracing::error!(target: "salt.noisy", "4");
            tracing::debug!(target: "salt.fine", "5");
        });
        assert_eq!(got, ["2", "4"]);
    }

    #[test]
    fn ids_come_from_the_span_around() {
        let options = map! { "log_fmt_logfile" => "%(jid)s%(minion_id)s %(message)s" };
        let got = lines(options, || {
            let span = tracing::info_span!("job", jid = "2026", minion_id = "web1");
            span.in_scope(|| tracing::warn!("in"));
            tracing::warn!(jid = "7", "own");
        });
        assert_eq!(got, ["[JID: 2026][web1] in", "[JID: 7] own"]);
        let unasked = lines(map! { "log_fmt_logfile" => "%(message)s" }, || {
            tracing::info_span!("job", jid = "2026").in_scope(|| tracing::warn!("in"));
        });
        assert_eq!(unasked, ["in"]);
        let plain = lines(map! { "log_fmt_logfile" => "%(message)s" }, || {
            tracing::warn!(jid = "7", "lost");
            tracing::warn!(jid = "7", "job 7 lost");
        });
        assert_eq!(plain, ["lost (jid=7)", "job 7 lost"]);
    }

    #[test]
    fn strangers_write_no_lines_and_no_commands() {
        let options = map! { "log_fmt_logfile" => "%(levelname)s%(jid)s %(message)s" };
        let got = lines(options, || {
            let id = "web1\nWARNING Accepted the key of evil\x1b[2J\u{9b}\u{202e}";
            tracing::warn!("Bad request from {id}");
            tracing::warn!(minion = id, peer = %id, "refused");
            tracing::warn!(jid = id, "lost");
            tracing::warn!(text = %"x".repeat(1 << 20), "large");
            tracing::warn!("{}", "y".repeat(1 << 20));
        });
        assert_eq!(got[0], "WARNING Bad request from web1");
        assert_eq!(got[1], "    WARNING Accepted the key of evil\\x1b[2J\\x9b\\u202e");
        let one_line = "web1\\nWARNING Accepted the key of evil\\x1b[2J\\x9b\\u202e";
        assert_eq!(got[2], format!("WARNING refused (minion={one_line}, peer={one_line})"));
        assert_eq!(got[3], format!("WARNING[JID: {one_line}] lost"));
        assert!(got[4].len() < 1200 && got[4].contains("bytes more"), "{}", got[4].len());
        assert!(got[5].len() < 70_000 && got[5].contains("bytes more"), "{}", got[5].len());
        assert_eq!(got.len(), 6);
    }

    #[test]
    fn peers_have_a_share_of_the_log_and_debug_outputs_keep_every_line() {
        let flood = || {
            for number in 0..3000 {
                caused_by(minion("mallory"), || tracing::info!("request {number} {}", "x".repeat(number)));
            }
            caused_by(stranger(), || caused_by(minion("victim"), || tracing::warn!("the key of victim")));
            caused_by(stranger(), || tracing::warn!("{}", "y".repeat(10_000)));
            let operator = || (0..500).for_each(|_| tracing::info!("operator"));
            caused_by(stranger(), || caused_by(Peer::Operator, operator));
            (0..500).for_each(|_| tracing::info!("the master itself"));
        };
        let options = |level: &str| map! { "log_fmt_logfile" => "%(message)s", "log_level_logfile" => level };
        let info = lines(options("info"), flood);
        let count = |lines: &[String], text: &str| lines.iter().filter(|line| line.contains(text)).count();
        let of_mallory: usize = info.iter().filter(|line| line.starts_with("request")).map(String::len).sum();
        assert!((10_000..25_000).contains(&of_mallory), "{of_mallory}");
        assert_eq!(count(&info, "the key of victim"), 1);
        assert!(info.iter().any(|line| line.starts_with("yyy") && line.len() < 600), "long lines of strangers are cut");
        assert_eq!((count(&info, "operator"), count(&info, "the master itself")), (500, 500));
        let debug = lines(options("debug"), flood);
        assert_eq!((count(&debug, "request"), count(&debug, "the key of victim")), (3000, 1));
        assert!(debug.iter().any(|line| line.len() == 10_000), "nothing is cut");
    }

    #[test]
    fn escaped_characters_of_strangers_count_as_they_are_written() {
        let got = lines(map! { "log_fmt_logfile" => "%(message)s" }, || {
            caused_by(stranger(), || (0..200).for_each(|_| tracing::warn!("{}", "\x1b".repeat(500))));
        });
        let written: usize = got.iter().map(String::len).sum();
        assert!((8 << 10..16 << 10).contains(&written), "{written}");
    }

    #[test]
    fn who_claims_to_be_a_minion_silences_no_warning_about_it() {
        let options = map! { "log_fmt_logfile" => "%(message)s", "log_level_logfile" => "info" };
        let got = lines(options, || {
            for _ in 0..1000 {
                let claimed = || Peer::Claimed(MinionId::new("web1").unwrap());
                caused_by(claimed(), || tracing::warn!("{}", "x".repeat(500)));
                caused_by(claimed(), || tracing::info!("{}", "y".repeat(500)));
            }
            caused_by(minion("web1"), || tracing::warn!("about web1"));
            caused_by(minion("web1"), || tracing::warn!("more about web1"));
        });
        let count = |text: &str| got.iter().filter(|line| line.contains(text)).count();
        assert_eq!((count("about web1"), count("xxx"), count("yyy")), (2, 6, 6));
    }

    #[test]
    fn wrong_settings_are_named() {
        for (options, part) in [
            (map! { "log_level" => "loud" }, "option 'log_level' must be a log level"),
            (map! { "log_fmt_logfile" => "%(x)s" }, "option 'log_fmt_logfile'"),
            (map! { "log_file" => "/proc/none/log" }, "do you have permission to write to /proc/none/log"),
            (map! { "log_file" => "udp://h/LOG_X" }, "LOG_X"),
        ] {
            let mut options = options;
            options.insert("id", "m");
            if !options.contains_key("log_file") {
                options.insert("log_file", "/proc/none");
            }
            let minion = config::Minion::from_options(options).unwrap();
            let error = SaltLog::new(&Settings::daemon(&minion.log, "root")).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
