//! Replies of the server itself to the model: fixed texts, each saying what to do next.

mod delegation;
mod review;

pub use delegation::*;
pub use review::{review_in, reviewed};

use std::path::Path;

use crate::prompts::untrusted;
use roo_catalog::{Effect, ToolName, ToolProtocol};
use roo_protocol::ids::Urid;
use roo_text::render::{exact_line, one_line};

/// Beginning of the result of a call that the user refused.
const DENIED: &str = "The user refused this call, so it was not run";
/// The longest subject of a call that is named, in characters.
const SUBJECT: usize = 80;

/// To an answer without a tool call.
pub fn no_tool_used(protocol: ToolProtocol) -> String {
    let form = match protocol {
        ToolProtocol::Xml => format!(
            "Write it with tags, on a line of its own and outside of code blocks, such as:\n\n{}",
            ToolName::AttemptCompletion.spec().example
        ),
        ToolProtocol::Native => "Use a function call, not text.".to_owned(),
    };
    format!(
        "[From the server, not the user] Your answer had no tool call, so nothing happened and nobody was asked.\n\
         - Work left: make the next call.\n\
         - Goal reached: call attempt_completion.\n\
         - Something only the user knows is missing: call ask_followup_question.\n\
         - Goal out of reach: call complete_with_failure.\n\n{form}"
    )
}

/// To a to-do list with lines that are no entries.
pub fn left_out_of_list(lines: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> =
        lines.iter().take(SHOWN).map(|line| format!("`{}`", one_line(line, 60))).collect();
    let more = match lines.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("Not in it, as they have no box `[ ]`: {}{more}.", shown.join(", "))
}

/// To an answer that reached the output limit before it came to a call.
pub fn answer_cut() -> String {
    "[From the server, not the user] Your answer reached the output limit before it came to a tool call, so nothing \
     happened. Write less, or work in smaller steps, and call a tool."
        .to_owned()
}

/// To a call that is not run before the user has said how to go on.
pub fn changes_unknown() -> String {
    "Not run: what a command changed is not known, and the user is asked first. Make this call again if it is still right."
        .to_owned()
}

/// To a call that was not run because an earlier one of the same answer was refused, failed or ended
/// the task.
pub fn skipped() -> String {
    "Not run: an earlier call in the same answer was refused, failed or ended the task. Read its result, and make this \
     call again if it is still right."
        .to_owned()
}

/// To a call that was still to come when the user cancelled the task.
pub fn cancelled() -> String {
    "Not run: the user cancelled the task.".to_owned()
}

/// To a call that was still to come when the user stopped the request: who reads it goes on, with all that was known.
pub fn stopped() -> String {
    "Not run: the user stopped the request. If you read this, it goes on: make the call again if it is still right."
        .to_owned()
}

/// To a call that was in flight when the task was cancelled or the server ended.
pub fn interrupted(effect: Effect) -> String {
    let what = match effect {
        Effect::Read | Effect::Control | Effect::Intent => {
            "It had no effect. Make the call again if you still need it."
        }
        Effect::Write => {
            "The change may have been made or not. Read the file before you go on, and don't assume either."
        }
        Effect::Execute | Effect::External => {
            "Its effects are unknown: it may have run in part or in full. Check what it did before you run \
             anything like it again."
        }
    };
    format!("Interrupted before the result was known. {what}")
}

/// Of a command in the background whose server has ended.
pub fn command_ended_with_server() -> String {
    "It was ended because the server ended. What it changed since it went to the background was not looked at: its effects \
     are unknown. Start it again if it is still needed."
        .to_owned()
}

/// To a call that the user refused.
pub fn denied(feedback: Option<&str>) -> String {
    match words(feedback) {
        Some(feedback) => format!("{DENIED}, and said:\n{feedback}\nContinue accordingly."),
        None => format!(
            "{DENIED}. Don't try to reach the same effect in another way; choose another step, or ask the user what they \
             want."
        ),
    }
}

/// Returns whether the user refused the call that has this result.
pub fn is_denied_by_user(result: &str) -> bool {
    result.starts_with(DENIED)
}

/// To a call that needs permission, in a run that asks nobody for it.
pub fn denied_unattended() -> String {
    "Not run: this call needs permission, and this run is set to refuse instead of asking (`--on-ask deny`). Don't reach \
     the same effect in another way; choose another step. If there is none, end with what would have to be allowed: with \
     `--allow-write`, with `--allow-command`, under `autoApprove` in the user's settings, or in a run that asks."
        .to_owned()
}

/// To a call that was made too often in a row with the same parameters.
pub fn repeated(tool: &str, times: u32) -> String {
    format!(
        "Not run: this exact call of {tool} has been made {times} times in a row, and its result will not change. Use \
         the result you have, or try something else."
    )
}

/// After a look that has brought the same as before, with other calls in between and no change.
pub fn same_look(tool: &str, subject: &str, times: u32) -> String {
    let call = shown_call(tool, subject);
    format!(
        "[From the server, not the user] {call} has now brought the same result {times} times, and nothing has been changed in between. You seem to go in \
         circles: use the results you have, or try something else."
    )
}

/// In place of images with which an endpoint refused a request.
pub fn image_refused() -> &'static str {
    "(Images are left out here: they could not be sent.)"
}

/// After several answers whose calls were all looks that failed.
pub fn looks_in_vain(answers: u32) -> String {
    format!(
        "[From the server, not the user] All calls of your last {answers} answers have failed. Find out what there is, for example with list_files or \
         search_files, before you look for more, or ask the user."
    )
}

/// Names a call in one line.
fn shown_call(tool: &str, subject: &str) -> String {
    format!("{tool} {}", untrusted(&one_line(subject.trim(), SUBJECT))).trim_end().to_owned()
}

/// Relays the user's words after too many mistakes in a row.
pub fn guidance(feedback: &str) -> String {
    match words(Some(feedback)) {
        Some(feedback) => {
            format!("Several attempts in a row have failed. The user was asked and said:\n{feedback}\nContinue \
                     accordingly.")
        }
        None => "Several attempts in a row have failed. The user was asked and wants you to go on. Take a different way \
                 than before."
            .to_owned(),
    }
}

/// To a completion in the same answer as a call that failed.
pub fn completion_after_failure() -> String {
    "Not accepted: another call of the same answer failed. Deal with that first, then complete.".to_owned()
}

/// In place of the user's answer to a question.
pub fn answer_blocked() -> String {
    "A hook of the user blocked their answer, so you don't get it. Ask again, or go on without it.".to_owned()
}

/// To a completion while a message of the user waits.
pub fn completion_with_queue() -> String {
    "Not final: the user has said something in the meantime. Take it into account before you complete."
        .to_owned()
}

/// Before the first request of a branch that works in a git worktree.
pub fn in_worktree(folder: &Path, left_out: &[String]) -> String {
    let left_out = match left_out {
        [] => String::new(),
        files => format!(" These uncommitted paths are not in it: {}.", listed(files)),
    };
    format!(
        "You work in a git worktree of your own, {}, as others work at the same time. It has the files of the workspace as \
         they were when you began, but not those that git ignores.{left_out} When you complete, what you changed there is merged \
         into the workspace. Commits in the worktree are not merged, the files are.",
        exact_line(&folder.to_string_lossy())
    )
}

/// To a branch that would complete while its commands run in its worktree.
pub fn commands_in_worktree() -> String {
    "Commands still run in your worktree, and what they change now would not be merged. Wait for them, or end them with \
     stop_command, before you complete."
        .to_owned()
}

/// To a branch whose merge was refused.
pub fn merge_refused() -> String {
    "Nothing of what you changed was merged; it is in your worktree alone. Change what is wanted there and complete again, or \
     end with complete_with_failure."
        .to_owned()
}

/// To a branch of whose changes the user took only some.
pub fn merged_in_part() -> String {
    "The user did not take all that you changed as it was, and only what they took was merged. Complete again with a result \
     that says what is in the workspace now, or change in your worktree what they want otherwise first."
        .to_owned()
}

/// To a branch whose changes are merged.
pub fn merge_done(files: &[String], left_out: &[String]) -> String {
    let mut text = match files {
        [] => "There was nothing to merge.".to_owned(),
        files => format!("Your changes were merged into the workspace: {}.", listed(files)),
    };
    if !left_out.is_empty() {
        text.push_str(&format!(" Not merged: {}.", listed(left_out)));
    }
    text
}

/// To a branch whose changes conflict with those of others. `files` are the files with the lines in conflict.
pub fn merge_conflicted(files: &[String]) -> String {
    let files: Vec<String> = files.iter().map(|file| exact_line(file)).collect();
    format!(
        "Others have changed the same lines as you since you began, so nothing was merged: {}.\nYour worktree has both \
         versions now, between the lines `<<<<<<< {OTHERS}` and `>>>>>>> {OWN}`. Read these files, make of each place what \
         serves both changes, remove the lines with the marks, and complete again.",
        files.join("; ")
    )
}

/// Name of the version of others in the marks of a conflict.
pub const OTHERS: &str = "others";
/// Name of the version of the branch in the marks of a conflict.
pub const OWN: &str = "this branch";

/// To a parent whose branch has completed and left files behind.
pub fn worktree_kept(folder: &Path, left_out: &[String], why: Option<&str>) -> String {
    let folder = exact_line(&folder.to_string_lossy());
    let why = why.map(|why| format!(" ({})", exact_line(why))).unwrap_or_default();
    match left_out {
        [] => format!("What it changed was merged, but its worktree is kept{why}: {folder}"),
        files => format!(
            "What it changed was merged but for {}. Its worktree is kept{why}: {folder}",
            listed(files)
        ),
    }
}

/// To a parent whose branch has ended without a merge.
pub fn not_merged(folder: &Path, why: Option<&str>) -> String {
    let why = why.map(|why| format!(" {}", exact_line(why))).unwrap_or_default();
    format!(
        "Nothing of what it changed was merged.{why} Its worktree is kept: {}",
        exact_line(&folder.to_string_lossy())
    )
}

/// To the user, where branches get no worktrees.
pub fn worktrees_unavailable(reason: &str) -> String {
    format!(
        "The branches work in the workspace folder itself, one beside the other, and not in git worktrees of their own: \
         {reason}."
    )
}

fn listed(files: &[String]) -> String {
    files.iter().map(|file| exact_line(file)).collect::<Vec<_>>().join(", ")
}

/// Before the next request, when the user has forked the conversation.
pub fn forked(from: &Urid, urid: &Urid, directory: Option<&str>) -> String {
    let directory = directory
        .map(|directory| format!(" Its directory for working files is {}.", exact_line(directory)))
        .unwrap_or_default();
    format!(
        "The user has forked this conversation from the request {from} at this point, and it goes on as the request \
         {urid}.{directory} What was running then doesn't run here, and files may have changed since. Read a file again \
         before you change it."
    )
}

/// Before the next request, when the conversation before was imported.
pub fn imported(program: &str) -> String {
    format!(
        "The conversation up to here was with {}, and the user has imported it. Its tools may have had other names and \
         parameters than those that you have now, and files may have changed since. Read a file again before you change it.",
        exact_line(program)
    )
}

/// Before the next request, when the user has restored files.
pub fn files_restored(paths: &[String]) -> String {
    let list: String = paths.iter().map(|path| format!("\n- {}", exact_line(path))).collect();
    format!(
        "The user has restored files to an earlier state, which undoes changes of yours. Read a file again before you \
         change it:{list}"
    )
}

/// Before the next request, when the user has taken the conversation back and left the files as they were.
pub fn conversation_restored() -> String {
    "The user has taken this conversation back to this point. The files were not restored, so they may hold changes \
     that you made after it. Read a file again before you change it."
        .to_owned()
}

/// Before the next request, when the user has taken the conversation and the files back and these files could not be.
pub fn files_not_restored(paths: &[String]) -> String {
    let list: String = paths.iter().map(|path| format!("\n- {}", exact_line(path))).collect();
    format!(
        "The user has taken this conversation and the files back to this point. These files could not be restored, so \
         they may hold changes that you made after it. Read a file again before you change it:{list}"
    )
}

/// To the call that ended the task.
pub fn ended() -> String {
    "The task has ended with this.".to_owned()
}

/// To an interrupted write that turned out to be done.
pub fn write_was_done(path: &str) -> String {
    format!("The server was interrupted, but {path} had been written completely.")
}

/// To an interrupted write whose file holds neither the old nor the new text.
pub fn write_unknown(path: &str) -> String {
    format!(
        "The server was interrupted, and {path} holds neither its old nor the proposed text: somebody else has changed \
         it. Read it before you go on."
    )
}

/// To an interrupted change of several files that had happened.
pub fn patch_was_done() -> String {
    "The server was interrupted, but all files of the patch had been changed.".to_owned()
}

/// To an interrupted change of several files that is neither done nor undone.
pub fn patch_unknown(changed: &[&str], unchanged: &[&str], other: &[&str]) -> String {
    let mut text = "The server was interrupted while the patch was applied.".to_owned();
    for (files, what) in [
        (changed, "hold the new text"),
        (unchanged, "are as they were"),
        (other, "hold neither text: somebody else has changed them"),
    ] {
        if !files.is_empty() {
            text.push_str(&format!("\n- {} {what}.", files.join(", ")));
        }
    }
    text.push_str("\nRead them, and tell the user, before you go on.");
    text
}

/// Formats the user's words, set off from the server's.
fn words(feedback: Option<&str>) -> Option<String> {
    let feedback = feedback?.trim();
    (!feedback.is_empty()).then(|| format!("<feedback>\n{feedback}\n</feedback>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correction_shows_the_form_of_its_protocol() {
        let xml = no_tool_used(ToolProtocol::Xml);
        assert!(xml.contains("<attempt_completion>\n<result>"), "{xml}");
        let native = no_tool_used(ToolProtocol::Native);
        assert!(native.contains("function call") && !native.contains('<'), "{native}");
    }

    #[test]
    fn lines_without_a_box_are_named() {
        let lines = ["Plan:", "a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!(left_out_of_list(&lines[..1]), "Not in it, as they have no box `[ ]`: `Plan:`.");
        assert!(left_out_of_list(&lines).ends_with("`c`, `d` and 1 more."), "{}", left_out_of_list(&lines));
    }

    #[test]
    fn the_users_words_are_set_off() {
        for text in [denied(Some(" use tabs\n")), guidance("use tabs")] {
            assert!(text.contains("\n<feedback>\nuse tabs\n</feedback>"), "{text}");
        }
        for text in [denied(None), denied(Some("  ")), guidance("\n")] {
            assert!(!text.contains("feedback"), "{text}");
        }
    }

    #[test]
    fn only_what_could_have_had_an_effect_is_uncertain() {
        assert!(interrupted(Effect::Execute).contains("unknown"));
        assert!(interrupted(Effect::Write).contains("Read the file"));
        assert!(interrupted(Effect::Read).contains("no effect"));
    }

    #[test]
    fn refusals_name_what_they_are_about() {
        assert!(write_unknown("src/a.rs").contains("src/a.rs"));
        let text = repeated("read_file", 4);
        assert!(text.contains("read_file") && text.contains("4 times"), "{text}");
        let text = same_look("list_files", "src\n</environment_details>", 3);
        assert!(text.contains("list_files src ⏎ &lt;/environment_details> has now brought"), "{text}");
        assert!(same_look("codebase_search", "", 3).contains("] codebase_search has now"), "no subject");
    }
}
