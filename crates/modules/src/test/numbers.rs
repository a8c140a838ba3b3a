//! Numbers and hashes that take their time.

use std::time::Instant;

use exec::{Context, Error, Result, function};
use value::{BigInt, Value, list};

/// Returns a Fibonacci number and the seconds it took to compute it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.fib 90
#[function]
pub(super) fn fib(ctx: &Context, num: i64) -> Result<Value> {
    if num < 0 {
        return Err(Error::Other("Negative number is not allowed!".into()));
    }
    let start = Instant::now();
    let (mut previous, mut current) = (BigInt::from(0), BigInt::from(1));
    for step in 1..num {
        (previous, current) = (current.clone(), previous + current);
        // Such a loop never waits for anything, so it has to look for itself whether it was killed.
        if step % 1000 == 0 {
            ctx.unless_killed();
        }
    }
    let number = if num == 0 { previous } else { current };
    Ok(list![number, start.elapsed().as_secs_f64()])
}

/// Returns the Collatz sequence of a number and the seconds it took to compute it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.collatz 27
#[function]
pub(super) fn collatz(ctx: &Context, start: i64) -> Result<Value> {
    if start < 1 {
        return Err(Error::invocation(format!("the sequence of {start} never reaches 1")));
    }
    let begin = Instant::now();
    let mut steps: Vec<Value> = Vec::new();
    // Python's division makes a float, and what follows stays one.
    let (mut number, mut halved) = (i128::from(start), false);
    while number != 1 {
        steps.push(if halved { Value::Float(number as f64) } else { Value::Int(number as i64) });
        halved |= number % 2 == 0;
        number = if number % 2 == 0 { number / 2 } else { number * 3 + 1 };
        if steps.len().is_multiple_of(1000) {
            ctx.unless_killed();
        }
    }
    Ok(list![steps, begin.elapsed().as_secs_f64()])
}

/// Returns the hash of a random number up to ``size``. The algorithm is the option ``hash_type`` unless one is named.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.random_hash
///     salt '*' test.random_hash hash_type=sha512
#[function]
pub(super) fn random_hash(
    ctx: &Context,
    #[default(9_999_999_999_i64)] size: u64,
    hash_type: Option<String>,
) -> Result<String> {
    hash_of_random(ctx, size, hash_type)
}

/// The old name of ``test.random_hash``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.rand_str
#[function]
pub(super) fn rand_str(
    ctx: &Context,
    #[default(9_999_999_999_i64)] size: u64,
    hash_type: Option<String>,
) -> Result<String> {
    hash_of_random(ctx, size, hash_type)
}

pub(super) fn hash_of_random(ctx: &Context, size: u64, hash_type: Option<String>) -> Result<String> {
    let name = hash_type.or_else(|| ctx.opt_str("hash_type").map(str::to_owned)).unwrap_or_else(|| "sha256".into());
    let kind: crypto::HashType =
        name.parse().map_err(|error: crypto::UnknownHashType| Error::invocation(error.to_string()))?;
    Ok(kind.hex(rand::random_range(1..=size.max(1)).to_string().as_bytes()))
}
