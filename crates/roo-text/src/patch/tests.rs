use proptest::prelude::*;

use super::*;

fn read(body: &str) -> Patch {
    parse(&format!("*** Begin Patch\n{body}*** End Patch\n")).unwrap()
}

fn wrong(patch: &str) -> (usize, String) {
    let error = parse(patch).unwrap_err();
    (error.line, error.problem)
}

fn hunks_of(body: &str) -> Vec<Hunk> {
    let patch = read(&format!("*** Update File: a\n{body}"));
    match patch.files.into_iter().next().unwrap().change {
        PatchOf::Update { hunks, .. } => hunks,
        other => panic!("{other:?}"),
    }
}

/// The text that hunks make of another.
#[track_caller]
fn made(text: &str, body: &str) -> String {
    apply(text, &hunks_of(body)).unwrap().text
}

#[track_caller]
fn refused(text: &str, body: &str) -> String {
    apply(text, &hunks_of(body)).unwrap_err().to_string()
}

#[test]
fn a_patch_names_what_happens_to_each_file() {
    let patch = read(
        "*** Add File: docs/new.md\n+# New\n+\n+Text.\n*** Delete File: old.txt\n\
         *** Update File: src/a.rs\n*** Move to: src/b.rs\n@@ fn a() {\n-    1\n+    2\n\
         *** Update File: c.rs\n x\n+y\n*** End of File\n",
    );
    let told: Vec<(&str, usize)> = patch.files.iter().map(|file| (file.path.as_str(), file.line)).collect();
    assert_eq!(told, [("docs/new.md", 2), ("old.txt", 6), ("src/a.rs", 7), ("c.rs", 12)]);
    assert_eq!(patch.files[0].change, PatchOf::Add { text: "# New\n\nText.\n".into() });
    assert_eq!(patch.files[1].change, PatchOf::Delete);
    let line = |mark, text: &str| HunkLine { mark, text: text.to_owned() };
    assert_eq!(
        patch.files[2].change,
        PatchOf::Update {
            moved_to: Some("src/b.rs".into()),
            hunks: vec![Hunk {
                line: 9,
                contexts: vec!["fn a() {".into()],
                lines: vec![line(Mark::Remove, "    1"), line(Mark::Insert, "    2")],
                at_end: false,
            }],
        }
    );
    match &patch.files[3].change {
        PatchOf::Update { moved_to: None, hunks } => assert!(hunks[0].at_end && hunks[0].line == 13),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_may_only_be_moved_or_be_empty() {
    let patch = read("*** Update File: a\n*** Move to: b\n*** Add File: c\n");
    assert_eq!(patch.files[0].change, PatchOf::Update { moved_to: Some("b".into()), hunks: vec![] });
    assert_eq!(patch.files[1].change, PatchOf::Add { text: String::new() });
}

#[test]
fn what_models_put_around_a_patch_does_not_count() {
    let plain = "*** Begin Patch\n*** Delete File: a\n*** End Patch";
    let expected = parse(plain).unwrap();
    for patch in [
        format!("\n\n{plain}\n\n"),
        format!("<<'EOF'\n{plain}\nEOF\n"),
        format!("apply_patch <<\"EOF\"\n{plain}\nEOF"),
        format!("```\n{plain}\n```"),
        plain.replace('\n', "\r\n"),
        plain.replace('\n', "\n\n"),
    ] {
        let mut read = parse(&patch).unwrap();
        read.files[0].line = expected.files[0].line;
        assert_eq!(read, expected, "{patch}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for (patch, line, problem) in [
        ("", 1, "begins with"),
        ("--- a/../../x\n+++ b/x\n@@ -1 +1 @@\n", 1, "begins with"),
        ("*** Begin Patch\n*** Add File: a\n+x\n", 3, "cut off"),
        ("*** Begin Patch\n*** End Patch\n", 2, "names no file"),
        ("*** Begin Patch\n*** Add File: \n+x\n*** End Patch", 2, "names no file"),
        ("*** Begin Patch\n*** Rename File: a\n*** End Patch", 2, "begins with a header"),
        ("*** Begin Patch\n*** Add File: a\n+x\ny\n*** End Patch", 4, "begins with `+`"),
        ("*** Begin Patch\n*** Add File: a\n+x\n\n+y\n*** End Patch", 4, "an empty one too"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", 2, "nothing is changed"),
        ("*** Begin Patch\n*** Update File: a\n@@\n x\n*** End Patch", 3, "changes nothing"),
        ("*** Begin Patch\n*** Update File: a\n@@\nx\n*** End Patch", 4, "blank, `-` or `+`"),
        ("*** Begin Patch\n*** Update File: a\n*** End of File\n*** End Patch", 3, "must follow the lines"),
        (
            "*** Begin Patch\n*** Delete File: a\n*** End Patch\n*** Begin Patch\n",
            4,
            "may follow `*** End Patch`",
        ),
    ] {
        let (at, told) = wrong(patch);
        assert!(at == line && told.contains(problem), "{patch}: line {at}: {told}");
    }
}

#[test]
fn a_hunk_goes_where_its_lines_are() {
    assert_eq!(made("a\nb\nc\n", " a\n-b\n+B\n c\n"), "a\nB\nc\n");
    assert_eq!(made("a\nb\nc\n", "@@\n-a\n@@\n c\n+d\n"), "b\nc\nd\n");
    assert_eq!(made("a\n", "-a\n"), "");
    assert_eq!(made("x\n", "@@ -1,2 +1,3 @@ fn x\n-x\n+y\n"), "y\n", "line numbers say nothing");
}

#[test]
fn a_line_above_tells_places_apart() {
    let text = "fn a() {\n    1\n}\nfn b() {\n    1\n}\n";
    assert_eq!(made(text, "@@ fn b() {\n-    1\n+    2\n"), "fn a() {\n    1\n}\nfn b() {\n    2\n}\n");
    assert_eq!(
        made(text, "@@ fn a() {\n-    1\n+    2\n"),
        "fn a() {\n    2\n}\nfn b() {\n    1\n}\n",
        "the first place below the line is meant"
    );
    let nested = "mod x\nfn a\n1\nmod y\nfn a\n1\n";
    assert_eq!(made(nested, "@@ mod y\n@@ fn a\n-1\n+2\n"), "mod x\nfn a\n1\nmod y\nfn a\n2\n");
    let told = refused(nested, "@@ fn a\n-1\n+2\n");
    assert!(
        told.contains("Hunk 1 (line 3 of the patch)") && told.contains("2 places: at lines 3, 6"),
        "{told}"
    );
}

#[test]
fn lines_that_fit_in_several_places_have_none() {
    let told = refused("x\ny\nx\n", "-x\n+z\n");
    assert_eq!(
        told,
        "Hunk 1 (line 3 of the patch): its lines fit in 2 places: at lines 1, 3. Add lines around the right one, \
         or name a line above it after `@@`."
    );
    assert!(refused(&"x\n".repeat(9), "-x\n").contains("9 places: at lines 1, 2, 3, 4, 5 and more"));
    // What hunks above have taken is no place any more.
    assert_eq!(made("x\ny\nx\n", " x\n-y\n+Y\n@@\n-x\n+z\n"), "x\nY\nz\n");
}

#[test]
fn what_has_no_place_is_told_with_what_is_close() {
    let told = refused("let one = 1;\nlet two = 2;\n", "-let tow = 2;\n+x\n");
    assert!(told.contains("not in the file:\nlet tow = 2;") && told.contains("line 2"), "{told}");
    assert!(refused("a\n", "@@ fn gone\n-a\n").contains("no line `fn gone`"));
    assert!(refused("a\nb\n", "-b\n@@\n-a\n").contains("at line 1, above those of the hunk before"));
    assert!(refused("a\nb\n", "-a\n*** End of File\n").contains("not the end of the file"));
    let long = format!("-{}\n", "x".repeat(1000));
    assert!(refused("a\n", &long).len() < 500);
}

#[test]
fn blanks_and_typography_are_overlooked_last_and_what_stays_is_kept() {
    for (text, body, new) in [
        ("a  \nb\n", " a\n-b\n+B\n", "a  \nB\n"),
        ("\ta\n\tb\n", " a\n-b\n+B\n", "\ta\n\tB\n"),
        ("say “a–b”\nc\n", " say \"a-b\"\n-c\n+C\n", "say “a–b”\nC\n"),
        ("a\u{a0}b\n", "-a b\n+c\n", "c\n"),
    ] {
        let applied = apply(text, &hunks_of(body)).unwrap();
        assert_eq!(applied.text, new);
        assert!(applied.notices[0].starts_with("hunk 1 fits at line 1 only if"), "{:?}", applied.notices);
    }
    // An exact place is better than a loose one.
    assert_eq!(made("  a\na\n", "-a\n+b\n"), "  a\nb\n");
    assert_eq!(apply("a\n", &hunks_of("-a\n+b\n")).unwrap().notices, [""; 0]);
}

#[test]
fn new_lines_of_a_hunk_that_is_indented_otherwise_are_indented_as_the_file() {
    let class = "class A:\n    def f(self):\n        a = 1\n        return a\n";
    for (text, body, new) in [
        (
            class,
            " def f(self):\n     a = 1\n+    b = 2\n",
            "class A:\n    def f(self):\n        a = 1\n        b = 2\n        return a\n",
        ),
        (
            class,
            " def f(self):\n-    a = 1\n-    return a\n+    if self:\n+        return 2\n+\n+    return 1\n",
            "class A:\n    def f(self):\n        if self:\n            return 2\n\n        return 1\n",
        ),
        // Tabs for blanks.
        (
            "f() {\n\ta();\n}\n",
            " f() {\n     a();\n+    if b {\n+        c();\n+    }\n }\n",
            "f() {\n\ta();\n\tif b {\n\t\tc();\n\t}\n}\n",
        ),
        // Only the first line lacks its indentation.
        ("    a();\n    b();\n", " a();\n-    b();\n+    c();\n", "    a();\n    c();\n"),
        // Only trailing blanks differ.
        ("  a  \nz\n", "   a\n+b\n", "  a  \nb\nz\n"),
        ("    x\n\ty\n", " x\n+z\n@@\n y\n+w\n", "    x\n    z\n\ty\n\tw\n"),
    ] {
        assert_eq!(made(text, body), new, "{body}");
    }
    let applied = apply(class, &hunks_of(" def f(self):\n     a = 1\n+    b = 2\n")).unwrap();
    assert_eq!(
        applied.notices,
        [
            "hunk 1 fits at line 2 only if indentation and trailing blanks are ignored; unchanged lines were left as they \
          were, and new ones were indented like them"
        ]
    );
}

#[test]
fn a_new_line_whose_indentation_is_unclear_is_not_guessed() {
    assert_eq!(
        refused("\ta\n    b\n", " a\n-b\n+c\n"),
        "Hunk 1 (line 3 of the patch): its lines are at line 1 of the file, but are indented differently there, so it \
         is unclear how far `c` is to be indented. Write the hunk again with the indentation of the file:\n\
         1 | \ta\n2 |     b"
    );
}

#[test]
fn lines_without_a_place_go_to_the_end_or_below_the_line_that_is_named() {
    assert_eq!(made("a\nb\n", "+c\n"), "a\nb\nc\n");
    assert_eq!(made("", "+c\n"), "c\n");
    assert_eq!(made("a\nb\n", "@@ a\n+c\n"), "a\nc\nb\n");
    assert_eq!(made("a\nb\n", "+c\n@@\n-a\n+A\n"), "A\nb\nc\n", "the end holds up nothing");
    assert_eq!(made("x\na\nx\n", "-x\n+y\n*** End of File\n"), "x\na\ny\n");
}

#[test]
fn an_empty_line_before_the_next_file_belongs_to_no_hunk() {
    let patch = read("*** Update File: a\n@@\n-a\n+b\n\n*** Update File: c\n\n@@\n-a\n+b\n");
    for file in &patch.files {
        let PatchOf::Update { hunks, .. } = &file.change else { panic!("an update") };
        assert_eq!(apply("x\na\ny\n", hunks).unwrap().text, "x\nb\ny\n");
    }
    assert_eq!(made("a\n\nz\n", "-a\n+b\n\n"), "b\n\nz\n", "where it is there, it may be meant");
}

#[test]
fn the_file_keeps_its_line_ends_its_mark_and_its_unended_line() {
    assert_eq!(made("a\r\nb\r\n", " a\n-b\n+c\n+d\n"), "a\r\nc\r\nd\r\n");
    assert_eq!(made("\u{feff}a\nb\n", "-a\n+c\n"), "\u{feff}c\nb\n");
    assert_eq!(made("a\nb", "-b\n+c\n"), "a\nc");
    assert_eq!(made("a\nb", "+c\n"), "a\nb\nc");
    assert_eq!(made("a\r\nb\nc\r\n", "-c\n+d\n"), "a\r\nb\nd\r\n", "each line that stays has its own");
}

#[test]
fn a_long_text_of_equal_lines_is_searched_in_linear_time() {
    let text = "x\n".repeat(200_000);
    let body: String = " x\n".repeat(20_000) + "-y\n";
    assert!(refused(&text, &body).contains("not in the file"));
}

fn lines_of(words: Vec<&'static str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

fn some_lines(most: usize) -> impl Strategy<Value = Vec<String>> {
    let line = prop::sample::select(vec!["", "a", "b", " a", "a ", "}", "é", "*** x", "+", "-1", "@@"]);
    prop::collection::vec(line, 0..most).prop_map(lines_of)
}

proptest! {
    #[test]
    fn nothing_panics_and_what_is_read_is_sound(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "*** Begin Patch", "*** End Patch", "*** Add File: a", "*** Delete File: b",
                "*** Update File: c", "*** Move to: d", "*** End of File", "@@", "@@ a", "@@ -1 +1 @@",
                "+a", "-a", " a", "", "a", "<<EOF", "EOF", "```", "é", "+é",
            ]),
            0..24,
        ),
        text in some_lines(12),
    ) {
        let patch = parts.join("\n");
        match parse(&patch) {
            Err(error) => prop_assert!(error.line >= 1 && error.line <= parts.len().max(1)),
            Ok(patch) => for file in &patch.files {
                prop_assert!(!file.path.is_empty());
                if let PatchOf::Update { hunks, moved_to } = &file.change {
                    prop_assert!(moved_to.is_some() || !hunks.is_empty());
                    let _ = apply(&text.join("\n"), hunks);
                }
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(patch in "\\PC*") {
        let _ = parse(&patch);
        let _ = parse(&format!("*** Begin Patch\n*** Update File: a\n{patch}\n*** End Patch"));
    }

    /// A hunk that shows a whole file makes exactly the new one of it, whatever stands in both.
    #[test]
    fn a_hunk_of_the_whole_file_makes_the_new_one(
        old in some_lines(12),
        new in some_lines(12),
        eol in prop::sample::select(vec!["\n", "\r\n"]),
        ended in any::<bool>(),
    ) {
        prop_assume!(!old.is_empty() && old != new);
        let text = |lines: &[String]| {
            let mut text: String = lines.iter().map(|line| format!("{line}{eol}")).collect();
            if !ended { text.truncate(text.len().saturating_sub(eol.len())); }
            text
        };
        // A last line that is empty and not ended is none.
        prop_assume!(ended || (old.last().is_some_and(|line| !line.is_empty())));
        let mut hunk = Hunk { line: 1, contexts: vec![], lines: vec![], at_end: false };
        let line = |mark, text: &String| HunkLine { mark, text: text.clone() };
        hunk.lines.extend(old.iter().map(|text| line(Mark::Remove, text)));
        hunk.lines.extend(new.iter().map(|text| line(Mark::Insert, text)));
        // The line ends of a file without any are LF.
        prop_assume!(eol == "\n" || text(&old).contains('\n'));
        prop_assert_eq!(apply(&text(&old), &[hunk]).unwrap().text, text(&new));
    }
}

#[test]
fn entities_are_decoded_where_only_the_characters_are_in_the_file() {
    let text = "if a < b && c {\n}\n";
    let applied = apply(text, &hunks_of("@@\n-if a &lt; b &amp;&amp; c {\n+if b &gt; a {\n }\n")).unwrap();
    assert_eq!(applied.text, "if b > a {\n}\n");
    assert!(applied.notices[0].contains("HTML entities of hunk 1"), "{:?}", applied.notices);
    assert_eq!(made("<p>&lt;</p>\n", "@@\n-<p>&lt;</p>\n+<p>&gt;</p>\n"), "<p>&gt;</p>\n");
    assert!(refused(text, "@@\n-if x &lt; y {\n+z\n").contains("not in the file"));
}
