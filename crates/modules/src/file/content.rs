//! Reading and writing the content of files.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use exec::{Context, Error, KwArgs, Result, VarArgs, function};
use targeting::PyRegex;
use value::{Map, Value};

use super::os_error;
use super::paths::{expand_user, glob};
use crate::subprocess;

/// The size of the window for searching a text in a file, in bytes, as in Salt.
const WINDOW: usize = 256 * 1024;

/// The distance that the window moves, in bytes.
const STEP: usize = 32 * 1024;

/// The lines to write: the positional arguments, or those under the name `args`.
fn lines(args: VarArgs, mut kwargs: KwArgs) -> Vec<String> {
    // States pass the lines under this name, since a keyword cannot follow positional arguments.
    let given = match kwargs.0.remove("args") {
        Some(Value::List(items)) => items,
        Some(single) => vec![single],
        None => args.0,
    };
    given.iter().map(|line| format!("{line}\n")).collect()
}

/// Adds lines to the end of a file. A last line without an end gets one first.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.append /etc/motd "With all thine offerings thou shalt offer salt."
#[function]
pub fn append(ctx: &Context, path: String, args: VarArgs, kwargs: KwArgs) -> Result<String> {
    let (path, lines) = (expand_user(&path), lines(args, kwargs));
    ctx.blocking(move || {
        let mut file =
            OpenOptions::new().read(true).write(true).open(&path).map_err(|error| os_error(&error, &path))?;
        append_to(&mut file, &lines).map_err(|error| os_error(&error, &path))?;
        Ok(format!("Wrote {} lines to \"{path}\"", lines.len()))
    })
}

pub(super) fn append_to(file: &mut File, lines: &[String]) -> std::io::Result<()> {
    let length = file.seek(SeekFrom::End(0))?;
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    // A last line without an end would be joined with the first new one.
    let end = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{end}{}", lines.concat()).as_bytes())
}

/// Returns whether a file contains a text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.contains /etc/crontab 'mymaintenance.sh'
#[function]
pub fn contains(ctx: &Context, path: String, text: Value) -> Result<bool> {
    // Salt strips the text before it searches.
    let text = text.to_string().trim().to_owned();
    let chunk_fits =
        move |chunk: &[u8]| text.is_empty() || chunk.windows(text.len()).any(|part| part == text.as_bytes());
    Ok(ctx.blocking(move || any_window(&expand_user(&path), chunk_fits)))
}

/// Passes overlapping windows of a file to a test until it succeeds. A file that cannot be read matches nothing.
pub fn any_window(path: &str, fits: impl Fn(&[u8]) -> bool) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    let mut window = Vec::new();
    let mut room = WINDOW;
    loop {
        let before = window.len();
        if Read::by_ref(&mut file).take(room as u64).read_to_end(&mut window).is_err() || window.len() == before {
            return false;
        }
        if fits(&window) {
            return true;
        }
        // The pieces overlap so that a text on a border is found; one longer than the overlap may be missed, as in
        // Salt.
        window.drain(..STEP.min(window.len()));
        room = STEP;
    }
}

/// Returns whether the content of a file matches a shell pattern.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.contains_glob /etc/foobar '*cheese*'
#[function]
pub fn contains_glob(ctx: &Context, path: String, glob_expr: String) -> Result<bool> {
    let fits = move |chunk: &[u8]| targeting::fnmatch(&String::from_utf8_lossy(chunk), &glob_expr);
    Ok(ctx.blocking(move || any_window(&expand_user(&path), fits)))
}

/// Returns whether a regular expression matches in a line of a file; the characters ``lchar`` are first removed from
/// the beginning of the lines.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.contains_regex /etc/crontab '^0 4'
#[function]
pub fn contains_regex(ctx: &Context, path: String, regex: String, #[default("")] lchar: String) -> Result<bool> {
    let regex = PyRegex::search(&regex).map_err(|error| Error::Other(error.to_string()))?;
    Ok(ctx.blocking(move || {
        let Ok(file) = File::open(expand_user(&path)) else { return false };
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let text = String::from_utf8_lossy(&line);
            if regex.is_match(text.trim_start_matches(|c| lchar.contains(c))) {
                return true;
            }
            line.clear();
        }
        false
    }))
}

/// Searches files with ``grep`` and returns the result of ``cmd.run_all``. Each option is a separate argument.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.grep /etc/passwd nobody
///     salt '*' file.grep '/etc/*.conf' nameserver -- -i -n
#[function]
pub fn grep(ctx: &Context, path: String, pattern: String, opts: VarArgs) -> Result<Map> {
    let path = expand_user(&path);
    let mut words = vec!["grep".to_owned()];
    for option in opts.0.iter().map(ToString::to_string) {
        // Salt refuses `-i -c` as one option: the quoting of the command line hides such mistakes.
        let split = python::shlex::split(&option).map_err(|error| Error::Other(error.to_string()))?;
        if split.len() > 1 {
            return Err(Error::invocation(format!(
                "Passing multiple command line arguments in a single string is not supported, please pass the \
                 following arguments separately: {option}"
            )));
        }
        words.extend(split);
    }
    words.push(pattern);
    let found = glob(&path);
    // Without a match grep gets the pattern itself and reports the missing file.
    if found.is_empty() {
        words.push(path)
    } else {
        words.extend(found)
    }
    run_all(ctx, &words)
}

/// Runs a program and returns what `cmd.run_all` returns; its return code is that of the job.
pub fn run_all(ctx: &Context, words: &[String]) -> Result<Map> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut outcome = subprocess::quiet(ctx, &words)?;
    ctx.set_retcode(outcome.retcode.unwrap_or(1));
    // `cmd.run_all` strips the end of the output too.
    outcome.stdout.truncate(outcome.stdout.trim_end().len());
    outcome.stderr.truncate(outcome.stderr.trim_end().len());
    Ok(outcome.into_map())
}

/// Puts lines before the first line of a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.prepend /etc/motd "# first line"
#[function]
pub fn prepend(ctx: &Context, path: String, args: VarArgs, kwargs: KwArgs) -> Result<String> {
    let (path, lines) = (expand_user(&path), lines(args, kwargs));
    ctx.blocking(move || {
        let mut content = lines.concat().into_bytes();
        match fs::read(&path) {
            Ok(old) => content.extend(old),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(os_error(&error, &path)),
        }
        fs::write(&path, content).map_err(|error| os_error(&error, &path))?;
        Ok(format!("Prepended {} lines to \"{path}\"", lines.len()))
    })
}

/// Returns the content of a file: text, or bytes with ``binary`` and where it is not text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.read /etc/hostname
#[function]
pub fn read(ctx: &Context, path: String, #[default(false)] binary: bool) -> Result<Value> {
    let content = ctx.blocking(move || fs::read(&path).map_err(|error| os_error(&error, &path)))?;
    Ok(text_or_bytes(content, binary))
}

fn text_or_bytes(content: Vec<u8>, binary: bool) -> Value {
    if binary {
        return Value::bytes(content);
    }
    match String::from_utf8(content) {
        Ok(text) => Value::Str(text),
        // Bytes that are not text stay bytes, as in Python.
        Err(error) => Value::bytes(error.into_bytes()),
    }
}

/// Returns up to ``size`` bytes of a file from an offset.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.seek_read /path/to/file 4096 0
#[function]
pub fn seek_read(ctx: &Context, path: String, size: u64, offset: u64) -> Result<Value> {
    let path = expand_user(&path);
    let content = ctx.blocking(move || {
        let mut file = File::open(&path).map_err(|error| os_error(&error, &path))?;
        let mut content = Vec::new();
        file.seek(SeekFrom::Start(offset)).map_err(|error| os_error(&error, &path))?;
        file.take(size).read_to_end(&mut content).map_err(|error| os_error(&error, &path))?;
        Ok::<_, Error>(content)
    })?;
    Ok(Value::bytes(content))
}

/// Writes at an offset of a file and returns the number of bytes written.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.seek_write /path/to/file 'some data' 4096
#[function]
pub fn seek_write(ctx: &Context, path: String, data: Value, offset: u64) -> Result<u64> {
    let path = expand_user(&path);
    ctx.blocking(move || {
        let text = data.to_string();
        let content = data.as_bytes().unwrap_or(text.as_bytes());
        let file = OpenOptions::new().write(true).open(&path).map_err(|error| os_error(&error, &path))?;
        // Salt syncs after each write; such writes go to devices and disk images.
        let written = file.write_all_at(content, offset).and_then(|()| file.sync_all());
        written.map_err(|error| os_error(&error, &path))?;
        Ok(content.len() as u64)
    })
}

/// Makes a file if there is none, and sets its times: now, or as given in seconds since 1970.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.touch /var/log/emptyfile
#[function]
pub fn touch(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] atime: Value,
    #[default(Value::Null)] mtime: Value,
) -> Result<bool> {
    let (atime, mtime) = (time_given(&atime)?, time_given(&mtime)?);
    ctx.blocking(move || touched(&expand_user(&name), atime, mtime))
}

/// Reads a time in seconds.
pub fn time_given(value: &Value) -> Result<Option<f64>> {
    let wrong = || Error::invocation("atime and mtime must be integers");
    match value {
        Value::Null => Ok(None),
        Value::Str(text) if text.is_empty() => Ok(None),
        Value::Str(text) => text.parse().map(Some).map_err(|_| wrong()),
        other => other.as_f64().map(Some).ok_or_else(wrong),
    }
}

/// Makes a file if there is none, and sets its times: now, or as given.
pub fn touched(path: &str, atime: Option<f64>, mtime: Option<f64>) -> Result<bool> {
    use nix::sys::stat::{UtimensatFlags, utimensat};
    use nix::sys::time::TimeSpec;
    let reason = |errno: nix::Error| Error::execution(errno.desc());
    let time = |given: Option<f64>| match given {
        Some(seconds) => TimeSpec::new(seconds.floor() as i64, ((seconds - seconds.floor()) * 1e9) as i64),
        None => TimeSpec::UTIME_NOW,
    };
    let opened = OpenOptions::new().append(true).create(true).open(path);
    // A directory cannot be opened for writing, but its times can be set.
    if let Err(error) = opened
        && !Path::new(path).exists()
    {
        return Err(reason(nix::Error::from_raw(error.raw_os_error().unwrap_or(0))));
    }
    utimensat(nix::fcntl::AT_FDCWD, path, &time(atime), &time(mtime), UtimensatFlags::FollowSymlink).map_err(reason)?;
    Ok(Path::new(path).exists())
}

/// Truncates a file (or fills it with zeros) to a length.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.truncate /path/to/file 512
#[function]
pub fn truncate(ctx: &Context, path: String, length: u64) -> Result<()> {
    let path = expand_user(&path);
    ctx.blocking(move || {
        let file = OpenOptions::new().read(true).write(true).open(&path);
        file.and_then(|file| file.set_len(length)).map_err(|error| os_error(&error, &path))
    })
}

/// Writes lines into a file and replaces its content.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.write /etc/motd "With all thine offerings thou shalt offer salt."
#[function]
pub fn write(ctx: &Context, path: String, args: VarArgs, kwargs: KwArgs) -> Result<String> {
    let (path, lines) = (expand_user(&path), lines(args, kwargs));
    ctx.blocking(move || {
        fs::write(&path, lines.concat()).map_err(|error| os_error(&error, &path))?;
        Ok(format!("Wrote {} lines to \"{path}\"", lines.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn lines_come_as_arguments_or_by_name() {
        let args = || VarArgs(vec!["a".into(), 2.into()]);
        assert_eq!(lines(args(), KwArgs::default()), ["a\n", "2\n"]);
        assert_eq!(lines(args(), KwArgs(value::map! { "args" => list!["x"] })), ["x\n"]);
        assert_eq!(lines(args(), KwArgs(value::map! { "args" => "x" })), ["x\n"]);
    }

    #[test]
    fn appending_ends_the_last_line_first() {
        for (before, after) in [("", "n\n"), ("a\n", "a\nn\n"), ("a", "a\nn\n")] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(before.as_bytes()).unwrap();
            append_to(&mut file, &["n\n".into()]).unwrap();
            let mut content = String::new();
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_to_string(&mut content).unwrap();
            assert_eq!(content, after);
        }
    }

    #[test]
    fn a_text_across_pieces_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // The text crosses the end of the first window.
        let mut content = vec![b'x'; WINDOW - 2];
        content.extend(b"needle");
        content.extend(vec![b'y'; STEP]);
        fs::write(file.path(), content).unwrap();
        let path = file.path().to_str().unwrap();
        let has =
            |text: &'static str| any_window(path, |chunk| chunk.windows(text.len()).any(|w| w == text.as_bytes()));
        assert!(has("needle"));
        assert!(!has("noodle"));
        assert!(!any_window("/no/such/file", |_| true));
    }

    #[test]
    fn content_is_text_where_it_can_be() {
        assert_eq!(text_or_bytes(b"a\r\nb".to_vec(), false), Value::from("a\r\nb"));
        assert_eq!(text_or_bytes(b"\xff".to_vec(), false), Value::from(&b"\xff"[..]));
        assert_eq!(text_or_bytes(b"a".to_vec(), true), Value::from(&b"a"[..]));
    }

    #[test]
    fn touching_makes_files_and_sets_times() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        assert!(touched(path.to_str().unwrap(), Some(100.0), Some(200.5)).unwrap());
        let meta = fs::metadata(&path).unwrap();
        assert_eq!((meta.atime(), meta.mtime(), meta.mtime_nsec()), (100, 200, 500_000_000));
        assert!(time_given(&"soon".into()).is_err());
        let refused = touched("/no/such/directory/x", None, None).unwrap_err();
        assert_eq!(refused.to_string(), "No such file or directory");
    }
}
