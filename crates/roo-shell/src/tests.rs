use proptest::prelude::*;

use super::*;

mod oracle;
mod structure_oracle;

fn words(line: &str) -> Result<Vec<String>, String> {
    let script = read(line);
    let commands = script.plain()?;
    Ok(commands.iter().flat_map(|command| &command.words).map(|word| word.visible.clone()).collect())
}

#[test]
fn quotes_may_hold_literal_text() {
    assert_eq!(words("grep 'a b' \"c d\" e\"f\"'g'").unwrap(), ["grep", "a b", "c d", "efg"]);
    assert_eq!(words("echo '' \"\"").unwrap(), ["echo", "", ""]);
    assert_eq!(words(r#"echo '$(x) \;' "\"\\""#).unwrap(), ["echo", r"$(x) \;", r#""\"#]);
    assert_eq!(words("git log HEAD~1 a#b stash@{0}").unwrap(), ["git", "log", "HEAD~1", "a#b", "stash@{0}"]);
    assert_eq!(words("find . ! -name x -o -exec y {} \\;").unwrap()[8..], ["{}", ";"]);
}

#[test]
fn a_dollar_sign_that_begins_nothing_is_text() {
    assert_eq!(words("sed -i s/l2$/X/ a.txt").unwrap(), ["sed", "-i", "s/l2$/X/", "a.txt"]);
    assert_eq!(words("sed s,a$,b, x$ | grep -c y$").unwrap(), ["sed", "s,a$,b,", "x$", "grep", "-c", "y$"]);
    assert_eq!(words("awk /foo$/ f; echo $ \\$/").unwrap(), ["awk", "/foo$/", "f", "echo", "$", "$/"]);
    for line in ["(grep x$)", "case a$ in a$) grep -c x$ f;; esac", "[[ $a =~ ^b$ ]]", "echo $HOME$/x"] {
        assert!(!read(line).is_incomplete(), "{line:?}: {:?}", read(line));
    }
    for line in ["echo $$/x", "echo ${$/1/2}", "echo $x$/", "echo {a$,b}", "echo $\\\nx"] {
        assert!(read(line).plain().is_err(), "{line:?}");
    }
    // The end of a document is told by its own text.
    let hidden = "cat <<E_/\nE$/\necho '\nE_/\nrm x\n#'";
    let seen = read(hidden);
    assert!(seen.commands.iter().any(|command| command.words[0].visible == "rm"), "{seen:?}");
}

#[test]
fn no_character_behind_a_brace_ends_the_program() {
    for c in (1_u32..=0x0010_ffff).step_by(61).filter_map(char::from_u32) {
        for line in [format!("echo {{{c}"), format!("{{1{c}"), format!("x {{1..2{c} <<{{{c}")] {
            assert!(!read(&line).problems.is_empty() || read(&line).commands.len() == 1, "{line:?}");
        }
    }
    assert_eq!(words("echo {é {1é x").unwrap(), ["echo", "{é", "{1é", "x"]);
}

#[test]
fn a_pattern_is_known_by_what_its_names_begin_with() {
    let value = |line: &str| read(line).commands[0].words[1].value.clone();
    let pattern =
        |text: &str, prefix: &str| Value::Pattern(Pattern { text: text.into(), prefix: prefix.into() });
    assert_eq!(value("ls src/*.rs"), pattern("src/*.rs", "src/"));
    assert_eq!(value("ls *.rs"), pattern("*.rs", ""));
    assert_eq!(value("ls 'a b'?[ab]"), pattern("a b?[ab]", "a b"));
    assert_eq!(value("ls '*'"), Value::Literal("*".into()));
    assert_eq!(value("ls \\*"), Value::Literal("*".into()));
}

#[test]
fn lists_pipes_and_redirections_are_plain() {
    let script = read("a 2>&1 | b && c > o || d; e\n\nf <<'E' g\n$(x)\nE\nh # i");
    let commands = script.plain().unwrap();
    let seen: Vec<(String, Option<Join>)> = commands
        .iter()
        .map(|command| {
            let words: Vec<&str> = command.words.iter().filter_map(Word::literal).collect();
            (words.join(" "), command.join)
        })
        .collect();
    let seen: Vec<(&str, Option<Join>)> = seen.iter().map(|(words, join)| (words.as_str(), *join)).collect();
    assert_eq!(
        seen,
        [
            ("a", None),
            ("b", Some(Join::Pipe)),
            ("c", Some(Join::And)),
            ("d", Some(Join::Or)),
            ("e", Some(Join::Sequence)),
            ("f g", None),
            ("h", None),
        ]
    );
    assert_eq!(
        (commands[0].redirects[0].descriptor.as_str(), commands[0].redirects[0].operator.as_str()),
        ("2", ">&")
    );
    assert_eq!(commands[2].redirects[0].target.as_ref().and_then(Word::literal), Some("o"));
    assert_eq!(commands[5].redirects[0].document, Some(Document { text: "$(x)\n".into(), quoted: true }));
}

#[test]
fn whatever_is_more_than_plain_is_a_problem() {
    for line in [
        "",
        "  ",
        "# a",
        "-x a",
        "+x",
        "a&b",
        "a &",
        "(a)",
        "{ a; }",
        "$a",
        "\"$a\"",
        "`a`",
        "\"`a`\"",
        "a $((1))",
        "a $[1]",
        "a <(b)",
        "~",
        "a ~/x",
        "a --a=~/x",
        "a b:~",
        "a {b,c}",
        "a {1..3}",
        "a x{b,c}y",
        "a {x{b,c}}",
        "a {b\"}\",c}",
        "a {}{b,c}",
        "! a",
        "A=b c",
        "A=b",
        "A+=b",
        "export A=b",
        "unset A",
        "[ a ]",
        "[[ a ]]",
        "if a; then b; fi",
        "for a in b; do c; done",
        "while a; do b; done",
        "case a in b) c;; esac",
        "a() { b; }",
        "function a { b; }",
        "time a",
        "coproc a",
        "a 'b",
        "a \"b",
        "a \\",
        "a b\\\nc",
        "a\\\nb",
        "a |\\\n| b",
        "a ; ; b",
        "a ;; b",
        "&& a",
        "a &&",
        "a |",
        "a |& b",
        "a &> b",
        "a &>> b",
        "a >& b",
        "a <> b",
        "a >",
        "a <<< b",
        "a {b}> c",
        "a 10> c",
        "a >&3-",
        "a $'b'",
        "a $\"b\"",
        "a <<E\n$b\nE",
        "a <<E\n`b`\nE",
        "a <<E\nb\\\nE",
        "a <<E\nb",
        "a <<E",
        "a <<$E\nb\n$E",
        "a <<'E F'\nb\nE F",
        "a <<E\nb\nEF\n",
        // The grammar takes the line before the last for the end.
        "a <<E\nb\nE x\nE",
        "a <<E\nb\n  E\nE",
        "a\u{a0}b",
        "a\tb",
        "a\rb",
        "a\0",
        "a\u{202e}b",
        "a '\u{200b}'",
        "a\u{3164}b",
        "a\u{fe0f}",
        "a\u{e0100}",
        "a # \u{202e}",
        // On some systems one byte of it is a blank.
        "a \u{e0}b",
        "a=(b c)",
        "a (b)",
        ")",
    ] {
        assert!(read(line).plain().is_err(), "{line:?}");
    }
}

#[test]
fn what_holds_an_emoji_together_deceives_nobody() {
    let found = |line: &str| deceptive_characters(line).collect::<String>();
    assert_eq!(found("echo '\u{26a0}\u{fe0f} \u{1f469}\u{200d}\u{1f4bb}'\n"), "");
    assert_eq!(found("a\u{fe0f}\u{200d}b\t\u{26a0}\u{fe0f}\u{fe0f}"), "\u{fe0f}\u{200d}\t\u{fe0f}");
}

#[test]
fn compound_commands_and_expansions_have_a_structure() {
    for line in [
        "A=b C=d ls -l",
        "time cargo test",
        "! ls | wc",
        "(a; b) && c",
        "{ a; } 2>&1 | tee x",
        "if [ -f x ]; then b; elif [[ $a == b ]]; then c; else d; fi | e",
        "for f in src/*.rs \"$x\" $(a); do wc -l \"$f\"; done",
        "for f in a\ndo\n  x $f\ndone && b",
        "cat x | while IFS= read -r f; do echo \"$f\"; done",
        "until a; do b; done < c",
        "echo $? \"$HOME/x ${PATH}\" -j$(nproc)",
        "git commit -m \"$(cat <<'E'\nFix `x`\nE\n)\"",
        "ls &> o; ls &>> o",
        "set -e\nexport A=$(b)\nx=$(a)",
        "a |\n\n b && \\\n c",
        "(cat <<'E'\n)\nE\n)",
    ] {
        let script = read(line);
        assert!(script.structure().is_ok(), "{line:?}: {script:#?}");
    }
    for line in [
        "a &",
        "a `b`",
        "a $((1))",
        "a ${x:-y}",
        "a $1",
        "a $@",
        "a <(b)",
        "a <<< b",
        "a |& b",
        "a() { b; }",
        "case x in a) b;; esac",
        "for x; do a; done",
        "for ((i=0;i<3;i++)); do a; done",
        "for x in a; do done",
        "if a; then fi",
        "( )",
        "(a",
        "a )",
        "{ a }",
        "a; }",
        "(a) b",
        "((a))",
        "a $(b",
        "a \"$(b\"",
        "a $(cat <<E\nb)",
        "cat <<E $(a)\nE",
        "A+=b c",
        "A=(b) c",
        "a[0]=b c",
        "coproc a",
        "! ! a",
        "a {b,$c}",
    ] {
        assert!(read(line).structure().is_err(), "{line:?}");
    }
}

#[test]
fn commands_are_found_wherever_they_stand() {
    let check = |line: &str, expected: &[(&str, &[Way])]| {
        let script = read(line);
        let seen: Vec<(String, &[Way])> = script
            .commands
            .iter()
            .map(|command| {
                let words: Vec<&str> = command.words.iter().map(|word| word.visible.as_str()).collect();
                (words.join(" "), command.ways.as_slice())
            })
            .collect();
        let seen: Vec<(&str, &[Way])> = seen.iter().map(|(words, ways)| (words.as_str(), *ways)).collect();
        assert_eq!(seen, expected, "{line:?}");
    };
    check("(a b); { c; }", &[("a b", &[Way::Subshell]), ("c", &[Way::Group])]);
    check("a & b", &[("a", &[Way::Background]), ("b", &[])]);
    check(
        "a $(b \"$(c)\") `d`",
        &[
            ("a $(b $(c)) `d`", &[]),
            ("b $(c)", &[Way::Substitution]),
            ("c", &[Way::Substitution, Way::Substitution]),
            ("d", &[Way::Substitution]),
        ],
    );
    check(
        "a <(b) > $(c)",
        &[("a <(b)", &[]), ("b", &[Way::ProcessSubstitution]), ("c", &[Way::Substitution])],
    );
    check("f() { a; }", &[("a", &[Way::Function, Way::Group])]);
    check("for i in $(a); do b; done", &[("a", &[Way::Loop, Way::Substitution]), ("b", &[Way::Loop])]);
    check("if a; then ! b; fi", &[("a", &[Way::Branch]), ("b", &[Way::Branch, Way::Negation])]);
    check("X=$(a) b", &[("b", &[]), ("a", &[Way::Substitution])]);
    check("X=$(a)", &[("", &[]), ("a", &[Way::Substitution])]);
    check("export X=$(a)", &[("export X=$(a)", &[]), ("a", &[Way::Substitution])]);
    check("[ -n \"$(a)\" ]", &[("[ -n $(a) ]", &[]), ("a", &[Way::Substitution])]);
    check("a <<E\n$(b)\nE", &[("a", &[]), ("b", &[Way::Document])]);
    check("a $((1 + $(b)))", &[("a $((1 + $(b)))", &[]), ("b", &[Way::Substitution])]);
    check("a ${x:-$(b)}", &[("a ${x:-$(b)}", &[]), ("b", &[Way::Substitution])]);
    check("$'r\\x6d' to${IFS}uch t\"o\"$'u\\143h'", &[("rm to uch touch", &[])]);
}

#[test]
fn a_line_of_too_many_commands_is_told_in_full_and_not_plain() {
    let line = "true; ".repeat(PLAIN_COMMANDS + 1);
    let script = read(&line);
    assert_eq!(script.commands.len(), PLAIN_COMMANDS + 1);
    assert_eq!(script.problems, [Problem::TooManyCommands]);
    assert!(read(&"true; ".repeat(PLAIN_COMMANDS)).plain().is_ok());
}

#[test]
fn limits_are_problems() {
    assert!(matches!(read(&"a".repeat(LINE_BYTES + 1)).problems[..], [Problem::TooLong(_)]));
    let deep = format!("{}a{}", "(".repeat(DEPTH * 2), ")".repeat(DEPTH * 2));
    assert!(read(&deep).is_incomplete());
    // However many other problems there are.
    let many: String = (0..100).map(|n| format!("a $x{n}; ")).collect();
    assert!(!read(&many).is_incomplete() && read(&format!("{many})")).is_incomplete());
}

#[test]
fn several_documents_are_not_given_to_the_grammar() {
    let line = "cat <<A <<B\n1\nA\n2\nB\n";
    assert!(read(line).is_incomplete() && read(line).plain().is_err());
    assert!(read("cat <<'A'\n$x\nA\n").plain().is_ok());
}

proptest! {
    #[test]
    fn no_line_breaks_the_reading(line in "([\\PC\n\t]|[;|&()<>$`'\"\\\\ #{}=~!*\\[\\]]|<<E\n|\nE\n|if |\\$\\(){0,60}") {
        let script = read(&line);
        for word in script.commands.iter().flat_map(|command| &command.words) {
            prop_assert!(line.get(word.range.clone()).is_some());
        }
        let _ = (scan(&line), strict::read(&line));
    }
}
