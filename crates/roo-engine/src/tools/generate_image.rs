//! `generate_image`: has an image model make a picture, and writes it.
//!
//! The model is that of the profile in the setting `imageGeneration.profile`; nothing else is asked, and nothing is fetched. The
//! picture is written as bytes: it has no diff and no preview, the trace knows it by its digest, and checkpoints keep its bytes.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;

use crate::policy::{
    Access, Action, AskReason, CallAssessment, CheckedCall, Gate, NamedAllowRule, Permitted, Plan, Refusal,
    RefusalRule, TITLE, Tool, ToolCallContext,
};
use crate::tool_run::{AppliedEdit, BinaryContents, Outcome, ToolContext};
use roo_catalog::{GenerateImage, ToolName};
use roo_model::providers::{ImageModel, ImageRequest};
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Digest;
use roo_protocol::rule::RuleSubject;
use roo_text::render::{exact_line, one_line, visible};
use roo_trace::record::{Author, FileChange, Side};
use roo_workspace::{Contents, IMAGE_BYTES, ImageType, Purpose, ReadError, Resolved, from_base64};

/// The largest picture that is written, in bytes.
const MAX_IMAGE_BYTES: usize = 10 << 20;

impl Tool for GenerateImage {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let images = image_model(gate)?;
        let path = gate.resolve(&self.path, Purpose::Write)?;
        let kind = ImageType::of_path(path.relative()).filter(|kind| *kind != ImageType::Gif);
        let kind = kind.ok_or_else(|| {
            let text = "The path of a picture ends with .png, .jpg, .jpeg or .webp. Name such a file.";
            Refusal::mistake(RefusalRule::Content, text)
        })?;
        let mode = call_context.mode.permits_file(ToolName::GenerateImage, path.relative(), None);
        mode.map_err(|error| Refusal::mistake(RefusalRule::Mode, error))?;
        let must_ask = gate.examine(call_context, &path, Access::Write)?;
        let before = current(gate, call_context, &path).await?;
        let input = match &self.image {
            Some(named) => Some(InputImage::read(gate, call_context, named).await?),
            None => None,
        };
        let (input, input_asks, is_input_free) = match input {
            Some(InputImage { name, digest, data_url, must_ask, is_free }) => {
                (Some((name, digest, data_url)), must_ask, is_free)
            }
            None => (None, None, true),
        };
        let name = path.display();
        let given = input.as_ref().map(|(name, digest, _)| json!([name, digest]));
        // Unlike an edit, it can't be recovered from a work tree: it is asked about there too.
        let is_allowed = gate.settings().auto_approve.write && is_input_free;
        Ok(CallAssessment {
            identity: json!({
                "tool": "generate_image", "prompt": self.prompt, "path": name, "before": before, "image": given,
                "model": images.name(),
            }),
            title: format!("Generate {}", one_line(&name, TITLE)),
            // Shown from the action.
            subject: String::new(),
            must_ask: must_ask.or(input_asks),
            undecided: None,
            allowed_by: is_allowed.then(|| NamedAllowRule::Write.into()),
            standing: Some(RuleSubject::Edits),
            alternative: None,
            plan: Plan::Nothing,
            action: Some(Box::new(MakeImage {
                images,
                prompt: self.prompt,
                input: input.map(|(name, _, data_url)| (name, data_url)),
                path,
                kind,
                before,
            })),
        }
        .into())
    }
}

/// The model that the settings name.
fn image_model(gate: &Gate) -> Result<Arc<dyn ImageModel>, Refusal> {
    let refused = |why: String| {
        let text = format!("No image can be generated here: {why}. Go on without it, and tell the user.");
        Refusal::mistake(RefusalRule::Tool, text)
    };
    let settings = gate.settings();
    let Some(name) = &settings.image_generation.profile else {
        return Err(refused("the setting `imageGeneration.profile` names no profile".to_owned()));
    };
    let Some(profile) = settings.profiles.get(name) else {
        let name = exact_line(name);
        return Err(refused(format!(
            "there is no profile '{name}', which `imageGeneration.profile` names in the settings"
        )));
    };
    let connected = gate.models().connect_images(profile, settings.image_generation.api_of(profile));
    connected.map_err(|error| {
        let name = exact_line(name);
        let error = error.to_string();
        refused(format!(
            "the profile '{name}' of `imageGeneration.profile` can't be used: {}",
            error.trim_end_matches('.')
        ))
    })
}

/// The digest of the file that is replaced; none for a new one. Only one that the task has seen is replaced.
async fn current(
    gate: &Gate,
    call_context: ToolCallContext<'_>,
    path: &Resolved,
) -> Result<Option<Digest>, Refusal> {
    let name = path.display();
    let mistake = |text: String| Refusal::mistake(RefusalRule::Content, text);
    if gate.workspace().documents().at(path.absolute()).is_some() {
        return Err(mistake(format!("{name} is open in an editor as text. Name another file.")));
    }
    let digest = match gate.workspace().read(path).await {
        Ok(contents) => contents.digest(),
        Err(ReadError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(mistake(error.to_string())),
    };
    match call_context.seen.get(&name) {
        Some(seen) if *seen == digest => Ok(Some(digest)),
        _ => Err(mistake(format!(
            "{name} exists, and you have not seen it as it is now. Read it in an answer before the one that replaces it, or \
             name another file."
        ))),
    }
}

/// Image of the workspace that is to be changed.
struct InputImage {
    name: String,
    digest: Digest,
    data_url: String,
    /// Reason why the user must be asked about reading it.
    must_ask: Option<AskReason>,
    /// True if it is read without asking.
    is_free: bool,
}

impl InputImage {
    async fn read(gate: &Gate, call_context: ToolCallContext<'_>, named: &str) -> Result<Self, Refusal> {
        let place = gate.resolve(named, Purpose::Read)?;
        let must_ask = gate.examine(call_context, &place, Access::Look)?;
        let name = place.display();
        let mistake = |text: String| Refusal::mistake(RefusalRule::Content, text);
        let contents = gate.workspace().read(&place).await.map_err(|error| mistake(error.to_string()))?;
        let digest = contents.digest();
        let image = match &contents {
            Contents::Binary { bytes, .. } => ImageType::of_bytes(bytes).map(|kind| (kind, bytes)),
            Contents::Text(_) => None,
        };
        let Some((kind, bytes)) = image else {
            return Err(mistake(format!(
                "{name} is no PNG, JPEG, GIF or WebP image, so it can't be changed."
            )));
        };
        if bytes.len() > IMAGE_BYTES {
            let size = bytes.len();
            return Err(mistake(format!("{name} has {size} bytes; at most {IMAGE_BYTES} are sent.")));
        }
        let is_free = gate.settings().auto_approve.read || call_context.seen.contains_key(&name);
        Ok(Self { data_url: kind.data_url(bytes), name, digest, must_ask, is_free })
    }
}

/// Has an image made, and writes it.
struct MakeImage {
    images: Arc<dyn ImageModel>,
    prompt: String,
    /// The image to change: its name, and itself as a data URL.
    input: Option<(String, String)>,
    path: Resolved,
    kind: ImageType,
    /// The digest of the file that is replaced.
    before: Option<Digest>,
}

impl fmt::Debug for MakeImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MakeImage").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Action for MakeImage {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(run(*self, context))
    }

    fn shown(&self) -> Option<String> {
        let replaced = if self.before.is_some() { ", which is replaced" } else { "" };
        let mut lines =
            vec![format!("To {}{replaced}", self.path.display()), format!("Made by {}", self.images.name())];
        if let Some((name, _)) = &self.input {
            lines.push(format!("From {name}, which is sent there"));
        }
        lines.push(self.prompt.clone());
        Some(visible(&lines.join("\n")).into_owned())
    }
}

/// Picture as it came.
struct Picture {
    bytes: Vec<u8>,
    kind: ImageType,
    /// As a data URL; none where it is too large to be shown to a model.
    shown: Option<String>,
}

impl Picture {
    /// Reads a picture; none for what is none.
    fn from_base64(data: &str) -> Option<Self> {
        let bytes = from_base64(data)?;
        let kind = ImageType::of_bytes(&bytes)?;
        let shown = (bytes.len() <= IMAGE_BYTES).then(|| kind.data_url(&bytes));
        Some(Self { bytes, kind, shown })
    }
}

async fn run(action: MakeImage, context: &ToolContext) -> Outcome {
    let MakeImage { images, prompt, input, path, kind, before } = action;
    let name = path.display();
    let failed =
        |text: String| Outcome::new(ToolStatus::Failed, text, format!("Did not generate {}", path.display()));
    let format = kind.media_type().trim_start_matches("image/");
    let request = ImageRequest { prompt, image: input.map(|(_, data_url)| data_url), format };
    let made = tokio::select! {
        biased;
        () = context.cancel.cancelled() => {
            return Outcome::interrupted("The picture was not waited for, and nothing was written.");
        }
        made = images.generate(request) => made,
    };
    let data = match made {
        Ok(data) => data,
        Err(error) => return failed(format!("{error} Nothing was written.")),
    };
    let read = roo_durable::spawn_blocking(move || Picture::from_base64(&data)).await;
    let Some(Picture { bytes, kind: found, shown }) = read.ok().flatten() else {
        return failed("The endpoint sent no PNG, JPEG, GIF or WebP image. Nothing was written.".to_owned());
    };
    let size = bytes.len();
    if size > MAX_IMAGE_BYTES {
        return failed(format!(
            "The picture has {size} bytes, and at most {MAX_IMAGE_BYTES} are written. Nothing was written."
        ));
    }
    if found != kind {
        return failed(format!(
            "The endpoint made a picture of the type {}, so it can't be named {name}. Nothing was written. Call \
             generate_image again with a path that ends with .{}.",
            found.media_type(),
            found.extension()
        ));
    }
    // Not raced against a cancellation: a write that happens must be told.
    let (written, replaced) = match context.workspace.write_bytes(&path, before, bytes.clone()).await {
        Ok(written) => written,
        Err(error) => return Outcome { seen: vec![(name, None)], ..failed(error.to_string()) },
    };
    let told = match shown {
        Some(_) => "It is attached to this result.",
        None => "It is too large to be attached to this result.",
    };
    let text = format!("Wrote {name}: {}, {size} bytes. {told}", kind.media_type());
    let outcome = Outcome {
        images: shown.into_iter().collect(),
        seen: vec![(name.clone(), Some(written.after))],
        ..Outcome::new(ToolStatus::Ok, text, format!("Generated {name}"))
    };
    if written.before == Some(written.after) {
        return outcome;
    }
    let change = FileChange {
        path: name,
        old_path: None,
        before: written.before.map_or(Side::Absent, Side::Opaque),
        after: Side::Opaque(written.after),
        author: Author::Ai,
    };
    let edit = AppliedEdit { uri: written.uri, before: written.before, after: Some(written.after) };
    let mut binaries = BinaryContents::default();
    replaced.into_iter().chain([bytes]).for_each(|bytes| binaries.add(bytes));
    Outcome { edits: vec![edit], changes: vec![change], binaries, ..outcome }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::fixture::Fixture;
    use roo_model::providers::{ModelError, ModelErrorKind};
    use roo_workspace::file_uri;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n rest of it";

    /// Answers everything alike.
    struct Answers(Result<String, ModelError>);

    impl ImageModel for Answers {
        fn name(&self) -> String {
            "http://127.0.0.1:1/v1/images/generations painter".to_owned()
        }

        fn generate(&self, _: ImageRequest) -> BoxFuture<'_, Result<String, ModelError>> {
            Box::pin(std::future::ready(self.0.clone()))
        }
    }

    fn base64(bytes: &[u8]) -> String {
        ImageType::Png.data_url(bytes).split_once(',').unwrap().1.to_owned()
    }

    fn action(fixture: &Fixture, name: &str, before: Option<Digest>, answer: Answers) -> MakeImage {
        let path = fixture.context.workspace.resolve(name, Purpose::Write).unwrap();
        let kind = ImageType::of_path(name).unwrap();
        MakeImage {
            images: Arc::new(answer),
            prompt: "a fox\nin snow".to_owned(),
            input: None,
            path,
            kind,
            before,
        }
    }

    async fn make(fixture: &Fixture, name: &str, before: Option<Digest>, answer: &[u8]) -> Outcome {
        run(action(fixture, name, before, Answers(Ok(base64(answer)))), &fixture.context).await
    }

    #[tokio::test]
    async fn a_picture_is_written_shown_and_known_by_its_digest() {
        let fixture = Fixture::new(&[]);
        let outcome = make(&fixture, "assets/fox.png", None, PNG).await;
        assert_eq!(std::fs::read(fixture.path("assets/fox.png")).unwrap(), PNG);
        assert_eq!(outcome.text, "Wrote assets/fox.png: image/png, 19 bytes. It is attached to this result.");
        assert_eq!(outcome.images, [ImageType::Png.data_url(PNG)]);
        let after = Digest::of(PNG);
        assert_eq!(outcome.seen, [("assets/fox.png".to_owned(), Some(after))]);
        let uri = file_uri(&fixture.path("assets/fox.png").canonicalize().unwrap());
        assert_eq!(outcome.edits, [AppliedEdit { uri, before: None, after: Some(after) }]);
        let [change] = &outcome.changes[..] else { panic!("{:?}", outcome.changes) };
        assert_eq!((&change.before, &change.after), (&Side::Absent, &Side::Opaque(after)));
    }

    #[tokio::test]
    async fn a_picture_is_replaced_only_as_it_was_seen() {
        let fixture = Fixture::new(&[]);
        fixture.put("a.png", PNG);
        let other = [PNG, b"!"].concat();
        let outcome = make(&fixture, "a.png", Some(Digest::of("something else")), &other).await;
        assert_eq!(outcome.status, ToolStatus::Failed);
        assert!(outcome.text.contains("a.png has been changed since it was read"), "{}", outcome.text);
        assert_eq!(outcome.seen, [("a.png".to_owned(), None)]);
        let outcome = make(&fixture, "a.png", None, &other).await;
        assert!(outcome.text.contains("a.png exists already"), "{}", outcome.text);
        assert_eq!(std::fs::read(fixture.path("a.png")).unwrap(), PNG);
        let outcome = make(&fixture, "a.png", Some(Digest::of(PNG)), &other).await;
        assert_eq!((outcome.status, outcome.changes.len()), (ToolStatus::Ok, 1));
        let mut kept = BinaryContents::default();
        [PNG, &other].into_iter().for_each(|bytes| kept.add(bytes));
        assert_eq!(outcome.binaries, kept, "for checkpoints");
        assert_eq!(std::fs::read(fixture.path("a.png")).unwrap(), other);
        let outcome = make(&fixture, "a.png", Some(Digest::of(&other)), &other).await;
        assert_eq!((outcome.status, outcome.changes.len()), (ToolStatus::Ok, 0), "it is the same");
    }

    #[tokio::test]
    async fn only_an_image_of_the_named_type_is_written() {
        let fixture = Fixture::new(&[]);
        let outcome = make(&fixture, "a.png", None, b"<html>no image</html>").await;
        assert_eq!(outcome.text, "The endpoint sent no PNG, JPEG, GIF or WebP image. Nothing was written.");
        let outcome = make(&fixture, "a.png", None, b"\xff\xd8\xff\xe0 jpeg").await;
        assert_eq!(
            outcome.text,
            "The endpoint made a picture of the type image/jpeg, so it can't be named a.png. Nothing was written. Call \
             generate_image again with a path that ends with .jpg."
        );
        let large = [PNG, &vec![0; MAX_IMAGE_BYTES][..]].concat();
        let outcome = make(&fixture, "a.png", None, &large).await;
        assert!(outcome.text.contains("at most 10485760 are written"), "{}", outcome.text);
        assert!(!fixture.path("a.png").exists());
        let shown = [PNG, &vec![0; IMAGE_BYTES][..]].concat();
        let outcome = make(&fixture, "a.png", None, &shown).await;
        assert!(outcome.text.ends_with("It is too large to be attached to this result."), "{}", outcome.text);
        assert_eq!(outcome.images, [""; 0]);
    }

    #[tokio::test]
    async fn an_endpoint_that_fails_is_told_in_its_words() {
        let fixture = Fixture::new(&[]);
        let error = ModelError {
            kind: ModelErrorKind::Invalid,
            message: "http://x: not today (status 400).".to_owned(),
        };
        let outcome = run(action(&fixture, "a.png", None, Answers(Err(error))), &fixture.context).await;
        assert_eq!(outcome.text, "http://x: not today (status 400). Nothing was written.");
        assert_eq!(outcome.summary, "Did not generate a.png");
        fixture.context.cancel.cancel();
        assert_eq!(make(&fixture, "a.png", None, PNG).await.status, ToolStatus::Interrupted);
        assert!(!fixture.path("a.png").exists());
    }

    #[test]
    fn whoever_is_asked_sees_what_goes_where() {
        let fixture = Fixture::new(&[]);
        let mut action = action(&fixture, "a.png", None, Answers(Ok(String::new())));
        action.input = Some(("b.png".to_owned(), "data:x".to_owned()));
        insta::assert_snapshot!(action.shown().unwrap(), @r"
        To a.png
        Made by http://127.0.0.1:1/v1/images/generations painter
        From b.png, which is sent there
        a fox
        in snow
        ");
    }
}
