//! Writes the page of documentation about options.

fn main() {
    print!("{}", saltern_config::effects::page());
}
