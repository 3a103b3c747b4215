// What the user has decided on single changes of approvals that wait. The chat and the diff both show it and change it.
import * as vscode from "vscode";
import type { HunkAnswer } from "./protocol.ts";

/** Where a decision was made. */
export type DecidedIn = "chat" | "diff";

/** The decisions by approval. */
export class Decisions implements vscode.Disposable {
  readonly #answers = new Map<string, readonly HunkAnswer[]>();
  readonly #changed = new vscode.EventEmitter<{ readonly approvalId: string; readonly by: DecidedIn }>();
  readonly onDidChange = this.#changed.event;

  /** The decisions on an approval; changes without one follow the answer to the whole. */
  of(approvalId: string): readonly HunkAnswer[] {
    return this.#answers.get(approvalId) ?? [];
  }

  /** Replaces the decisions on an approval. */
  set(approvalId: string, answers: readonly HunkAnswer[], by: DecidedIn): void {
    this.#answers.set(approvalId, answers);
    this.#changed.fire({ approvalId, by });
  }

  /** Forgets what was answered. */
  forget(approvalId: string): void {
    this.#answers.delete(approvalId);
  }

  dispose(): void {
    this.#changed.dispose();
  }
}
