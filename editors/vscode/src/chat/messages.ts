// What the extension and the chat's page tell each other.
import type {
  CommandItem,
  ContextItem,
  EventParams,
  HistoryItem,
  ModeItem,
  ProfileItem,
  SendWhen,
  TaskId,
} from "../protocol.ts";
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
  /** The slug of a new request's mode. */
  readonly defaultMode: string;
  readonly places: readonly Place[];
  /** What the workspace brings, while it may not steer agents. */
  readonly untrusted: readonly string[];
}

/** From the extension to the page. */
export type ToPage =
  | { readonly type: "state"; readonly request: Request | undefined; readonly only: TaskId | undefined }
  | { readonly type: "event"; readonly params: EventParams }
  | { readonly type: "context"; readonly context: ChatContext }
  | { readonly type: "history"; readonly items: readonly HistoryItem[]; readonly more: boolean }
  | { readonly type: "files"; readonly query: string; readonly paths: readonly string[] }
  | { readonly type: "focus"; readonly text?: string }
  /** A task was started, or a message was taken. */
  | { readonly type: "taken"; readonly taskId: TaskId }
  | { readonly type: "failed"; readonly what: FromPage["type"]; readonly message: string };

/** From the page to the extension. */
export type FromPage =
  | { readonly type: "ready" }
  | { readonly type: "start"; readonly prompt: string; readonly images: readonly string[]; readonly mode: string | undefined; readonly profile: string | undefined }
  | { readonly type: "send"; readonly taskId: TaskId; readonly text: string; readonly images: readonly string[]; readonly when: SendWhen }
  | { readonly type: "cancel" | "resume" | "open" | "delete"; readonly taskId: TaskId }
  | { readonly type: "history"; readonly more: boolean }
  | { readonly type: "all" }
  | { readonly type: "respond"; readonly approvalId: string; readonly digest: string; readonly optionId: string; readonly text: string }
  | { readonly type: "answer"; readonly questionId: string; readonly text: string }
  | { readonly type: "showDiff"; readonly approvalId: string }
  | { readonly type: "editQueued"; readonly taskId: TaskId; readonly itemId: string; readonly text: string }
  | { readonly type: "deleteQueued"; readonly taskId: TaskId; readonly itemId: string }
  | { readonly type: "switchMode"; readonly taskId: TaskId; readonly mode: string }
  | { readonly type: "selectProfile"; readonly taskId: TaskId; readonly profile: string }
  | { readonly type: "removePlace"; readonly index: number }
  | { readonly type: "files"; readonly query: string }
  | { readonly type: "link"; readonly href: string }
  | { readonly type: "trust" };
