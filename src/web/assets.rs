//! The files of the page, which are compiled in: a table, and no directory.
//!
//! `page.js` and `page.css` are generated from `editors/vscode/src/` by `npm run generate` there; its check fails when they differ.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};

/// The page loads what this server serves, talks to it alone, and is shown in no other page. Nothing inline runs, and no
/// string becomes script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every answer.
const HEADERS: &[(&str, &str)] = &[
    ("content-security-policy", POLICY),
    // A page is of the program that runs now.
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Returns the file at a path; none where there is nothing.
pub(super) fn file(path: &str) -> Option<Response<Full<Bytes>>> {
    let (kind, content): (_, &'static str) = match path {
        "/" => ("text/html; charset=utf-8", include_str!("page/index.html")),
        "/page.js" => ("text/javascript; charset=utf-8", include_str!("page/page.js")),
        "/page.css" => ("text/css; charset=utf-8", include_str!("page/page.css")),
        "/icon.svg" => ("image/svg+xml", include_str!("page/icon.svg")),
        _ => return None,
    };
    Some(respond(StatusCode::OK, kind, Bytes::from_static(content.as_bytes())))
}

/// An answer in words.
pub(super) fn refusal(status: StatusCode, reason: &'static str) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", Bytes::from_static(reason.as_bytes()))
}

fn respond(status: StatusCode, kind: &'static str, content: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(content));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    secure(response.headers_mut());
    response
}

fn secure(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_files_of_the_page_is_served() {
        for path in ["/", "/page.js", "/page.css", "/icon.svg"] {
            assert!(file(path).is_some(), "{path}");
        }
        for path in [
            "",
            "/index.html",
            "/page.js/",
            "//page.js",
            "/../page.js",
            "/%2e%2e/etc/passwd",
            "/page.js%00",
            "/PAGE.JS",
        ] {
            assert!(file(path).is_none(), "{path}");
        }
    }

    #[test]
    fn the_page_has_nothing_inline_that_its_policy_would_hold_back() {
        let page = include_str!("page/index.html");
        assert!(!page.contains("style=") && !page.contains("<style"), "{page}");
        assert!(
            page.matches("<script").count() == 1
                && page.contains(r#"<script src="/page.js" defer></script>"#),
            "{page}"
        );
    }
}
