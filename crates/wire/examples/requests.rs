//! Writes the page of documentation about requests.

fn main() {
    print!("{}", saltern_wire::command::page());
}
