// What waits for the user: permissions and questions. What is asked about scrolls; the answers below it stay in view.
import type { FromPage } from "../chat/messages.ts";
import type { ApprovalOption, ModeItem, OptionKind, PendingApproval, PendingQuestion } from "../protocol.ts";
import { changedLines, diff, parseDiff } from "./diff.ts";
import { h, withCode } from "./dom.ts";
import { toHtml } from "./markdown.ts";
import { shortcut } from "./shortcut.ts";
import { isDiff } from "../words.ts";

/** Rules that are about more than one call; see `RuleSubject::is_offer`. */
const OFFERS: ReadonlySet<string | undefined> = new Set(["confinedCommands", "trustAndConfinedCommands", "sandboxAccess"]);
const LOOKS: Record<OptionKind, string> = {
  allow_once: "primary",
  reject_once: "secondary",
  allow_always: "quiet",
  reject_always: "quiet",
};
const KEYS: Partial<Record<OptionKind, string>> = { allow_once: shortcut("Ctrl+Shift+Enter"), reject_once: shortcut("Ctrl+Shift+Backspace") };

/** A permission that is asked for. */
export function approvalCard(approval: PendingApproval, branch: string | undefined, post: (message: FromPage) => void): HTMLElement {
  const { approvalId, digest } = approval;
  const named = `${approvalId}-title`;
  const word = h("input", { type: "text", placeholder: "Feedback for the agent (optional)", "aria-label": "Feedback for the agent" });
  const respond = (option: ApprovalOption): void =>
    post({ type: "respond", approvalId, digest, optionId: option.id, text: word.value.trim() });
  // What is asked is about more than this call: every answer is an ordinary one.
  const isOffer = OFFERS.has(approval.rule?.kind);
  const isOnce = ({ kind }: ApprovalOption): boolean => isOffer || kind === "allow_once" || kind === "reject_once";
  const once = approval.options.filter(isOnce).map((option) =>
    h("button", { type: "button", class: LOOKS[option.kind], "data-option": option.kind, title: KEYS[option.kind], click: () => respond(option) }, option.name),
  );
  const forGood = approval.options.filter((option) => !isOnce(option));
  const isChange = isDiff(approval.subject);
  const counts = isChange ? changedLines(parseDiff(approval.subject)) : undefined;
  return h(
    "article",
    { class: "card approval", tabindex: "-1", "aria-labelledby": named, "data-approval": approvalId },
    h(
      "header",
      {},
      h("h2", { id: named }, approval.title),
      branch !== undefined && h("p", { class: "branch" }, branch),
      h("p", { class: "reason" }, ...withCode(`Asked because ${approval.reason}.`)),
      counts &&
        h(
          "p",
          { class: "counts" },
          counts.added > 0 && h("span", { class: "plus", "aria-label": `${counts.added} lines added`, role: "img" }, `+${counts.added}`),
          counts.removed > 0 && h("span", { class: "minus", "aria-label": `${counts.removed} lines removed`, role: "img" }, `−${counts.removed}`),
          h("button", { type: "button", class: "link", "data-show-diff": true, click: () => post({ type: "showDiff", approvalId }) }, "Show changes", h("span", { class: "in-editor" }, " in an editor")),
        ),
    ),
    isChange
      ? h("div", { class: "subject" }, diff(approval.subject))
      : h("pre", { class: "subject", tabindex: "0", "aria-label": "Requested action" }, approval.subject),
    h(
      "footer",
      {},
      h(
        "div",
        { class: "buttons", role: "group", "aria-label": "Answers" },
        ...once,
      ),
      h(
        "details",
        { class: "more" },
        h("summary", {}, forGood.length > 0 ? "Add feedback · always allow" : "Add feedback"),
        word,
        forGood.length > 0 && permanent(forGood, respond),
      ),
    ),
  );
}

/** Answers that count for later requests too: each says so, and is asked about once more. */
function permanent(options: readonly ApprovalOption[], respond: (option: ApprovalOption) => void): HTMLElement {
  const group = h("div", { class: "permanent", role: "group", "aria-label": "Permanent answers" });
  const offer = (focus?: OptionKind): void => {
    const buttons = options.map((option) =>
      h("button", { type: "button", class: "quiet", "data-option": option.kind, click: () => confirm(option) }, `${option.name}…`),
    );
    group.replaceChildren(h("div", { class: "buttons" }, ...buttons));
    if (focus) group.querySelector<HTMLElement>(`[data-option="${focus}"]`)?.focus();
  };
  const confirm = (option: ApprovalOption): void => {
    const yes = h("button", { type: "button", class: "secondary", "data-confirm": option.kind, click: () => respond(option) }, "Confirm");
    const no = h("button", { type: "button", class: "quiet", click: () => offer(option.kind) }, "Back");
    group.replaceChildren(
      h("p", { class: "scope" }, ...withCode(`${option.name}: ${option.scope ?? "in this request and all later ones."}`)),
      h("p", { class: "reason" }, "“Roo: Review Standing Rules…” takes it back."),
      h("div", { class: "buttons" }, no, yes),
    );
    no.focus();
  };
  offer();
  return group;
}

/** The field of a secret: hidden while it is typed, and kept nowhere, unlike what is written in the composer. */
function secretField(questionId: string, named: string, post: (message: FromPage) => void): HTMLElement {
  const field = h("input", { type: "password", autocomplete: "off", placeholder: "Your answer, hidden", "aria-labelledby": named });
  const send = (): void => {
    if (field.value.trim()) post({ type: "answer", questionId, text: field.value });
  };
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    send();
  });
  return h("div", { class: "secret" }, field, h("button", { type: "button", class: "primary", click: send }, "Answer"));
}

/** A question to the user. An answer of one's own is written in the composer, but for a secret. */
export function questionCard(
  question: PendingQuestion,
  branch: string | undefined,
  modes: readonly ModeItem[],
  post: (message: FromPage) => void,
): HTMLElement {
  const { questionId } = question;
  const named = `${questionId}-text`;
  const text = h("div", { id: named, class: "markdown subject", tabindex: "0" });
  text.innerHTML = toHtml(question.text);
  return h(
    "article",
    { class: "card question", tabindex: "-1", "aria-labelledby": named, "data-question": questionId },
    h("header", {}, h("h2", {}, "Question"), branch !== undefined && h("p", { class: "branch" }, branch)),
    text,
    h(
      "footer",
      {},
      h(
        "div",
        { class: "suggestions", role: "group", "aria-label": "Suggested answers" },
        ...question.suggestions.map((suggestion) => {
          const mode = suggestion.mode ? (modes.find((one) => one.slug === suggestion.mode)?.name ?? suggestion.mode) : undefined;
          return h(
            "button",
            { type: "button", class: "suggestion", click: () => post({ type: "answer", questionId, text: suggestion.text }) },
            suggestion.text,
            mode !== undefined && h("span", { class: "mode" }, ` (continues in ${mode})`),
          );
        }),
      ),
      question.secret
        ? secretField(questionId, named, post)
        : h("p", { class: "reason" }, question.suggestions.length > 0 ? "Or write your own answer below." : "Write your answer below."),
    ),
  );
}
