//! Images made by an endpoint: by OpenAI's `POST /images/generations`, or in an answer of `POST /chat/completions`, as
//! OpenRouter and some other gateways have it.
//!
//! See <https://platform.openai.com/docs/api-reference/images/create> and
//! <https://openrouter.ai/docs/features/multimodal/image-generation>. Nothing but the endpoint is asked: an image that it names
//! by an address is not fetched.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::connect::openai_endpoint;
use super::http::Endpoint;
use super::{ModelError, ModelErrorKind};
use roo_formats::config::{ImageApi, Profile};
use roo_text::render::one_line;

/// Path of the images API below the endpoint's base URL.
const IMAGES: &str = "/images/generations";
/// Path of the API by which models of OpenAI change images.
const EDITS: &str = "/images/edits";

/// Path of the other one.
const CHAT: &str = "/chat/completions";

/// Time for an image, where the profile gives less: it is made before the first byte comes.
const TIME: Duration = Duration::from_secs(180);

/// The longest answer in words that an error quotes, in characters.
const WORDS: usize = 300;

/// Image to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRequest {
    /// What is to be seen.
    pub prompt: String,
    /// An image to change, as a data URL.
    pub image: Option<String>,
    /// The wanted format, where the endpoint can be told: `png`, `jpeg` or `webp`.
    pub format: &'static str,
}

/// A model that makes images.
pub trait ImageModel: Send + Sync {
    /// Name of the endpoint and the model, without credentials.
    fn name(&self) -> String;

    /// Makes an image, and returns it in base64. What it holds is for the caller to check.
    fn generate(&self, request: ImageRequest) -> BoxFuture<'_, Result<String, ModelError>>;
}

/// The image model of a profile.
pub(super) struct ConfiguredImages {
    endpoint: Arc<Endpoint>,
    model: String,
    api: ImageApi,
}

impl ConfiguredImages {
    /// The model of a profile, with its endpoint and key as for any other model. Without network.
    ///
    /// `environment` reads an environment variable.
    ///
    /// # Errors
    /// A configuration error that names the profile's field and what to do.
    pub(super) fn connect(
        profile: &Profile,
        api: ImageApi,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ModelError> {
        let (endpoint, model) =
            openai_endpoint(profile, ("has no images API", "image", "openrouter"), environment)?;
        Ok(Self { endpoint: Arc::new(endpoint), model, api })
    }

    fn path(&self, is_change: bool) -> &'static str {
        match self.api {
            ImageApi::Images if is_change && self.is_gpt_image() => EDITS,
            ImageApi::Images => IMAGES,
            ImageApi::Chat => CHAT,
        }
    }

    /// Returns whether the model is one of OpenAI's that have parameters of their own.
    fn is_gpt_image(&self) -> bool {
        self.model.contains("gpt-image")
    }

    fn body(&self, request: &ImageRequest) -> Value {
        let ImageRequest { prompt, image, format } = request;
        match self.api {
            ImageApi::Images => {
                let mut body = json!({ "model": self.model, "prompt": prompt, "n": 1 });
                if self.is_gpt_image() {
                    // They always answer in base64, and refuse to be asked for it.
                    body["output_format"] = (*format).into();
                    if let Some(image) = image {
                        body["images"] = json!([{ "image_url": image }]);
                    }
                    return body;
                }
                body["response_format"] = "b64_json".into();
                if let Some(image) = image {
                    body["image"] = image.as_str().into();
                }
                body
            }
            ImageApi::Chat => {
                let content = match image {
                    None => Value::from(prompt.as_str()),
                    Some(image) => json!([
                        { "type": "text", "text": prompt },
                        { "type": "image_url", "image_url": { "url": image } },
                    ]),
                };
                json!({
                    "model": self.model,
                    "messages": [{ "role": "user", "content": content }],
                    "modalities": ["image", "text"],
                })
            }
        }
    }

    async fn ask(&self, request: ImageRequest) -> Result<String, ModelError> {
        let path = self.path(request.image.is_some());
        let body = self.body(&request).to_string().into_bytes();
        let answer = Arc::clone(&self.endpoint).post_within(TIME, path, body).await?;
        image_of(self.api, &answer).map_err(|problem| {
            let text = format!(
                "{}: {problem}. Check `baseUrl`, `imageGeneration.api` and the model's name, {}.",
                self.endpoint.shown_at(path),
                self.model
            );
            ModelError::new(ModelErrorKind::Malformed, text)
        })
    }
}

impl ImageModel for ConfiguredImages {
    fn name(&self) -> String {
        format!("{} {}", self.endpoint.shown_at(self.path(false)), self.model)
    }

    fn generate(&self, request: ImageRequest) -> BoxFuture<'_, Result<String, ModelError>> {
        Box::pin(self.ask(request))
    }
}

/// The image of an answer in base64, or why there is none.
fn image_of(api: ImageApi, answer: &Value) -> Result<String, String> {
    let address = match api {
        ImageApi::Images => {
            let image = &answer["data"][0];
            if let Some(image) = image["b64_json"].as_str() {
                // Some put a whole data URL there.
                return Ok(in_data_url(image).unwrap_or(image).to_owned());
            }
            &image["url"]
        }
        ImageApi::Chat => {
            let message = &answer["choices"][0]["message"];
            let in_content = message["content"].as_array().into_iter().flatten();
            let images = message["images"].as_array().into_iter().flatten().chain(in_content);
            let found = images.map(|part| &part["image_url"]["url"]).find(|address| address.is_string());
            match (found, message["content"].as_str().map(str::trim)) {
                (Some(address), _) => address,
                (None, Some(words)) if !words.is_empty() => {
                    return Err(format!("the model answered in words alone: {}", one_line(words, WORDS)));
                }
                (None, _) => &Value::Null,
            }
        }
    };
    match address.as_str() {
        Some(address) => in_data_url(address).map(str::to_owned).ok_or_else(|| {
            "the answer names an address instead of an image, and nothing is fetched from there".to_owned()
        }),
        None => Err("the answer has no image".to_owned()),
    }
}

/// The data of a data URL in base64.
fn in_data_url(url: &str) -> Option<&str> {
    let (kind, data) = url.strip_prefix("data:")?.split_once(',')?;
    kind.ends_with(";base64").then_some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(api: ImageApi, model: &str) -> ConfiguredImages {
        let profile = json!({ "provider": "openai", "baseUrl": "http://127.0.0.1:1/v1", "model": model });
        let profile: Profile = serde_json::from_value(profile).unwrap();
        ConfiguredImages::connect(&profile, api, &|_| None).unwrap()
    }

    #[test]
    fn requests_have_the_form_of_their_api() {
        let request = |image: Option<&str>| ImageRequest {
            prompt: "a fox".to_owned(),
            image: image.map(str::to_owned),
            format: "png",
        };
        let plain = images(ImageApi::Images, "dall-e-3");
        assert_eq!(plain.name(), "http://127.0.0.1:1/v1/images/generations dall-e-3");
        assert_eq!(
            plain.body(&request(None)),
            json!({ "model": "dall-e-3", "prompt": "a fox", "n": 1, "response_format": "b64_json" })
        );
        assert_eq!(plain.body(&request(Some("data:x")))["image"], "data:x");
        let own = images(ImageApi::Images, "gpt-image-1");
        assert_eq!((own.path(false), own.path(true)), ("/images/generations", "/images/edits"));
        assert_eq!(
            own.body(&request(Some("data:x"))),
            json!({
                "model": "gpt-image-1", "prompt": "a fox", "n": 1, "output_format": "png",
                "images": [{ "image_url": "data:x" }],
            })
        );
        let chat = images(ImageApi::Chat, "google/gemini-2.5-flash-image");
        assert_eq!(
            chat.body(&request(None)),
            json!({
                "model": "google/gemini-2.5-flash-image",
                "messages": [{ "role": "user", "content": "a fox" }],
                "modalities": ["image", "text"],
            })
        );
        assert_eq!(
            chat.body(&request(Some("data:x")))["messages"][0]["content"][1]["image_url"]["url"],
            "data:x"
        );
    }

    #[test]
    fn an_image_is_found_in_an_answer_and_none_is_fetched() {
        let of = |api, answer: Value| image_of(api, &answer);
        assert_eq!(of(ImageApi::Images, json!({ "data": [{ "b64_json": "AA==" }] })), Ok("AA==".to_owned()));
        let url = "data:image/png;base64,AA==";
        assert_eq!(of(ImageApi::Images, json!({ "data": [{ "b64_json": url }] })), Ok("AA==".to_owned()));
        assert_eq!(of(ImageApi::Images, json!({ "data": [{ "url": url }] })), Ok("AA==".to_owned()));
        let part = json!({ "type": "image_url", "image_url": { "url": url } });
        let message = |message: Value| json!({ "choices": [{ "message": message }] });
        for answer in [
            json!({ "content": "Here it is.", "images": [part.clone()] }),
            json!({ "content": [{ "type": "text", "text": "Here." }, part.clone()] }),
        ] {
            assert_eq!(of(ImageApi::Chat, message(answer)), Ok("AA==".to_owned()));
        }
        let fetched =
            of(ImageApi::Images, json!({ "data": [{ "url": "https://images.example/1.png" }] })).unwrap_err();
        assert!(fetched.contains("nothing is fetched"), "{fetched}");
        let words = of(ImageApi::Chat, message(json!({ "content": "I can't\ndraw that." }))).unwrap_err();
        assert_eq!(words, "the model answered in words alone: I can't ⏎ draw that.");
        for answer in [json!({}), json!({ "data": [] }), json!([]), message(json!({ "content": "" }))] {
            for api in [ImageApi::Images, ImageApi::Chat] {
                assert_eq!(of(api, answer.clone()), Err("the answer has no image".to_owned()), "{answer}");
            }
        }
    }

    #[test]
    fn a_profile_that_makes_no_images_is_told_apart() {
        let error = |profile: Value| {
            let profile: Profile = serde_json::from_value(profile).unwrap();
            ConfiguredImages::connect(&profile, ImageApi::Images, &|_| None).err().unwrap().message
        };
        assert!(error(json!({ "provider": "anthropic", "model": "m" })).contains("`provider`"));
        assert!(error(json!({ "provider": "openai" })).contains("`model`"));
        assert!(error(json!({ "provider": "openai", "model": "m" })).contains("OPENAI_API_KEY is not set"));
    }
}
