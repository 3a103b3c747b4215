// Tells the extension whether the page has the focus. What is focused within the page isn't its concern.
import type { FromPage } from "../chat/messages.ts";

/** Tells of every change of the page's focus from now on, and of a focus that the page already has. */
export function tellFocus(post: (message: FromPage) => void): void {
  const tell = (on: boolean): void => post({ type: "focused", on });
  // By what happened: while it happens, `document.hasFocus()` may say what was before.
  window.addEventListener("focus", () => tell(true));
  window.addEventListener("blur", () => tell(false));
  // A page that got the focus while it loaded hears nothing of it but what happens inside of it.
  for (const sign of ["focusin", "keydown", "pointerdown"]) {
    window.addEventListener(
      sign,
      () => {
        if (!document.body.hasAttribute("data-keys")) tell(true);
      },
      { capture: true },
    );
  }
  if (document.hasFocus()) tell(true);
}
