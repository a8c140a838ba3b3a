//! Prints the grains of this machine as JSON, and how long it took to find them.
//!
//! `cargo run -p saltern-grains --example grains -- [id]`

use std::time::Instant;

use value::{Value, map};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let id = std::env::args().nth(1).unwrap_or_else(|| "minion".into());
    let start = Instant::now();
    let grains = saltern_grains::refresh(&map! { "id" => id });
    let took = start.elapsed();
    println!("{}", serde_json::to_string_pretty(&Value::Map(grains))?);
    eprintln!("found in {took:?}");
    Ok(())
}
