//! When and how a conversation is shortened, and what comes of it.

use super::*;
use crate::engine::task::compaction::method_due;
use crate::engine::task::conversation::FilePart;
use roo_protocol::context::ShorteningMethod;

/// A window of so many tokens, at an endpoint that tells none.
fn frame(window: u64) -> RequestFrame {
    RequestFrame {
        window: Some(window),
        answer: Some(100),
        threshold: 100,
        condense: true,
        ..RequestFrame::default()
    }
}

/// A model that answers in a window.
fn says(sim: &mut Sim, window: u64, blocks: impl IntoIterator<Item = Block>) {
    answers(sim, frame(window), blocks);
}

/// A model that answers a request with this frame.
fn answers(sim: &mut Sim, frame: RequestFrame, blocks: impl IntoIterator<Item = Block>) {
    for block in blocks {
        sim.input(Input::ModelBlock { block, origin: "a/b".into() });
    }
    let (finish, used) = (Finish::Done, used(0, 0.0));
    sim.input(Input::ModelEnded { finish, used, frame: Some(frame), tail: None, beginning: None });
}

/// The request is too long to be sent.
fn not_sent(sim: &mut Sim, frame: RequestFrame) -> Vec<Event> {
    sim.input(Input::ModelFailed {
        message: "It was not sent.".into(),
        remedy: Remedy::Shorten { refused: false },
        used: Usage::default(),
        frame: Some(frame),
    })
}

/// A task that has read so many files of 2,000 bytes.
fn reading(window: u64, files: usize) -> Sim {
    let mut sim = Sim::new();
    for number in 0..files {
        says(&mut sim, window, [read(&number.to_string())]);
        sim.allow();
        sim.done(&"x".repeat(2_000));
    }
    sim
}

fn compacted(sim: &mut Sim, outcome: CompactionOutcome) -> Vec<Event> {
    sim.input(Input::Compacted { outcome, used: used(7, 0.5) })
}

fn wants(sim: &Sim) -> Option<ShorteningMethod> {
    match sim.wanted() {
        Some(Effect::Compact(compaction)) => Some(compaction.method),
        _ => None,
    }
}

fn texts(sim: &Sim) -> Vec<String> {
    let item = |item: &Item| match item {
        Item::User { text, .. } | Item::Summary { text, .. } => vec![text.clone()],
        Item::Results { results } => results.iter().map(|result| result.text.clone()).collect(),
        Item::Assistant { .. } => vec![],
    };
    sim.task.conversation.items().iter().flat_map(item).collect()
}

/// Number of results that are placeholders.
fn placeholders(sim: &Sim) -> usize {
    texts(sim).iter().filter(|text| text.starts_with("[Left out")).count()
}

#[test]
fn what_fits_the_window_is_not_shortened() {
    // 5 × 2,000 bytes are 4,000 tokens before the endpoint has told any.
    let sim = reading(10_000, 5);
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })), "{:?}", sim.wanted());
    assert!(sim.task.context.shortenings().is_empty());
}

#[test]
fn old_results_become_placeholders_before_the_window_is_full() {
    let mut sim = reading(10_000, 11);
    assert_eq!(wants(&sim), Some(ShorteningMethod::Placeholders));
    let events = compacted(&mut sim, CompactionOutcome::Agreed);
    let Event::ContextShortened { tokens_before, tokens_after, .. } = &events[0] else {
        panic!("{events:?}")
    };
    assert!(*tokens_before > 8_900 && *tokens_after < 5_400, "{tokens_before} {tokens_after}");
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })));
    assert!(placeholders(&sim) > 3 && !texts(&sim)[11].starts_with("[Left out"), "the newest stays");
    assert_eq!(fold(&sim.log).conversation, sim.task.conversation);
}

#[test]
fn a_file_that_is_read_again_is_left_out_where_it_was_read_before() {
    let mut sim = Sim::new();
    for _ in 0..2 {
        for path in ["a", "b"] {
            says(&mut sim, 4_700, [read(path)]);
            sim.allow();
            sim.done(&path.repeat(2_000));
        }
        says(&mut sim, 4_700, [read("c")]);
        sim.allow();
        sim.done(&"c".repeat(1_000));
    }
    assert_eq!(wants(&sim), Some(ShorteningMethod::Placeholders));
    let events = compacted(&mut sim, CompactionOutcome::Agreed);
    let Event::ContextShortened { left_out, .. } = &events[0] else { panic!("{events:?}") };
    assert_eq!(left_out.duplicates.len(), 3, "{left_out:?}");
    assert!(texts(&sim)[1].contains("The same call was made again later"), "{}", texts(&sim)[1]);
}

#[test]
fn arguments_of_old_calls_are_left_out_after_results() {
    let mut sim = Sim::new();
    for number in 0..5 {
        let content = "y".repeat(2_000);
        let path = format!("{number}.rs");
        says(&mut sim, 4_000, [call("write_to_file", json!({ "path": path, "content": content }))]);
        sim.allow();
        sim.done("Written.");
    }
    assert_eq!(wants(&sim), Some(ShorteningMethod::Placeholders));
    let events = compacted(&mut sim, CompactionOutcome::Agreed);
    let Event::ContextShortened { left_out, .. } = &events[0] else { panic!("{events:?}") };
    assert!(left_out.results.is_empty() && left_out.arguments.len() >= 2, "{left_out:?}");
    schedules::check_state(&sim.task);
}

/// A task whose model has said so much that placeholders make no room.
fn talking() -> Sim {
    let mut sim = Sim::new();
    for number in 0..12 {
        says(&mut sim, 10_000, [text(&"I think. ".repeat(220)), read(&number.to_string())]);
        sim.allow();
        sim.done("short");
    }
    sim
}

#[test]
fn earlier_turns_become_a_summary_where_placeholders_make_no_room() {
    let mut sim = talking();
    assert_eq!(wants(&sim), Some(ShorteningMethod::Summary));
    let events = compacted(&mut sim, CompactionOutcome::Summary("They read all.".into()));
    let Event::ContextCondensed { tokens_before, tokens_after, by_model: true, cost_usd, .. } = &events[0]
    else {
        panic!("{events:?}")
    };
    assert!(tokens_after * 2 < *tokens_before && *cost_usd == 0.5);
    let texts = texts(&sim);
    assert_eq!(texts[0], "<user_message>\nFix it\n</user_message>", "the user's own words stay");
    assert!(texts[1].contains("They read all."), "{}", texts[1]);
    assert_eq!(sim.task.totals.usage.cost_usd, 0.5);
    schedules::check_state(&sim.task);
    assert_eq!(fold(&sim.log).conversation, sim.task.conversation);
}

#[test]
fn a_summary_that_fails_is_replaced_by_a_list_of_calls_and_not_tried_again_at_once() {
    for outcome in [
        CompactionOutcome::Failed("No route.".into()),
        CompactionOutcome::Summary("  ".into()),
        CompactionOutcome::Summary("Too long. ".repeat(3_000)),
    ] {
        let mut sim = talking();
        compacted(&mut sim, outcome);
        assert_eq!(wants(&sim), Some(ShorteningMethod::Outline));
        compacted(&mut sim, CompactionOutcome::Agreed);
        assert!(texts(&sim)[1].contains("- read_file '0': done"), "{}", texts(&sim)[1]);
        assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })));
    }
}

#[test]
fn what_the_user_decided_is_in_every_summary_word_for_word() {
    let mut sim = Sim::new();
    says(&mut sim, 10_000, [question("Tabs?")]);
    sim.allow();
    sim.answer("Tabs, and only tabs.");
    says(&mut sim, 10_000, [command("rm -r build")]);
    sim.ask("rm -r build");
    sim.respond(REJECT_ONCE, Some("Never delete the build."));
    for round in 0..2 {
        for number in 0..12 {
            says(&mut sim, 10_000, [text(&"I think. ".repeat(220)), read(&format!("{round}.{number}"))]);
            if let Some(Effect::Compact(_)) = sim.wanted() {
                compacted(&mut sim, CompactionOutcome::Summary("They read.".into()));
            }
            sim.allow();
            sim.done("short");
        }
        compacted(&mut sim, CompactionOutcome::Summary("They read.".into()));
    }
    let summaries = sim.task.context.shortenings().len();
    let all = texts(&sim).join("\n");
    assert!(summaries >= 2, "{summaries}");
    assert_eq!(all.matches("Tabs, and only tabs.").count(), 1, "{all}");
    assert_eq!(all.matches("Never delete the build.").count(), 1, "{all}");
}

#[test]
fn an_undone_summary_gives_all_of_its_turns_back() {
    let mut sim = talking();
    let before = sim.task.conversation.clone();
    compacted(&mut sim, CompactionOutcome::Summary("They read all.".into()));
    says(&mut sim, 100_000, [read("next")]);
    sim.allow();
    sim.done("short");
    sim.restore_newest();
    let items = |conversation: &Conversation| conversation.items().len();
    assert_eq!(items(&sim.task.conversation), items(&before) + 2);
    assert!(texts(&sim).iter().all(|text| !text.contains("conversation_summary")));
    assert!(sim.task.context.shortenings()[0].restored);
    assert_eq!(fold(&sim.log).conversation, sim.task.conversation);
    let again = sim.log.len();
    sim.restore_newest();
    assert_eq!(sim.log.len(), again, "once is enough");
}

#[test]
fn undone_placeholders_give_results_and_arguments_back() {
    let mut sim = reading(10_000, 11);
    let before = sim.task.conversation.items().clone();
    compacted(&mut sim, CompactionOutcome::Agreed);
    assert!(placeholders(&sim) > 0);
    sim.restore_newest();
    assert_eq!(*sim.task.conversation.items(), before);
}

#[test]
fn the_user_has_earlier_turns_summarised_before_the_next_request() {
    let mut sim = reading(100_000, 6);
    sim.input(Input::Condense);
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })), "the request goes on");
    says(&mut sim, 100_000, [read("next")]);
    sim.allow();
    sim.done("short");
    assert_eq!(wants(&sim), Some(ShorteningMethod::Summary));
    compacted(&mut sim, CompactionOutcome::Summary("They read six files.".into()));
    assert!(texts(&sim)[1].contains("They read six files."));
}

#[test]
fn a_short_conversation_is_not_summarised() {
    let mut sim = Sim::new();
    sim.input(Input::Condense);
    says(&mut sim, 100_000, [read("a")]);
    sim.allow();
    let events = sim.done("short");
    assert!(events.iter().any(|event| matches!(event, Event::ContextKept { .. })), "{events:?}");
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })));
}

#[test]
fn a_shortening_that_was_under_way_when_the_server_ended_begins_again() {
    let mut sim = talking();
    assert_eq!(wants(&sim), Some(ShorteningMethod::Summary));
    sim.killed();
    assert_eq!(sim.wanted(), None);
    sim.input(Input::Resume);
    assert_eq!(wants(&sim), Some(ShorteningMethod::Summary));
    sim.input(Input::Cancel);
    assert_eq!((sim.wanted(), sim.task.state()), (None, TaskState::Cancelled));
}

#[test]
fn a_hook_that_keeps_the_conversation_makes_it_a_question() {
    let mut sim = reading(10_000, 11);
    compacted(&mut sim, CompactionOutcome::Refused("A hook says: keep it.".into()));
    assert_eq!(sim.asks(), QuestionKind::ApiReqFailed);
    assert!(sim.task.question().unwrap().text.ends_with("A hook says: keep it."));
    sim.answer("Try again");
    assert_eq!(wants(&sim), Some(ShorteningMethod::Placeholders));
}

#[test]
fn an_endpoint_that_refuses_a_request_as_too_long_lowers_the_bound_once() {
    // Nothing is known of the window.
    let mut sim = Sim::new();
    for number in 0..10 {
        sim.says([read(&number.to_string())]);
        sim.allow();
        sim.done(&"x".repeat(2_000));
    }
    sim.fails(TOO_LONG);
    assert_eq!(wants(&sim), Some(ShorteningMethod::Placeholders));
    compacted(&mut sim, CompactionOutcome::Agreed);
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })));
    assert_eq!(sim.log.iter().filter(|event| matches!(event, Event::ContextLimited { .. })).count(), 1);
}

#[test]
fn what_was_looked_up_is_cut_where_it_fills_the_window_and_its_file_is_unread() {
    let mut sim = Sim::new();
    let text = "A line of the file.\n".repeat(2_000);
    let seen = vec![("big.txt".to_owned(), Some(Digest::of("all of it")))];
    let (commands, images) = (String::new(), vec![]);
    sim.commit(vec![Event::Gathered { commands, text: text.clone(), images, seen }]);
    let is_at_hand = |sim: &Sim| sim.task.files.at_hand().contains_key("big.txt");
    assert!(is_at_hand(&sim));
    not_sent(&mut sim, frame(10_000));
    assert_eq!(wants(&sim), Some(ShorteningMethod::Placeholders));
    compacted(&mut sim, CompactionOutcome::Agreed);
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })), "{:?}", sim.wanted());
    assert!(texts(&sim)[1].contains("Read the file in parts"), "{}", texts(&sim)[1]);
    assert!(!is_at_hand(&sim));
    assert_eq!(fold(&sim.log).conversation, sim.task.conversation);
    sim.restore_newest();
    assert_eq!(texts(&sim)[1], text);
}

#[test]
fn images_that_an_endpoint_refuses_are_left_out_until_another_model_is_asked() {
    let mut sim = Sim::new();
    let events = sim.fails(Remedy::WithoutImages);
    assert!(events.iter().any(|event| matches!(event, Event::ImagesRefused)), "{events:?}");
    assert!(sim.task.context.refuses_images());
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })), "{:?}", sim.wanted());
    sim.fails(Remedy::WithoutImages);
    assert_eq!(sim.asks(), QuestionKind::ApiReqFailed, "it is not about them");
    sim.answer("Try again");
    assert!(!sim.task.context.refuses_images(), "the user may have loaded another model");
    sim.fails(Remedy::WithoutImages);
    assert!(sim.task.context.refuses_images());
    let profile = Some(("other".to_owned(), sim.task.settings.protocol));
    sim.input(Input::Change(ModeChange { mode: None, profile }));
    assert!(!sim.task.context.refuses_images());
    assert_eq!(fold(&sim.log).context, sim.task.context);
}

#[test]
fn an_image_that_an_endpoint_refuses_is_left_out_and_later_ones_are_sent() {
    let mut sim = Sim::new();
    let shows = |sim: &mut Sim, id: &str| {
        sim.says([read(id)]);
        sim.allow();
        let images = vec!["data:image/png;base64,AAAA".to_owned()];
        sim.input(Input::ToolDone(Outcome { images, ..outcome(ToolStatus::Ok, "A picture.") }));
    };
    let images = |sim: &Sim| sim.task.conversation.size().images;
    shows(&mut sim, "1");
    shows(&mut sim, "2");
    assert_eq!(images(&sim), 2);
    sim.fails(Remedy::WithoutNewestImages);
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })), "{:?}", sim.wanted());
    assert!(!sim.task.context.refuses_images());
    assert_eq!(images(&sim), 1);
    assert!(texts(&sim).last().unwrap().contains("left out"), "{:?}", texts(&sim));
    sim.fails(Remedy::WithoutNewestImages);
    assert_eq!(sim.asks(), QuestionKind::ApiReqFailed, "once");
    sim.answer("Try again");
    shows(&mut sim, "3");
    assert_eq!(images(&sim), 2);
    assert_eq!(fold(&sim.log).context, sim.task.context);
    assert_eq!(fold(&sim.log).conversation, sim.task.conversation);
}

#[test]
fn a_window_that_the_endpoint_names_is_known_from_then_on() {
    let mut sim = Sim::new();
    for number in 0..10 {
        sim.says([read(&number.to_string())]);
        sim.allow();
        sim.done(&"x".repeat(2_000));
    }
    let message = "prompt is too long: 9000 tokens > 4000 maximum".to_owned();
    let frame = Some(frame(4_000));
    sim.input(Input::ModelFailed { message, remedy: TOO_LONG, used: Usage::default(), frame });
    compacted(&mut sim, CompactionOutcome::Agreed);
    let limit = sim.log.iter().find_map(|event| match event {
        Event::ContextLimited { tokens } => Some(*tokens),
        _ => None,
    });
    assert_eq!(limit, Some(3_500));
    assert!(sim.task.context.estimate(sim.task.conversation.size()) <= 3_500);
}

#[test]
fn a_request_that_is_refused_and_cannot_be_shortened_is_a_question() {
    let mut sim = Sim::new();
    sim.fails(TOO_LONG);
    assert_eq!(sim.asks(), QuestionKind::ApiReqFailed);
}

#[test]
fn an_endpoint_that_refuses_whatever_it_gets_is_a_question() {
    let mut sim = reading(100_000, 12);
    for _ in 0..10 {
        match sim.wanted() {
            Some(Effect::Compact(_)) => {
                drop(compacted(&mut sim, CompactionOutcome::Summary("Short.".into())))
            }
            Some(Effect::CallModel { .. }) => drop(sim.fails(TOO_LONG)),
            _ => break,
        }
    }
    assert_eq!(sim.asks(), QuestionKind::ApiReqFailed);
}

#[test]
fn a_result_that_would_fill_the_window_is_cut_in_its_middle() {
    let mut sim = Sim::new();
    says(&mut sim, 10_000, [read("large")]);
    sim.allow();
    sim.done(&format!("begin{}end", "z".repeat(50_000)));
    let text = sim.results()[0].1.to_owned();
    assert!(text.len() < 6_000 && text.starts_with("begin") && text.ends_with("end"), "{}", text.len());
    assert!(text.contains("Read the file in parts by line ranges"));
}

#[test]
fn a_placeholder_is_no_content_of_a_file() {
    let mut sim = Sim::new();
    let content = "[Left out to save space: 2000 bytes, digest 0. They were sent with this call.]";
    sim.says([call("write_to_file", json!({ "path": "a.rs", "content": content }))]);
    let problem = sim.calls()[0].problem.clone().unwrap();
    assert!(problem.starts_with("`content` repeats a placeholder"), "{problem}");
}

#[test]
fn each_time_the_conversation_is_full_again_a_model_summarises_it() {
    let mut sim = talking();
    for round in 0..3 {
        assert_eq!(wants(&sim), Some(ShorteningMethod::Summary), "in round {round}");
        compacted(&mut sim, CompactionOutcome::Summary("They read all.".into()));
        for number in 0..20 {
            if let Some(Effect::Compact(_)) = sim.wanted() {
                break;
            }
            says(&mut sim, 10_000, [text(&"I think. ".repeat(220)), read(&format!("{round}.{number}"))]);
            sim.allow();
            sim.done("short");
        }
    }
}

#[test]
fn a_summary_that_was_cancelled_is_asked_for_again_when_the_task_goes_on() {
    let mut sim = talking();
    assert_eq!(wants(&sim), Some(ShorteningMethod::Summary));
    sim.input(Input::Cancel);
    assert_eq!(sim.task.state(), TaskState::Cancelled);
    sim.input(Input::Resume);
    assert_eq!(wants(&sim), Some(ShorteningMethod::Summary));
}

/// The change to another profile, by the user.
fn other_profile() -> Input {
    let profile = Some(("other".to_owned(), ToolProtocol::Native));
    Input::Change(ModeChange { mode: None, profile })
}

#[test]
fn what_the_model_before_tells_of_a_request_says_nothing_of_the_next_model() {
    let mut sim = reading(100_000, 5);
    let window =
        |sim: &Sim| sim.task.context.meter(sim.task.conversation.size()).and_then(|meter| meter.window);
    assert_eq!(window(&sim), Some(100_000));
    sim.input(other_profile());
    says(&mut sim, 100_000, [read("next")]);
    assert_eq!(window(&sim), None, "the answer is the old model's");
    sim.allow();
    sim.done("short");
    says(&mut sim, 50_000, [read("next")]);
    assert_eq!(window(&sim), Some(50_000));
}

#[test]
fn a_request_is_measured_by_the_conversation_that_it_had() {
    let mut sim = reading(10_000, 11);
    compacted(&mut sim, CompactionOutcome::Agreed);
    let sent = sim.task.conversation.size().bytes();
    sim.restore_newest();
    assert!(sim.task.conversation.size().bytes() > sent, "it is longer while the model answers");
    let events = sim.input(Input::ModelEnded {
        finish: Finish::Done,
        used: used(5_000, 0.0),
        frame: Some(frame(10_000)),
        tail: None,
        beginning: None,
    });
    let Event::TurnEnded { context: Some(measured), .. } = &events[0] else { panic!("{events:?}") };
    assert_eq!(measured.conversation.bytes(), sent);
}

/// A small window, most of which the instructions take: 4,800 of 7,100 tokens.
fn small() -> RequestFrame {
    RequestFrame { system: 12_000, ..frame(8_000) }
}

#[test]
fn all_results_of_an_answer_fit_a_small_window_before_the_model_has_seen_them() {
    let mut sim = Sim::new();
    answers(&mut sim, small(), [read("0")]);
    sim.allow();
    sim.done("short");
    for round in 0..6 {
        answers(&mut sim, small(), ["a", "b", "c", "d"].map(|path| read(&format!("{round}.{path}"))));
        for length in [100, 6_000, 9_000, 9_000] {
            sim.allow();
            sim.done(&"x".repeat(length));
        }
        while let Some(Effect::Compact(_)) = sim.wanted() {
            compacted(&mut sim, CompactionOutcome::Summary("They read.".into()));
        }
        assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })), "{:?}", sim.wanted());
        let lengths: Vec<usize> = sim.results().iter().map(|(_, text)| text.len()).collect();
        assert_eq!(lengths[0], 100, "a short result stays whole");
        assert!(lengths[1..].iter().all(|length| (900..2_000).contains(length)), "{lengths:?}");
        let tokens = sim.task.context.estimate(sim.task.conversation.size());
        assert!(tokens <= 7_100, "{tokens}");
    }
}

#[test]
fn results_that_another_model_is_to_see_are_cut_to_its_window_and_not_removed() {
    let mut sim = Sim::new();
    says(&mut sim, 100_000, [read("a"), read("b")]);
    sim.input(other_profile());
    for _ in 0..2 {
        sim.allow();
        sim.done(&"x".repeat(30_000));
    }
    not_sent(&mut sim, small());
    assert_eq!(wants(&sim), Some(ShorteningMethod::Placeholders));
    let events = compacted(&mut sim, CompactionOutcome::Agreed);
    let Event::ContextShortened { left_out, tokens_after, .. } = &events[0] else { panic!("{events:?}") };
    assert_eq!((left_out.middles.len(), left_out.results.len()), (2, 0));
    assert!(*tokens_after <= 7_100, "{tokens_after}");
    assert!(sim.results().iter().all(|(_, text)| text.starts_with("xxx") && text.ends_with("xxx")));
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })));
    assert_eq!(fold(&sim.log).conversation, sim.task.conversation);
    sim.restore_newest();
    assert!(sim.results().iter().all(|(_, text)| text.len() == 30_000));
}

#[test]
fn a_window_that_the_instructions_fill_is_a_question() {
    let mut sim = Sim::new();
    let frame = RequestFrame { system: 40_000, ..frame(8_000) };
    not_sent(&mut sim, frame);
    assert_eq!(sim.asks(), QuestionKind::ApiReqFailed);
    let text = &sim.task.question().unwrap().text;
    assert!(text.contains("window of 8000 tokens") && text.contains("`contextWindow`"), "{text}");
    sim.answer("Try again");
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })), "the settings may be others now");
}

#[test]
fn a_request_that_may_fit_is_sent_where_nothing_more_can_be_left_out() {
    let mut sim = Sim::new();
    says(&mut sim, 100_000, [read("a")]);
    sim.allow();
    sim.done("short");
    let frame = RequestFrame { system: 20_000, ..frame(8_000) };
    let size = *sim.task.conversation.size();
    assert!(sim.task.context.excess(frame, &size).is_some_and(|excess| excess.certain.is_none()));
    let events = not_sent(&mut sim, frame);
    assert!(events.iter().any(|event| matches!(event, Event::ContextKept { .. })), "{events:?}");
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })));
    let size = *sim.task.conversation.size();
    assert_eq!(sim.task.context.excess(frame, &size), None, "the endpoint has the last word");
}

/// A task that has read files up to its user's threshold.
fn at_threshold() -> Sim {
    let early = RequestFrame { threshold: 50, ..frame(20_000) };
    let mut sim = Sim::new();
    for number in 0..20 {
        if let Some(Effect::Compact(_)) = sim.wanted() {
            break;
        }
        answers(&mut sim, early, [read(&number.to_string())]);
        sim.allow();
        sim.done(&"x".repeat(2_000));
    }
    assert_eq!(wants(&sim), Some(ShorteningMethod::Placeholders));
    sim
}

#[test]
fn what_the_user_has_restored_stays_as_long_as_it_fits() {
    let mut sim = at_threshold();
    compacted(&mut sim, CompactionOutcome::Agreed);
    sim.restore_newest();
    let early = RequestFrame { threshold: 50, ..frame(20_000) };
    answers(&mut sim, early, [read("next")]);
    sim.allow();
    sim.done("short");
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })), "{:?}", sim.wanted());
    for number in 0..2 {
        answers(&mut sim, early, [read(&format!("more.{number}"))]);
        sim.allow();
        sim.done(&"x".repeat(2_000));
    }
    assert_eq!(wants(&sim), Some(ShorteningMethod::Placeholders), "it has grown by a tenth");
}

#[test]
fn a_hook_is_asked_once_about_a_conversation_that_fits() {
    let mut sim = at_threshold();
    compacted(&mut sim, CompactionOutcome::Refused("A hook says: keep it.".into()));
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })), "{:?}", sim.wanted());
}

#[test]
fn a_long_answer_of_the_user_is_in_a_summary_as_a_whole() {
    let mut sim = Sim::new();
    says(&mut sim, 100_000, [question("What is it to do?")]);
    sim.allow();
    let answer = format!("{} And never use tabs.", "It sorts. ".repeat(500));
    let images = vec!["data:image/png;base64,AAAA".to_owned()];
    sim.input(Input::Answer { text: answer.clone(), images: images.clone(), by: "anna".into() });
    for number in 0..4 {
        says(&mut sim, 100_000, [text(&"I think. ".repeat(220)), read(&number.to_string())]);
        sim.allow();
        sim.done("short");
    }
    sim.input(Input::Condense);
    says(&mut sim, 100_000, [read("next")]);
    sim.allow();
    sim.done("short");
    compacted(&mut sim, CompactionOutcome::Summary("They asked.".into()));
    assert!(texts(&sim)[1].contains(&answer), "{}", texts(&sim)[1]);
    let summary = sim.task.conversation.items().get(1);
    assert!(matches!(summary, Some(Item::Summary { images: kept, .. }) if *kept == images), "{summary:?}");
}

#[test]
fn the_text_of_a_command_is_the_users_word_and_stays() {
    let mut sim = Sim::new();
    sim.send("/deploy staging");
    says(&mut sim, 10_000, [read("a")]);
    sim.allow();
    sim.done("short");
    let commands = "Deploy in three steps.".to_owned();
    sim.input(Input::Gathered(Gathered { commands, text: "Facts.".into(), ..Gathered::default() }));
    for number in 0..12 {
        says(&mut sim, 10_000, [text(&"I think. ".repeat(220)), read(&number.to_string())]);
        sim.allow();
        sim.done("short");
    }
    assert_eq!(wants(&sim), Some(ShorteningMethod::Summary));
    compacted(&mut sim, CompactionOutcome::Summary("They read.".into()));
    let all = texts(&sim);
    assert!(
        all.contains(&"Deploy in three steps.".to_owned()) && !all.contains(&"Facts.".to_owned()),
        "{all:?}"
    );
}

#[test]
fn a_summary_has_no_more_than_its_share_of_a_small_window() {
    let mut sim = Sim::new();
    let small = RequestFrame { system: 6_000, ..frame(8_000) };
    for number in 0..9 {
        answers(&mut sim, small, [text(&"I think. ".repeat(150)), read(&number.to_string())]);
        sim.allow();
        sim.done("short");
        if let Some(Effect::Compact(_)) = sim.wanted() {
            break;
        }
    }
    assert_eq!(wants(&sim), Some(ShorteningMethod::Summary));
    compacted(&mut sim, CompactionOutcome::Summary("They read. ".repeat(500)));
    let summary = &texts(&sim)[1];
    assert!(summary.contains("They read.") && summary.len() < 4_000, "{}", summary.len());
}

/// So much of the window is taken that no room for a summary is left.
fn full() -> RequestFrame {
    RequestFrame { system: 40_000, ..frame(8_000) }
}

#[test]
fn turns_are_not_replaced_by_a_summary_without_words() {
    let mut sim = talking();
    assert_eq!(wants(&sim), Some(ShorteningMethod::Summary));
    let (context, size) = (&mut sim.task.context, *sim.task.conversation.size());
    context.measure(context.measured(full(), size, 0));
    let events = compacted(&mut sim, CompactionOutcome::Summary("They read.".into()));
    let Event::ContextKept { reason, .. } = &events[0] else { panic!("{events:?}") };
    assert_eq!(reason, "There is no room for a summary.");
}

/// Carries out the shortenings that are wanted, which may be no summaries.
fn shortens_without_summary(sim: &mut Sim) -> Vec<ShorteningMethod> {
    let mut methods = vec![];
    while let Some(method) = wants(sim) {
        assert_ne!(method, ShorteningMethod::Summary);
        methods.push(method);
        compacted(sim, CompactionOutcome::Agreed);
    }
    methods
}

#[test]
fn where_there_is_no_room_for_a_summary_none_is_paid_for() {
    let mut sim = Sim::new();
    let mut methods = vec![];
    for number in 0..9 {
        answers(&mut sim, full(), [text(&"I think. ".repeat(150)), read(&number.to_string())]);
        sim.allow();
        sim.done(&"x".repeat(2_000));
        methods.extend(shortens_without_summary(&mut sim));
        assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })), "{:?}", sim.wanted());
    }
    assert!(methods.contains(&ShorteningMethod::Outline), "{methods:?}");
    assert!(texts(&sim)[1].contains("- read_file '7': done"), "{}", texts(&sim)[1]);
    sim.input(Input::Condense);
    answers(&mut sim, full(), [read("next")]);
    sim.allow();
    sim.done("short");
    let is_summary = |event: &Event| matches!(event, Event::ShorteningStarted { manual: true, .. });
    assert!(!sim.log.iter().any(is_summary), "the user is told that there is no room");
}

#[test]
fn a_threshold_below_the_system_prompt_costs_no_shortening_each_turn() {
    let early = RequestFrame { system: 60_000, threshold: 5, ..frame(200_000) };
    let mut sim = Sim::new();
    let mut methods = vec![];
    for number in 0..40 {
        answers(&mut sim, early, [read(&number.to_string())]);
        sim.allow();
        sim.done(&"x".repeat(2_000));
        methods.extend(shortens_without_summary(&mut sim));
    }
    assert!((1..=8).contains(&methods.len()), "{methods:?}");
}

#[test]
fn summaries_that_fail_leave_the_other_ways_open() {
    let mut sim = talking();
    for _ in 0..3 {
        sim.task.context.keep(Some(ShorteningMethod::Summary), &ConversationSize::default());
    }
    assert_eq!(method_due(&sim.task.context, &sim.task.conversation), Some(ShorteningMethod::Outline));
}

#[test]
fn a_file_whose_text_was_condensed_has_to_be_read_before_it_is_replaced() {
    let mut sim = talking();
    let path = ("a.rs".to_owned(), Some(Digest::of("old")));
    let Some(Effect::Compact(Compaction { cut: Some(cut), .. })) = sim.wanted() else { panic!() };
    let first = sim.task.conversation.calls_before(cut).into_iter().next().expect("results are condensed");
    sim.task.files.see_with_next_request(&first, &[path], FilePart::Read);
    sim.task.files.begin_request();
    assert!(sim.task.files.at_hand().contains_key("a.rs"));
    compacted(&mut sim, CompactionOutcome::Summary("They read all.".into()));
    assert!(sim.task.files.at_hand().is_empty(), "it would be replaced blindly");
    assert!(texts(&sim)[1].contains("- a.rs"), "the summary names it: {:?}", texts(&sim));
}

#[test]
fn what_a_summary_replaces_is_what_the_model_was_given() {
    let mut sim = talking();
    let Some(Effect::Compact(Compaction { cut: Some(cut), .. })) = sim.wanted() else { panic!() };
    // Another model counts in another way.
    sim.input(other_profile());
    let events = compacted(&mut sim, CompactionOutcome::Summary("They read all.".into()));
    assert!(matches!(&events[0], Event::ContextCondensed { cut: done, .. } if *done == cut), "{events:?}");
}

#[test]
fn a_summary_that_leaves_little_room_is_not_followed_by_another() {
    let mut sim = Sim::new();
    // What the user says is never replaced.
    says(&mut sim, 10_000, [question("And?")]);
    sim.allow();
    sim.send(&"It is so. ".repeat(1_900));
    let mut summaries = 0;
    for number in 0..12 {
        says(&mut sim, 10_000, [text(&"I think. ".repeat(60)), read(&number.to_string())]);
        sim.allow();
        sim.done("short");
        while let Some(Effect::Compact(compaction)) = sim.wanted() {
            summaries += usize::from(compaction.method == ShorteningMethod::Summary);
            compacted(&mut sim, CompactionOutcome::Summary("They read. ".repeat(20)));
        }
    }
    assert!((1..=4).contains(&summaries), "{summaries}");
}
