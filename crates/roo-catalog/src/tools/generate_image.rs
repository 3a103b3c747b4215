//! `generate_image`: a picture made by a model, as a file.

use super::prelude::*;

/// The longest description of a picture, in bytes.
const PROMPT: usize = 32 << 10;

/// Has an image made, or one changed, and writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerateImage {
    /// What is to be seen.
    pub prompt: String,
    /// The file to write, as the model wrote it.
    pub path: String,
    /// The image to change, as the model wrote it; none for a new one.
    pub image: Option<String>,
}

impl Declaration for GenerateImage {
    const SPEC: ToolSpec = ToolSpec {
        description: "Has an image model make a picture, or change one of the workspace, and writes it to a file. You get \
                      the picture with the result.",
        parameters: &[
            required("prompt", Kind::Text, "What is to be seen, or changed: subject, style, colours, composition."),
            required(
                "path",
                Kind::Text,
                "The file to write, relative to the workspace; it ends with .png, .jpg or .webp. An existing one must have \
                 been read before.",
            ),
            optional("image", Kind::Text, "An image of the workspace to change: PNG, JPEG, GIF or WebP."),
        ],
        example: "<generate_image>\n<prompt>A red fox as a flat logo on white, no text</prompt>\n<path>assets/fox.png</path>\n</generate_image>",
        mistake: "A drawing that is better written as text, such as an SVG or a diagram: use write_to_file.",
        // What guards writes guards this one.
        hook_names: &["Write"],
        needs: Needs::ImageGeneration,
        ..ToolSpec::new(ToolName::GenerateImage, Group::Edit, Effect::External)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        let prompt = reader.text("prompt")?;
        if prompt.len() > PROMPT {
            return Err(reader.bad("prompt", format!("it has more than {PROMPT} bytes")));
        }
        Ok(Self { prompt, path: reader.path("path")?, image: reader.optional_text("image")? })
    }

    fn subject(&self) -> String {
        self.path.clone()
    }

    fn shown(&self) -> Shown {
        Shown::Tool(json!({
            "tool": "generateImage",
            "path": self.path,
            "content": self.prompt,
            "inputImage": self.image,
        }))
    }

    fn edited_files(&self) -> Vec<&str> {
        vec![&self.path]
    }

    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        let mut fields = object(json!({ "file_path": view.path(&self.path), "prompt": self.prompt }));
        if let Some(image) = &self.image {
            fields.insert("image".to_owned(), view.path(image));
        }
        vec![fields.into()]
    }

    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        params.insert("path".to_owned(), change.path("file_path", &self.path)?.into());
        params.insert("prompt".to_owned(), change.text("prompt")?.into());
        change.refuse(&["image", "content"])
    }

    fn hook_response(&self, view: &HookView<'_>, _text: &str, ok: bool) -> Value {
        json!({ "filePath": view.path(&self.path), "success": ok })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Invocation, ToolCall, parse};
    use roo_protocol::ids::ToolCallId;

    fn read(params: Value) -> Result<Invocation, String> {
        let Value::Object(params) = params else { panic!("parameters are an object") };
        let name = "generate_image".to_owned();
        let call = ToolCall { id: ToolCallId::new("c"), name, params, problem: None, note: None };
        parse(&call).map_err(|error| error.to_string())
    }

    #[test]
    fn an_image_has_a_prompt_and_a_path_and_may_have_another_to_begin_with() {
        let image = |image: Option<&str>| {
            Ok(GenerateImage {
                prompt: "a fox".to_owned(),
                path: "a.png".to_owned(),
                image: image.map(str::to_owned),
            }
            .into())
        };
        assert_eq!(read(json!({ "prompt": " a fox\n", "path": "a.png" })), image(None));
        assert_eq!(read(json!({ "prompt": "a fox", "path": "a.png", "image": "b.jpg" })), image(Some("b.jpg")));
        assert_eq!(read(json!({ "prompt": "a fox", "path": "a.png", "image": Value::Null })), image(None));
        assert!(read(json!({ "path": "a.png" })).unwrap_err().contains("lacks the parameter 'prompt'"));
        assert!(read(json!({ "prompt": "a fox" })).unwrap_err().contains("lacks the parameter 'path'"));
        let long = json!({ "prompt": "a".repeat(PROMPT + 1), "path": "a.png" });
        assert!(read(long).unwrap_err().contains("32768 bytes"));
    }
}
