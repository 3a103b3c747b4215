// What waits for the user: permissions and questions.
import type { FromPage } from "../chat/messages.ts";
import type { ApprovalOption, ModeItem, OptionKind, PendingApproval, PendingQuestion } from "../protocol.ts";
import { diff } from "./diff.ts";
import { h } from "./dom.ts";
import { toHtml } from "./markdown.ts";
import { isDiff } from "../words.ts";

/** Rules that are about more than one call; see `RuleSubject::is_offer`. */
const OFFERS: ReadonlySet<string | undefined> = new Set(["confinedCommands", "trustAndConfinedCommands", "sandboxAccess"]);
const LOOKS: Record<OptionKind, string> = {
  allow_once: "primary",
  reject_once: "secondary",
  allow_always: "quiet",
  reject_always: "quiet",
};

/** A permission that is asked for. */
export function approvalCard(approval: PendingApproval, branch: string | undefined, post: (message: FromPage) => void): HTMLElement {
  const { approvalId, digest } = approval;
  const named = `${approvalId}-title`;
  const word = h("input", { type: "text", placeholder: "Feedback for the agent (optional)", "aria-label": "Feedback for the agent" });
  const button = (option: ApprovalOption): HTMLElement =>
    h(
      "button",
      {
        type: "button",
        class: LOOKS[option.kind],
        "data-option": option.kind,
        click: () => post({ type: "respond", approvalId, digest, optionId: option.id, text: word.value.trim() }),
      },
      option.name,
    );
  // What is asked is about more than this call: every answer is an ordinary one.
  const isOffer = OFFERS.has(approval.rule?.kind);
  const isOnce = ({ kind }: ApprovalOption): boolean => isOffer || kind === "allow_once" || kind === "reject_once";
  const once = approval.options.filter(isOnce).map(button);
  const forGood = approval.options.filter((option) => !isOnce(option)).map(button);
  const changes = isDiff(approval.subject);
  return h(
    "article",
    { class: "card approval", "aria-labelledby": named, "data-approval": approvalId },
    h("h2", { id: named }, approval.title),
    branch !== undefined && h("p", { class: "branch" }, branch),
    h("p", { class: "reason" }, `Asked because ${approval.reason}.`),
    changes ? diff(approval.subject) : h("pre", { class: "subject", tabindex: "0", "aria-label": "Requested action" }, approval.subject),
    h(
      "div",
      { class: "buttons", role: "group", "aria-label": "Answers" },
      changes && h("button", { type: "button", class: "secondary", "data-show-diff": true, click: () => post({ type: "showDiff", approvalId }) }, "Show changes"),
      ...once,
    ),
    h(
      "details",
      { class: "more" },
      h("summary", {}, forGood.length > 0 ? "Add feedback · always allow" : "Add feedback"),
      word,
      h("div", { class: "buttons", role: "group", "aria-label": "Permanent answers" }, ...forGood),
    ),
  );
}

/** A question to the user. */
export function questionCard(
  question: PendingQuestion,
  branch: string | undefined,
  modes: readonly ModeItem[],
  post: (message: FromPage) => void,
): HTMLElement {
  const { questionId } = question;
  const named = `${questionId}-text`;
  const text = h("div", { id: named, class: "markdown" });
  text.innerHTML = toHtml(question.text);
  const answer = (value: string): void => {
    if (value.trim()) post({ type: "answer", questionId, text: value });
  };
  const own = h("input", { type: "text", placeholder: "Another answer", "aria-label": "Another answer" });
  const form = h("form", { class: "own" }, own, h("button", { type: "submit", class: "secondary" }, "Answer"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    answer(own.value);
  });
  return h(
    "article",
    { class: "card question", "aria-labelledby": named, "data-question": questionId },
    h("h2", {}, "Question"),
    branch !== undefined && h("p", { class: "branch" }, branch),
    text,
    h(
      "div",
      { class: "suggestions", role: "group", "aria-label": "Suggested answers" },
      ...question.suggestions.map((suggestion) => {
        const mode = suggestion.mode ? (modes.find((one) => one.slug === suggestion.mode)?.name ?? suggestion.mode) : undefined;
        return h(
          "button",
          { type: "button", class: "suggestion", click: () => answer(suggestion.text) },
          suggestion.text,
          mode !== undefined && h("span", { class: "mode" }, ` (continues in ${mode})`),
        );
      }),
    ),
    form,
  );
}
