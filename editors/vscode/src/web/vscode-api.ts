// The page's end of what VS Code gives a view: messages to its host, and a state. It is loaded before the page itself.
import type { FromPage, ToPage } from "../chat/messages.ts";

const STATE = "roo.page";

/** What the page says before its host listens. */
let waiting: FromPage[] = [];
let host: ((message: FromPage) => void) | undefined;

/** Listens to the page from now on. */
export function listen(to: (message: FromPage) => void): void {
  host = to;
  for (const message of waiting.splice(0)) to(message);
  waiting = [];
}

/** Tells the page. */
export function tell(message: ToPage): void {
  window.dispatchEvent(new MessageEvent("message", { data: message }));
}

// The page takes messages of its host alone: one that another window has posted is trusted by the browser, and ours is not.
window.addEventListener(
  "message",
  (event) => {
    if (event.isTrusted) event.stopImmediatePropagation();
  },
  true,
);

Object.assign(globalThis, {
  acquireVsCodeApi: () => ({
    postMessage(message: FromPage) {
      if (host) host(message);
      else waiting.push(message);
    },
    getState: (): unknown => JSON.parse(sessionStorage.getItem(STATE) ?? "null") ?? undefined,
    setState: (state: unknown) => sessionStorage.setItem(STATE, JSON.stringify(state)),
  }),
});
