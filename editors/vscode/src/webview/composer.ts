// Where the user writes: prompts, messages, `@file`, `/command`; the mode, the profile, cancelling and resuming.
import type { FromPage, ChatContext } from "../chat/messages.ts";
import { isActive, isResumable, root, type Request } from "../state.ts";
import type { Announcer } from "./announcer.ts";
import { h } from "./dom.ts";
import { Images } from "./images.ts";

interface Kept {
  getState(): unknown;
  setState(state: unknown): void;
}

interface Choice {
  readonly insert: string;
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
  readonly #profile = h("select", { id: "profile", "aria-label": "Profile" });
  readonly #places = h("ul", { id: "places", "aria-label": "Context of the message", hidden: true });
  readonly #send = h("button", { id: "send", type: "submit", class: "primary" }, "Start");
  readonly #later = h("button", { id: "later", type: "button", class: "secondary", hidden: true }, "Queue");
  readonly #cancel = h("button", { id: "cancel", type: "button", class: "secondary", hidden: true }, "Cancel");
  readonly #resume = h("button", { id: "resume", type: "button", class: "primary", hidden: true }, "Resume");
  #request: Request | undefined;
  #context: ChatContext | undefined;
  #offered: readonly Choice[] = [];
  #chosen = 0;
  /** What was sent and not taken yet. */
  #underWay: { readonly text: string; readonly images: readonly string[] } | undefined;
  /** What the user has chosen for the next request. */
  #nextMode: string | undefined;
  #nextProfile: string | undefined;

  constructor(post: (message: FromPage) => void, kept: Kept, announcer: Announcer) {
    this.#post = post;
    this.#kept = kept;
    this.#announcer = announcer;
    this.#images = new Images(announcer);
    this.element = h(
      "form",
      { id: "composer", "aria-label": "Composer" },
      this.#places,
      this.#images.element,
      h("div", { class: "field" }, this.#choices, this.#text),
      h("div", { class: "pickers" }, this.#mode, this.#profile),
      h("div", { class: "buttons" }, this.#images.button, this.#images.chooser, this.#resume, this.#cancel, this.#later, this.#send),
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
    this.#text.addEventListener("blur", () => this.#show([]));
    this.#later.addEventListener("click", () => this.#submit("afterTurn"));
    this.#cancel.addEventListener("click", () => this.#steer("cancel"));
    this.#resume.addEventListener("click", () => this.#steer("resume"));
    this.#mode.addEventListener("change", () => {
      const going = this.#going();
      if (going) this.#post({ type: "switchMode", taskId: going.rootId, mode: this.#mode.value });
      else this.#nextMode = this.#mode.value;
    });
    this.#profile.addEventListener("change", () => {
      const going = this.#going();
      if (going) this.#post({ type: "selectProfile", taskId: going.rootId, profile: this.#profile.value });
      else this.#nextProfile = this.#profile.value;
    });
  }

  /** Shows what may be done now. */
  update(request: Request | undefined, context: ChatContext): void {
    this.#request = request;
    this.#context = context;
    const active = request !== undefined && isActive(request);
    const known = request !== undefined && root(request) !== undefined;
    this.element.classList.toggle("going", known);
    const off = context.problem !== undefined;
    this.#send.textContent = known ? "Send" : "Start";
    this.#send.disabled = off;
    const focusLost = document.activeElement === this.#cancel || document.activeElement === this.#resume;
    this.#later.hidden = !active;
    this.#cancel.hidden = !active;
    this.#resume.hidden = request === undefined || !isResumable(request);
    if (focusLost && this.#cancel.hidden && this.#resume.hidden) this.#text.focus();
    else if (focusLost && document.activeElement === document.body) (this.#resume.hidden ? this.#cancel : this.#resume).focus();
    this.#text.placeholder = known ? "Message the agent" : "Describe a task";

    const going = this.#going();
    const task = going && root(going);
    options(this.#mode, context.modes.map((mode) => [mode.slug, `${mode.emoji} ${mode.name}`.trim()]), task?.mode ?? this.#nextMode ?? context.defaultMode);
    const usual = context.profiles.find((profile) => profile.isDefault)?.name ?? "";
    options(this.#profile, context.profiles.map((profile) => [profile.name, profile.model ? `${profile.name} (${profile.model})` : profile.name]), task?.profile ?? this.#nextProfile ?? usual);
    this.#profile.hidden = context.profiles.length === 0;
    this.#mode.hidden = context.modes.length === 0;

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
    if (this.#underWay === undefined || (what !== "start" && what !== "send")) return;
    if (!this.#text.value) this.#text.value = this.#underWay.text;
    this.#images.restore(this.#underWay.images);
    this.#underWay = undefined;
    this.#keep();
  }

  /** Offers files that fit what is being written. */
  files(query: string, paths: readonly string[]): void {
    const word = this.#word();
    if (word !== `@${query}`) return;
    this.#show(paths.map((path) => ({ insert: /\s/.test(path) ? `@"${path}"` : `@${path}`, label: path, detail: "" })));
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
    if (going) {
      this.#post({ type: "send", taskId: going.rootId, text, images, when });
    } else {
      this.#post({ type: "start", prompt: text, images, mode: this.#mode.value || undefined, profile: this.#nextProfile });
    }
    this.#underWay = { text, images };
    this.#text.value = "";
    this.#keep();
  }

  #key(event: KeyboardEvent): void {
    // Enter that ends the input of a composed character sends nothing.
    if (event.isComposing) return;
    if (!this.#choices.hidden) {
      const last = this.#offered.length - 1;
      const handled: Record<string, () => void> = {
        ArrowDown: () => this.#choose(this.#chosen === last ? 0 : this.#chosen + 1),
        ArrowUp: () => this.#choose(this.#chosen === 0 ? last : this.#chosen - 1),
        Enter: () => this.#insert(this.#offered[this.#chosen]),
        Tab: () => this.#insert(this.#offered[this.#chosen]),
        Escape: () => this.#show([]),
      };
      const action = event.shiftKey ? undefined : handled[event.key];
      if (action) {
        event.preventDefault();
        action();
        return;
      }
    }
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.#submit(event.ctrlKey || event.metaKey ? "afterTurn" : "now");
    }
  }

  /** The word before the cursor. */
  #word(): string {
    return /\S*$/.exec(this.#text.value.slice(0, this.#text.selectionStart))?.[0] ?? "";
  }

  #offer(): void {
    const word = this.#word();
    if (word.startsWith("@")) {
      this.#show(["problems", "git-changes"].filter((name) => name.startsWith(word.slice(1))).map((name) => ({ insert: `@${name}`, label: `@${name}`, detail: "" })));
      this.#post({ type: "files", query: word.slice(1) });
      return;
    }
    if (word.startsWith("/")) {
      const fitting = (this.#context?.commands ?? []).filter((command) => command.name.startsWith(word.slice(1)));
      this.#show(fitting.map((command) => ({ insert: `/${command.name}`, label: `/${command.name}`, detail: command.description ?? "" })));
      return;
    }
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
    this.#text.setRangeText(`${choice.insert} `, end - this.#word().length, end, "end");
    this.#show([]);
    this.#keep();
  }

  #keep(): void {
    this.#kept.setState({ draft: this.#text.value });
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
