// Notifications, questions, lists and inputs of the page, in place of those that an editor has. All text is text.
import { diff, parseDiff } from "../webview/diff.ts";
import { h } from "../webview/dom.ts";
import { isDiff } from "../words.ts";

/** An entry of a list. */
export interface ListItem {
  readonly label: string;
  readonly description?: string;
  readonly detail?: string;
}

/** How long a notification stays that asks nothing. */
const NOTICE_MS = 10_000;
/** From how many entries on a list has a field to search in. */
const SEARCHED = 8;

const notices = h("div", { id: "notices", role: "status", "aria-label": "Notifications" });

/** Editors show `$(name)` as an icon. */
const plain = (text: string): string => text.replace(/\$\([\w~-]+\)\s*/g, "");

/** The element in which notifications are shown. */
export function noticesElement(): HTMLElement {
  return notices;
}

/** Shows a notification; what was chosen of its buttons. */
export function notify(level: "info" | "warning" | "error", text: string, actions: readonly string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    const end = (chosen?: string): void => {
      clearTimeout(timer);
      notice.remove();
      resolve(chosen);
    };
    const buttons = actions.map((action) => h("button", { type: "button", click: () => end(action) }, action));
    const close = h("button", { type: "button", class: "icon", "aria-label": "Close", title: "Close", click: () => end() }, "×");
    const notice = h("div", { class: `notice ${level}`, role: level === "error" ? "alert" : undefined }, h("p", {}, plain(text)), h("div", { class: "buttons" }, ...buttons), close);
    const timer = actions.length === 0 && level !== "error" ? setTimeout(end, NOTICE_MS) : undefined;
    notices.append(notice);
  });
}

/** Opens a dialogue. `closed` is called once, however it is closed. */
function dialogue(title: string, content: readonly HTMLElement[], closed: () => void): HTMLDialogElement {
  const before = document.activeElement;
  const close = h("button", { type: "button", class: "icon", "aria-label": "Close", title: "Close (Escape)", click: () => element.close() }, "×");
  const element = h("dialog", { "aria-label": title }, h("div", { class: "top" }, h("h2", {}, title), close), ...content);
  element.addEventListener("close", () => {
    element.remove();
    if (before instanceof HTMLElement && before.isConnected) before.focus();
    closed();
  });
  document.body.append(element);
  element.showModal();
  return element;
}

/** Asks before something is done. */
export function ask(text: string, detail: string, actions: readonly string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    let chosen: string | undefined;
    const pick = (action: string | undefined): void => {
      chosen = action;
      element.close();
    };
    const buttons = actions.map((action, index) => h("button", { type: "button", class: index === 0 ? "primary" : "secondary", click: () => pick(action) }, action));
    const cancel = h("button", { type: "button", class: "secondary", click: () => pick(undefined) }, "Cancel");
    const element = dialogue(plain(text), [h("p", { class: "detail" }, detail), h("div", { class: "buttons" }, ...buttons, cancel)], () => resolve(chosen));
  });
}

interface List<T> {
  readonly title: string;
  readonly placeholder: string;
  readonly items: readonly T[];
  readonly chosen: (item: T) => void;
  readonly closed: () => void;
}

/** Opens a list that can be redrawn while it is open. */
export function openList<T extends ListItem>({ title, placeholder, items, chosen, closed }: List<T>): { draw(items: readonly T[]): void; close(): void } {
  const search = h("input", { type: "search", "aria-label": "Search", placeholder, hidden: items.length < SEARCHED });
  const list = h("ul", { class: "choices" });
  let shown = items;
  const draw = (): void => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = shown.filter(({ label, description = "", detail = "" }) => words.every((word) => `${label} ${description} ${detail}`.toLowerCase().includes(word)));
    const focused = [...list.children].findIndex((row) => row.contains(document.activeElement));
    list.replaceChildren(
      ...matches.map((item) => {
        const press = (): void => chosen(item);
        const rest = [item.description, item.detail].map((text) => text?.trim()).filter(Boolean).join(" · ");
        return h("li", {}, h("button", { type: "button", class: "entry", click: press }, h("span", {}, plain(item.label)), rest !== "" && h("span", { class: "reason" }, rest)));
      }),
    );
    if (focused >= 0) list.querySelectorAll<HTMLElement>("button")[focused]?.focus();
  };
  draw();
  search.addEventListener("input", draw);
  const element = dialogue(title || "Choose", [search, list], closed);
  if (search.hidden) list.querySelector("button")?.focus();
  return {
    draw(next) {
      shown = next;
      draw();
    },
    close: () => element.close(),
  };
}

/** Asks for one of a list. */
export function choose<T extends ListItem>(title: string, placeholder: string, items: readonly T[]): Promise<T | undefined> {
  return new Promise((resolve) => {
    let picked: T | undefined;
    const list = openList({
      title,
      placeholder,
      items,
      chosen: (item) => {
        picked = item;
        list.close();
      },
      closed: () => resolve(picked),
    });
  });
}

/** Asks for a line of text. */
export function enter({ title = "", prompt = "", value = "", password = false }: { readonly title?: string; readonly prompt?: string; readonly value?: string; readonly password?: boolean }): Promise<string | undefined> {
  return new Promise((resolve) => {
    let entered: string | undefined;
    const field = h("input", { type: password ? "password" : "text", value, "aria-label": title || "Text", autocomplete: "off" });
    const form = h("form", {}, field, prompt !== "" && h("p", { class: "reason" }, prompt), h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "OK")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      entered = field.value;
      element.close();
    });
    const element = dialogue(title || "Enter", [form], () => resolve(entered));
    field.focus();
  });
}

/** Shows a text to be read, as a diff where it is one. */
export function showText(title: string, text: string): void {
  const content = isDiff(text) && parseDiff(text).length > 0 ? diff(text) : h("pre", { tabindex: "0" }, text);
  dialogue(title, [h("div", { class: "text" }, content)], () => {});
}
