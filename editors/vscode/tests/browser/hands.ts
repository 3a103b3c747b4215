// How a user reaches things: with the mouse, or with the keyboard alone.
import assert from "node:assert/strict";
import type { Frame, Locator } from "playwright-core";
import { DEADLINE, until, type Editor } from "./editor.ts";

export interface Hands {
  readonly name: string;
  /** Selects from the start of one line to the end of another, both counted from 1. */
  select(editor: Editor, first: number, last: number): Promise<void>;
  /** Begins a task from the selection. */
  startFromSelection(editor: Editor): Promise<void>;
  /** Presses a button of the chat. */
  press(editor: Editor, chat: Frame, button: string): Promise<void>;
  /** Sends what is in the composer. */
  send(editor: Editor, chat: Frame): Promise<void>;
  /** Allows what the diff in front shows. */
  allowInDiff(editor: Editor): Promise<void>;
}

/** Brings the focus to the chat. On a busy machine the list of commands may close late, and give it back to the editor. */
async function focusChat(editor: Editor, chat: Frame): Promise<void> {
  await until(async () => {
    await editor.command("Roo: Focus on Chat View");
    await until(() => chat.evaluate(() => document.hasFocus()), "the chat has the focus", 10_000);
    return true;
  }, "the chat is reached");
}

export const mouse: Hands = {
  name: "mouse",
  async select(editor, first, last) {
    const line = (number: number): Locator => editor.page.locator(".monaco-editor .view-line").nth(number - 1);
    await line(first).click({ position: { x: 1, y: 8 } });
    const text = await line(last).locator("> span").boundingBox();
    assert.ok(text);
    await editor.page.keyboard.down("Shift");
    await editor.page.mouse.click(text.x + text.width + 3, text.y + text.height / 2);
    await editor.page.keyboard.up("Shift");
  },
  async startFromSelection(editor) {
    const selected = editor.page.locator(".monaco-editor .view-line").nth(3).locator("> span");
    await selected.click({ button: "right", position: { x: 20, y: 8 } });
    const entry = editor.page.locator(".monaco-menu .action-item", { hasText: "New Task from Selection" }).first();
    await entry.waitFor({ timeout: DEADLINE });
    // A menu takes no click in its first moment, lest the one that opened it chooses.
    await until(async () => {
      await entry.click({ timeout: 1000 }).catch(() => {});
      return (await entry.count()) === 0;
    }, "the menu's entry is chosen");
  },
  async press(_editor, chat, button) {
    await chat.locator(button).click({ timeout: DEADLINE });
  },
  async send(_editor, chat) {
    await chat.locator("#send").click({ timeout: DEADLINE });
  },
  async allowInDiff(editor) {
    await editor.page.locator(".editor-actions .action-label[aria-label*='Allow the Requested Action']").first().click({ timeout: DEADLINE });
  },
};

export const keyboard: Hands = {
  name: "keyboard",
  async select(editor, first, last) {
    await editor.goToLine(first);
    for (let line = first; line < last; line += 1) await editor.page.keyboard.press("Shift+ArrowDown");
    await editor.page.keyboard.press("Shift+End");
  },
  async startFromSelection(editor) {
    await editor.command("Roo: New Task from Selection");
  },
  async press(editor, chat, button) {
    // Wherever the focus was: the chat is a command away, and Tab reaches everything in it.
    await focusChat(editor, chat);
    const target = chat.locator(button).first();
    await target.waitFor({ timeout: DEADLINE });
    const reached = (): Promise<boolean> => target.evaluate((element) => element === document.activeElement);
    for (const key of ["Tab", "Shift+Tab"]) {
      for (let step = 0; step < 60 && !(await reached()); step += 1) {
        if (!(await chat.evaluate(() => document.hasFocus()))) break;
        await editor.page.keyboard.press(key);
      }
      if (await reached()) break;
      await focusChat(editor, chat);
    }
    assert.ok(await reached(), `Tab reaches ${button}`);
    await editor.page.keyboard.press("Enter");
  },
  async send(editor, chat) {
    assert.ok(await chat.locator("#prompt").evaluate((element) => element === document.activeElement), "the composer has the focus");
    await editor.page.keyboard.press("Enter");
  },
  async allowInDiff(editor) {
    await editor.command("Roo: Allow the Requested Action");
  },
};
