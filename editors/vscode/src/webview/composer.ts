// Where the user writes: prompts, messages, answers, `@file`, `/command`; the mode, the model, cancelling and resuming.
import type { FromPage, ChatContext } from "../chat/messages.ts";
import type { PendingQuestion, PromptCompleteResult, PromptItemKind } from "../protocol.ts";
import { isActive, isResumable, root, type Request } from "../state.ts";
import type { Announcer } from "./announcer.ts";
import { AutoApproval } from "./approvals.ts";
import { h } from "./dom.ts";
import { icon } from "./icons.ts";
import { Images } from "./images.ts";
import { shortcut } from "./shortcut.ts";
import { modelFacts } from "../words.ts";

interface Kept {
  getState(): unknown;
  setState(state: unknown): void;
}

const PATHS: readonly PromptItemKind[] = ["file", "image", "folder"];
/** What is said of things besides files. */
const KINDS: Partial<Record<PromptItemKind, string>> = { image: "image", folder: "folder", mode: "mode" };

interface Choice {
  readonly insert: string;
  /** The end of the prompt in place of which it stands. */
  readonly replaced: string;
  readonly label: string;
  readonly detail: string;
}

/** The form at the bottom. */
export class Composer {
  readonly element: HTMLFormElement;
  readonly #post: (message: FromPage) => void;
  readonly #kept: Kept;
  readonly #announcer: Announcer;
  readonly #images: Images;
  readonly #text = h("textarea", {
    id: "prompt",
    rows: 1,
    "aria-label": "Message",
    "aria-autocomplete": "list",
    "aria-haspopup": "listbox",
    "aria-controls": "choices",
    placeholder: "Describe a task",
  });
  readonly #choices = h("ul", { id: "choices", role: "listbox", "aria-label": "Suggestions", hidden: true });
  readonly #mode = h("select", { id: "mode", "aria-label": "Mode" });
  readonly #model = h("button", { id: "model", type: "button", class: "picker" });
  readonly #auto: AutoApproval;
  readonly #places = h("ul", { id: "places", "aria-label": "Context of the message", hidden: true });
  readonly #sendLabel = h("span", { class: "unseen" }, "Start");
  readonly #send = h("button", { id: "send", type: "submit", class: "primary icon" }, icon("send"), this.#sendLabel);
  readonly #later = h("button", { id: "later", type: "button", class: "icon", title: `Queue until the agent has finished (${shortcut("Ctrl+Enter")})`, hidden: true }, icon("queue"), h("span", { class: "unseen" }, "Queue"));
  readonly #cancel = h("button", { id: "cancel", type: "button", class: "icon", title: "Cancel the task (Shift+Escape)", hidden: true }, icon("stop"), h("span", { class: "unseen" }, "Cancel"));
  readonly #resume = h("button", { id: "resume", type: "button", class: "primary", hidden: true }, "Resume");
  #request: Request | undefined;
  #context: ChatContext | undefined;
  #offered: readonly Choice[] = [];
  #chosen = 0;
  /** The prompt whose completions were asked for; none once the list was closed. */
  #asked: string | undefined;
  /** What was sent and not taken yet. */
  #underWay: { readonly text: string; readonly images: readonly string[] } | undefined;
  /** What is in front and waits for an answer in words. */
  #question: PendingQuestion | undefined;
  /** Whether a secret is asked for: it has a field of its own, and one that is typed here by mistake is not kept. */
  #asksSecret = false;

  constructor(post: (message: FromPage) => void, kept: Kept, announcer: Announcer) {
    this.#post = post;
    this.#kept = kept;
    this.#announcer = announcer;
    this.#images = new Images(announcer);
    this.#auto = new AutoApproval(post);
    this.element = h(
      "form",
      { id: "composer", "aria-label": "Composer" },
      this.#auto.element,
      h(
        "div",
        { class: "box" },
        this.#places,
        this.#images.element,
        h("div", { class: "field" }, this.#choices, this.#text),
        h(
          "div",
          { class: "bar" },
          h("div", { class: "pickers" }, this.#mode, this.#model),
          h("div", { class: "buttons" }, this.#images.button, this.#images.chooser, this.#resume, this.#cancel, this.#later, this.#send),
        ),
      ),
    );
    const draft = kept.getState();
    if (typeof draft === "object" && draft !== null && "draft" in draft) this.#text.value = String(draft.draft);

    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit("now");
    });
    this.#text.addEventListener("keydown", (event) => this.#key(event));
    this.#text.addEventListener("input", () => {
      this.#keep();
      this.#offer();
    });
    this.#text.addEventListener("paste", (event) => {
      if (this.#images.take(event.clipboardData)) event.preventDefault();
    });
    this.element.addEventListener("dragover", (event) => event.preventDefault());
    this.element.addEventListener("drop", (event) => {
      if (this.#images.take(event.dataTransfer)) event.preventDefault();
    });
    this.#text.addEventListener("blur", () => this.#close());
    this.#later.addEventListener("click", () => this.#submit("afterTurn"));
    this.#cancel.addEventListener("click", () => this.#steer("cancel"));
    this.#resume.addEventListener("click", () => this.#steer("resume"));
    this.#mode.addEventListener("change", () => this.#post({ type: "chooseMode", taskId: this.#going()?.rootId, mode: this.#mode.value }));
    this.#model.addEventListener("click", () => this.#post({ type: "chooseProfile", taskId: this.#going()?.rootId }));
  }

  /** Shows what may be done now. */
  update(request: Request | undefined, context: ChatContext, asked: PendingQuestion | undefined): void {
    this.#request = request;
    this.#asksSecret = asked?.secret === true;
    const question = this.#asksSecret ? undefined : asked;
    this.#question = question;
    this.#context = context;
    const active = request !== undefined && isActive(request);
    const known = request !== undefined && root(request) !== undefined;
    this.element.classList.toggle("going", known);
    const off = context.problem !== undefined;
    const does = question ? "Answer" : known ? "Send" : "Start";
    this.#sendLabel.textContent = does;
    this.#send.title = `${does} (Enter)`;
    this.#send.disabled = off;
    const focusLost = document.activeElement === this.#cancel || document.activeElement === this.#resume;
    this.#later.hidden = !active;
    this.#cancel.hidden = !active;
    this.#resume.hidden = request === undefined || !isResumable(request);
    if (focusLost && this.#cancel.hidden && this.#resume.hidden) this.#text.focus();
    else if (focusLost && document.activeElement === document.body) (this.#resume.hidden ? this.#cancel : this.#resume).focus();
    this.#text.placeholder = question ? "Your answer" : known ? "Message the agent" : "Describe a task (@ for files, / for commands)";

    const going = this.#going();
    const task = going && root(going);
    options(this.#mode, context.modes.map((mode) => [mode.slug, `${mode.emoji} ${mode.name}`.trim()]), task?.mode ?? context.defaultMode);
    this.#mode.hidden = context.modes.length === 0;
    this.#mode.title = context.modes.find((mode) => mode.slug === this.#mode.value)?.description ?? "Mode";
    const usual = context.profiles.find((one) => one.isDefault);
    const profile = context.profiles.find((one) => one.name === (task?.profile ?? context.defaultProfile)) ?? usual;
    const model = profile ? (profile.model ?? profile.name) : "Set up a model…";
    const facts = profile && context.models[profile.name];
    this.#model.textContent = model;
    this.#model.title = profile ? [`Profile ${profile.name}: ${model}`, facts && modelFacts(facts)].filter(Boolean).join("\n") : "No model is set up";
    this.#model.setAttribute("aria-label", profile ? `Model: ${model}` : "Set up a model");
    this.#model.hidden = off;
    this.#auto.update(off ? undefined : context.autoApprove);

    this.#places.hidden = context.places.length === 0;
    const labels = context.places.map((place) => place.label).join("\n");
    if (this.#places.dataset["labels"] !== labels) {
      this.#places.dataset["labels"] = labels;
      this.#places.replaceChildren(
        ...context.places.map((place, index) =>
          h(
            "li",
            {},
            h("span", {}, place.label),
            h("button", { type: "button", class: "quiet", "aria-label": `Remove ${place.label}`, click: () => this.#post({ type: "removePlace", index }) }, "✕"),
          ),
        ),
      );
    }
  }

  /** Gives it the focus; a text replaces what is there. */
  focus(text?: string): void {
    if (text !== undefined) this.#text.value = text;
    this.#text.focus();
  }

  /** What was sent has arrived. */
  taken(): void {
    this.#underWay = undefined;
  }

  /** What was sent has not arrived; the user has it back. */
  failed(what: FromPage["type"]): void {
    if (what === "autoApprove") {
      this.#auto.failed();
      this.#auto.update(this.#context?.autoApprove);
    }
    if (this.#underWay === undefined || (what !== "start" && what !== "send" && what !== "answer")) return;
    if (!this.#text.value) this.#text.value = this.#underWay.text;
    this.#images.restore(this.#underWay.images);
    this.#underWay = undefined;
    this.#keep();
  }

  /** Offers what the end of the prompt may become, unless something else has been written meanwhile. */
  complete(prompt: string, { replaced, items }: PromptCompleteResult): void {
    // The server finds files by any part of their path; of names it gives all.
    const fitting = items.filter(({ text, kind }) => PATHS.includes(kind) || text.startsWith(replaced));
    if (prompt !== this.#asked || prompt !== this.#prompt() || fitting.length === 0) return;
    const chosen = this.#chosen === 0 ? undefined : this.#offered[this.#chosen]?.insert;
    this.#show(fitting.map(({ text, kind, detail }) => ({ insert: text, replaced, label: text, detail: [KINDS[kind], detail].filter(Boolean).join(" · ") })));
    // What was chosen meanwhile stays so.
    const again = this.#offered.findIndex(({ insert }) => insert === chosen);
    if (again > 0) this.#choose(again);
  }

  /** The request that goes on when its mode is switched. */
  #going(): Request | undefined {
    return this.#request && root(this.#request) ? this.#request : undefined;
  }

  #steer(type: "cancel" | "resume"): void {
    if (this.#request) this.#post({ type, taskId: this.#request.rootId });
  }

  #submit(when: "now" | "afterTurn"): void {
    const text = this.#text.value.trim();
    if (!text || this.#send.disabled) return;
    const going = this.#going();
    const images = this.#images.send();
    if (this.#question && when === "now") {
      this.#post({ type: "answer", questionId: this.#question.questionId, text, images });
    } else if (going) {
      this.#post({ type: "send", taskId: going.rootId, text, images, when });
    } else {
      this.#post({ type: "start", prompt: text, images, mode: this.#mode.value || undefined });
    }
    this.#underWay = { text, images };
    this.#text.value = "";
    this.#keep();
  }

  #key(event: KeyboardEvent): void {
    // Enter that ends the input of a composed character sends nothing.
    if (event.isComposing) return;
    // A list that is still to come is closed as well.
    if (event.key === "Escape") this.#asked = undefined;
    if (!this.#choices.hidden) {
      const last = this.#offered.length - 1;
      const handled: Record<string, () => void> = {
        ArrowDown: () => this.#choose(this.#chosen === last ? 0 : this.#chosen + 1),
        ArrowUp: () => this.#choose(this.#chosen === 0 ? last : this.#chosen - 1),
        Enter: () => this.#insert(this.#offered[this.#chosen]),
        Tab: () => this.#insert(this.#offered[this.#chosen]),
        Escape: () => this.#close(),
      };
      const action = event.shiftKey ? undefined : handled[event.key];
      if (action) {
        event.preventDefault();
        action();
        return;
      }
    }
    // The editor's own keys for the card in front; see the keybindings of the manifest.
    if ((event.ctrlKey || event.metaKey) && event.shiftKey && (event.key === "Enter" || event.key === "Backspace")) {
      event.preventDefault();
      return;
    }
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.#submit(event.ctrlKey || event.metaKey ? "afterTurn" : "now");
    }
  }

  /** What is written, up to the cursor. */
  #prompt(): string {
    return this.#text.value.slice(0, this.#text.selectionStart);
  }

  #offer(): void {
    const prompt = this.#prompt();
    const word = /\S*$/.exec(prompt)?.[0] ?? "";
    const known = word.startsWith("@")
      ? ["problems", "git-changes"].map((name) => ({ name: `@${name}`, detail: "" }))
      : word.startsWith("/")
        ? (this.#context?.commands ?? []).map(({ name, description }) => ({ name: `/${name}`, detail: description ?? "" }))
        : undefined;
    // Known at once; the rest follows.
    this.#show((known ?? []).filter(({ name }) => name.startsWith(word)).map(({ name, detail }) => ({ insert: name, replaced: word, label: name, detail })));
    // A blank may be part of a path, and arguments of a server's prompt stand behind it.
    this.#asked = known || prompt.includes("@") || /(^|\s)\/[^\s:]+:\S+\s[^\n]*$/.test(prompt) ? prompt : undefined;
    if (this.#asked !== undefined) this.#post({ type: "complete", prompt });
  }

  #close(): void {
    this.#asked = undefined;
    this.#show([]);
  }

  #show(choices: readonly Choice[]): void {
    this.#offered = choices.slice(0, 8);
    this.#choices.hidden = choices.length === 0;
    if (choices.length === 0) this.#text.removeAttribute("aria-activedescendant");
    this.#choices.replaceChildren(
      ...this.#offered.map((choice, index) =>
        h(
          "li",
          {
            id: `choice-${index}`,
            role: "option",
            // Before the field loses the focus.
            mousedown: (event) => {
              event.preventDefault();
              this.#insert(choice);
            },
          },
          choice.label,
          choice.detail && h("span", { class: "detail" }, ` ${choice.detail}`),
        ),
      ),
    );
    if (choices.length > 0) {
      this.#choose(0);
      this.#announcer.say(`${this.#offered.length} suggestions`);
    }
  }

  #choose(index: number): void {
    this.#chosen = index;
    [...this.#choices.children].forEach((child, place) => child.setAttribute("aria-selected", String(place === index)));
    this.#text.setAttribute("aria-activedescendant", `choice-${index}`);
  }

  #insert(choice: Choice | undefined): void {
    if (!choice) return;
    const end = this.#text.selectionStart;
    // A folder is gone into, and so are the resources of a server.
    const goesOn = /[/:]$/.test(choice.insert);
    this.#text.setRangeText(goesOn ? choice.insert : `${choice.insert} `, end - choice.replaced.length, end, "end");
    this.#close();
    this.#keep();
    if (goesOn) this.#offer();
  }

  #keep(): void {
    if (!this.#asksSecret) this.#kept.setState({ draft: this.#text.value });
  }
}

function options(select: HTMLSelectElement, entries: readonly (readonly [string, string])[], value: string): void {
  const shape = JSON.stringify(entries);
  if (select.dataset["shape"] !== shape) {
    select.dataset["shape"] = shape;
    select.replaceChildren(...entries.map(([key, label]) => h("option", { value: key }, label)));
  }
  if (document.activeElement !== select || select.value === "") select.value = value;
}
