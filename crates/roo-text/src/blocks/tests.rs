use proptest::prelude::*;

use super::*;

mod cost;
mod document;
mod indentation;

fn diff(search: &str, replace: &str) -> String {
    let line = |text: &str| if text.is_empty() { String::new() } else { format!("{text}\n") };
    format!("<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE\n", line(search), line(replace))
}

fn diff_at(start: usize, search: &str, replace: &str) -> String {
    diff(search, replace).replacen("SEARCH\n", &format!("SEARCH\n:start_line:{start}\n-------\n"), 1)
}

fn try_apply(text: &str, diff: &str) -> Result<Applied, NothingApplied> {
    apply(text, &parse(diff).unwrap(), Threshold::default())
}

#[track_caller]
fn applied(text: &str, diff: &str) -> String {
    let applied = try_apply(text, diff).unwrap();
    assert_eq!(applied.failed, []);
    applied.text
}

#[track_caller]
fn rung(text: &str, diff: &str) -> Rung {
    try_apply(text, diff).unwrap().applied[0].rung
}

#[track_caller]
fn problem(text: &str, diff: &str) -> BlockProblem {
    try_apply(text, diff).unwrap_err().failed.remove(0).problem
}

/// Lines `line 1` to `line <count>`.
fn numbered_lines(count: usize) -> String {
    (1..=count).map(|n| format!("line {n}\n")).collect()
}

mod format {
    use super::*;

    #[track_caller]
    fn refused(diff: &str) -> String {
        parse(diff).unwrap_err().to_string()
    }

    #[test]
    fn a_block_has_a_header_and_two_parts() {
        let text = "<<<<<<< SEARCH\n:start_line: 10\n:end_line:11\n-------\na\n\n=======\nb\n>>>>>>> REPLACE";
        let block = Block {
            line: 1,
            start_line: Some(10),
            decoded: false,
            search: vec!["a".into(), "".into()],
            replace: vec!["b".into()],
        };
        assert_eq!(parse(text).unwrap(), std::slice::from_ref(&block));
        assert_eq!(parse(&text.replace('\n', "\r\n")).unwrap(), [block]);
    }

    #[test]
    fn the_header_may_be_left_out() {
        for header in ["", "-------\n", ":start_line:0\n", ":end_line:7\n-------\n"] {
            let blocks = parse(&format!("<<<<<<< SEARCH\n{header}a\n=======\nb\n>>>>>>> REPLACE")).unwrap();
            assert_eq!((blocks[0].start_line, blocks[0].search.as_slice()), (None, &["a".to_owned()][..]));
        }
    }

    #[test]
    fn a_start_line_is_a_number() {
        for number in ["x", "", "-1", "99999999999999999999999"] {
            let message = refused(&diff(&format!(":start_line:{number}\n-------\na"), "b"));
            assert!(
                message.starts_with(&format!("Line 2 of the diff is `:start_line:{number}`")),
                "{message}"
            );
        }
    }

    #[test]
    fn the_search_marker_may_be_closed_like_a_tag() {
        for marker in ["<<<<<<< SEARCH>", "<<<<<<< SEARCH>  ", "<<<<<<< SEARCH \t"] {
            assert_eq!(
                parse(&diff("a", "b").replace("<<<<<<< SEARCH", marker)).unwrap().len(),
                1,
                "{marker}"
            );
        }
        for marker in ["<<<<<<< SEARCH>>", "<<<<<<< SEARCH  >", "<<<<<<<SEARCH", "<<<<<<< HEAD"] {
            let message = refused(&diff("a", "b").replace("<<<<<<< SEARCH", marker));
            assert!(message.starts_with("Line 1 of the diff is `<<<<<<<"), "{message}");
            assert!(message.contains("where `<<<<<<< SEARCH` was expected"), "{message}");
        }
        let mixed = diff_at(3, "a", "b").replace("SEARCH", "SEARCH>") + &diff("c", "d");
        assert_eq!(parse(&mixed).unwrap().len(), 2);
    }

    #[test]
    fn markers_out_of_order_are_named_with_their_line() {
        for (lines, line, expected) in [
            (vec!["======="], 1, "<<<<<<< SEARCH"),
            (vec![">>>>>>> REPLACE"], 1, "<<<<<<< SEARCH"),
            (vec!["<<<<<<< SEARCH", "a", ">>>>>>> REPLACE"], 3, "======="),
            (vec!["<<<<<<< SEARCH", "a", "<<<<<<< SEARCH"], 3, "======="),
            (vec!["<<<<<<< SEARCH", "<<<<<<< HEAD"], 2, "======="),
            (vec!["<<<<<<< SEARCH", "a", "=======", "b", "======="], 5, ">>>>>>> REPLACE"),
            (vec!["<<<<<<< SEARCH", "a", "=======", ">>>>>>> main"], 4, ">>>>>>> REPLACE"),
            (vec!["<<<<<<< SEARCH", "a", "=======", "<<<<<<< SEARCH"], 4, ">>>>>>> REPLACE"),
        ] {
            let FormatError::Unexpected { line: found, expected: wanted, .. } =
                parse(&lines.join("\n")).unwrap_err()
            else {
                panic!("{lines:?}");
            };
            assert_eq!((found, wanted), (line, expected), "{lines:?}");
        }
    }

    #[test]
    fn the_error_says_how_to_escape() {
        let message = refused("<<<<<<< SEARCH\na\n=======\nb\n=======\nc\n>>>>>>> REPLACE");
        assert!(message.contains("`\\=======`"), "{message}");
        assert!(message.contains("A block looks like this:\n<<<<<<< SEARCH\n"), "{message}");
    }

    #[test]
    fn a_block_has_an_end() {
        let incomplete = |expected| FormatError::Incomplete { line: 2, expected };
        assert_eq!(parse("\n<<<<<<< SEARCH\na\n"), Err(incomplete("=======")));
        assert_eq!(parse("\n<<<<<<< SEARCH\na\n=======\nb"), Err(incomplete(">>>>>>> REPLACE")));
        assert_eq!(parse("no block here"), Err(FormatError::NoBlock));
        assert_eq!(parse(""), Err(FormatError::NoBlock));
        assert_eq!(parse("  <<<<<<< SEARCH\n  a"), Err(FormatError::Indented { line: 1 }));
    }

    #[test]
    fn line_markers_have_no_place_in_a_replacement() {
        for marker in [":start_line:5", ":end_line:5", "    :start_line:5", "x\n:start_line:1\ny"] {
            let both = diff("ok", "ok too") + &diff("a", marker);
            let FormatError::LineMarker { line, .. } = parse(&both).unwrap_err() else { panic!("{marker}") };
            assert_eq!(line, if marker.contains('\n') { 10 } else { 9 });
        }
        assert_eq!(parse(&diff("a\n:start_line:5", "b")).unwrap()[0].search, ["a", ":start_line:5"]);
    }

    #[test]
    fn a_backslash_makes_a_marker_text() {
        for marker in ["<<<<<<< HEAD", "=======", ">>>>>>> main", "-------", ":start_line:1", ":end_line:2"] {
            let blocks = parse(&diff(&format!("\\{marker}"), &format!("\\{marker}\n\\\\{marker}"))).unwrap();
            assert_eq!(blocks[0].search, [marker]);
            assert_eq!(blocks[0].replace, [marker.to_owned(), format!("\\{marker}")]);
        }
        assert_eq!(parse(&diff("a", "  \\:start_line:1")).unwrap()[0].replace, ["  :start_line:1"]);
        assert_eq!(parse(&diff("a", "  \\=======\n  =======\n========")).unwrap()[0].replace.len(), 3);
    }

    #[test]
    fn what_surrounds_the_blocks_is_skipped() {
        let block = diff("a", "b");
        let bare = parse(&block).unwrap();
        let inside =
            |before: &str, after: &str| parse(&format!("{before}{}{after}", block.trim_end())).unwrap();
        for (before, after) in [
            ("```diff\n", "\n```\n"),
            ("<![CDATA[\n", "\n]]>"),
            ("<![CDATA[", "]]>"),
            ("Here:\n\n", "\nDone."),
        ] {
            let mut blocks = inside(before, after);
            blocks[0].line = 1;
            assert_eq!(blocks, bare, "{before}");
        }
    }
}

mod exact {
    use super::*;

    #[test]
    fn one_block_and_several() {
        assert_eq!(applied("a\nb\nc\n", &diff("b", "B")), "a\nB\nc\n");
        assert_eq!(applied("a\nb\nc\n", &(diff("a", "A\nA2") + &diff("c", "C"))), "A\nA2\nb\nC\n");
        assert_eq!(applied("a\nb\n", &diff("a", "<html>&lt;")), "<html>&lt;\nb\n");
    }

    #[test]
    fn deletion_of_lines() {
        assert_eq!(applied("a\nb\nc\n", &diff("b", "")), "a\nc\n");
        assert_eq!(applied("a\nb\nc\n", &diff("a\nb\nc", "")), "");
        assert_eq!(
            applied("a\nb\nc\n", &diff("b", "\n").replace("\n\n>", "\n>")),
            "a\nc\n",
            "one empty line is none"
        );
        assert_eq!(
            applied("if x:\n    a\n    b\n    c\n", &diff("    a\n    b", "    a")),
            "if x:\n    a\n    c\n"
        );
    }

    #[test]
    fn the_start_line_chooses_among_equal_places() {
        let text = "x\na\nx\nb\nx\n";
        assert_eq!(applied(text, &diff_at(3, "x", "y")), "x\na\ny\nb\nx\n");
        assert_eq!(applied(text, &diff_at(6, "x", "y")), "x\na\nx\nb\ny\n");
        assert_eq!(rung(text, &diff_at(3, "x", "y")), Rung::AtLine);
        assert_eq!(rung(text, &diff_at(6, "x", "y")), Rung::Nearest);
        assert_eq!(rung(text, &diff("a", "y")), Rung::Unique);
    }

    #[test]
    fn equal_places_without_a_start_line_are_ambiguous() {
        let text = "x\na\nx\nb\nx\n";
        assert_eq!(problem(text, &diff("x", "y")), BlockProblem::Ambiguous { lines: vec![1, 3, 5] });
        assert_eq!(
            problem(text, &diff_at(2, "x", "y")),
            BlockProblem::Ambiguous { lines: vec![1, 3, 5] },
            "two are equally near"
        );
        let message = problem(&"x\n".repeat(12), &diff("x", "y")).to_string();
        assert!(message.contains("at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more"), "{message}");
    }

    #[test]
    fn a_wrong_start_line_does_not_hide_the_only_place() {
        let text = numbered_lines(2000);
        for off in [1, 39, 41, 1000] {
            for start in [1500 - off, (1500 + off).min(9999)] {
                let expected = text.replace("line 1500\n", "new\n");
                assert_eq!(applied(&text, &diff_at(start, "line 1500", "new")), expected);
            }
        }
    }

    #[test]
    fn start_lines_mean_the_original_text_in_any_order() {
        let text = "x\n1\nx\n2\nx\n3\n";
        let blocks = [diff_at(1, "x", "a\na\na"), diff_at(3, "x\n2", ""), diff_at(5, "x", "c")];
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
            let all: String = order.iter().map(|i| blocks[*i].as_str()).collect();
            let result = try_apply(text, &all).unwrap();
            assert_eq!(result.text, "a\na\na\n1\nc\n3\n", "{order:?}");
            let mut lines: Vec<_> = result.applied.iter().map(|block| block.line).collect();
            lines.sort_unstable();
            assert_eq!(lines, [1, 5, 5]);
        }
    }

    #[test]
    fn later_blocks_prefer_lines_that_earlier_ones_left_alone() {
        let text = "start\nuse x\nend\n";
        let both = diff("start", "start\nuse x") + &diff("use x", "use y");
        assert_eq!(applied(text, &both), "start\nuse x\nuse y\nend\n");
    }

    #[test]
    fn a_block_may_build_on_an_earlier_one() {
        let both = diff("a", "b") + &diff("b", "c");
        assert_eq!(applied("a\n", &both), "c\n");
    }

    #[test]
    fn blocks_may_share_context_but_not_changed_lines() {
        let shared = diff("a\nb", "A\nb") + &diff("b\nc", "b\nC");
        assert_eq!(applied("a\nb\nc\n", &shared), "A\nb\nC\n");
        let overlap = diff("a\nb", "A\nB") + &diff("b\nc", "b\nC");
        let result = try_apply("a\nb\nc\n", &overlap).unwrap();
        assert_eq!(result.text, "A\nB\nc\n");
        assert_eq!((result.failed[0].block, &result.failed[0].problem), (2, &BlockProblem::Overlap));
        let resembling = diff("a", "A") + &diff("a", "x");
        assert_eq!(try_apply("a\n  a\n", &resembling).unwrap().failed[0].problem, BlockProblem::Overlap);
    }
}

mod bytes {
    use super::*;

    #[test]
    fn blanks_at_the_end_of_new_lines_are_kept() {
        assert_eq!(applied("a\nb\n", &diff("a", "a  \nc\t")), "a  \nc\t\nb\n");
        assert_eq!(applied("  a\nb\n", &diff("a", "c  ")), "  c  \nb\n");
    }

    #[test]
    fn every_line_keeps_its_end() {
        assert_eq!(applied("a\r\nb\r\nc\r\n", &diff("b", "B\nB2")), "a\r\nB\r\nB2\r\nc\r\n");
        assert_eq!(applied("a\r\nb\nc\r\nd\n", &diff("b\nc", "B\nC")), "a\r\nB\nC\r\nd\n");
        assert_eq!(applied("a\nb\r\nc\n", &diff("b", "b\nx\ny")), "a\nb\r\nx\r\ny\r\nc\n");
        let crlf = diff("b", "B\nB2").replace('\n', "\r\n");
        assert_eq!(applied("a\nb\n", &crlf), "a\nB\nB2\n");
    }

    #[test]
    fn a_missing_final_line_end_stays_missing() {
        assert_eq!(applied("a\nb", &diff("b", "c\nd")), "a\nc\nd");
        assert_eq!(applied("a\r\nb", &diff("b", "b\nc")), "a\r\nb\r\nc");
        assert_eq!(applied("a\nb", &diff("a", "A")), "A\nb");
        assert_eq!(applied("a\nb", &diff("b", "")), "a\n");
        assert_eq!(applied("a", &diff("a", "")), "");
    }

    #[test]
    fn a_final_line_end_stays() {
        assert_eq!(applied("a\nb\n", &diff("b\n", "c\n")), "a\nc\n");
        assert_eq!(applied("a\nb\n", &diff("b\n", "c")), "a\nc\n");
        assert_eq!(applied("a\nb\n", &diff("b", "c\n")), "a\nc\n\n", "an empty line was asked for");
    }

    #[test]
    fn a_byte_order_mark_stays() {
        assert_eq!(applied("\u{feff}a\nb\n", &diff_at(1, "a", "A")), "\u{feff}A\nb\n");
        assert_eq!(rung("\u{feff}a\nb\n", &diff_at(1, "a", "A")), Rung::AtLine);
    }

    #[test]
    fn repeated_lines_keep_what_the_block_overlooked() {
        let text = "a  \n“b”\n\tc\n";
        assert_eq!(applied(text, &diff("a\n\"b\"\n    c", "a\nnew\n\"b\"\n    c")), "a  \nnew\n“b”\n\tc\n");
    }

    #[test]
    fn wide_characters_are_text_like_any_other() {
        assert_eq!(applied("日本\n🦀 é\n", &diff("🦀 é", "🦀🦀\né")), "日本\n🦀🦀\né\n");
        assert_eq!(applied("\t日本\n", &diff("日本", "  🦀")), "\t  🦀\n");
    }
}

mod white_space {
    use super::*;

    #[test]
    fn rungs_are_told_apart() {
        for (text, search, expected) in [
            ("a  \nb\n", "a\nb", Rung::TrailingBlanks),
            ("    a {\n        b\n    }\n", "a {\n    b\n}", Rung::Indentation),
            ("\ta\n\t\tb\n", "    a\n        b", Rung::Indentation),
            ("if a:\n    b()\n", "if a:\nb()", Rung::Whitespace),
            ("call(a,\n  b)\n", "call(a, b)\n\n", Rung::Whitespace),
            ("“quoted” – text…\n", "\"quoted\" - text...", Rung::Indentation),
            ("a   =  b\n", "a = b", Rung::Indentation),
        ] {
            assert_eq!(rung(text, &diff(search, "")), expected, "{text:?}");
        }
    }

    #[test]
    fn new_lines_take_the_indentation_of_their_place() {
        let text = "class A {\n    run() {\n        one()\n    }\n}\n";
        let search = "run() {\n    one()\n}";
        let replace = "run() {\n    if x {\n        two()\n    }\n\n}";
        assert_eq!(
            applied(text, &diff(search, replace)),
            "class A {\n    run() {\n        if x {\n            two()\n        }\n\n    }\n}\n"
        );
    }

    #[test]
    fn the_indentation_of_exact_places_is_taken_as_written() {
        let text = "class A {\n    run() {\n\tmixed\n";
        let replace = "    run() {\n\t\tmore\n   odd";
        assert_eq!(applied(text, &diff("    run() {", replace)), format!("class A {{\n{replace}\n\tmixed\n"));
    }

    #[test]
    fn blanks_and_tabs_are_exchanged_where_the_file_has_the_other() {
        let text = "\tdef f():\n\t\ta()\n";
        let diffs =
            diff("    def f():\n        a()", "    def f():\n        if x:\n            b()\n        a()");
        assert_eq!(applied(text, &diffs), "\tdef f():\n\t\tif x:\n\t\t\tb()\n\t\ta()\n");
        assert_eq!(applied("    a\n      b\n", &diff("\ta\n\t  b", "\ta\n\t\tc")), "    a\n        c\n");
    }

    #[test]
    fn less_indentation_than_the_search_is_taken_away_in_the_file() {
        let text = "        deep()\n";
        assert_eq!(
            applied(text, &diff("    deep()", "    deep()\nshallow()")),
            "        deep()\n    shallow()\n"
        );
        assert_eq!(
            applied("  deep()\n", &diff("      deep()", "new()")),
            "new()\n",
            "never below the margin"
        );
    }

    #[test]
    fn an_unindented_first_line_does_not_move_the_rest() {
        let text = "    f() {\n        a();\n    }\n";
        let diffs = diff("f() {\n        a();\n    }", "f() {\n        b();\n    }");
        assert_eq!(applied(text, &diffs), "    f() {\n        b();\n    }\n");
    }

    #[test]
    fn empty_lines_are_not_indented() {
        let text = "    a\n\n    b\n";
        assert_eq!(applied(text, &diff("a\n\nb", "a\n\nc\n\nb")), "    a\n\n    c\n\n    b\n");
    }

    #[test]
    fn loose_matches_are_ambiguous_too() {
        assert_eq!(
            problem("  a b\n    a  b\n", &diff("a b", "c")),
            BlockProblem::Ambiguous { lines: vec![1, 2] }
        );
    }
}

mod fuzzy {
    use super::*;

    fn at(percent: f64, text: &str, diff: &str) -> Result<Applied, NothingApplied> {
        apply(text, &parse(diff).unwrap(), Threshold::new(percent))
    }

    const TEXT: &str =
        "function data() {\n    const result = fetchData();\n    return result.filter(Boolean);\n}\n";

    #[test]
    fn enough_likeness_is_accepted() {
        let search =
            "function data() {\n    const results = fetchData();\n    return results.filter(Boolean);\n}";
        let result = at(0.9, TEXT, &diff(search, "function data() {}")).unwrap();
        assert_eq!(result.text, "function data() {}\n");
        assert_eq!(result.applied[0].rung, Rung::Similar { percent: 97 });
        assert!(result.applied[0].notice().unwrap().contains("97%"));
        assert!(at(1.0, TEXT, &diff(search, "x")).is_err(), "the default wants all of it");
    }

    #[test]
    fn too_little_likeness_is_refused_with_the_best_place() {
        let search = "function items() {\n    const result = load();\n    return result.sort(byName);\n}";
        let error = at(0.9, TEXT, &diff(search, "x")).unwrap_err();
        let BlockProblem::NotFound { closest: Some(closest) } = &error.failed[0].problem else {
            panic!("{error}")
        };
        assert_eq!((closest.lines.start, closest.lines.end), (1, 4));
        assert!(closest.percent < 90);
    }

    #[test]
    fn the_limit_is_inclusive() {
        assert!(at(0.9, "abcdefghij\n", &diff("abcdefghiX", "new")).is_ok());
        assert!(at(0.91, "abcdefghij\n", &diff("abcdefghiX", "new")).is_err());
    }

    #[test]
    fn equally_like_places_are_ambiguous() {
        let text = "value = one(1)\nother\nvalue = one(2)\n";
        let error = at(0.8, text, &diff("value = one(3)", "x")).unwrap_err();
        assert_eq!(error.failed[0].problem, BlockProblem::Ambiguous { lines: vec![1, 3] });
        assert_eq!(
            at(0.8, text, &diff_at(3, "value = one(3)", "x")).unwrap().text,
            "value = one(1)\nother\nx\n"
        );
    }

    #[test]
    fn thresholds_are_clamped() {
        assert_eq!(Threshold::new(f64::NAN), Threshold::default());
        assert_eq!(Threshold::new(7.0), Threshold::default());
        assert!(at(-1.0, "abcd\n", &diff("wxyz", "x")).is_err());
    }
}

mod numbers {
    use super::*;

    #[test]
    fn copied_line_numbers_are_dropped() {
        assert_eq!(
            applied("a\n  b\nc\n", &diff("1 | a\n2 |   b", "1 | a\n2 |   B\n3 | x")),
            "a\n  B\nx\nc\n"
        );
        assert_eq!(applied("a\r\nb", &diff(" 2 | b", " 2 | B")), "a\r\nB");
        assert_eq!(applied("a\nb\n", &diff("2 | b", "")), "a\n");
        assert_eq!(applied("a\nb\n", &diff("2 | b", "B")), "a\nB\n");
        assert_eq!(
            applied("x\na\n\nx\n", &diff("4 | x", "4 | y")),
            "x\na\n\ny\n",
            "the first number is the start"
        );
    }

    #[test]
    fn numbers_before_some_lines_are_dropped_where_only_the_rest_is_in_the_file() {
        assert_eq!(applied("a\nb\n", &diff("1 | a\nb", "c")), "c\n");
        assert_eq!(applied("a\n  b\nc\n", &diff("1 | a\n  b\n3 | c", "1 | a\n  B\n3 | c")), "a\n  B\nc\n");
        assert_eq!(
            applied("x\na\nx\na\n", &diff("x\n4 | a", "x\nb")),
            "x\na\nx\nb\n",
            "the line of a number is the start"
        );
        let result = try_apply("a\nb\n", &diff("1 | a\nb", "c")).unwrap();
        assert_eq!(result.applied[0].reading, Reading::WithoutPrefixes);
        assert!(result.applied[0].notice().unwrap().contains("line numbers and bars"));
        let problem = problem("a\nb\n", &diff("1 | a\nx", "c"));
        assert!(matches!(problem, BlockProblem::NotFound { .. }), "{problem}");
    }

    #[test]
    fn bars_without_numbers_are_dropped_where_only_the_rest_is_in_the_file() {
        assert_eq!(
            applied(
                "fn a() {\n    b();\n}\n",
                &diff("| fn a() {\n|     b();\n| }", "| fn a() {\n|     c();\n| }")
            ),
            "fn a() {\n    c();\n}\n"
        );
        assert_eq!(applied("a\n\nb\n", &diff("  | a\n  |\n  | b", "  | a\n  | c")), "a\nc\n");
        assert_eq!(applied("a\nb\n", &diff("1 | a\n  | b", "x")), "x\n");
        assert_eq!(applied("| a\nb\n", &diff("| a", "| c")), "| c\nb\n", "the file has such lines");
    }

    #[test]
    fn new_lines_have_numbers_all_or_not_but_for_copied_ones() {
        let text = "a\nb\n";
        assert_eq!(applied(text, &diff("1 | a\n2 | b", "1 | a\nnew")), "a\nnew\n");
        for (search, replace) in
            [("1 | a\n2 | b", "1 | c\nnew"), ("1 | a\nb", "1 | c\nnew"), ("| a\n| b", "| c\nnew")]
        {
            assert_eq!(
                problem(text, &diff(search, replace)),
                BlockProblem::PartlyNumbered,
                "{search} {replace}"
            );
        }
    }

    #[test]
    fn numbers_and_bars_of_the_file_are_text() {
        assert_eq!(applied("1 | a\n2 | b\n", &diff("1 | a", "1 | c")), "1 | c\n2 | b\n");
        assert_eq!(applied("| a | b |\nx || y\n", &diff("| a | b |", "| c |")), "| c |\nx || y\n");
        assert_eq!(applied("x = 1 || y\n", &diff("x = 1 || y", "1 || 2")), "1 || 2\n");
    }
}

mod entities {
    use super::*;

    const TEXT: &str = "if a < b && c {\n    go(\"x\");\n}\n";

    #[test]
    fn entities_are_decoded_where_only_the_characters_are_in_the_file() {
        let escaped = diff("if a &lt; b &amp;&amp; c {", "if a &gt; b &amp;&amp; c {");
        let result = try_apply(TEXT, &escaped).unwrap();
        assert_eq!(result.text, TEXT.replace('<', ">"));
        assert_eq!(result.applied[0].reading, Reading::Decoded);
        assert!(result.applied[0].notice().unwrap().contains("HTML entities were decoded"));
        assert_eq!(
            applied(TEXT, &diff("1 | if a &lt; b &amp;&amp; c {", "1 | if &quot;&amp;lt;&quot; {")),
            TEXT.replace("a < b && c", "\"&lt;\"")
        );
    }

    #[test]
    fn entities_of_the_file_are_text() {
        let html = "<p>a &lt; b</p>\n";
        let result = try_apply(html, &diff("<p>a &lt; b</p>", "<p>a &gt; b</p>")).unwrap();
        assert_eq!(result.text, "<p>a &gt; b</p>\n");
        assert_eq!((result.applied[0].reading, result.applied[0].notice()), (Reading::AsWritten, None));
        let problem = problem(TEXT, &diff("if x &lt; y {", "z"));
        assert!(matches!(problem, BlockProblem::NotFound { .. }), "{problem}");
    }

    #[test]
    fn a_diff_that_is_escaped_as_a_whole_is_decoded() {
        let escaped = diff("if a < b && c {", "if b < a {")
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        let result = try_apply(TEXT, &escaped).unwrap();
        assert_eq!(result.text, TEXT.replace("a < b && c", "b < a"));
        assert_eq!(result.applied[0].reading, Reading::Decoded);
        assert!(matches!(parse("&lt;p&gt;"), Err(FormatError::NoBlock)));
    }
}

mod failures {
    use super::*;

    #[test]
    fn a_block_must_search_and_change_something() {
        assert_eq!(problem("a\n\n", &diff("", "x")), BlockProblem::EmptySearch);
        assert_eq!(problem("a\n\n", &diff("\n", "x")), BlockProblem::EmptySearch);
        assert_eq!(problem("a\n", &diff("a", "a")), BlockProblem::Unchanged);
        assert_eq!(problem("a\n", &diff("1 | a", "1 | a")), BlockProblem::Unchanged);
    }

    #[test]
    fn every_failed_block_is_named_and_the_others_apply() {
        let all = diff("nowhere to be seen", "x") + &diff("b", "B") + &diff("d", "x");
        let result = try_apply("a\nb\nd\nd\n", &all).unwrap();
        assert_eq!(result.text, "a\nB\nd\nd\n");
        let failed: Vec<_> = result.failed.iter().map(|failure| (failure.block, failure.line)).collect();
        assert_eq!(failed, [(1, 1), (3, 11)]);
    }

    #[test]
    fn when_all_fail_all_are_reported() {
        let error = try_apply("a\nlet value = 1;\n", &(diff("let values = 2;", "x") + &diff("zzz", "y")))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "Nothing was changed.\n\
             Block 1 (line 1 of the diff): its SEARCH part is not in the file. The closest text is line 2, 86% alike:\n\
             2 | let value = 1;\n\
             Copy the lines exactly as they are; read the file again if it may have changed.\n\
             Block 2 (line 6 of the diff): its SEARCH part is not in the file. Nothing like it is.\n\
             Copy the lines exactly as they are; read the file again if it may have changed."
        );
    }

    #[test]
    fn an_edit_that_was_made_before_is_recognised() {
        assert_eq!(problem("a\nnew\n", &diff("old", "new")), BlockProblem::AlreadyDone { line: 2 });
    }

    #[test]
    fn a_long_search_that_misses_a_long_file_names_the_place() {
        let text: String = (0..5000).map(|n| format!("    let value_{n} = compute({n}, other);\n")).collect();
        let mut search: Vec<_> = text.lines().skip(3000).take(30).map(str::to_owned).collect();
        search[15] = "    something else".into();
        let BlockProblem::NotFound { closest } = problem(&text, &diff(&search.join("\n"), "x")) else {
            panic!()
        };
        assert_eq!(closest.unwrap().lines.start, 3001);
    }

    #[test]
    fn an_empty_text_has_no_place() {
        assert!(matches!(problem("", &diff("a", "b")), BlockProblem::NotFound { closest: None }));
    }
}

/// Lines of which many look like markers, numbered lines or each other.
fn some_line() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a",
        "b",
        "  a",
        "\ta",
        "a  ",
        "",
        "    ",
        "1 | a",
        "=======",
        "\\=======",
        "<<<<<<< HEAD",
        "\\\\>>>>>>>",
        "-------",
        ":start_line:3",
        "  :end_line:1",
        "fn main() {",
        "}",
        "“é”",
        "日本🦀",
    ])
    .prop_map(str::to_owned)
}

fn escape(line: &str) -> String {
    let body = line.trim_start();
    let bare = body.trim_start_matches('\\');
    let marks = ["<<<<<<<", "=======", ">>>>>>>", "-------", ":start_line:", ":end_line:"];
    match marks.iter().any(|mark| bare.starts_with(mark)) && (body == line || bare.starts_with(':')) {
        true => format!("{}\\{body}", &line[..line.len() - body.len()]),
        false => line.to_owned(),
    }
}

/// Some lines of a text and what replaces them.
#[derive(Clone, Debug)]
struct LineChange {
    lines: std::ops::Range<usize>,
    new: Vec<String>,
}

/// Changes that don't touch each other, made from lengths of what stays and what goes.
fn some_changes() -> impl Strategy<Value = Vec<LineChange>> {
    let new = prop::collection::vec(some_line(), 0..4);
    prop::collection::vec((0usize..4, 1usize..4, new), 1..4).prop_map(|parts| {
        let mut at = 0;
        let change = |(stays, goes, new): (usize, usize, Vec<String>)| {
            let start = at + stays;
            at = start + goes;
            LineChange { lines: start..at, new }
        };
        parts.into_iter().map(change).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nothing_panics(text in any::<String>(), diff in any::<String>(), part in "[a\r\n\t 日|1=<>-]{0,40}") {
        let _ = parse(&diff);
        for text in [&text, &part] {
            for search in [&diff, &part] {
                let block = |search, start_line, replace| {
                    Block { line: 1, start_line, decoded: false, search: lines(search), replace: lines(replace) }
                };
                let blocks = [
                    block(search, Some(usize::MAX), &diff),
                    block(text, None, &part),
                    block(&part, Some(usize::MAX), text),
                ];
                for threshold in [0.5, 1.0] {
                    let _ = apply(text, &blocks, Threshold::new(threshold)).map_err(|error| error.to_string());
                }
            }
        }
    }

    #[test]
    fn blocks_made_from_an_edit_give_exactly_that_edit(
        body in prop::collection::vec(some_line(), 1..20),
        changes in some_changes(),
        crlf in any::<bool>(),
        mark in any::<bool>(),
        ended in any::<bool>(),
        backwards in any::<bool>(),
    ) {
        let eol = if crlf { "\r\n" } else { "\n" };
        let mut expected: Vec<String> = vec![];
        let mut blocks: Vec<String> = vec![];
        let mut done = 0;
        // A last empty line without an end is no line.
        let ended = ended || body.last().is_some_and(String::is_empty);
        for LineChange { lines, new } in changes {
            let Some(old) = body.get(lines.clone()) else { break };
            let searches = old.iter().any(|line| !line.trim().is_empty());
            if !searches || old == new || new == [""] || !ended && lines.end == body.len() {
                continue;
            }
            expected.extend_from_slice(&body[done..lines.start]);
            expected.extend_from_slice(&new);
            done = lines.end;
            let part = |lines: &[String]| lines.iter().map(|line| escape(line) + "\n").collect::<String>();
            blocks.push(format!(
                "<<<<<<< SEARCH\n:start_line:{}\n-------\n{}=======\n{}>>>>>>> REPLACE\n",
                lines.start + 1, part(old), part(&new),
            ));
        }
        if blocks.is_empty() {
            return Ok(());
        }
        expected.extend_from_slice(&body[done..]);
        if backwards {
            blocks.reverse();
        }
        let whole = |lines: &[String]| {
            let text: String = lines.iter().map(|line| format!("{line}{eol}")).collect();
            let text = if ended { text } else { text.strip_suffix(eol).unwrap_or(&text).to_owned() };
            format!("{}{text}", if mark { "\u{feff}" } else { "" })
        };
        let result = try_apply(&whole(&body), &blocks.concat()).unwrap();
        prop_assert_eq!(&result.failed, &[]);
        prop_assert_eq!(result.text, whole(&expected));
    }

    #[test]
    fn lines_outside_the_blocks_keep_their_bytes(
        before in "[ab \t\r\n]{0,20}",
        after in "[ab \t\r\n]{0,20}",
        indentation in "[ \t]{0,3}",
        replace in prop::collection::vec(some_line(), 0..3),
    ) {
        let text = format!("{before}\n{indentation}needle in here\n{after}");
        let block = Block { line: 1, start_line: None, decoded: false, search: vec!["needle in here".into()], replace };
        let result = apply(&text, &[block], Threshold::default()).unwrap().text;
        let (before, after) = (before + "\n", format!("\n{after}"));
        prop_assert!(result.starts_with(&before) && result.ends_with(&after), "{:?}", result);
    }
}

fn lines(text: &str) -> Vec<String> {
    text.split('\n').map(str::to_owned).collect()
}
