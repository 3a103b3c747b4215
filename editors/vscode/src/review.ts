// The review of an edit in its diff: each change has a thread there, by which it is refused with words, rewritten, or
// accepted again. The diff shows the file as these decisions leave it.
import * as vscode from "vscode";
import type { Decisions } from "./decisions.ts";
import { decided } from "./hunks.ts";
import type { Previews } from "./preview.ts";
import type { FilePreview, Hunk, HunkAnswer, PendingApproval } from "./protocol.ts";

/** What the commands of a thread are given: the thread, or it with the words below it; a key gives nothing. */
export type Target = vscode.CommentThread | vscode.CommentReply | undefined;

interface Change {
  readonly approvalId: string;
  readonly hunk: Hunk;
  readonly number: number;
  readonly count: number;
  readonly thread: vscode.CommentThread;
}

interface ReviewedFile {
  readonly approvalId: string;
  readonly after: vscode.Uri;
  readonly before: string;
  readonly hunks: readonly Hunk[];
}

/** The reviews in diffs. */
export class DiffReview implements vscode.Disposable {
  readonly #decisions: Decisions;
  readonly #previews: Previews;
  readonly #controller = vscode.comments.createCommentController("roo.review", "Roo");
  readonly #subscription: vscode.Disposable;
  readonly #wanted = new vscode.EventEmitter<{ readonly approvalId: string; readonly hunkId: string }>();
  /** The user wants to rewrite a change. */
  readonly onDidWantEdit = this.#wanted.event;
  #changes: readonly Change[] = [];
  #files: readonly ReviewedFile[] = [];

  constructor(decisions: Decisions, previews: Previews) {
    this.#decisions = decisions;
    this.#previews = previews;
    this.#controller.options = { placeHolder: "Why not? The agent is told (optional)", prompt: "Refuse with words…" };
    this.#subscription = decisions.onDidChange(({ approvalId }) => this.#draw(approvalId));
  }

  /** Shows an approval's changes, each with its thread where it can be answered by itself. */
  async open(approval: PendingApproval, files: readonly FilePreview[]): Promise<void> {
    const { approvalId } = approval;
    const opened = await this.#previews.open(approval, files);
    this.close(approvalId);
    const reviewed = files.flatMap((file, index): ReviewedFile[] => {
      const after = opened[index];
      const hunks = (file.hunks ?? []).filter(({ kind = "edit" }) => kind !== "move");
      return after ? [{ approvalId, after, before: file.before ?? "", hunks }] : [];
    });
    const all = reviewed.flatMap(({ after, hunks }) => hunks.map((hunk) => ({ after, hunk })));
    const changes = all.map(({ after, hunk }, index): Change => {
      const thread = this.#controller.createCommentThread(after, new vscode.Range(hunk.newRange.start, 0, hunk.newRange.start, 0), [said(undefined)]);
      // What there is one of alone is refused by the answer to the whole.
      thread.canReply = all.length > 1;
      thread.collapsibleState = all.length > 1 ? vscode.CommentThreadCollapsibleState.Expanded : vscode.CommentThreadCollapsibleState.Collapsed;
      return { approvalId, hunk, number: index + 1, count: all.length, thread };
    });
    this.#files = [...this.#files, ...reviewed];
    this.#changes = [...this.#changes, ...changes];
    this.#draw(approvalId);
  }

  /** Ends the review of an approval. */
  close(approvalId: string): void {
    for (const { thread } of this.#changes.filter((one) => one.approvalId === approvalId)) thread.dispose();
    this.#changes = this.#changes.filter((one) => one.approvalId !== approvalId);
    this.#files = this.#files.filter((one) => one.approvalId !== approvalId);
  }

  /** Takes back what was decided on a change. */
  accept(target: Target): void {
    const change = this.#change(target);
    if (change) this.#decide(change, undefined);
  }

  /** Refuses a change, with the words below it; by a key, words are asked for. */
  async refuse(target: Target): Promise<void> {
    const change = this.#change(target);
    if (!change) return;
    if (change.count === 1) return void vscode.window.showInformationMessage("Roo: this is the only change; deny the edit instead.");
    const typed = isReply(target) ? target.text : isThread(target) ? "" : await vscode.window.showInputBox({ title: `Why not? ${nameOf(change)}`, prompt: "The agent is told. Leave it empty to say nothing.", ignoreFocusOut: true });
    if (typed === undefined) return;
    const text = typed.trim();
    this.#decide(change, { ...idsOf(change.hunk), decision: "refuse", ...(text && { text }) });
  }

  /** Opens the lines of a change to be rewritten: in the chat, which has room for them; the diff follows. */
  edit(target: Target): void {
    const change = this.#change(target);
    if (change && change.hunk.kind !== "delete") this.#wanted.fire({ approvalId: change.approvalId, hunkId: change.hunk.hunkId });
  }

  dispose(): void {
    this.#subscription.dispose();
    this.#wanted.dispose();
    this.#controller.dispose();
  }

  #decide(change: Change, answer: HunkAnswer | undefined): void {
    const others = this.#decisions.of(change.approvalId).filter((one) => one.hunkId !== change.hunk.hunkId);
    this.#decisions.set(change.approvalId, answer ? [...others, answer] : others, "diff");
  }

  #answer({ approvalId, hunk }: Change): HunkAnswer | undefined {
    return this.#decisions.of(approvalId).find((one) => one.hunkId === hunk.hunkId);
  }

  #draw(approvalId: string): void {
    for (const file of this.#files.filter((one) => one.approvalId === approvalId)) {
      const { text, places } = decided(file.before, file.hunks, this.#decisions.of(approvalId));
      const lines = text.split("\n");
      this.#previews.update(file.after, text);
      for (const { hunk, thread } of this.#changes.filter((one) => one.approvalId === approvalId)) {
        const place = places.get(hunk.hunkId);
        if (!place) continue;
        // The thread stands below the end of the last line, however often that is wrapped.
        const last = Math.max(place.start, place.end - 1);
        thread.range = new vscode.Range(place.start, 0, last, lines[last]?.length ?? 0);
      }
    }
    for (const change of this.#changes.filter((one) => one.approvalId === approvalId)) this.#drawChange(change);
  }

  #drawChange(change: Change): void {
    const answer = this.#answer(change);
    const { thread } = change;
    thread.comments = [said(answer)];
    thread.label = nameOf(change);
    thread.contextValue = [answer?.decision ?? "accept", change.count > 1 && "refusable", change.hunk.kind !== "delete" && "editable"].filter(Boolean).join(" ");
  }

  /** The change that a command is about: that of its thread, or else the one at the cursor of the diff in front. */
  #change(target: Target): Change | undefined {
    if (target !== undefined && !(target instanceof vscode.Uri)) {
      const thread = isReply(target) ? target.thread : target;
      const found = this.#changes.find((one) => one.thread === thread);
      if (found) return found;
    }
    const editor = vscode.window.activeTextEditor;
    if (!editor) return undefined;
    const line = editor.selection.active.line;
    const here = this.#changes.filter(({ thread }) => thread.uri.toString() === editor.document.uri.toString());
    const start = ({ thread }: Change): number => thread.range?.start.line ?? 0;
    return here.findLast((one) => start(one) <= line) ?? here[0];
  }
}

function nameOf({ number, count }: Change): string {
  return `Change ${number} of ${count}`;
}

function idsOf({ hunkId, digest }: Hunk): { hunkId: string; digest: string } {
  return { hunkId, digest };
}

/** A decision, as a comment. A thread without one would go when it is closed, and one with a text opens the editor's list of comments. */
function said(answer: HunkAnswer | undefined): vscode.Comment {
  return { author: { name: inWords(answer) }, body: "", mode: vscode.CommentMode.Preview, contextValue: "decision" };
}

function inWords(answer: HunkAnswer | undefined): string {
  if (answer?.decision === "edit") return "Your lines";
  if (answer?.decision !== "refuse") return "As proposed";
  return answer.text ? `Refused: ${answer.text}` : "Refused";
}

function isReply(target: Target): target is vscode.CommentReply {
  return target !== undefined && "thread" in target;
}

function isThread(target: Target): target is vscode.CommentThread {
  return target !== undefined && "comments" in target;
}
