//! The part of PAM's interface that a login needs.
//!
//! The library is opened when it is needed: linked to it, no program here would start where there is none. No crate does that.

#![expect(unsafe_code, reason = "PAM has a C interface; this module is its safe side")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use nix::libc;

const SUCCESS: c_int = 0;
const CONVERSATION_ERROR: c_int = 19;
const PROMPT_HIDDEN: c_int = 1;
const PROMPT_VISIBLE: c_int = 2;

/// The most messages that PAM sends at once.
const MOST_MESSAGES: c_int = 32;

#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

#[repr(C)]
struct Response {
    text: *mut c_char,
    code: c_int,
}

type Converse = unsafe extern "C" fn(c_int, *mut *const Message, *mut *mut Response, *mut c_void) -> c_int;

#[repr(C)]
struct Conversation {
    converse: Converse,
    data: *mut c_void,
}

type Start = unsafe extern "C" fn(*const c_char, *const c_char, *const Conversation, *mut *mut c_void) -> c_int;
type Step = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

struct Functions {
    start: Start,
    authenticate: Step,
    account: Step,
    end: Step,
}

/// What the user has typed.
struct Typed {
    username: CString,
    password: CString,
}

/// Returns whether the password is right and the account may be used.
///
/// # Errors
/// When PAM is not installed, or a login cannot begin.
pub fn check(service: &str, username: &str, password: &str) -> Result<bool, String> {
    let functions = open()?;
    // A locked or expired account has a right password, too.
    run(&functions, &[functions.authenticate, functions.account], service, username, password)
}

/// Returns whether an account may be used, regardless of its password.
///
/// # Errors
/// As [`check`].
pub fn may_be_used(service: &str, username: &str) -> Result<bool, String> {
    let functions = open()?;
    run(&functions, &[functions.account], service, username, "")
}

/// Returns whether all steps succeed.
fn run(functions: &Functions, steps: &[Step], service: &str, username: &str, password: &str) -> Result<bool, String> {
    let text = |text: &str| CString::new(text).map_err(|_| "a text has a zero inside".to_owned());
    let service = text(service)?;
    let typed = Typed { username: text(username)?, password: text(password)? };
    let conversation = Conversation { converse, data: (&raw const typed).cast_mut().cast() };
    let mut handle = ptr::null_mut();
    // SAFETY: the signatures are those of `pam_appl.h`. `typed` and `conversation` live until `end` is called. The handle is
    // used only after `start` has made it, and not after `end`.
    unsafe {
        let mut status = (functions.start)(service.as_ptr(), typed.username.as_ptr(), &conversation, &mut handle);
        if status != SUCCESS || handle.is_null() {
            return Err(format!("a login cannot begin (PAM error {status})"));
        }
        for step in steps {
            status = step(handle, 0);
            if status != SUCCESS {
                break;
            }
        }
        (functions.end)(handle, status);
        Ok(status == SUCCESS)
    }
}

fn open() -> Result<Functions, String> {
    // SAFETY: the name ends with a zero. The library stays open until the process ends.
    let library = unsafe { libc::dlopen(c"libpam.so.0".as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return Err("PAM is not installed here (libpam.so.0)".to_owned());
    }
    let find = |name: &CStr| {
        // SAFETY: the library is open and the name ends with a zero.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        match found.is_null() {
            true => Err(format!("libpam.so.0 has no {}", name.to_string_lossy())),
            false => Ok(found),
        }
    };
    let step = |name| {
        // SAFETY: the function has this signature in `pam_appl.h`.
        find(name).map(|found| unsafe { std::mem::transmute::<*mut c_void, Step>(found) })
    };
    let start = find(c"pam_start")?;
    Ok(Functions {
        // SAFETY: the function has this signature in `pam_appl.h`.
        start: unsafe { std::mem::transmute::<*mut c_void, Start>(start) },
        authenticate: step(c"pam_authenticate")?,
        account: step(c"pam_acct_mgmt")?,
        end: step(c"pam_end")?,
    })
}

/// Answers PAM's questions: hidden ones with the password, visible ones with the name. Messages get no answer.
unsafe extern "C" fn converse(
    count: c_int,
    messages: *mut *const Message,
    responses: *mut *mut Response,
    data: *mut c_void,
) -> c_int {
    if !(1..=MOST_MESSAGES).contains(&count) || messages.is_null() || responses.is_null() || data.is_null() {
        return CONVERSATION_ERROR;
    }
    let count = count.unsigned_abs() as usize;
    // SAFETY: PAM passes as many messages as it counts, a place for the answers, and the pointer of `check` to what was typed.
    // It frees the answers and their texts, so both come from the allocator of the C library.
    unsafe {
        let typed = &*data.cast::<Typed>();
        let answers = libc::calloc(count, size_of::<Response>()).cast::<Response>();
        if answers.is_null() {
            return CONVERSATION_ERROR;
        }
        for place in 0..count {
            let message = *messages.add(place);
            let text = match message.is_null() {
                true => continue,
                false => match (*message).style {
                    PROMPT_HIDDEN => &typed.password,
                    PROMPT_VISIBLE => &typed.username,
                    _ => continue,
                },
            };
            (*answers.add(place)).text = libc::strdup(text.as_ptr());
        }
        *responses = answers;
    }
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_answered_by_their_kind() {
        let typed = Typed { username: c"fred".into(), password: c"secret".into() };
        let asked = [PROMPT_VISIBLE, 4, PROMPT_HIDDEN].map(|style| Message { style, text: c"?".as_ptr() });
        let mut pointers = asked.each_ref().map(ptr::from_ref);
        let mut answers = ptr::null_mut();
        let data: *mut c_void = (&raw const typed).cast_mut().cast();
        // SAFETY: the arguments are as PAM passes them, and the answers are freed as it frees them.
        unsafe {
            assert_eq!(converse(3, pointers.as_mut_ptr(), &mut answers, data), SUCCESS);
            let text = |place: usize| (*answers.add(place)).text;
            assert_eq!(CStr::from_ptr(text(0)), c"fred");
            assert!(text(1).is_null());
            assert_eq!(CStr::from_ptr(text(2)), c"secret");
            [0, 2].into_iter().for_each(|place| libc::free(text(place).cast()));
            libc::free(answers.cast());
            for count in [0, -1, MOST_MESSAGES + 1] {
                assert_eq!(converse(count, pointers.as_mut_ptr(), &mut answers, data), CONVERSATION_ERROR);
            }
        }
    }
}
