//! Images of the types that models take, known by their first bytes rather than by their names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The largest image that a model is shown, in bytes: what some APIs limit to 5 MiB is its base64.
pub const IMAGE_BYTES: usize = (5 << 20) / 4 * 3;

/// Types of images that models take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageType {
    /// PNG
    Png,
    /// JPEG
    Jpeg,
    /// GIF
    Gif,
    /// WebP
    WebP,
}

impl ImageType {
    /// The type of these bytes; none for anything else.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            _ => None,
        }
    }

    /// The type that a file has by the extension of its name.
    pub fn of_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let (_, extension) = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty())?;
        Some(match extension.to_ascii_lowercase().as_str() {
            "png" => Self::Png,
            "jpg" | "jpeg" => Self::Jpeg,
            "gif" => Self::Gif,
            "webp" => Self::WebP,
            _ => return None,
        })
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }

    /// The usual extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Gif => "gif",
            Self::WebP => "webp",
        }
    }

    /// An image of this type as a data URL.
    pub fn data_url(self, bytes: &[u8]) -> String {
        format!("data:{};base64,{}", self.media_type(), STANDARD.encode(bytes))
    }
}

/// Decodes base64, with line breaks or without; none for other text.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let plain: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_its_first_bytes() {
        let types = [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], Some(ImageType::Png)),
            (b"\xff\xd8\xff\xe0", Some(ImageType::Jpeg)),
            (b"GIF89a", Some(ImageType::Gif)),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some(ImageType::WebP)),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"<svg></svg>", None),
            (b"\x89PNG", None),
            (b"", None),
        ];
        for (bytes, expected) in types {
            assert_eq!(ImageType::of_bytes(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_name_says_what_an_image_is_to_be() {
        for (path, expected) in [
            ("a/b.PNG", Some(ImageType::Png)),
            ("b.jpeg", Some(ImageType::Jpeg)),
            ("b.webp", Some(ImageType::WebP)),
            ("png", None),
            ("a.png/b", None),
            ("b.svg", None),
        ] {
            assert_eq!(ImageType::of_path(path), expected, "{path}");
        }
    }

    #[test]
    fn an_image_goes_through_base64() {
        assert_eq!(ImageType::Png.data_url(b"abc"), "data:image/png;base64,YWJj");
        assert_eq!(from_base64("YW\nJj").as_deref(), Some(&b"abc"[..]));
        assert_eq!(from_base64("no image"), None);
    }
}
