//! Links within the repository lead to a file that is there, and to a heading in it. Addresses elsewhere are not tried.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::markdown::Page;
use super::{all_pages, assert_none, book, page};

/// Where the book's pages lie. What is outside of it is not part of the built book.
const BOOK: &str = "docs/src";

/// `a/b/../c` as `a/c`; none where it leads out of the repository.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => plain.pop().then_some(())?,
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// What is wrong with a link of a page; none when it leads somewhere.
fn problem(page: &Page, link: &str, pages: &BTreeMap<PathBuf, Page>) -> Option<String> {
    if ["https://", "http://", "mailto:"].iter().any(|scheme| link.starts_with(scheme)) {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => page.path.clone(),
        path => match plain(&page.path.parent().unwrap_or(Path::new("")).join(path)) {
            Some(target) => target,
            None => return Some("leads out of the repository".to_owned()),
        },
    };
    if page.path.starts_with(BOOK) && !target.starts_with(BOOK) {
        return Some("leads out of the book".to_owned());
    }
    if !crate::support::package().join(&target).exists() {
        return Some("there is no such file".to_owned());
    }
    let known = || pages.get(&target).is_some_and(|page| page.anchors.iter().any(|known| known == anchor));
    (!anchor.is_empty() && !known()).then(|| format!("{} has no such heading", target.display()))
}

fn by_path(pages: Vec<Page>) -> BTreeMap<PathBuf, Page> {
    pages.into_iter().map(|page| (page.path.clone(), page)).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let pages = by_path(all_pages());
    let mut problems = Vec::new();
    for page in pages.values() {
        for (line, link) in &page.links {
            if let Some(problem) = problem(page, link, &pages) {
                problems.push(format!("{}:{line}: {link}: {problem}", page.path.display()));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn broken_links_are_found() {
    let pages = by_path(all_pages());
    let from = |path: &str, link: &str| problem(&pages[Path::new(path)], link, &pages);
    for link in
        ["docs/src/sandbox.md", "docs/src/sandbox.md#staged-commands", "#install", "https://example.com"]
    {
        assert_eq!(from("README.md", link), None, "{link}");
    }
    for link in ["docs/src/sandbx.md", "docs/src/sandbox.md#gone", "#gone", "../x", "/etc/passwd"] {
        assert!(from("README.md", link).is_some(), "{link}");
    }
    assert_eq!(from("docs/src/hooks.md", "../../README.md").as_deref(), Some("leads out of the book"));
}

#[test]
fn the_summary_lists_every_page_once() {
    let summary = page(&crate::support::package().join(BOOK).join("SUMMARY.md"));
    let listed: Vec<PathBuf> = summary.links.iter().map(|(_, link)| Path::new(BOOK).join(link)).collect();
    let once: BTreeSet<PathBuf> = listed.iter().cloned().collect();
    assert_eq!(listed.len(), once.len(), "a page is listed twice");
    let there: BTreeSet<PathBuf> = book().into_iter().map(|page| page.path).collect();
    let pages: BTreeSet<PathBuf> = there.into_iter().filter(|path| !path.ends_with("SUMMARY.md")).collect();
    assert_eq!(once, pages);
}

/// A page of the book with what it includes, as mdBook shows it, and how many links that has where it comes from.
fn with_included(path: &Path, text: &str) -> (Page, usize) {
    let include = regex::Regex::new(r"\{\{#include ([^}:]+)(?::(\w+))?\}\}").unwrap();
    let mut links = 0;
    let shown = include.replace_all(text, |found: &regex::Captures<'_>| {
        let from = crate::support::package().join(plain(&path.parent().unwrap().join(&found[1])).unwrap());
        let whole = std::fs::read_to_string(&from).unwrap();
        links += page(&from).links.len();
        let Some(anchor) = found.get(2).map(|anchor| anchor.as_str()) else { return whole };
        let (_, part) = whole.split_once(&format!("ANCHOR: {anchor} -->\n")).unwrap();
        let (part, _) = part.split_once(&format!("<!-- ANCHOR_END: {anchor}")).unwrap();
        part.to_owned()
    });
    (Page::parse(path, &shown), links)
}

#[test]
fn links_of_included_pages_lead_somewhere_in_the_book_too() {
    let mut problems = Vec::new();
    for page in book() {
        let text = std::fs::read_to_string(crate::support::package().join(&page.path)).unwrap();
        let (shown, links) = with_included(&page.path, &text);
        if links == 0 {
            continue;
        }
        let name = shown.path.display().to_string();
        if shown.links.len() != links {
            problems.push(format!("{name}: a link of the page that it includes has no destination here"));
        }
        let mut pages = by_path(all_pages());
        let found = shown.links.clone();
        pages.insert(shown.path.clone(), shown);
        let page = &pages[&page.path];
        let wrong = found.iter().filter_map(|(_, link)| Some((link, problem(page, link, &pages)?)));
        problems.extend(wrong.map(|(link, problem)| format!("{name}: {link}: {problem}")));
    }
    assert_none(&problems);
}
