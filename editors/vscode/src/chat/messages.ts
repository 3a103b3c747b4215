// What the extension and the chat's page tell each other.
import type {
  CommandItem,
  ContextItem,
  EventParams,
  HistoryItem,
  HunkAnswer,
  ModeItem,
  ModelItem,
  OptionKind,
  ProfileItem,
  PromptCompleteResult,
  SendWhen,
  TaskId,
} from "../protocol.ts";
import type { ShownFile } from "../hunks.ts";
import type { AutoApprove, AutoApproveKey } from "../settings.ts";
import type { Request } from "../state.ts";

/** A place that the next prompt is about, as it is shown. */
export interface Place {
  readonly label: string;
  readonly item: ContextItem;
}

/** What the page needs to know besides the request. */
export interface ChatContext {
  /** Why there is no server to talk to; none while there is one. */
  readonly problem: string | undefined;
  readonly modes: readonly ModeItem[];
  readonly profiles: readonly ProfileItem[];
  readonly commands: readonly CommandItem[];
  /** The slug of a new request's mode: the one chosen last in this workspace, or else that of the settings. */
  readonly defaultMode: string;
  /** The profile of a new request, where one was chosen; else the mode's or the usual one. */
  readonly defaultProfile: string | undefined;
  /** What is known of the profiles' models, by the profiles' names; filled as it becomes known. */
  readonly models: Readonly<Record<string, ModelItem>>;
  /** What runs without a question; none while that isn't known. */
  readonly autoApprove: AutoApprove | undefined;
  /** True if changed settings wait for the server's restart. */
  readonly restartPending: boolean;
  readonly places: readonly Place[];
  /** Whether the server can go back to an earlier state. */
  readonly canRestore: boolean;
  /** Whether it can put another message in the place of one. */
  readonly canEdit: boolean;
  /** What the workspace brings, while it may not steer agents. */
  readonly untrusted: readonly string[];
}

/** From the extension to the page. */
export type ToPage =
  | { readonly type: "state"; readonly request: Request | undefined; readonly only: TaskId | undefined }
  | { readonly type: "event"; readonly params: EventParams }
  | { readonly type: "context"; readonly context: ChatContext }
  | { readonly type: "history"; readonly items: readonly HistoryItem[]; readonly more: boolean; readonly appended: boolean }
  /** What the end of a prompt may become. */
  | { readonly type: "completions"; readonly prompt: string; readonly completions: PromptCompleteResult }
  | { readonly type: "focus"; readonly text?: string }
  /** Shows what waits behind the card in front, or before it. */
  | { readonly type: "move"; readonly by: number }
  /** Answers the approval with this answer's button, if it is in front. */
  | { readonly type: "decide"; readonly approvalId: string; readonly kind: OptionKind }
  /** The changes of an approval, each of which can be answered by itself. */
  | { readonly type: "hunks"; readonly approvalId: string; readonly files: readonly ShownFile[]; readonly answers: readonly HunkAnswer[] }
  /** Opens the lines of a change to be rewritten. */
  | { readonly type: "editHunk"; readonly approvalId: string; readonly hunkId: string }
  /** What was decided on single changes elsewhere. */
  | { readonly type: "decided"; readonly approvalId: string; readonly answers: readonly HunkAnswer[] }
  /** Whether the keys that count in the chat alone count now. */
  | { readonly type: "keys"; readonly on: boolean }
  /** A task was started, or a message was taken. */
  | { readonly type: "taken"; readonly taskId: TaskId }
  | { readonly type: "failed"; readonly what: FromPage["type"]; readonly message: string };

/** From the page to the extension. */
export type FromPage =
  | { readonly type: "ready" }
  | { readonly type: "start"; readonly prompt: string; readonly images: readonly string[]; readonly mode: string | undefined }
  | { readonly type: "send"; readonly taskId: TaskId; readonly text: string; readonly images: readonly string[]; readonly when: SendWhen }
  | { readonly type: "cancel" | "resume" | "delete"; readonly taskId: TaskId }
  | { readonly type: "open"; readonly taskId: TaskId; readonly title: string }
  /** Lets the model see again what a shortening of the conversation took away. */
  | { readonly type: "undoShortening"; readonly taskId: TaskId; readonly seq: number }
  /** Goes back to before the message that is this event. */
  | { readonly type: "restore"; readonly taskId: TaskId; readonly seq: number }
  /** Goes on from another message in the place of this one. */
  | { readonly type: "edit"; readonly taskId: TaskId; readonly messageId: string; readonly text: string; readonly images: readonly string[] }
  | { readonly type: "history"; readonly more: boolean }
  | { readonly type: "all" }
  | { readonly type: "respond"; readonly approvalId: string; readonly digest: string; readonly optionId: string; readonly text: string }
  | { readonly type: "answer"; readonly questionId: string; readonly text: string; readonly images?: readonly string[] }
  | { readonly type: "showDiff"; readonly approvalId: string }
  | { readonly type: "editQueued"; readonly taskId: TaskId; readonly itemId: string; readonly text: string }
  | { readonly type: "deleteQueued"; readonly taskId: TaskId; readonly itemId: string }
  /** For the request that is shown, or else for new ones. */
  | { readonly type: "chooseMode"; readonly taskId: TaskId | undefined; readonly mode: string }
  | { readonly type: "chooseProfile"; readonly taskId: TaskId | undefined }
  /** Whether the page has the focus, for the keys that count there alone. */
  | { readonly type: "focused"; readonly on: boolean }
  /** Which approval is in front; none where a question is, or nothing. */
  | { readonly type: "inFront"; readonly approvalId: string | undefined }
  /** What the user has decided on single changes; it goes along with the answer that allows the edit. */
  | { readonly type: "hunks"; readonly approvalId: string; readonly answers: readonly HunkAnswer[] }
  | { readonly type: "autoApprove"; readonly key: AutoApproveKey; readonly on: boolean }
  | { readonly type: "copy"; readonly text: string }
  | { readonly type: "insert"; readonly text: string; readonly language: string }
  | { readonly type: "settings"; readonly query: string }
  | { readonly type: "rules" | "setUp" | "restart" }
  | { readonly type: "removePlace"; readonly index: number }
  /** Asks what the end of a prompt, up to the cursor, may become. */
  | { readonly type: "complete"; readonly prompt: string }
  | { readonly type: "link"; readonly href: string }
  | { readonly type: "trust" };
