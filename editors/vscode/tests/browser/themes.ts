// Takes the colours of VS Code's own themes from the real editor into themes.json, for the tests of the page alone:
// `. ./environment; "$node" tests/browser/themes.ts`.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Editor, THEMES, until } from "./editor.ts";

/** What a theme gives to a page: the class of its body, and its variables. */
export interface Theme {
  readonly kind: string;
  readonly variables: Readonly<Record<string, string>>;
}

/** The variables that the page's style uses. */
const style = readFileSync(new URL("../../src/webview/style.css", import.meta.url), "utf8");
const used = [...new Set(style.match(/--vscode-[\w-]+/g))];

const editor = await Editor.start();
try {
  await editor.command("Roo: New Task…");
  const chat = await editor.chat();
  const themes: Record<string, Theme> = {};
  for (const [name, title] of Object.entries(THEMES)) {
    editor.set({ "workbench.colorTheme": title });
    const kind = { dark: "vscode-dark", light: "vscode-light", "high-contrast": "vscode-high-contrast", "high-contrast-light": "vscode-high-contrast-light" }[name] ?? "";
    await until(() => chat.evaluate((one) => document.body.classList.contains(one), kind), `the theme is ${title}`);
    themes[name] = await chat.evaluate((names) => {
      const computed = getComputedStyle(document.documentElement);
      const values = names.map((one) => [one, computed.getPropertyValue(one)] as const).filter(([, value]) => value !== "");
      return { kind: document.body.className, variables: Object.fromEntries(values.toSorted()) };
    }, used);
  }
  writeFileSync(fileURLToPath(new URL("themes.json", import.meta.url)), `${JSON.stringify(themes, null, 1)}\n`);
} finally {
  await editor.stop();
}
