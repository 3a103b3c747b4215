//! Messages of user hooks in the state of a task.

use super::*;
use crate::policy::HookMessages;

impl Sim {
    /// Hooks say this about the current call; what it leads to comes behind it.
    fn deliver(&mut self, messages: HookMessages) {
        self.commit(decide(&self.task, Input::HookMessages(messages), NOW));
    }

    /// The user says this where there are hooks.
    fn is_told(&mut self, id: &str, text: &str) {
        let message = Message {
            id: MessageId::new(id),
            kind: MessageKind::Say(Say::Text),
            text: text.into(),
            images: vec![],
        };
        self.commit(vec![Event::UserSaid { message, text: text.into(), mentions: false, hooks: true }]);
    }

    fn refuse(&mut self, id: &str) -> Vec<Event> {
        let refused = vec![(MessageId::new(id), "No.".to_owned())];
        self.input(Input::Gathered(Gathered { refused, ..Gathered::default() }))
    }
}

fn adds(text: &str) -> HookMessages {
    HookMessages { addition: Some(text.into()), ..HookMessages::default() }
}

fn rewrites(params: Value) -> HookMessages {
    let Value::Object(params) = params else { panic!("no object") };
    HookMessages { params: Some(params), ..HookMessages::default() }
}

#[test]
fn what_hooks_add_stands_behind_the_result() {
    let mut sim = Sim::calling([read("a"), read("b")]);
    sim.deliver(adds("one"));
    sim.allow();
    sim.deliver(adds("two"));
    sim.done("text");
    sim.deliver(HookMessages::default());
    sim.allow();
    sim.done("more");
    assert_eq!(sim.results(), [(ToolStatus::Ok, "text\n\none\ntwo"), (ToolStatus::Ok, "more")]);
    assert_eq!(fold(&sim.log), sim.task);
}

#[test]
fn a_rewrite_is_what_runs_and_the_newest_judgement_counts() {
    let mut sim = Sim::calling([todo("[ ] a"), todo("[ ] b")]);
    sim.deliver(rewrites(json!({ "todos": "[x] c" })));
    sim.allow();
    assert_eq!(sim.task.todo[0].content, "c");
    sim.deliver(rewrites(json!({ "todos": "[x] d" })));
    sim.deliver(HookMessages::default());
    assert_eq!(sim.task.call_as_it_runs().unwrap().params["todos"], "[ ] b");
    assert_eq!(fold(&sim.log), sim.task);
}

#[test]
fn what_the_model_said_stays_as_it_was() {
    let mut sim = Sim::calling([command("ls")]);
    sim.deliver(rewrites(json!({ "command": "ls -l" })));
    assert_eq!(sim.task.current_call().unwrap().params["command"], "ls");
    assert_eq!(sim.task.call_as_it_runs().unwrap().params["command"], "ls -l");
}

#[test]
fn how_often_a_task_is_sent_on_counts_until_its_user_says_something() {
    let mut sim = Sim::calling([complete("Done.")]);
    assert!(sim.task.would_complete());
    sim.deliver(HookMessages { goes_on: true, ..HookMessages::default() });
    sim.deny(false);
    assert_eq!(sim.task.guard.continuations(), 1);
    sim.says([read("a")]);
    sim.send("Well?");
    sim.allow();
    sim.done("text");
    assert_eq!(sim.task.guard.continuations(), 0);
}

#[test]
fn a_completion_that_hooks_refuse_is_no_repetition_and_no_mistake() {
    let mut sim = Sim::new();
    for _ in 0..8 {
        sim.says([complete("Done.")]);
        sim.deliver(HookMessages { goes_on: true, ..HookMessages::default() });
        sim.deny(false);
        assert_eq!((sim.task.guard.mistakes(), sim.task.question()), (0, None));
    }
    sim.says([complete("Done.")]);
    sim.deliver(HookMessages { warnings: vec!["Now it ends.".into()], ..HookMessages::default() });
    sim.allow();
    assert_eq!(sim.task.state(), TaskState::Completed);
    assert_eq!(fold(&sim.log), sim.task);
}

#[test]
fn a_hook_that_ends_the_task_ends_it() {
    let mut sim = Sim::calling([command("ls"), read("a")]);
    sim.deliver(HookMessages { stop: Some("Late.".into()), ..HookMessages::default() });
    sim.deny(false);
    assert_eq!(sim.task.state(), TaskState::Failed);
    assert_eq!(sim.task.reason(), Some("Late."));
    assert_eq!(sim.statuses(), [ToolStatus::Denied, ToolStatus::Skipped]);
}

#[test]
fn hooks_that_wait_for_all_results_are_asked_once_before_the_next_request() {
    let mut sim = Sim::calling([read("a"), read("b")]);
    for text in ["one", "two"] {
        sim.deliver(HookMessages { batch: true, ..HookMessages::default() });
        sim.allow();
        sim.done(text);
    }
    let is_received = |event: &&Event| matches!(event, Event::HookMessagesReceived { .. });
    let received: Vec<&Event> = sim.log.iter().filter(is_received).collect();
    assert_eq!(received.len(), 1);
    assert_eq!(serde_json::to_value(received[0]).unwrap()["type"], "hooksHeard", "logs keep this tag");
    let batch = sim.task.conversation.newest_batch();
    assert_eq!(batch.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    let Some(Effect::Gather(Gather { batch: true, .. })) = sim.wanted() else { panic!("nothing is asked") };
    sim.input(Input::Gathered(Gathered { text: "Both are fine.".into(), ..Gathered::default() }));
    assert_eq!(sim.last_user_text(), "Both are fine.");
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })));
    assert_eq!(fold(&sim.log), sim.task);
    // Where none waits for that, nothing is done between.
    sim.says([read("a")]);
    sim.deliver(HookMessages::default());
    sim.allow();
    sim.done("text");
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })));
}

#[test]
fn a_task_whose_first_prompt_is_refused_ends_without_it() {
    let begun = Sim::new().log;
    let mut sim = Sim { task: fold(&begun[..1]), log: begun[..1].to_vec() };
    sim.is_told("m1", "secret");
    sim.settle();
    assert!(matches!(sim.wanted(), Some(Effect::Gather(Gather { begins: Some(Begins::Anew), .. }))));
    sim.refuse("m1");
    assert_eq!(sim.task.state(), TaskState::Failed);
    assert!(sim.task.conversation.items().is_empty());
    assert_eq!(fold(&sim.log), sim.task);
    // It may be said in other words.
    sim.send("plain");
    assert_eq!(sim.last_user_text(), "<user_message>\nplain\n</user_message>");
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })));
}

#[test]
fn of_messages_in_between_only_the_refused_one_is_dropped() {
    let mut sim = Sim::calling([read("a")]);
    sim.allow();
    sim.commit(decide(&sim.task, Input::ToolDone(outcome(ToolStatus::Ok, "text")), NOW));
    for (id, text) in [("m7", "secret"), ("m8", "use tabs"), ("m9", "secret too")] {
        sim.is_told(id, text);
    }
    sim.settle();
    let Some(Effect::Gather(gather)) = sim.wanted() else { panic!("nothing is asked") };
    assert_eq!((gather.prompts.len(), gather.begins), (3, None));
    let refused = ["m7", "m9"].map(|id| (MessageId::new(id), "No.".to_owned())).into();
    sim.input(Input::Gathered(Gathered { refused, ..Gathered::default() }));
    assert_eq!(sim.last_user_text(), "use tabs");
    assert!(!format!("{:?}", sim.task.conversation.items()).contains("secret"));
    assert!(matches!(sim.wanted(), Some(Effect::CallModel { .. })));
    assert_eq!(fold(&sim.log), sim.task);
}

/// The user answers the question that waits, where there are hooks.
fn answers(sim: &mut Sim, text: &str) -> MessageId {
    let answer = Input::Answer { text: text.into(), images: vec!["data:,a".into()], by: "anna".into() };
    let mut events = decide(&sim.task, answer, NOW);
    let Some(Event::QuestionAnswered { words: Some(words), .. }) = events.last_mut() else {
        panic!("{events:?}")
    };
    words.hooks = true;
    let id = words.message_id.clone();
    sim.commit(events);
    sim.settle();
    id
}

#[test]
fn hooks_are_asked_about_an_answer_before_the_model_reads_it() {
    let mut sim = Sim::calling([question("Where?"), read("a")]);
    sim.allow();
    let id = answers(&mut sim, "In @/a.rs");
    sim.allow();
    sim.done("text");
    let Some(Effect::Gather(gather)) = sim.wanted() else { panic!("{:?}", sim.wanted()) };
    assert_eq!(gather.messages, ["In @/a.rs"]);
    assert_eq!(gather.prompts.iter().map(|prompt| &prompt.id).collect::<Vec<_>>(), [&id]);
    sim.refuse(id.as_str());
    let results = sim.results();
    assert!(results[0].1.contains("A hook of the user blocked their answer"), "{results:?}");
    assert_eq!(results[1], (ToolStatus::Ok, "text"));
    let texts: Vec<_> = sim.task.conversation.items().iter().collect();
    assert!(!format!("{texts:?}").contains("In @/a.rs") && !format!("{texts:?}").contains("data:,a"));
    assert_eq!(sim.wanted(), calls_model(2));
    assert_eq!(fold(&sim.log), sim.task);
}
