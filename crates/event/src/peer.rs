//! Detects which form of frames the program at the other end of a socket reads.
//!
//! Releases of Salt frame events in two ways (see [`wire::ipc`]), and Salt's programs understand only their own. Neither side
//! identifies itself: a listening client sends nothing, a server's pull socket answers nothing, and no sequence of bytes is valid
//! for both, because one reads the first four bytes as a length and the other expects a map there. But on a Unix socket the
//! kernel names the process at the other end, and `/proc` shows which interpreter a Python process runs, so the release of Salt
//! that is installed for it can be looked up. Where that is not possible (`ipc_mode: tcp`, a process of another user in
//! an unusual place), the form that most releases read is used.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use wire::ipc::Form;

/// How to choose the form of frames (option `ipc_event_format`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormChoice {
    /// By the release of Salt that the other program belongs to.
    #[default]
    Auto,
    /// Always this form.
    Always(Form),
}

impl FromStr for FormChoice {
    type Err = String;

    /// Parses the option: `auto`, `bare` or `prefixed`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(FormChoice::Auto),
            "bare" => Ok(FormChoice::Always(Form::Bare)),
            "prefixed" => Ok(FormChoice::Always(Form::LengthPrefix)),
            other => Err(format!("{other:?} is not a form of event frames (auto, bare, prefixed)")),
        }
    }
}

impl FormChoice {
    /// Returns how to write to a program that listens on our publish socket.
    pub(crate) async fn to_listener(self, pid: Option<i32>) -> WriteMode {
        match self {
            FormChoice::Always(form) => WriteMode { form, pause: Duration::ZERO },
            FormChoice::Auto => release_of(pid).await.map_or_else(WriteMode::default, Release::manner),
        }
    }

    /// Returns the form for a daemon whose pull socket we send to.
    pub(crate) async fn to_server(self, pid: Option<i32>) -> Form {
        match self {
            FormChoice::Always(form) => form,
            FormChoice::Auto => release_of(pid).await.map_or(Form::LengthPrefix, Release::pulls),
        }
    }
}

/// How to write to a listening program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteMode {
    /// The form of frames.
    pub form: Form,
    /// How long to wait after the first event before writing the next ones.
    pub pause: Duration,
}

/// The pause that programs of 3007 need after the first event.
///
/// They connect, publish, and then ask the operating system repeatedly whether there is something to read. The loop that
/// connected has already read the first event, and they look at it only when more arrives. With a real master the return comes
/// much later than the first event. With a master as fast as ours both would arrive together, and the client would notice them
/// only at its timeout.
const PAUSE_OF_3007: Duration = Duration::from_millis(100);

/// A release of Salt, for instance 3008.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The line: 3006, 3007 or 3008.
    pub line: u32,
    /// The number within the line.
    pub minor: u32,
}

impl Release {
    /// Returns the form that its programs read from a publish socket.
    pub fn listens_for(self) -> Form {
        // Only this line changed its publish socket; see the table in [`wire::ipc`].
        if self.line == 3006 && self.minor >= 26 { Form::LengthPrefix } else { Form::Bare }
    }

    fn manner(self) -> WriteMode {
        let pause = if self.line == 3007 { PAUSE_OF_3007 } else { Duration::ZERO };
        WriteMode { form: self.listens_for(), pause }
    }

    /// Returns the form that its daemons read from their pull socket.
    pub fn pulls(self) -> Form {
        let first_with_length = match self.line {
            // Older lines never changed, and later ones will hardly go back.
            ..3006 => u32::MAX,
            3006 => 26,
            3007 => 14,
            3008 => 1,
            3009.. => 0,
        };
        if self.minor >= first_with_length { Form::LengthPrefix } else { Form::Bare }
    }

    /// Parses a version as Salt writes it: `3006.30`, `3008.0rc1`, `3007.1+12.gabc`.
    fn parse(version: &str) -> Option<Self> {
        let mut parts = version.trim().splitn(2, '.');
        let line = parts.next()?.parse().ok()?;
        let rest = parts.next().unwrap_or("0");
        let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        (line >= 3000).then_some(Release { line, minor: rest[..digits].parse().unwrap_or(0) })
    }
}

/// Looks up the release of a process, on a blocking thread because it reads directories.
async fn release_of(pid: Option<i32>) -> Option<Release> {
    let pid = pid?;
    // This process is not Python. Reading its own files would only cost time.
    if pid.cast_unsigned() == std::process::id() {
        return None;
    }
    tokio::task::spawn_blocking(move || find_release(&PathBuf::from(format!("/proc/{pid}")))).await.ok().flatten()
}

fn find_release(process: &Path) -> Option<Release> {
    // The command line can be read for any process, and names the interpreter for every installed script. The maps show where a
    // module of Salt was really loaded from, but need the same user or root. So does the link to the program, which is the system's
    // interpreter even if a virtual environment is used.
    by_command_line(process).or_else(|| by_maps(process)).or_else(|| by_program(process))
}

fn by_command_line(process: &Path) -> Option<Release> {
    let line = fs::read(process.join("cmdline")).ok()?;
    // A process that changed its title has blanks between the words, or one word that is not a path.
    let first = line.split(|byte| *byte == 0 || *byte == b' ').next()?;
    let interpreter = Path::new(std::str::from_utf8(first).ok()?);
    interpreter.is_absolute().then(|| installed_for(interpreter)).flatten()
}

fn by_program(process: &Path) -> Option<Release> {
    installed_for(&fs::read_link(process.join("exe")).ok()?)
}

/// Returns the release of Salt that is installed for a Python interpreter.
fn installed_for(interpreter: &Path) -> Option<Release> {
    // A program that is not Python may have directories with a Salt in it beside it.
    interpreter.file_name()?.to_str()?.starts_with("python").then_some(())?;
    site_directories(interpreter.parent()?.parent()?).iter().find_map(|site| release_in(site))
}

/// Returns the directories below a prefix that contain Python packages.
fn site_directories(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for library in [prefix.join("lib"), prefix.join("local/lib"), prefix.join("lib64")] {
        let Ok(entries) = fs::read_dir(&library) else { continue };
        let pythons = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
        for python in pythons {
            found.push(python.path().join("site-packages"));
            found.push(python.path().join("dist-packages"));
        }
    }
    found
}

fn by_maps(process: &Path) -> Option<Release> {
    let maps = fs::read_to_string(process.join("maps")).ok()?;
    let loaded = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    // Every program of Salt loads msgpack's extension, which is installed beside Salt: <site>/msgpack/_cmsgpack….so.
    let packer = loaded
        .into_iter()
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("_cmsgpack")))?;
    release_in(packer.parent()?.parent()?)
}

/// Returns the release of Salt that is installed in a directory of Python packages.
fn release_in(site: &Path) -> Option<Release> {
    // The file of a packaged Salt is more precise than the name of the distribution's metadata.
    if let Ok(version) = fs::read_to_string(site.join("salt/_version.txt")) {
        return Release::parse(&version);
    }
    fs::read_dir(site).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name();
        let rest = name.to_str()?.strip_prefix("salt-")?;
        Release::parse(rest.strip_suffix(".dist-info").or_else(|| rest.strip_suffix(".egg-info"))?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        for (text, line, minor) in
            [("3006.30", 3006, 30), ("3008.0rc1", 3008, 0), ("3007.1+12.gabc", 3007, 1), ("3005\n", 3005, 0)]
        {
            assert_eq!(Release::parse(text), Some(Release { line, minor }), "{text}");
        }
        // Releases before 3000 had dates for names and are not supported.
        assert_eq!(Release::parse("2019.2.8"), None);
        assert_eq!(Release::parse("dev"), None);
    }

    #[test]
    fn each_release_reads_its_form() {
        use Form::{Bare, LengthPrefix};
        let cases = [
            ("3006.25", Bare, Bare),
            ("3006.26", LengthPrefix, LengthPrefix),
            ("3007.13", Bare, Bare),
            ("3007.14", Bare, LengthPrefix),
            ("3008.0", Bare, Bare),
            ("3008.1", Bare, LengthPrefix),
            ("3009.0", Bare, LengthPrefix),
        ];
        for (version, listens, pulls) in cases {
            let release = Release::parse(version).unwrap();
            assert_eq!((release.listens_for(), release.pulls()), (listens, pulls), "{version}");
        }
    }

    /// A process directory and an installation as they are on a host.
    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Self {
            Host(tempfile::tempdir().unwrap())
        }

        fn file(&self, path: &str, content: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content.replace("ROOT", self.0.path().to_str().unwrap())).unwrap();
        }

        fn release(&self) -> Option<Release> {
            find_release(&self.0.path().join("proc"))
        }
    }

    #[test]
    fn the_interpreter_in_the_command_line_leads_to_the_release() {
        let host = Host::new();
        host.file("opt/salt/lib/python3.10/site-packages/salt-3006.30.dist-info/METADATA", "");
        host.file("proc/cmdline", "ROOT/opt/salt/bin/python3.10\0/usr/bin/salt\0*\0test.ping\0");
        assert_eq!(host.release(), Some(Release { line: 3006, minor: 30 }));
        host.file("proc/cmdline", "ROOT/opt/salt/bin/python3 /usr/bin/salt-master EventPublisher");
        assert_eq!(host.release(), Some(Release { line: 3006, minor: 30 }));
        host.file("opt/salt/lib/python3.10/site-packages/salt/_version.txt", "3007.4\n");
        assert_eq!(host.release(), Some(Release { line: 3007, minor: 4 }));
    }

    #[test]
    fn a_loaded_module_leads_to_the_release_as_well() {
        let host = Host::new();
        host.file("site/salt-3008.5.dist-info/METADATA", "");
        host.file("proc/cmdline", "EventPublisher\0");
        host.file(
            "proc/maps",
            "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n\
             7f02-7f03 r-xp 00000000 08:01 13   ROOT/site/msgpack/_cmsgpack.cpython-310-x86_64-linux-gnu.so\n",
        );
        assert_eq!(host.release(), Some(Release { line: 3008, minor: 5 }));
    }

    #[test]
    fn programs_that_are_not_salt_are_unknown() {
        let host = Host::new();
        assert_eq!(host.release(), None);
        host.file("proc/cmdline", "/usr/local/bin/saltern\0salt\0");
        assert_eq!(host.release(), None);
        assert_eq!(Release::parse(""), None);
    }
}
