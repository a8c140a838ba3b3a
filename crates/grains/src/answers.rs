//! Cached answers of programs since the last boot: the file `grains.programs.p` in the cache directory.
//!
//! Some answers stay the same until the program is replaced or the machine reboots, and asking takes longer than all other grains
//! together. They are valid as long as the machine's boot id and the program's file are the same.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use value::{Map, Value, map};
use wire::msgpack::{Decode, Packing, pack, unpack};

use crate::cache;
use crate::output::Output;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The answers by question, shared by concurrent callers.
#[derive(Debug)]
pub struct Answers {
    path: PathBuf,
    boot: String,
    known: Mutex<CachedAnswers>,
}

#[derive(Debug, Default)]
struct CachedAnswers {
    answers: Map,
    changed: bool,
}

impl Answers {
    /// Reads the answers since the last boot. `None` if the kernel does not provide a boot id.
    pub fn of(opts: &Map) -> Option<Self> {
        // Without a boot id a cached answer could be from another kernel or another machine's disk.
        let boot = std::fs::read_to_string(BOOT_ID).ok()?.trim().to_owned();
        Some(Self::since(cache::directory(opts).join("grains.programs.p"), boot))
    }

    fn since(path: PathBuf, boot: String) -> Self {
        let answers = read(&path, &boot).unwrap_or_default();
        Answers { path, boot, known: Mutex::new(CachedAnswers { answers, changed: false }) }
    }

    /// Returns the cached answer of a program, or runs it. A program that failed without output is run again the next time.
    pub fn or_ask(&self, program: &str, args: &[&str], ask: impl FnOnce() -> Option<Output>) -> Option<Output> {
        let Some(file) = identity(Path::new(program)) else { return ask() };
        let question = [&[program], args].concat().join(" ");
        // The lock is not held while the program runs, so that others can ask.
        if let Some(answer) = self.known().answers.get(&question).and_then(|known| recall(known, &file)) {
            return Some(answer);
        }
        let answer = ask()?;
        // A program without output has most likely failed for a passing reason.
        if let (Some(code), false) = (answer.code, answer.stdout.is_empty()) {
            let mut known = self.known();
            known.answers.insert(question, map! { "file" => file, "code" => code, "stdout" => answer.stdout.clone() });
            known.changed = true;
        }
        Some(answer)
    }

    /// Stores new answers. If that fails, the programs are run again the next time.
    pub fn store(&self) {
        let mut known = self.known();
        if !std::mem::take(&mut known.changed) {
            return;
        }
        let kept = map! { "boot" => self.boot.clone(), "answers" => known.answers.clone() };
        if let Err(error) = cache::write(&self.path, &pack(&kept.into(), Packing::Bin)) {
            tracing::debug!("failed to write {}: {error}", self.path.display());
        }
    }

    fn known(&self) -> MutexGuard<'_, CachedAnswers> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the answers of this boot.
fn read(path: &Path, boot: &str) -> Option<Map> {
    let kept = unpack(&std::fs::read(path).ok()?, Decode::Default).ok()?;
    let kept = kept.as_map().filter(|kept| kept.get_str("boot") == Some(boot))?;
    kept.get("answers")?.as_map().cloned()
}

fn recall(known: &Value, file: &Value) -> Option<Output> {
    let known = known.as_map().filter(|known| known.get("file") == Some(file))?;
    let code = i32::try_from(known.get("code")?.as_i64()?).ok()?;
    Some(Output { code: Some(code), stdout: known.get_str("stdout")?.to_owned() })
}

/// The attributes that show whether a program's file was replaced.
fn identity(program: &Path) -> Option<Value> {
    let meta = std::fs::metadata(program).ok()?;
    // The inode changes when a package replaces the file, the times when it is edited in place.
    let numbers = [meta.dev().cast_signed(), meta.ino().cast_signed(), meta.mtime(), meta.mtime_nsec(), meta.ctime()];
    Some(numbers.to_vec().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(stdout: &str) -> Option<Output> {
        Some(Output { code: Some(0), stdout: stdout.into() })
    }

    #[test]
    fn answers_are_cached_until_the_program_changes_or_a_reboot() {
        let folder = tempfile::tempdir().unwrap();
        let (path, program) = (folder.path().join("answers"), folder.path().join("program"));
        std::fs::write(&program, "one").unwrap();
        let ask = |boot: &str, answer: &str| {
            let answers = Answers::since(path.clone(), boot.into());
            let heard = answers.or_ask(program.to_str().unwrap(), &["--version"], || output(answer));
            answers.store();
            heard
        };
        assert_eq!(ask("first", "252"), output("252"));
        assert_eq!(ask("first", "253"), output("252"));
        assert_eq!(ask("second", "253"), output("253"));
        let replacement = folder.path().join("new");
        std::fs::write(&replacement, "two").unwrap();
        std::fs::rename(&replacement, &program).unwrap();
        assert_eq!(ask("second", "254"), output("254"));
        // 0xc1 is the one byte that MessagePack never uses.
        std::fs::write(&path, b"\xc1garbage").unwrap();
        assert_eq!(ask("second", "255"), output("255"));
    }

    #[test]
    fn empty_answers_are_not_cached() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, "").unwrap();
        let answers = Answers::since(folder.path().join("answers"), "boot".into());
        let program = program.to_str().unwrap();
        assert_eq!(answers.or_ask(program, &[], || None), None);
        assert_eq!(answers.or_ask(program, &[], || output("")), output(""));
        assert_eq!(answers.or_ask(program, &["x"], || output("x")), output("x"));
        assert_eq!(answers.or_ask(program, &[], || output("y")), output("y"));
        assert_eq!(answers.or_ask("/nowhere/at/all", &[], || output("z")), output("z"));
    }
}
