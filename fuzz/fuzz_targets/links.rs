//! Links between masters: what a stranger sends after TLS and before it has proven anything.

#![no_main]

use libfuzzer_sys::fuzz_target;
use links::fuzzing::{frames, survives};

fuzz_target!(|input: &[u8]| {
    let Some((first, stream)) = input.split_first() else { return };
    let at_once = frames(stream, stream.len().max(1));
    assert_eq!(frames(stream, usize::from(*first) + 1), at_once);
    assert!(at_once.iter().map(|frame| frame.len() + 4).sum::<usize>() <= 64 * 1024);
    assert!(at_once.iter().all(survives));
});
