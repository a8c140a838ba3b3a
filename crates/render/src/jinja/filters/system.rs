//! Filters that read files, users and the network.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jinja::{CallArgs, Error, ErrorKind, Value};

use super::{flag, python_str, salt_error, text};

fn path_text(call: &mut CallArgs, name: &str, param: &'static str) -> Result<String, Error> {
    let [path] = call.bind(name, [(param, None)])?;
    Ok(text(&path)?.to_string())
}

pub fn is_empty(call: &mut CallArgs) -> Result<Value, Error> {
    let path = path_text(call, "is_empty", "filename")?;
    Ok(Value::Bool(std::fs::metadata(path).is_ok_and(|state| state.len() == 0)))
}

/// Returns the first bytes of a file; `None` when it cannot be read.
fn head(path: &str, length: u64) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(length).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns whether bytes look binary, by Salt's rule: a zero byte, or more than 30 % that are neither text nor line
/// ends.
fn is_binary(bytes: &[u8]) -> bool {
    if bytes.is_empty() {
        return false;
    }
    if bytes.contains(&0) {
        return true;
    }
    if std::str::from_utf8(bytes).is_ok() {
        return false;
    }
    let plain = |byte: &&u8| (32..127).contains(*byte) || b"\n\r\t\x0c\x08".contains(byte);
    // Reached only by text in another encoding, where some bytes beyond ASCII are normal.
    let odd = bytes.len() - bytes.iter().filter(plain).count();
    odd as f64 / bytes.len() as f64 > 0.30
}

pub fn is_bin_file(call: &mut CallArgs) -> Result<Value, Error> {
    let path = path_text(call, "is_binary", "path")?;
    let regular = Path::new(&path).is_file();
    Ok(Value::Bool(regular && head(&path, 2048).is_some_and(|bytes| is_binary(&bytes))))
}

pub fn is_text_file(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("fp_", None), ("blocksize", Some(Value::Int(512)))];
    let [path, size] = call.bind("is_text", params)?;
    let size = super::whole(&size, "blocksize")?;
    let bytes = head(&text(&path)?, u64::try_from(size).unwrap_or(u64::MAX).min(1 << 20));
    Ok(Value::Bool(bytes.is_some_and(|bytes| !is_binary(&bytes))))
}

pub fn file_hashsum(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("path", None), ("form", Some(Value::str("sha256"))), ("chunk_size", Some(Value::Int(65536)))];
    let [path, form, _size] = call.bind("get_hash", params)?;
    let (path, form) = (text(&path)?, text(&form)?);
    let Some(kind) = super::text::digest_named(&form) else {
        return Err(Error::value_error(format!("Invalid hash type: {form}")));
    };
    let failed = |error: &std::io::Error| Error::other("FileNotFoundError", python_os_error(error, &path));
    let mut file = std::fs::File::open(&*path).map_err(|error| failed(&error))?;
    let mut hasher = openssl::hash::Hasher::new(kind).map_err(|error| Error::value_error(error.to_string()))?;
    std::io::copy(&mut file, &mut hasher).map_err(|error| failed(&error))?;
    let digest = hasher.finish().map_err(|error| Error::value_error(error.to_string()))?;
    Ok(Value::from(super::text::hex(&digest)))
}

/// Formats a system error as Python prints it.
fn python_os_error(error: &std::io::Error, path: &str) -> String {
    match error.raw_os_error() {
        Some(code) => {
            let name = nix::errno::Errno::from_raw(code).desc();
            format!("[Errno {code}] {name}: {}", value::python::repr_str(path))
        }
        None => error.to_string(),
    }
}

/// The most files that are listed.
const MAX_FILES: usize = 1 << 20;

pub fn list_files(call: &mut CallArgs) -> Result<Value, Error> {
    let directory = path_text(call, "list_files", "directory")?;
    let mut found = vec![Value::str(directory.as_str())];
    let mut open = vec![std::path::PathBuf::from(&directory)];
    let mut known = std::collections::HashSet::new();
    while let Some(directory) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        names.sort();
        for path in names {
            if found.len() >= MAX_FILES {
                return Err(super::too_many());
            }
            found.push(Value::from(path.to_string_lossy().into_owned()));
            // Links are followed, but none twice.
            if path.is_dir() && path.canonicalize().is_ok_and(|real| known.insert(real)) {
                open.push(path);
            }
        }
    }
    Ok(Value::list(found))
}

pub fn get_uid(call: &mut CallArgs) -> Result<Value, Error> {
    let [user] = call.bind("get_uid", [("user", Some(Value::None))])?;
    if user.is_none() {
        return Ok(Value::from(nix::unistd::geteuid().as_raw()));
    }
    let found = nix::unistd::User::from_name(&text(&user)?).ok().flatten();
    Ok(found.map_or(Value::None, |user| Value::from(user.uid.as_raw())))
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|state| state.is_file() && state.permissions().mode() & 0o111 != 0)
}

pub fn which(call: &mut CallArgs) -> Result<Value, Error> {
    let [exe] = call.bind("which", [("exe", Some(Value::None))])?;
    if !flag(call.state, &exe)? {
        tracing::error!("No executable was passed to be searched by salt.utils.path.which()");
        return Ok(Value::None);
    }
    let exe = text(&exe)?;
    // An absolute path is checked but not searched.
    if exe.starts_with('/') {
        return Ok(if is_program(Path::new(&*exe)) { Value::Str(exe) } else { Value::None });
    }
    if exe.contains('/') {
        return Ok(Value::None);
    }
    let paths = std::env::var("PATH").unwrap_or_default();
    // Salt searches these even if a stripped environment has no PATH.
    let usual = ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin"];
    let directories = paths.split(':').filter(|path| !path.is_empty()).chain(usual);
    let found = directories.map(|directory| Path::new(directory).join(&*exe)).find(|path| is_program(path));
    Ok(found.map_or(Value::None, |path| Value::from(path.to_string_lossy().into_owned())))
}

/// `os.path.normpath()`.
fn normal(path: &str) -> String {
    if path.is_empty() {
        return ".".to_owned();
    }
    let slashes = match path.bytes().take_while(|byte| *byte == b'/').count() {
        // POSIX leaves the meaning of exactly two leading slashes open, so that Python keeps them.
        2 => "//",
        0 => "",
        _ => "/",
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if !slashes.is_empty() => {}
            part => parts.push(part),
        }
    }
    let joined = format!("{slashes}{}", parts.join("/"));
    if joined.is_empty() { ".".to_owned() } else { joined }
}

pub fn path_join(call: &mut CallArgs) -> Result<Value, Error> {
    drop(call.take_kwarg("use_posixpath"));
    if let Some((name, value)) = call.kwargs.iter().find(|(name, _)| !name.starts_with("__")).cloned() {
        let value = python_str(call.state, &value)?;
        let text = format!("The following keyword arguments are not valid: {name}={value}");
        return Err(salt_error("SaltInvocationError", text));
    }
    let mut parts = Vec::new();
    for part in &call.args {
        let part = part.as_str().ok_or_else(|| {
            Error::type_error(format!("expected str, bytes, or bytearray not {}", super::class(part)))
        })?;
        parts.push(normal(part));
    }
    let mut parts = parts.into_iter();
    let Some(mut joined) = parts.next() else { return Ok(Value::str("")) };
    for part in parts {
        // Unlike Python's join, Salt's does not let a later absolute path discard the earlier parts.
        let part = part.trim_start_matches('/');
        if !joined.ends_with('/') {
            joined.push('/');
        }
        joined.push_str(part);
    }
    Ok(Value::from(normal(&joined)))
}

pub fn dns_check(call: &mut CallArgs) -> Result<Value, Error> {
    use std::net::{TcpStream, ToSocketAddrs};
    let params = [("addr", None), ("port", None), ("safe", Some(Value::Bool(false))), ("ipv6", Some(Value::None))];
    let [address, port, safe, six] = call.bind("dns_check", params)?;
    let address = text(&address)?;
    let port = u16::try_from(super::whole(&port, "port")?)
        .map_err(|_| Error::new(ErrorKind::Overflow, "getsockaddrarg: port must be 0-65535."))?;
    let six = if six.is_none() { None } else { Some(flag(call.state, &six)?) };
    let found: Vec<_> = (&*address, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    let fits = |found: &&std::net::SocketAddr| match six {
        // Salt falls back to version 4 if the lookup of version 6 finds nothing.
        Some(true) => true,
        Some(false) => found.is_ipv4(),
        None => true,
    };
    // One that answers is taken, else the first.
    let usable: Vec<_> = found.iter().filter(fits).collect();
    // Salt's own timeout for this connection.
    let patience = std::time::Duration::from_secs(2);
    let answers = usable.iter().find(|found| TcpStream::connect_timeout(found, patience).is_ok());
    match answers.or(usable.first()) {
        Some(found) if found.is_ipv6() => Ok(Value::from(format!("[{}]", found.ip()))),
        Some(found) => Ok(Value::from(found.ip().to_string())),
        None => {
            let text = format!("DNS lookup or connection check of '{address}' failed.");
            let class = if flag(call.state, &safe)? { "SaltClientError" } else { "SaltSystemExit" };
            Err(salt_error(class, text))
        }
    }
}

/// Sends a request to a web server through the execution function `http.query`.
pub fn http_query(call: &mut CallArgs) -> Result<Value, Error> {
    crate::jinja::salt::call(call, "http.query")
}
