use proptest::prelude::*;

use super::*;

fn input() -> JsonObject {
    json!({ "command": "ls", "timeout": 1 }).as_object().unwrap().clone()
}

fn tool_input(command: Option<&str>, more: Value) -> JsonObject {
    let mut rewrite = input();
    if let Some(command) = command {
        rewrite.insert("command".to_owned(), command.into());
    }
    rewrite.extend(more.as_object().unwrap().clone());
    rewrite
}

fn given(hook: usize, answer: HookAnswer) -> RankedAnswer {
    let source = if hook < 2 { Source::User } else { Source::Workspace };
    RankedAnswer {
        hook,
        input: 0,
        source,
        shown: format!("hook {hook}"),
        ended: "exit code 0".to_owned(),
        answer,
    }
}

fn says(verdict: Verdict, reason: &str) -> HookAnswer {
    HookAnswer { verdict: Some(verdict), reason: Some(reason.to_owned()), ..HookAnswer::default() }
}

fn merged(answers: Vec<HookAnswer>) -> Outcome {
    let given = answers.into_iter().enumerate().map(|(hook, answer)| given(hook, answer)).collect();
    Outcome::merged(EventName::PreToolUse, &[input()], given)
}

#[test]
fn the_strictest_wins_and_says_why() {
    let outcome = merged(vec![
        says(Verdict::Allow, "fine"),
        says(Verdict::Deny, "never"),
        says(Verdict::Ask, "hm"),
        says(Verdict::Deny, "no"),
        says(Verdict::Deny, "never"),
    ]);
    assert_eq!((outcome.verdict, outcome.reason()), (Some(Verdict::Deny), "never\nno".to_owned()));
    assert!(outcome.is_refused() && outcome.allowed_by.is_none());
    assert_eq!(merged(vec![says(Verdict::Allow, ""), says(Verdict::Ask, "hm")]).verdict, Some(Verdict::Ask));
    assert_eq!(merged(vec![says(Verdict::Allow, "a"), HookAnswer::default()]).verdict, Some(Verdict::Allow));
    assert_eq!(merged(vec![HookAnswer::default()]).verdict, None);
}

#[test]
fn who_allows_is_known() {
    let by = |answers| merged(answers).allowed_by;
    let (none, allow) = (HookAnswer::default, || says(Verdict::Allow, ""));
    assert_eq!(by(vec![none(), none(), allow()]), Some(Source::Workspace));
    assert_eq!(by(vec![allow(), none(), allow()]), Some(Source::User));
    assert_eq!(by(vec![allow(), says(Verdict::Ask, "")]), None);
}

#[test]
fn a_call_of_several_things_is_allowed_only_as_a_whole() {
    let allow = |input| RankedAnswer { input, ..given(0, says(Verdict::Allow, "")) };
    let both = [input(), input()];
    assert_eq!(Outcome::merged(EventName::PreToolUse, &both, vec![allow(1)]).verdict, None);
    assert_eq!(
        Outcome::merged(EventName::PreToolUse, &both, vec![allow(1), allow(0)]).verdict,
        Some(Verdict::Allow)
    );
    let deny = RankedAnswer { input: 1, ..given(0, says(Verdict::Deny, "")) };
    assert_eq!(
        Outcome::merged(EventName::PreToolUse, &both, vec![allow(0), deny]).verdict,
        Some(Verdict::Deny)
    );
}

#[test]
fn rewrites_are_joined_unless_they_contradict_each_other() {
    let rewrite = |rewrite: JsonObject| HookAnswer { rewrite: Some(rewrite), ..HookAnswer::default() };
    let joined = |rewrites: Vec<JsonObject>| merged(rewrites.into_iter().map(rewrite).collect());
    let outcome =
        joined(vec![tool_input(Some("ls -l"), json!({})), tool_input(None, json!({ "timeout": 2 }))]);
    assert_eq!(outcome.rewrites, [Some(tool_input(Some("ls -l"), json!({ "timeout": 2 })))]);
    assert_eq!(outcome.verdict, None);
    assert_eq!(
        joined(vec![tool_input(Some("a"), json!({})), tool_input(Some("a"), json!({}))]).verdict,
        None
    );
    assert_eq!(joined(vec![input()]).rewrites, [None]);
    let without = json!({ "command": "ls" }).as_object().unwrap().clone();
    assert_eq!(joined(vec![without.clone()]).rewrites, [Some(without)]);

    let outcome = joined(vec![tool_input(Some("a"), json!({})), tool_input(Some("b"), json!({}))]);
    assert_eq!((outcome.verdict, &outcome.rewrites[..]), (Some(Verdict::Ask), &[None][..]));
    assert!(outcome.reason().starts_with("Hooks rewrite the call in different ways"));
    // What is refused is not rewritten.
    let deny = HookAnswer { verdict: Some(Verdict::Deny), ..rewrite(tool_input(Some("a"), json!({}))) };
    assert_eq!(merged(vec![deny]).rewrites, [None]);
}

#[test]
fn what_is_said_keeps_its_order_and_has_an_end() {
    let context = |text: &str| HookAnswer { context: Some(text.to_owned()), ..HookAnswer::default() };
    let outcome = merged(vec![context("one"), context("two")]);
    assert_eq!(
        outcome.for_model().unwrap(),
        "<hook_output event=\"PreToolUse\">\none\n\ntwo\n</hook_output>"
    );
    let long = "x".repeat(30 << 10);
    let outcome = merged(vec![context(&long), context(&long), context("z")]);
    assert_eq!(
        (outcome.contexts.len(), outcome.contexts[1].as_str()),
        (2, "… [30721 bytes of other hooks left out]")
    );
    let warns = |text: &str| HookAnswer { warnings: vec![text.to_owned()], ..HookAnswer::default() };
    assert_eq!(merged(vec![warns("a"), warns("b"), warns("a")]).warnings, ["a", "b"]);
    let stops = |text: &str| HookAnswer { stop: Some(text.to_owned()), ..HookAnswer::default() };
    assert_eq!(merged(vec![stops(""), stops("enough")]).stop.as_deref(), Some("enough"));
    assert_eq!(merged(vec![stops("")]).stop.as_deref(), Some(""));
}

fn any_answer() -> impl Strategy<Value = HookAnswer> {
    let verdict = prop::option::of(prop::sample::select(vec![Verdict::Allow, Verdict::Ask, Verdict::Deny]));
    let text = || prop::option::of("[ab]{0,2}");
    let command = prop::option::of(prop::sample::select(vec!["ls", "a", "b"]));
    (verdict, text(), text(), text(), command, any::<bool>()).prop_map(
        |(verdict, reason, context, stop, command, retry)| HookAnswer {
            verdict,
            reason,
            context,
            stop,
            rewrite: command.map(|command| tool_input(Some(command), json!({}))),
            retry,
            ..HookAnswer::default()
        },
    )
}

proptest! {
    #[test]
    fn the_order_of_arrival_changes_nothing(
        (answers, order) in prop::collection::vec(any_answer(), 0..8)
            .prop_flat_map(|answers| {
                let order: Vec<usize> = (0..answers.len()).collect();
                (Just(answers), Just(order).prop_shuffle())
            })
    ) {
        let all: Vec<RankedAnswer> = answers.into_iter().enumerate().map(|(n, answer)| given(n, answer)).collect();
        let shuffled = order.into_iter().map(|n| all[n].clone()).collect();
        let event = EventName::PreToolUse;
        let (one, other) =
            (Outcome::merged(event, &[input()], all.clone()), Outcome::merged(event, &[input()], shuffled));
        prop_assert_eq!(&one, &other);

        // Nothing is less strict than the strictest, and stricter only where rewrites contradict each other.
        let strictest = all.iter().filter_map(|given| given.answer.verdict).max();
        prop_assert!(one.verdict >= strictest);
        let conflict = one.reasons.iter().any(|reason| reason.starts_with("Hooks rewrite"));
        prop_assert!(one.verdict == strictest || (conflict && one.verdict == Some(Verdict::Ask)));
        prop_assert_eq!(one.stop.is_some(), all.iter().any(|given| given.answer.stop.is_some()));
    }

    #[test]
    fn one_more_hook_never_makes_it_less_strict(
        answers in prop::collection::vec(any_answer(), 0..6),
        more in any_answer(),
    ) {
        let before = merged(answers.clone()).verdict;
        let after = merged(answers.into_iter().chain([more]).collect()).verdict;
        prop_assert!(after >= before);
    }
}
