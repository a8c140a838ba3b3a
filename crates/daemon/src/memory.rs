//! The mapped memory of the program's file and its libraries, and the memory that the allocator keeps.
//!
//! With each page of code that is used, the kernel also maps its neighbours, 64 KiB at a time, which helps short programs. In a
//! daemon that runs for months most of those are never used, and of those that are used, most are only needed at the start.

use nix::libc;

/// Unmaps the code and constants of the program and its libraries, so that the kernel maps only the pages that are really used.
/// If the kernel refuses, nothing changes.
pub fn map_only_what_is_used() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    for (start, length) in code(&maps) {
        advise(start, length, libc::MADV_RANDOM);
        advise(start, length, libc::MADV_DONTNEED);
    }
}

/// Returns the parts of files that are mapped as code, and the constants at their beginning. Other tables are left alone: those
/// with addresses in them were changed when the file was loaded, though they are not writable any more.
fn code(maps: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    maps.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (range, rights, offset) = (words.next()?, words.next()?, words.next()?);
        let never_written = rights == "r-xp" || (rights == "r--p" && offset == "00000000");
        // Mappings of the kernel have a name in brackets.
        if !never_written || !words.nth(2)?.starts_with('/') {
            return None;
        }
        let (start, end) = range.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        Some((start, end.checked_sub(start)?))
    })
}

#[expect(unsafe_code, reason = "advice about memory is given by address")]
fn advise(start: usize, length: usize, advice: libc::c_int) {
    // SAFETY: the range is code or constants of a file and not writable, so what is unmapped is read from the file again,
    // unchanged.
    unsafe { libc::madvise(start as *mut libc::c_void, length, advice) };
}

/// The number of bytes that the allocator requests from the kernel beyond what is needed.
#[cfg(target_env = "gnu")]
const TOP_PAD: libc::c_int = 16 << 10;

/// Lets all threads of a program share one heap, so that memory freed by one serves the others. For programs with few threads
/// that seldom allocate at the same time.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the allocator's only settings; they take no pointer")]
pub fn share_one_heap() {
    // SAFETY: mallopt may be called before other threads exist. Unknown parameters are refused, and nothing changes.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_TOP_PAD, TOP_PAD);
    }
}

/// C libraries other than GNU's have one heap.
#[cfg(not(target_env = "gnu"))]
pub fn share_one_heap() {}

/// The size in bytes from which a block of memory has a separate mapping, and of what the allocator keeps free at the end of a
/// heap. More than a piece of a file with what surrounds it (`file_buffer_size`: 1 MiB): with a new mapping for each of them the
/// kernel clears its pages each time, and a file takes a quarter longer.
#[cfg(target_env = "gnu")]
const LARGE_BLOCK: libc::c_int = 4 << 20;

/// Returns large blocks of memory to the kernel as soon as they are freed. Without this, the allocator raises its limits with
/// each freed block, up to 32 MiB, and keeps what later ones took: after a flood of large messages that is 64 MiB for each heap.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the allocator's only settings; they take no pointer")]
pub fn return_large_blocks() {
    // SAFETY: as in `share_one_heap`.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE_BLOCK);
    }
}

/// Other C libraries have no such limit.
#[cfg(not(target_env = "gnu"))]
pub fn return_large_blocks() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_read_only_mappings_are_selected() {
        let maps = "0-1000 r--p 00000000 00:01 7       /bin/salt\n\
                    1000-3000 r-xp 00001000 00:01 7    /bin/salt\n\
                    3000-4000 r--p 00003000 00:01 7    /bin/salt\n\
                    5000-6000 r-xp 00001000 00:01 8    /lib/libc.so\n\
                    6000-7000 rw-p 00002000 00:01 8    /lib/libc.so\n\
                    7000-8000 rw-p 00000000 00:00 0\n\
                    9000-a000 r-xp 00000000 00:00 0    [vdso]\n";
        let parts: Vec<_> = code(maps).collect();
        assert_eq!(parts, [(0, 0x1000), (0x1000, 0x2000), (0x5000, 0x1000)]);
    }

    #[test]
    fn the_program_continues_afterwards() {
        map_only_what_is_used();
        assert_eq!("4506".parse(), Ok(4506));
    }
}
