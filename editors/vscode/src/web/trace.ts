// The trace: what agents did in time, the intents that they did it for, and who wrote what in files.
import type { IntentListResult } from "../protocol.ts";
import { h } from "../webview/dom.ts";

/** What is shown. */
export type TraceView = "timeline" | "intents" | "files";

/** A record of the trace, as far as it is shown. It may be of another version: nothing in it is certain. */
interface TraceRecord {
  readonly timestamp?: string;
  readonly files?: readonly {
    readonly path?: string;
    readonly conversations?: readonly {
      readonly contributor?: { readonly type?: string; readonly model_id?: string };
      readonly ranges?: readonly { readonly start_line?: number; readonly end_line?: number }[];
    }[];
  }[];
  readonly metadata?: {
    readonly "dev.roo-lsp"?: {
      readonly intent_id?: string;
      readonly mode?: string;
      readonly model?: string;
      readonly tool_call?: string;
      readonly outcome?: string;
      readonly mutation_class?: string;
      readonly decision?: { readonly by?: string };
      readonly command?: { readonly exit_code?: number | null };
    };
  };
}

const AUTHORS: Record<string, string> = { ai: "agent", human: "you", mixed: "agent and you", unknown: "unknown" };
const OUTCOMES: Record<string, string> = { ok: "✓ done", denied: "⊘ denied", failed: "✗ failed", scope_violation: "! out of scope", interrupted: "! interrupted" };

/** The records in time, the newest first. */
export function timeline(records: readonly unknown[]): HTMLElement {
  if (records.length === 0) return nothing("Agents have changed and run nothing yet.");
  return h(
    "ol",
    { class: "timeline" },
    ...newestFirst(records).map((record) => {
      const own = record.metadata?.["dev.roo-lsp"] ?? {};
      const files = (record.files ?? []).map((file) => file.path ?? "");
      const exit = own.command?.exit_code == null ? "" : `exit code ${own.command.exit_code}`;
      const rest = [own.mutation_class, exit, own.intent_id, own.mode, own.model, own.decision?.by && `allowed by ${own.decision.by}`].filter(Boolean).join(" · ");
      return h(
        "li",
        {},
        h("span", { class: "at" }, h("time", { datetime: record.timestamp ?? "" }, moment(record.timestamp))),
        h("span", { class: `state-${own.outcome ?? ""}` }, OUTCOMES[own.outcome ?? ""] ?? own.outcome ?? ""),
        h("strong", {}, (own.tool_call ?? "").replaceAll("_", " ")),
        ...files.map((path) => h("code", {}, path)),
        h("span", { class: "reason" }, rest),
      );
    }),
  );
}

/** Who wrote which lines of which file, the newest writes of each first. Lines are those of the file as it was then. */
export function files(records: readonly unknown[]): HTMLElement {
  const byPath = new Map<string, HTMLElement[]>();
  for (const record of newestFirst(records)) {
    const own = record.metadata?.["dev.roo-lsp"] ?? {};
    for (const file of record.files ?? []) {
      for (const { contributor, ranges = [] } of file.conversations ?? []) {
        const who = AUTHORS[contributor?.type ?? ""] ?? contributor?.type ?? "unknown";
        const lines = ranges.map(({ start_line: start = 0, end_line: end = start }) => (end > start ? `${start}–${end}` : `${start}`)).join(", ");
        const rest = [contributor?.model_id, own.mode, own.intent_id, moment(record.timestamp)].filter(Boolean).join(" · ");
        const row = h("li", {}, h("strong", {}, who), h("span", {}, lines === "" ? "the file" : `lines ${lines}`), h("span", { class: "reason" }, rest));
        const rows = byPath.get(file.path ?? "") ?? [];
        rows.push(row);
        byPath.set(file.path ?? "", rows);
      }
    }
  }
  if (byPath.size === 0) return nothing("Agents have written no file yet.");
  const sections = [...byPath].map(([path, rows]) => h("details", { open: byPath.size <= 5 }, h("summary", {}, h("code", {}, path)), h("ol", { class: "timeline" }, ...rows)));
  return h("div", {}, ...sections);
}

/** The intents of the workspace. */
export function intents({ governed, intents: all, problems }: IntentListResult): HTMLElement {
  if (!governed) return nothing("This workspace has no intents.");
  const list = (title: string, texts: readonly string[]): HTMLElement | false => texts.length > 0 && h("div", {}, h("p", { class: "reason" }, title), h("ul", { class: "sentences" }, ...texts.map((text) => h("li", {}, text))));
  return h(
    "div",
    {},
    ...problems.map((problem) => h("p", { role: "alert" }, problem)),
    ...all.map((intent) =>
      h(
        "details",
        { open: intent.status === "IN_PROGRESS" },
        h("summary", {}, h("strong", {}, intent.name), h("span", { class: "reason" }, ` ${intent.intentId} · ${intent.status.toLowerCase().replaceAll("_", " ")}`)),
        list("Owned files", intent.ownedScope),
        list("Constraints", intent.constraints),
        list("Acceptance criteria", intent.acceptanceCriteria),
        list("You have not accepted", intent.loosened),
      ),
    ),
  );
}

function nothing(text: string): HTMLElement {
  return h("p", { class: "reason" }, text);
}

function newestFirst(records: readonly unknown[]): readonly TraceRecord[] {
  const known = records.filter((record): record is TraceRecord => typeof record === "object" && record !== null);
  return known.toSorted((one, other) => (other.timestamp ?? "").localeCompare(one.timestamp ?? ""));
}

function moment(timestamp: string | undefined): string {
  const at = new Date(timestamp ?? "");
  return Number.isNaN(at.getTime()) ? "" : at.toLocaleString();
}
