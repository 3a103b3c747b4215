//! Variables that a line may set: those that change what a program prints or tests, never what it runs or reads.

use super::knowledge::knowledge;

/// The longest value that is looked at, in bytes.
const MAX_VALUE_BYTES: usize = 256;

/// Code generation that a flag of rustc may choose.
const CODE_GENERATION: &[&str] = &[
    "codegen-units",
    "debug-assertions",
    "debuginfo",
    "lto",
    "opt-level",
    "overflow-checks",
    "panic",
    "strip",
    "target-cpu",
];

/// Returns whether a variable may have a value for any command.
pub(super) fn is_harmless(name: &str, value: &str) -> bool {
    let known = &knowledge().variables;
    if value.len() > MAX_VALUE_BYTES {
        return false;
    }
    let is_switch = known.switch_prefixes.iter().any(|begin| name.starts_with(begin))
        || known.switch_suffixes.iter().any(|end| name.ends_with(end));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.,:=+%@-".contains(c);
    (known.any.has(name) && value.chars().all(is_plain))
        || (is_switch && is_upper(name) && known.switches.has(value))
        || (known.rust_flags.has(name) && are_harmless_rust_flags(value))
}

/// Returns whether a variable is the line's own: no program finds it in its environment, and none means anything to the
/// shell.
pub(super) fn is_own(name: &str) -> bool {
    name.len() <= 32
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// Names that the shell or another interpreter reads are not upper case throughout, or begin like these.
fn is_upper(name: &str) -> bool {
    let is_of_interpreter = ["BASH", "PYTHON", "NODE", "PERL", "RUBY", "GIT", "LD_", "DYLD_"];
    name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        && !is_of_interpreter.iter().any(|begin| name.starts_with(begin))
}

/// Returns whether flags of rustc choose lints and code generation alone. Others name linkers and files.
fn are_harmless_rust_flags(flags: &str) -> bool {
    let is_name = |text: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | ':' | '-' | '='))
    };
    let mut flags = flags.split_ascii_whitespace();
    while let Some(flag) = flags.next() {
        let Some((letter, attached)) = flag.split_at_checked(2) else { return false };
        let value = if attached.is_empty() { flags.next().unwrap_or_default() } else { attached };
        let is_harmless = match letter {
            "-A" | "-D" | "-F" | "-W" => is_name(value) && !value.starts_with('-'),
            "-C" => is_name(value) && CODE_GENERATION.contains(&value.split('=').next().unwrap_or_default()),
            _ => false,
        };
        if !is_harmless {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_output_and_tests_may_be_set() {
        for (name, value) in [
            ("RUST_LOG", "my_crate=debug,info"),
            ("CI", "1"),
            ("NODE_ENV", "test"),
            ("LC_ALL", "C.UTF-8"),
            ("TZ", ""),
            ("RUSTFLAGS", "-D warnings"),
            ("RUSTDOCFLAGS", "-Dwarnings -A clippy::all"),
            ("RUSTFLAGS", "-C target-cpu=native -Cdebuginfo=0"),
            ("SKIP_SLOW", "1"),
            ("INTEGRATION_TESTS", "true"),
        ] {
            assert!(is_harmless(name, value), "{name}={value}");
        }
    }

    #[test]
    fn what_names_programs_files_and_options_may_not() {
        for (name, value) in [
            ("PATH", "."),
            ("LD_PRELOAD", "x"),
            ("LD_DEBUG", "1"),
            ("NODE_OPTIONS", "--require=x"),
            ("NODE_DEBUG", "1"),
            ("GIT_DIR", "x"),
            ("GIT_DEBUG", "1"),
            ("PYTHONPATH", "x"),
            ("PYTHONSTARTUP", "x"),
            ("PYTHONINSPECT", "1"),
            ("BASH_ENV", "x"),
            ("BASH_TEST", "1"),
            ("ENV", "x"),
            ("IFS", ""),
            ("HOME", "x"),
            ("MAKEFLAGS", "1"),
            ("CC", "cc"),
            ("RUSTC_WRAPPER", "x"),
            ("RUSTFLAGS", "-C linker=x"),
            ("RUSTFLAGS", "-Clinker=x"),
            ("RUSTFLAGS", "-C link-arg=x"),
            ("RUSTFLAGS", "-D"),
            ("RUSTFLAGS", "-L x"),
            ("RUSTFLAGS", "--sysroot x"),
            ("RUST_LOG", "../x"),
            ("RUST_LOG", "a b"),
            ("DEBUG", "*"),
            ("SKIP_SLOW", "x"),
            ("skip_slow", "1"),
            ("UNKNOWN", "1"),
        ] {
            assert!(!is_harmless(name, value), "{name}={value}");
        }
    }

    #[test]
    fn a_variable_of_the_line_is_in_no_environment() {
        assert!(["f", "file", "d2"].iter().all(|name| is_own(name)));
        assert!(!["F", "PATH", "http_proxy", "npm_config_x", "2d", ""].iter().any(|name| is_own(name)));
    }
}
