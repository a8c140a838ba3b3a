//! Python's `%(name)s` line formats, with the fields Salt has.

use std::fmt::Write;

use crate::level::Level;
use crate::time;

/// A line format, taken apart once.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pieces: Vec<Piece>,
    date: String,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Field(Field, Spec),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    LevelName,
    LevelNo,
    Message,
    AscTime,
    Msecs,
    Created,
    RelativeCreated,
    LineNo,
    Pathname,
    Filename,
    Module,
    FuncName,
    Process,
    ProcessName,
    Thread,
    ThreadName,
    BracketName,
    BracketLevel,
    BracketProcess,
    ColorName,
    ColorLevel,
    ColorProcess,
    ColorMsg,
    Jid,
    MinionId,
}

/// `-17s`, `03d`: flags, width, precision, conversion.
#[derive(Clone, Copy, Debug, Default)]
struct Spec {
    left: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    conversion: char,
}

/// The content of a line. `jid` and `minion_id` are formatted already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) name: &'a str,
    pub(crate) level: Level,
    pub(crate) message: &'a str,
    pub(crate) line: u32,
    pub(crate) path: &'a str,
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
    pub(crate) jid: &'a str,
    pub(crate) minion_id: &'a str,
}

impl Format {
    /// Takes a format apart. The error names the piece that is not understood.
    pub(crate) fn parse(format: &str, date: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = format;
        while let Some((before, after)) = rest.split_once('%') {
            text.push_str(before);
            if let Some(after) = after.strip_prefix('%') {
                text.push('%');
                rest = after;
                continue;
            }
            // Python refuses a format it does not understand when the log is opened, so we do as well.
            let (field, spec, after) = parse_field(after)?;
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::Field(field, spec));
            rest = after;
        }
        text.push_str(rest);
        pieces.push(Piece::Text(text));
        Ok(Format { pieces, date: date.to_owned() })
    }

    /// Returns whether a line shows the job id by itself.
    pub(crate) fn shows_jid(&self) -> bool {
        self.shows(Field::Jid)
    }

    /// Returns whether a line shows the minion id by itself.
    pub(crate) fn shows_minion_id(&self) -> bool {
        self.shows(Field::MinionId)
    }

    fn shows(&self, wanted: Field) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Field(field, _) if *field == wanted))
    }

    /// Writes a line, without its line break.
    pub(crate) fn write(&self, out: &mut String, record: &Record<'_>, colours: bool) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Field(field, spec) => self.field(out, *field, spec, record, colours),
            }
        }
    }

    fn field(&self, out: &mut String, field: Field, spec: &Spec, record: &Record<'_>, colours: bool) {
        let paint = |colour: &str, text: String| if colours { format!("{colour}{text}{RESET}") } else { text };
        let file = record.path.rsplit('/').next().unwrap_or_default();
        let process = std::process::id();
        let millis = f64::from(record.nanos / 1_000_000);
        match field {
            Field::Name => spec.text(out, record.name),
            Field::LevelName => spec.text(out, record.level.name()),
            Field::LevelNo => spec.number(out, f64::from(record.level.0)),
            Field::Message => spec.text(out, record.message),
            Field::AscTime => spec.text(out, &time::local(&self.date, record.seconds)),
            Field::Msecs => spec.number(out, millis),
            Field::Created => spec.number(out, record.seconds as f64 + f64::from(record.nanos) / 1e9),
            Field::RelativeCreated => spec.number(out, time::since_start().as_secs_f64() * 1000.0),
            Field::LineNo => spec.number(out, f64::from(record.line)),
            Field::Pathname => spec.text(out, record.path),
            Field::Filename => spec.text(out, file),
            Field::Module => spec.text(out, file.trim_end_matches(".rs")),
            // Rust does not provide the function. The field stays, because operators share formats between programs.
            Field::FuncName => spec.text(out, ""),
            Field::Process => spec.number(out, f64::from(process)),
            // Python's name for a process that is not the child of another.
            Field::ProcessName => spec.text(out, "MainProcess"),
            Field::Thread => spec.number(out, nix::unistd::gettid().as_raw().into()),
            Field::ThreadName => spec.text(out, std::thread::current().name().unwrap_or("Thread")),
            // Salt's own widths, which `logging.Formatter` does not have.
            Field::BracketName => spec.text(out, &format!("[{:<17}]", record.name)),
            Field::BracketLevel => spec.text(out, &format!("[{:<8}]", record.level.name())),
            Field::BracketProcess => spec.text(out, &format!("[{process:>5}]")),
            Field::ColorName => spec.text(out, &paint("\x1b[0;1;32m", format!("[{:<17}]", record.name))),
            Field::ColorLevel => {
                spec.text(out, &paint(level_colour(record.level), format!("[{:<8}]", record.level.name())));
            }
            Field::ColorProcess => spec.text(out, &paint("\x1b[0;1;34m", format!("[{process:>5}]"))),
            Field::ColorMsg => spec.text(out, &paint(message_colour(record.level), record.message.to_owned())),
            Field::Jid => spec.text(out, record.jid),
            Field::MinionId => spec.text(out, record.minion_id),
        }
    }
}

fn parse_field(after: &str) -> Result<(Field, Spec, &str), String> {
    let named = after.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let Some((name, rest)) = named else {
        return Err("a single % (write %% for the sign itself)".into());
    };
    let field = field_of(name).ok_or_else(|| format!("the unknown field %({name})"))?;
    let (spec, rest) = parse_spec(rest).ok_or_else(|| format!("%({name}) without a conversion such as s or d"))?;
    Ok((field, spec, rest))
}

fn parse_spec(text: &str) -> Option<(Spec, &str)> {
    let mut spec = Spec::default();
    let mut rest = text;
    while let Some(flag) = rest.chars().next().filter(|flag| "-0+ #".contains(*flag)) {
        // Python takes these flags as well; only two of them change anything here.
        spec.left |= flag == '-';
        spec.zero |= flag == '0';
        rest = &rest[1..];
    }
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    // Wider than any line; a width is memory.
    let bounded = |text: &str| text.parse::<usize>().ok().filter(|width| *width <= 1000);
    let width = digits(rest);
    if width > 0 {
        spec.width = bounded(&rest[..width])?;
        rest = &rest[width..];
    }
    if let Some(after) = rest.strip_prefix('.') {
        let precision = digits(after);
        spec.precision = Some(if precision > 0 { bounded(&after[..precision])? } else { 0 });
        rest = &after[precision..];
    }
    spec.conversion = rest.chars().next().filter(|letter| "sdifrxuegc".contains(*letter))?;
    Some((spec, &rest[1..]))
}

impl Spec {
    fn text(&self, out: &mut String, text: &str) {
        let cut: String;
        let text = match self.precision {
            Some(precision) => {
                // Characters, not bytes, as in Python.
                cut = text.chars().take(precision).collect();
                &cut
            }
            None => text,
        };
        self.pad(out, text, false);
    }

    fn number(&self, out: &mut String, number: f64) {
        let text = match self.conversion {
            'f' | 'e' | 'g' => format!("{number:.*}", self.precision.unwrap_or(6)),
            'x' => format!("{:x}", number as i64),
            's' | 'r' if number.fract() != 0.0 => format!("{number}"),
            _ => format!("{}", number as i64),
        };
        // Left-aligned numbers are never padded with zeros.
        self.pad(out, &text, self.zero && !self.left);
    }

    fn pad(&self, out: &mut String, text: &str, zeros: bool) {
        let missing = self.width.saturating_sub(text.chars().count());
        let fill = if zeros { '0' } else { ' ' };
        if !self.left {
            out.extend(std::iter::repeat_n(fill, missing));
        }
        let _ = out.write_str(text);
        if self.left {
            out.extend(std::iter::repeat_n(' ', missing));
        }
    }
}

fn field_of(name: &str) -> Option<Field> {
    Some(match name {
        "name" => Field::Name,
        "levelname" => Field::LevelName,
        "levelno" => Field::LevelNo,
        "message" => Field::Message,
        "asctime" => Field::AscTime,
        "msecs" => Field::Msecs,
        "created" => Field::Created,
        "relativeCreated" => Field::RelativeCreated,
        "lineno" => Field::LineNo,
        "pathname" => Field::Pathname,
        "filename" => Field::Filename,
        "module" => Field::Module,
        "funcName" => Field::FuncName,
        "process" => Field::Process,
        "processName" => Field::ProcessName,
        "thread" => Field::Thread,
        "threadName" => Field::ThreadName,
        "bracketname" => Field::BracketName,
        "bracketlevel" => Field::BracketLevel,
        "bracketprocess" => Field::BracketProcess,
        "colorname" => Field::ColorName,
        "colorlevel" => Field::ColorLevel,
        "colorprocess" => Field::ColorProcess,
        "colormsg" => Field::ColorMsg,
        "jid" => Field::Jid,
        "minion_id" => Field::MinionId,
        _ => return None,
    })
}

const RESET: &str = "\x1b[0;0m";

fn level_colour(level: Level) -> &'static str {
    match level {
        Level::CRITICAL | Level::ERROR => "\x1b[0;1;31m",
        Level::WARNING => "\x1b[0;1;33m",
        Level::INFO => "\x1b[0;1;32m",
        Level::PROFILE | Level::DEBUG => "\x1b[0;1;36m",
        Level::TRACE => "\x1b[0;1;35m",
        Level::GARBAGE => "\x1b[0;1;34m",
        _ => RESET,
    }
}

fn message_colour(level: Level) -> &'static str {
    match level {
        Level::CRITICAL => "\x1b[0;1;31m",
        Level::ERROR => "\x1b[0;31m",
        Level::WARNING => "\x1b[0;33m",
        Level::INFO => "\x1b[0;32m",
        Level::PROFILE => "\x1b[0;1;36m",
        Level::DEBUG => "\x1b[0;36m",
        Level::TRACE => "\x1b[0;35m",
        Level::GARBAGE => "\x1b[0;34m",
        _ => RESET,
    }
}

/// Puts a value into `log_fmt_jid` or `log_fmt_minion_id`, whose one field has the value's name.
pub(crate) fn put_into(format: Option<&str>, name: &str, value: &str) -> String {
    let Some(format) = format.filter(|_| !value.is_empty()) else { return String::new() };
    // `%%` is a percent sign in these formats, too.
    format.replace(&format!("%({name})s"), value).replace("%%", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record<'static> {
        Record {
            name: "salt.master",
            level: Level::WARNING,
            message: "all well",
            line: 42,
            path: "crates/master/src/lib.rs",
            seconds: 1_700_000_000,
            nanos: 7_000_000,
            jid: "[JID: 1]",
            minion_id: "",
        }
    }

    fn line(format: &str, colours: bool) -> String {
        let mut out = String::new();
        Format::parse(format, "%Y").unwrap().write(&mut out, &record(), colours);
        out
    }

    #[test]
    fn lines_look_as_in_python() {
        let pid = std::process::id();
        for (format, expected) in [
            ("[%(levelname)-8s] %(message)s", "[WARNING ] all well".to_owned()),
            (
                "%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s",
                format!("2023,007 [salt.master      :42  ][WARNING ][{pid}] all well"),
            ),
            ("100%% %(lineno)5d|%(levelname).3s|%(filename)s|%(module)s", "100%    42|WAR|lib.rs|lib".into()),
            ("%(jid)s%(minion_id)s%(bracketlevel)s", "[JID: 1][WARNING ]".into()),
            ("%(colorlevel)s %(colormsg)s", "[WARNING ] all well".into()),
        ] {
            assert_eq!(line(format, false), expected, "{format}");
        }
        assert_eq!(line("%(colorlevel)s", true), "\x1b[0;1;33m[WARNING ]\x1b[0;0m");
    }

    #[test]
    fn what_is_no_format_is_named() {
        for (format, part) in
            [("%(nope)s", "%(nope)"), ("50%", "single %"), ("%(name)", "conversion"), ("%(name)99999s", "conversion")]
        {
            let error = Format::parse(format, "").unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn ids_have_their_own_format() {
        assert_eq!(put_into(Some("[JID: %(jid)s]"), "jid", "7"), "[JID: 7]");
        assert_eq!(put_into(None, "jid", "7"), "");
        assert_eq!(put_into(Some("[%(jid)s]"), "jid", ""), "");
    }
}
