//! Cargo: what the user has downloaded is used, and what an agent downloads or installs stays in its sandbox.

use pretty_assertions::assert_eq;

use super::*;

/// A workspace of its own, wherever it lies.
const MANIFEST: &str =
    "[workspace]\n[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\n";

/// A library in a repository of its own, and a program that doesn't use it yet.
fn workshop() -> Workshop {
    let workshop = Workshop::new(&[
        ("Cargo.toml", MANIFEST),
        ("src/main.rs", "fn main() {\n    println!(\"{}\", 40 + 2);\n}\n"),
        ("~/lib/Cargo.toml", "[package]\nname = \"lib\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("~/lib/src/lib.rs", "pub fn answer() -> u32 {\n    42\n}\n"),
    ])
    .with("cargo");
    let line =
        "cd ../home/lib && git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm lib";
    assert_eq!(workshop.shell(line), (0, String::new()));
    workshop
}

#[test]
fn a_dependency_is_added_built_tested_and_installed_as_in_a_shell() {
    let workshop = workshop();
    workshop.both("cargo build -q && cargo run -q");
    let lib = workshop.at("home/lib").display().to_string();
    workshop.both(&format!("cargo add -q lib --git file://{lib} && echo 'fn main() {{ println!(\"{{}}\", lib::answer()); }}' >src/main.rs"));
    workshop.same("cat Cargo.toml src/main.rs");
    // What isn't there yet is fetched to where cargo keeps such things, which the user doesn't see.
    let told = workshop.both("cargo run -q && cargo test -q && cargo metadata --format-version 1 >/dev/null");
    assert!(told.contains("42"), "{told}");
    assert_eq!(workshop.shell_in("agent", "ls ~/.cargo/git/db | wc -l").1, "1\n", "the shell's own");
    workshop.both("cargo install -q --path . && ~/.cargo/bin/app");
    let told = workshop.agent("~/.cargo/bin/app && cargo uninstall -q app && ! ls ~/.cargo/bin/app");
    assert!(told.contains("Exit code: 0"), "the next command has it: {told}");
    assert_eq!(names(&workshop.at("home/.cargo/bin")), ["app"], "the user's own is there still");
}
