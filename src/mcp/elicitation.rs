//! What servers ask the user while they answer a call, as questions of the task that made it: one for each field of a form,
//! or one about an address. Every question names its server, and can be declined.

use roo_engine::server_tools::{CallingTask, DECLINE, ServerQuestion};
use roo_mcp::{Answer, Elicitation, FieldKind, FormField, Wanted};
use roo_text::render::{one_line, visible};
use serde_json::{Map, Value};

/// The most choices that are suggested. The others stand in the question.
const SUGGESTED: usize = 10;
/// The longest first line of a message in a question, in characters.
const HEADING: usize = 200;

/// The answers that are suggested beside the choices of a field.
const ACCEPT: &str = "Accept";
const LEAVE_OUT: &str = "Leave it out";
const VISITED: &str = "I opened it";

/// One elicitation.
pub(super) struct Dialog<'a> {
    pub(super) user: &'a dyn CallingTask,
    pub(super) server: &'a str,
    pub(super) elicitation: Elicitation,
}

impl Dialog<'_> {
    pub(super) async fn run(mut self) {
        let answer = match self.elicitation.wanted.clone() {
            Wanted::Form(fields) if fields.is_empty() => self.consent().await,
            Wanted::Form(fields) => self.form(&fields).await,
            Wanted::Visit { url, host } => self.visit(&url, &host).await,
        };
        if let Some(answer) = answer {
            // The server took its question back.
            let _ = self.elicitation.answer.send(answer);
        }
    }

    /// The user's answer to one question; none if nobody answers it.
    async fn ask(&mut self, about: &str, suggestions: Vec<String>, secret: bool) -> Option<String> {
        let message = &self.elicitation.message;
        let heading = one_line(message, HEADING);
        let mut text = format!("The MCP server {} asks: {heading}", one_line(self.server, HEADING));
        if heading != *message {
            // No line of the server's passes for one of ours.
            for line in message.lines() {
                text.push_str("\n> ");
                text.push_str(&visible(line));
            }
        }
        if !about.is_empty() {
            text.push_str("\n\n");
            text.push_str(about);
        }
        let question = ServerQuestion { text, suggestions, secret };
        self.user.ask(question, Box::pin(self.elicitation.answer.closed())).await
    }

    /// Asks until the answer is one of these, or the one to decline, which gives none of them.
    async fn choose(&mut self, about: &str, choices: &[&str]) -> Option<Option<usize>> {
        let suggestions = choices.iter().chain([&DECLINE]).map(|&text| text.to_owned()).collect::<Vec<_>>();
        // Nobody gets what is typed instead of a choice, and it is not kept either.
        let secret = self.elicitation.is_secret();
        let mut note = String::new();
        loop {
            let text = self.ask(&format!("{note}{about}"), suggestions.clone(), secret).await?;
            if text == DECLINE {
                return Some(None);
            }
            if let Some(place) = choices.iter().position(|choice| *choice == text) {
                return Some(Some(place));
            }
            note = format!("Answer with one of: {}.\n\n", suggestions.join(", "));
        }
    }

    async fn consent(&mut self) -> Option<Answer> {
        let chosen = self.choose("", &[ACCEPT]).await?;
        Some(chosen.map_or(Answer::Declined, |_| Answer::Accepted(Map::new())))
    }

    async fn visit(&mut self, url: &str, host: &str) -> Option<Answer> {
        let about = format!(
            "It wants you to open an address at {host} in your browser; roo-lsp does not open it. What you enter there goes \
             to {host} and not to roo-lsp.\n\n{url}"
        );
        let chosen = self.choose(&about, &[VISITED]).await?;
        Some(chosen.map_or(Answer::Declined, |_| Answer::Visited))
    }

    async fn form(&mut self, fields: &[FormField]) -> Option<Answer> {
        let mut values = Map::new();
        for (number, field) in (1..).zip(fields) {
            let place =
                if fields.len() > 1 { format!(" ({number} of {})", fields.len()) } else { String::new() };
            match self.field(field, &place).await? {
                FieldAnswer::Value(value) => drop(values.insert(field.name.clone(), value)),
                FieldAnswer::LeftOut => {}
                FieldAnswer::Declined => return Some(Answer::Declined),
            }
        }
        Some(Answer::Accepted(values))
    }

    /// Asks for a field until what is answered fits.
    async fn field(&mut self, field: &FormField, place: &str) -> Option<FieldAnswer> {
        let offered = Offered::new(field);
        let secret = field.is_secret() || self.elicitation.is_secret();
        let mut note = String::new();
        loop {
            let about = format!("{note}{}", described(field, place, &offered, secret));
            let text = self.ask(&about, offered.suggestions(field), secret).await?;
            match text.as_str() {
                DECLINE => return Some(FieldAnswer::Declined),
                LEAVE_OUT if !field.required => return Some(FieldAnswer::LeftOut),
                text => match field.read(offered.meant(text)) {
                    Ok(value) => return Some(FieldAnswer::Value(value)),
                    Err(fits) => note = format!("That does not fit: write {fits}.\n\n"),
                },
            }
        }
    }
}

/// The user's answer for a field.
enum FieldAnswer {
    Value(Value),
    LeftOut,
    Declined,
}

/// The answers of a field that are offered: as they are shown, and as they are read.
struct Offered(Vec<(String, String)>);

impl Offered {
    fn new(field: &FormField) -> Self {
        let all = field.default.iter().cloned().chain(field.kind.suggestions());
        let mut offered: Vec<(String, String)> = vec![];
        for text in all {
            let shown = one_line(&text, HEADING);
            if !offered.iter().any(|(other, _)| *other == shown) {
                offered.push((shown, text));
            }
        }
        Self(offered)
    }

    fn suggestions(&self, field: &FormField) -> Vec<String> {
        let shown = self.0.iter().map(|(shown, _)| shown.clone()).take(SUGGESTED);
        let leave_out = (!field.required).then(|| LEAVE_OUT.to_owned());
        shown.chain(leave_out).chain([DECLINE.to_owned()]).collect()
    }

    fn meant<'a>(&'a self, text: &'a str) -> &'a str {
        self.0.iter().find(|(shown, _)| shown == text).map_or(text, |(_, meant)| meant)
    }
}

/// A field in words.
fn described(field: &FormField, place: &str, offered: &Offered, secret: bool) -> String {
    let name = one_line(field.title.as_ref().unwrap_or(&field.name), HEADING);
    let mut text = format!("{name}{place}: {}", field.kind.in_words());
    if let Some(default) = &field.default {
        text.push_str(&format!("; suggested: {}", one_line(default, HEADING)));
    }
    text.push('.');
    if let Some(description) = &field.description {
        text.push_str(&format!("\n> {}", one_line(description, 1000)));
    }
    if matches!(field.kind, FieldKind::OneOf(_) | FieldKind::SomeOf { .. }) && offered.0.len() > SUGGESTED {
        let all: Vec<&str> = offered.0.iter().map(|(shown, _)| shown.as_str()).collect();
        text.push_str(&format!("\nChoices: {}.", all.join(", ")));
    }
    if secret {
        text.push_str("\nIt may be a secret. The answer goes to the server and is not kept.");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use futures_util::future::BoxFuture;
    use serde_json::json;
    use tokio::sync::oneshot;

    use super::*;

    /// A user who gives these answers.
    struct Answers(Mutex<VecDeque<&'static str>>, Mutex<Vec<ServerQuestion>>);

    impl CallingTask for Answers {
        fn ask<'a>(
            &'a self,
            question: ServerQuestion,
            _: BoxFuture<'a, ()>,
        ) -> BoxFuture<'a, Option<String>> {
            self.1.lock().unwrap().push(question);
            let answer = self.0.lock().unwrap().pop_front().map(str::to_owned);
            Box::pin(std::future::ready(answer))
        }
    }

    async fn asked(wanted: Wanted, answers: &[&'static str]) -> (Option<Answer>, Vec<ServerQuestion>) {
        asked_with("Who is it?\n## Rules", wanted, answers).await
    }

    async fn asked_with(
        message: &str,
        wanted: Wanted,
        answers: &[&'static str],
    ) -> (Option<Answer>, Vec<ServerQuestion>) {
        let user = Answers(Mutex::new(answers.iter().copied().collect()), Mutex::default());
        let (answer, answered) = oneshot::channel();
        let message = message.to_owned();
        Dialog { user: &user, server: "desk", elicitation: Elicitation { message, wanted, answer } }
            .run()
            .await;
        (answered.await.ok(), user.1.into_inner().unwrap())
    }

    fn field(name: &str, required: bool, kind: FieldKind) -> FormField {
        let (title, description, default) = (None, None, None);
        FormField { name: name.to_owned(), title, description, required, kind, default }
    }

    #[tokio::test]
    async fn each_field_is_asked_for_until_the_answer_fits() {
        let color = |value: &str, title: &str| roo_mcp::Choice { value: value.into(), title: title.into() };
        let fields = vec![
            field("age", true, FieldKind::Integer(Some(1), Some(150))),
            FormField {
                default: Some("Red".to_owned()),
                ..field("color", false, FieldKind::OneOf(vec![color("r", "Red"), color("g", "Green")]))
            },
            field("password", false, FieldKind::Text { length: (None, None), format: None }),
        ];
        let (answer, questions) =
            asked(Wanted::Form(fields.clone()), &["old", "151", "42", "Green", "Leave it out"]).await;
        let expected = json!({ "age": 42, "color": "g" });
        assert_eq!(answer, Some(Answer::Accepted(expected.as_object().unwrap().clone())));
        let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
        assert_eq!(texts[1], texts[2]);
        insta::assert_snapshot!([texts[0], texts[1], texts[3], texts[4]].join("\n---\n"), @r"
        The MCP server desk asks: Who is it? ⏎ ## Rules
        > Who is it?
        > ## Rules

        age (1 of 3): a whole number from 1 to 150.
        ---
        The MCP server desk asks: Who is it? ⏎ ## Rules
        > Who is it?
        > ## Rules

        That does not fit: write a whole number from 1 to 150.

        age (1 of 3): a whole number from 1 to 150.
        ---
        The MCP server desk asks: Who is it? ⏎ ## Rules
        > Who is it?
        > ## Rules

        color (2 of 3): one of the choices; suggested: Red.
        ---
        The MCP server desk asks: Who is it? ⏎ ## Rules
        > Who is it?
        > ## Rules

        password (3 of 3): text.
        It may be a secret. The answer goes to the server and is not kept.
        ");
        assert_eq!(questions[3].suggestions, ["Red", "Green", "Leave it out", "Decline"]);
        let secret: Vec<bool> = questions.iter().map(|question| question.secret).collect();
        assert_eq!(secret, [false, false, false, false, true]);

        let (declined, questions) = asked(Wanted::Form(fields.clone()), &["42", "Decline"]).await;
        assert_eq!((declined, questions.len()), (Some(Answer::Declined), 2));
        assert_eq!(asked(Wanted::Form(fields), &["42"]).await.0, None, "nobody answers any more");
    }

    #[tokio::test]
    async fn what_the_message_or_a_description_calls_a_secret_is_one_whatever_the_field_is_called() {
        let text = || FieldKind::Text { length: (None, None), format: None };
        let described = |description: &str| FormField {
            description: Some(description.to_owned()),
            ..field("value", true, text())
        };
        for (message, field, secret) in [
            ("Enter your GitHub token.", field("value", true, text()), true),
            ("Sign in.", described("The password of your account."), true),
            ("Sign in.", described("The name of your account."), false),
        ] {
            let (answer, questions) = asked_with(message, Wanted::Form(vec![field]), &["open sesame"]).await;
            let expected = json!({ "value": "open sesame" });
            assert_eq!(answer, Some(Answer::Accepted(expected.as_object().unwrap().clone())));
            assert_eq!(questions[0].secret, secret, "{message}");
            assert_eq!(questions[0].text.ends_with("is not kept."), secret, "{}", questions[0].text);
        }
        let (_, questions) =
            asked_with("Enter your token.", Wanted::Form(vec![]), &["tok-1", "Accept"]).await;
        assert!(questions.iter().all(|question| question.secret), "where it asks for consent too");
    }

    #[tokio::test]
    async fn an_address_is_shown_with_its_host_and_opened_by_the_user() {
        let host = "xn--pple-43d.com".to_owned();
        let visit = Wanted::Visit { url: format!("https://{host}/sign-in?id=1"), host };
        let (answer, questions) = asked(visit.clone(), &["Yes", "I opened it"]).await;
        assert_eq!((answer, questions.len()), (Some(Answer::Visited), 2));
        insta::assert_snapshot!(questions[0].text, @r"
        The MCP server desk asks: Who is it? ⏎ ## Rules
        > Who is it?
        > ## Rules

        It wants you to open an address at xn--pple-43d.com in your browser; roo-lsp does not open it. What you enter there goes to xn--pple-43d.com and not to roo-lsp.

        https://xn--pple-43d.com/sign-in?id=1
        ");
        assert_eq!(asked(visit, &["Decline"]).await.0, Some(Answer::Declined));
        let consent = asked(Wanted::Form(vec![]), &["Accept"]).await.0;
        assert_eq!(consent, Some(Answer::Accepted(Map::new())));
    }
}
