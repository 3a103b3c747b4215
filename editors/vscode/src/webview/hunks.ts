// The changes of an edit in its card: each can be refused with words, or replaced by lines of the user's own.
import type { FromPage } from "../chat/messages.ts";
import type { ShownFile, ShownHunk } from "../hunks.ts";
import type { HunkAnswer } from "../protocol.ts";
import { changes } from "./diff.ts";
import { h } from "./dom.ts";

/** Shows the changes one by one in a card; what the user decides on them goes along with whatever allows the edit. */
export function showHunks(card: HTMLElement, approvalId: string, files: readonly ShownFile[], decided: readonly HunkAnswer[], post: (message: FromPage) => void): void {
  const subject = card.querySelector(".subject");
  const allow = card.querySelector<HTMLElement>('[data-option="allow_once"]');
  const all = files.flatMap((file) => file.hunks);
  if (!subject || !allow || all.length === 0) return;
  const usual = allow.textContent ?? "";
  const answers = new Map<string, HunkAnswer>();
  const decide = (hunk: ShownHunk, answer: HunkAnswer | undefined): void => {
    if (answer) answers.set(hunk.hunk.hunkId, answer);
    else answers.delete(hunk.hunk.hunkId);
    draw();
    post({ type: "hunks", approvalId, answers: [...answers.values()] });
  };
  const draw = (): void => {
    const refused = [...answers.values()].filter((one) => one.decision === "refuse").length;
    allow.textContent = refused === 0 ? usual : refused === all.length ? `Refuse all ${refused}` : `${usual} ${all.length - refused} of ${all.length}`;
  };
  const number = (hunk: ShownHunk): number => all.indexOf(hunk) + 1;
  const views = new Map<string, ChangeView>();
  subject.replaceChildren(
    changes(files, (hunk) => {
      const shown = view(hunk, number(hunk), all.length, (answer) => decide(hunk, answer));
      views.set(hunk.hunk.hunkId, shown);
      return shown.element;
    }),
  );
  const show = (given: readonly HunkAnswer[]): void => {
    answers.clear();
    for (const { hunk } of all) {
      const answer = given.find((one) => one.hunkId === hunk.hunkId && one.digest === hunk.digest);
      if (answer) answers.set(hunk.hunkId, answer);
      views.get(hunk.hunkId)?.show(answer);
    }
    draw();
  };
  show(decided);
  shows.set(card, show);
}

const shows = new WeakMap<HTMLElement, (answers: readonly HunkAnswer[]) => void>();

/** Shows what was decided elsewhere in a card that has its changes. */
export function showDecided(card: HTMLElement, answers: readonly HunkAnswer[]): void {
  shows.get(card)?.(answers);
}

interface ChangeView {
  readonly element: HTMLElement;
  readonly show: (answer: HunkAnswer | undefined) => void;
}

function view(shown: ShownHunk, number: number, count: number, decide: (answer: HunkAnswer | undefined) => void): ChangeView {
  const { hunkId, digest, kind = "edit", newRange, newText } = shown.hunk;
  const name = `Change ${number} of ${count}`;
  const words = h("input", { type: "text", placeholder: "Why not? The agent is told (optional)", "aria-label": `Why not, ${name}` });
  const own = h("textarea", { "aria-label": `Your lines, ${name}`, spellcheck: "false" });
  own.value = newText;
  const refuse = h("button", { type: "button", class: "toggle", "aria-pressed": "false" }, "Refuse");
  const edit = h("button", { type: "button", class: "toggle", "data-toggle": "edit", "aria-pressed": "false" }, "Edit");
  const below = h("div", { class: "decision", hidden: true });
  const element = h(
    "div",
    { class: "hunk", "data-hunk": hunkId },
    h(
      "div",
      { class: "place" },
      h("span", {}, count > 1 ? `${number} of ${count} · line ${newRange.start + 1}` : `Line ${newRange.start + 1}`),
      h(
        "span",
        { class: "toggles", role: "group", "aria-label": name },
        // One alone is refused by the answer to the whole.
        count > 1 && refuse,
        (kind === "edit" || kind === "create") && edit,
      ),
    ),
    h(
      "pre",
      {},
      ...shown.before.map((line) => h("span", { class: "same" }, ` ${line}\n`)),
      ...shown.removed.map((line) => h("span", { class: "removed" }, `-${line}\n`)),
      ...shown.added.map((line) => h("span", { class: "added" }, `+${line}\n`)),
      ...shown.after.map((line) => h("span", { class: "same" }, ` ${line}\n`)),
    ),
    below,
  );
  const answer = (): HunkAnswer | undefined => {
    const text = words.value.trim();
    if (isPressed(refuse)) return { hunkId, digest, decision: "refuse", ...(text && { text }) };
    if (isPressed(edit) && own.value !== newText) return { hunkId, digest, decision: "edit", text: own.value };
    return undefined;
  };
  const fields = new Map<HTMLElement, HTMLElement>([[refuse, words], [edit, own]]);
  const press = (pressed: HTMLElement | undefined): HTMLElement | undefined => {
    for (const button of fields.keys()) button.setAttribute("aria-pressed", String(button === pressed));
    element.classList.toggle("refused", pressed === refuse);
    element.classList.toggle("edited", pressed === edit);
    const field = pressed && fields.get(pressed);
    below.hidden = field === undefined;
    below.replaceChildren(...(field ? [field] : []));
    return field;
  };
  for (const button of fields.keys()) {
    button.addEventListener("click", () => {
      const field = press(isPressed(button) ? undefined : button);
      decide(answer());
      field?.focus();
    });
  }
  words.addEventListener("input", () => decide(answer()));
  own.addEventListener("input", () => decide(answer()));
  const show = (given: HunkAnswer | undefined): void => {
    if (given?.decision === "refuse") words.value = given.text ?? "";
    if (given?.decision === "edit") own.value = given.text;
    press(given?.decision === "refuse" ? refuse : given?.decision === "edit" ? edit : undefined);
  };
  return { element, show };
}

function isPressed(button: HTMLElement): boolean {
  return button.getAttribute("aria-pressed") === "true";
}
