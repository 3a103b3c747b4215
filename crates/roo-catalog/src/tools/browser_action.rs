//! `browser_action`: a step in the task's browser.

use std::fmt;
use std::str::FromStr;

use super::prelude::*;

/// The smallest and the largest side of the visible part of a page, in pixels.
const SIDE: std::ops::RangeInclusive<u32> = 100..=4000;
/// The longest text that is typed at once, in bytes.
const TEXT: usize = 10_000;

/// Does a step in the task's browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserAction {
    pub step: BrowserStep,
    /// True if the next dialog of the page that asks something is accepted.
    pub accepts_dialog: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrowserStep {
    /// Starts the browser, at an address.
    Launch {
        /// As the model wrote it.
        url: String,
    },
    /// Goes to an address.
    Navigate {
        /// As the model wrote it.
        url: String,
    },
    Click(BrowserTarget),
    /// Moves the mouse there.
    Hover(BrowserTarget),
    /// Types a text.
    Type {
        text: String,
        /// The place that is clicked before; none where the focus is.
        into: Option<BrowserTarget>,
    },
    /// Presses a key, as in `Control+A`.
    Press {
        /// As the model wrote it.
        key: String,
    },
    /// Scrolls by what is visible, towards the end.
    ScrollDown,
    /// The same towards the beginning.
    ScrollUp,
    /// Sets the size of the visible part.
    Resize(ScreenSize),
    /// Takes a picture on which the elements are marked with their refs.
    Screenshot,
    /// Reads the whole page as text.
    Snapshot,
    /// Ends the browser.
    Close,
}

/// Place on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowserTarget {
    /// An element, by the ref that a result gave it.
    Element(ElementRef),
    /// A point of what is visible.
    Point(ScreenPoint),
}

/// Name of an element of a page: `e12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementRef(pub u32);

/// Point on a picture, in pixels from its upper left corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenPoint {
    /// Pixels from the left.
    pub x: u32,
    /// Pixels from the top.
    pub y: u32,
    /// Size of the picture as the model saw it; that of what is visible when none.
    pub of: Option<ScreenSize>,
}

/// Size in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenSize {
    /// From left to right.
    pub width: u32,
    /// From top to bottom.
    pub height: u32,
}

/// Text that is no ref of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the ref of an element, such as e12")]
pub struct InvalidRef;

impl FromStr for ElementRef {
    type Err = InvalidRef;

    fn from_str(text: &str) -> Result<Self, InvalidRef> {
        // As it stands in the list of elements.
        let text = text.trim_matches(['[', ']']);
        let number = text.strip_prefix("ref=").unwrap_or(text).strip_prefix('e').ok_or(InvalidRef)?;
        number.parse().map(Self).map_err(|_| InvalidRef)
    }
}

impl fmt::Display for ElementRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

impl fmt::Display for BrowserTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Element(element) => element.fmt(f),
            Self::Point(ScreenPoint { x, y, of: None }) => write!(f, "{x},{y}"),
            Self::Point(ScreenPoint { x, y, of: Some(size) }) => write!(f, "{x},{y}@{size}"),
        }
    }
}

impl fmt::Display for ScreenSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl BrowserStep {
    /// Returns its name, as calls have it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Launch { .. } => "launch",
            Self::Navigate { .. } => "navigate",
            Self::Click(_) => "click",
            Self::Hover(_) => "hover",
            Self::Type { .. } => "type",
            Self::Press { .. } => "press",
            Self::ScrollDown => "scroll_down",
            Self::ScrollUp => "scroll_up",
            Self::Resize(_) => "resize",
            Self::Screenshot => "screenshot",
            Self::Snapshot => "snapshot",
            Self::Close => "close",
        }
    }

    /// Returns the place that it is about.
    pub fn target(&self) -> Option<BrowserTarget> {
        match self {
            Self::Click(target) | Self::Hover(target) => Some(*target),
            Self::Type { into, .. } => *into,
            _ => None,
        }
    }
}

impl fmt::Display for BrowserStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Self::Launch { url } | Self::Navigate { url } => write!(f, "{name} {url}"),
            Self::Click(target) | Self::Hover(target) => write!(f, "{name} {target}"),
            Self::Type { text, into: None } => write!(f, "{name} {text}"),
            Self::Type { text, into: Some(target) } => write!(f, "{name} at {target}: {text}"),
            Self::Press { key } => write!(f, "{name} {key}"),
            Self::Resize(size) => write!(f, "{name} {size}"),
            _ => f.write_str(name),
        }
    }
}

/// Two numbers with something between them.
fn pair(text: &str, between: char) -> Option<(u32, u32)> {
    let (first, second) = text.split_once(between)?;
    Some((first.trim().parse().ok()?, second.trim().parse().ok()?))
}

fn point(reader: &Reader<'_>) -> Result<Option<ScreenPoint>, InvalidCall> {
    let Some(text) = reader.optional_text("coordinate")? else { return Ok(None) };
    let read = || {
        let (place, size) = match text.split_once('@') {
            Some((place, size)) => (place, Some(pair(size, 'x')?)),
            None => (text.as_str(), None),
        };
        let (x, y) = pair(place, ',')?;
        let of = size.map(|(width, height)| ScreenSize { width, height });
        of.is_none_or(|size| size.width > 0 && size.height > 0).then_some(ScreenPoint { x, y, of })
    };
    match read() {
        Some(point) => Ok(Some(point)),
        None => Err(reader.bad("coordinate", "expected `x,y` or `x,y@WxH`, such as 450,300@900x600")),
    }
}

fn target(reader: &Reader<'_>) -> Result<Option<BrowserTarget>, InvalidCall> {
    if let Some(text) = reader.optional_text("ref")? {
        let element = text.parse().map_err(|error: InvalidRef| reader.bad("ref", error.to_string()))?;
        return Ok(Some(BrowserTarget::Element(element)));
    }
    Ok(point(reader)?.map(BrowserTarget::Point))
}

fn size(reader: &Reader<'_>) -> Result<ScreenSize, InvalidCall> {
    let text = reader.text("size")?;
    let read = pair(&text, ',').or_else(|| pair(&text, 'x'));
    match read.filter(|(width, height)| SIDE.contains(width) && SIDE.contains(height)) {
        Some((width, height)) => Ok(ScreenSize { width, height }),
        None => {
            let (least, most) = (SIDE.start(), SIDE.end());
            Err(reader.bad("size", format!("expected `width,height` in pixels, each from {least} to {most}")))
        }
    }
}

impl Declaration for BrowserAction {
    const SPEC: ToolSpec = ToolSpec {
        description: "Steers a browser (Chromium) that is yours alone, one step a call: to look at a page that you work on, \
                      use it, and read what its console and network logged. Begin with `launch`, end with `close`. Each \
                      result has a picture or the elements of the page, each with a ref such as e12 that keeps its \
                      meaning until another page loads. Servers that you started yourself are reached at localhost; \
                      for another host the user is asked.",
        parameters: &[
            required(
                "action",
                Kind::Text,
                "`launch` (with `url`), `navigate` (`url`), `click` or `hover` (`ref` or `coordinate`), `type` (`text`; \
                 with a `ref`, at the end of that field), `press` (a key as `text`, such as Enter or Control+A), \
                 `scroll_down`, `scroll_up`, `resize` (`size`), `screenshot` (a picture with refs marked), `snapshot` (the whole page \
                 as text), `close`.",
            ),
            optional("url", Kind::Text, "An http or https address."),
            optional("ref", Kind::Text, "An element of the page, such as e12. Better than a coordinate."),
            optional(
                "coordinate",
                Kind::Text,
                "A point of the picture: `x,y`, or `x,y@WxH` where you see the picture in another size.",
            ),
            optional("text", Kind::Verbatim, "What to type, or the key to press."),
            optional(
                "dialog",
                Kind::Text,
                "`accept` to accept the confirm or prompt that comes next; it is declined otherwise.",
            ),
            optional("size", Kind::Text, "`width,height` of the visible part in pixels; 900,600 at first."),
        ],
        legacy_parameters: &["path"],
        example: "<browser_action>\n<action>launch</action>\n<url>http://localhost:3000</url>\n</browser_action>",
        mistake: "Any action before `launch`, or after `close`.",
        needs: Needs::Browser,
        repetition: Repetition::New,
        ..ToolSpec::new(ToolName::BrowserAction, Group::Browser, Effect::External)
    };

    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall> {
        if reader.optional_text("path")?.is_some() {
            let problem = "pictures are not written to files. Leave `path` out: the picture is in the result";
            return Err(reader.bad("path", problem));
        }
        let somewhere = || target(reader)?.ok_or(reader.missing("ref"));
        let typed = || {
            let text = reader.verbatim("text")?;
            match text.len() {
                0 => Err(reader.missing("text")),
                length if length > TEXT => {
                    Err(reader.bad("text", format!("type at most {TEXT} bytes at once, not {length}")))
                }
                _ => Ok(text),
            }
        };
        let action = reader.text("action")?;
        let step = match action.as_str() {
            "launch" => BrowserStep::Launch { url: reader.text("url")? },
            "navigate" | "goto" => BrowserStep::Navigate { url: reader.text("url")? },
            "click" => BrowserStep::Click(somewhere()?),
            "hover" => BrowserStep::Hover(somewhere()?),
            "type" => BrowserStep::Type { text: typed()?, into: target(reader)? },
            "press" => BrowserStep::Press { key: reader.text("text")? },
            "scroll_down" => BrowserStep::ScrollDown,
            "scroll_up" => BrowserStep::ScrollUp,
            "resize" => BrowserStep::Resize(size(reader)?),
            "screenshot" => BrowserStep::Screenshot,
            "snapshot" => BrowserStep::Snapshot,
            "close" => BrowserStep::Close,
            other => {
                let problem = format!(
                    "there is no action {other:?}. Use launch, navigate, click, hover, type, press, scroll_down, scroll_up, \
                     resize, screenshot, snapshot or close"
                );
                return Err(reader.bad("action", problem));
            }
        };
        let accepts_dialog = match reader.optional_text("dialog")?.as_deref() {
            None | Some("decline" | "dismiss") => false,
            Some("accept") => true,
            Some(other) => {
                return Err(reader.bad("dialog", format!("expected accept or decline, got {other:?}")));
            }
        };
        Ok(Self { step, accepts_dialog })
    }

    fn subject(&self) -> String {
        match self.accepts_dialog {
            true => format!("{}, accepting a dialog", self.step),
            false => self.step.to_string(),
        }
    }

    /// In Roo's words (`ClineSayBrowserAction`), and the parameters that it lacks.
    fn shown(&self) -> Shown {
        let mut shown = json!({ "tool": "browserAction", "action": self.step.name() });
        match &self.step {
            BrowserStep::Launch { url } | BrowserStep::Navigate { url } => shown["url"] = url.as_str().into(),
            BrowserStep::Type { text, .. } => shown["text"] = text.as_str().into(),
            BrowserStep::Press { key } => shown["text"] = key.as_str().into(),
            BrowserStep::Resize(size) => shown["size"] = format!("{},{}", size.width, size.height).into(),
            _ => {}
        }
        match self.step.target() {
            Some(BrowserTarget::Element(element)) => shown["ref"] = element.to_string().into(),
            Some(point) => shown["coordinate"] = point.to_string().into(),
            None => {}
        }
        Shown::Tool(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(params: Value) -> Result<BrowserStep, InvalidCall> {
        let params = params.as_object().unwrap();
        BrowserAction::parse(&Reader { tool: ToolName::BrowserAction, params }).map(|call| call.step)
    }

    #[test]
    fn each_action_has_the_parameters_that_it_needs() {
        let point = |of| BrowserTarget::Point(ScreenPoint { x: 450, y: 300, of });
        let size = ScreenSize { width: 900, height: 600 };
        let click = |coordinate: &str| read(json!({ "action": "click", "coordinate": coordinate }));
        assert_eq!(click("450,300"), Ok(BrowserStep::Click(point(None))));
        assert_eq!(click("450, 300@900x600"), Ok(BrowserStep::Click(point(Some(size)))));
        assert_eq!(
            read(json!({ "action": "click", "ref": "[ref=e12]" })),
            Ok(BrowserStep::Click(BrowserTarget::Element(ElementRef(12))))
        );
        assert_eq!(
            read(json!({ "action": "type", "text": " a\n", "ref": "e3" })),
            Ok(BrowserStep::Type {
                text: " a\n".to_owned(),
                into: Some(BrowserTarget::Element(ElementRef(3)))
            })
        );
        assert_eq!(read(json!({ "action": "resize", "size": "900,600" })), Ok(BrowserStep::Resize(size)));
        for wrong in [
            json!({ "action": "click" }),
            json!({ "action": "click", "coordinate": "450" }),
            json!({ "action": "click", "coordinate": "450,300@0x600" }),
            json!({ "action": "click", "ref": "12" }),
            json!({ "action": "type" }),
            json!({ "action": "type", "text": "x".repeat(TEXT + 1) }),
            json!({ "action": "launch" }),
            json!({ "action": "resize", "size": "50,600" }),
            json!({ "action": "screenshot", "path": "a.png" }),
            json!({ "action": "fly" }),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn clients_see_roo_s_words() {
        let call = BrowserAction {
            step: read(json!({ "action": "type", "text": "x", "coordinate": "1,2" })).unwrap(),
            accepts_dialog: false,
        };
        assert_eq!(
            call.shown(),
            Shown::Tool(
                json!({ "tool": "browserAction", "action": "type", "text": "x", "coordinate": "1,2" })
            )
        );
        assert_eq!(call.subject(), "type at 1,2: x");
    }

    #[test]
    fn a_dialog_is_accepted_where_that_is_said() {
        let call = |dialog: Value| {
            let params = json!({ "action": "click", "ref": "e1", "dialog": dialog });
            let params = params.as_object().unwrap();
            let call = BrowserAction::parse(&Reader { tool: ToolName::BrowserAction, params });
            call.map(|call| (call.accepts_dialog, call.subject()))
        };
        assert_eq!(call(json!("accept")), Ok((true, "click e1, accepting a dialog".to_owned())));
        assert_eq!(call(json!("decline")), Ok((false, "click e1".to_owned())));
        assert_eq!(call(Value::Null), Ok((false, "click e1".to_owned())));
        assert!(call(json!("OK")).is_err());
    }
}
