//! Tests wait for what they need and not for time, and none fails because the machine is busy.

use regex::Regex;

use super::rust_files;

/// What is below ten seconds fails on a busy machine.
const LEAST_LIMIT: f64 = 10.0;

/// Where tests may sleep, and why.
const MAY_SLEEP: &[(&str, &str)] = &[
    ("tests/it/support/client.rs", "the state of another process is looked at again and again"),
    ("crates/roo-engine/tests/simulation/", "all of it runs in simulated time"),
];

/// The tests in a file: all of it, or its module of tests. None where it has none.
fn tests_in<'a>(name: &str, text: &'a str) -> Option<&'a str> {
    if super::is_test(name) {
        return Some(text);
    }
    let module = text.find("#[cfg(test)]\nmod tests {")?;
    Some(&text[module..])
}

/// Returns whether the time of a test is simulated: it begins with a paused clock. What stands before the first test of a file
/// serves that one.
fn is_in_simulated_time(text: &str, at: usize) -> bool {
    let attribute = Regex::new(r"#\[(?:tokio::)?test\b[^\]]*\]").unwrap();
    let nearest = attribute.find_iter(&text[..at]).last().or_else(|| attribute.find_at(text, at));
    nearest.is_some_and(|attribute| attribute.as_str().contains("start_paused = true"))
}

/// What sleeps in a text, apart from simulated time.
fn sleeps(text: &str) -> Vec<&str> {
    let sleep = Regex::new(r"(?m)^.*\b(?:thread::sleep|time::sleep|time::sleep_until)\(.*$").unwrap();
    let found = sleep.find_iter(text);
    found
        .filter(|found| found.as_str().contains("thread::") || !is_in_simulated_time(text, found.start()))
        .map(|found| found.as_str().trim())
        .collect()
}

/// What asserts in a text that less than [`LEAST_LIMIT`] has passed, apart from simulated time.
fn impatient(text: &str) -> Vec<&str> {
    let limits = [
        // `assert!(begun.elapsed() < LIMIT`, with the limit as a duration, a number or a constant.
        r"assert!\(\s*(?:[\w.]+\.elapsed\(\)|took)(?P<unit>\.as_\w+\(\))?\s*<=?\s*(?P<limit>[^,;]+?)(?:,|\);)",
        // `timeout(LIMIT, …).await.unwrap()`, which is the same.
        r"timeout\(\s*(?P<limit>Duration::from_\w+\(\d+\)),[^;]*\)\s*\.await\s*\.(?:unwrap|expect)",
    ];
    let mut found = Vec::new();
    for pattern in limits {
        for asserted in Regex::new(pattern).unwrap().captures_iter(text) {
            let whole = asserted.get(0).unwrap();
            let unit = asserted.name("unit").map_or("", |unit| unit.as_str());
            let limit = seconds(text, &asserted["limit"], unit);
            if limit.is_some_and(|limit| limit < LEAST_LIMIT) && !is_in_simulated_time(text, whole.start()) {
                found.push(whole.as_str());
            }
        }
    }
    found
}

/// The seconds of a limit; none for a constant of another file, such as the common deadline.
fn seconds(text: &str, limit: &str, unit: &str) -> Option<f64> {
    let duration = Regex::new(r"Duration::from_(secs|millis|micros)\(([\d_]+)\)").unwrap();
    let number = |digits: &str| digits.replace('_', "").parse::<f64>().ok();
    let scale = |unit: &str| {
        if unit.contains("milli") {
            1e-3
        } else if unit.contains("micro") {
            1e-6
        } else {
            1.0
        }
    };
    if let Some(parts) = duration.captures(limit) {
        return Some(number(&parts[2])? * scale(&parts[1]));
    }
    if let Some(number) = number(limit) {
        return Some(number * scale(unit));
    }
    let constant = Regex::new(&format!(r"const {}: [\w:]+ = ([^;]+);", regex::escape(limit))).unwrap();
    seconds(text, constant.captures(text)?.get(1)?.as_str(), unit)
}

#[test]
fn tests_wait_for_no_time_and_fail_on_no_busy_machine() {
    let package = crate::support::package();
    let mut files = Vec::new();
    ["src", "crates", "tests"].iter().for_each(|below| rust_files(&package.join(below), &mut files));
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in files {
        let name = file.strip_prefix(&package).unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        // This file has examples.
        let Some(tests) = tests_in(&name, &text).filter(|_| name != file!()) else { continue };
        seen += 1;
        if !MAY_SLEEP.iter().any(|(start, _)| name.starts_with(start)) {
            wrong.extend(sleeps(tests).into_iter().map(|line| format!("{name}: {line}")));
        }
        wrong.extend(impatient(tests).into_iter().map(|line| format!("{name}: {line}")));
    }
    assert!(seen > 100, "{seen} files of tests");
    assert_eq!(
        wrong,
        Vec::<String>::new(),
        "wait for an event, the answer to a later request, or with `eventually`; let time be simulated where it is \
         the point; give what only has to end the common deadline"
    );
}

#[test]
fn what_waits_for_time_is_found() {
    let test = |attribute: &str, line: &str| format!("#[{attribute}]\nfn a() {{\n    {line}\n}}\n");
    for line in ["std::thread::sleep(PAUSE);", "tokio::time::sleep(PAUSE).await;"] {
        assert_eq!(sleeps(&test("tokio::test", line)), [line]);
    }
    let paused = "tokio::test(start_paused = true)";
    assert_eq!(sleeps(&test(paused, "tokio::time::sleep(PAUSE).await;")), [""; 0]);
    assert_eq!(sleeps(&test(paused, "std::thread::sleep(PAUSE);")), ["std::thread::sleep(PAUSE);"]);
    assert_eq!(sleeps(&format!("time::sleep(PAUSE).await;\n{}", test(paused, ""))), [""; 0]);
}

#[test]
fn what_is_impatient_is_found() {
    for (line, is_found) in [
        ("assert!(begun.elapsed() < Duration::from_millis(1500), \"late\");", true),
        ("assert!(self.begun.elapsed() < Duration::from_secs(9));", true),
        ("assert!(took < Duration::from_secs(9));", true),
        ("assert!(begun.elapsed().as_secs() < 5);", true),
        ("assert!(begun.elapsed().as_millis() <= 9_000);", true),
        ("const SOON: Duration = Duration::from_secs(2);\nassert!(begun.elapsed() < SOON);", true),
        ("timeout(Duration::from_secs(1), gone.notified()).await.unwrap();", true),
        ("assert!(begun.elapsed() < Duration::from_secs(10));", false),
        ("assert!(begun.elapsed().as_millis() <= 10_000);", false),
        ("assert!(begun.elapsed() < DEADLINE);", false),
        ("assert!(begun.elapsed() >= Duration::from_secs(1));", false),
        ("timeout(Duration::from_secs(20), gone.notified()).await.unwrap();", false),
        // That no more comes can be told by time alone.
        ("timeout(Duration::from_secs(1), sending.changed()).await.is_err();", false),
    ] {
        assert_eq!(!impatient(line).is_empty(), is_found, "{line}");
        assert_eq!(impatient(&format!("#[tokio::test(start_paused = true)]\n{line}")), [""; 0], "{line}");
    }
}
