// One live request in the daemon, and its clients: two windows of VS Code with data of their own, Neovim, Helix by plain LSP, and
// `roo-lsp attach` in a terminal. All see the same events; what one answers vanishes in the others; an edit lands where the file is
// open.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Frame } from "playwright-core";
import type { EventParams } from "../../src/protocol.ts";
import { daemons, Helix, inOneForm, Neovim, Seen, stopDaemons, Terminal } from "./clients.ts";
import { DEADLINE, Editor, until, User } from "./editor.ts";
import { drawn, waitForCard } from "./scenario.ts";

const call = (tool: string, params: object): object => ({ calls: [{ tool, params }] });
const read = (path: string): object => call("read_file", { files: [{ path }] });
const replace = (path: string, before: string, after: string): object => call("apply_diff", { path, diff: `<<<<<<< SEARCH\n${before}\n=======\n${after}\n>>>>>>> REPLACE` });
/** Each turn waits for what really happened before it. */
const SCRIPT = {
  turns: [
    call("ask_followup_question", { question: "How polite?", follow_up: [{ text: "Formal" }, { text: "Friendly" }] }),
    { when: { contains: "Formal" }, ...read("greeting.sh") },
    { when: { contains: "# typed in Neovim" }, ...replace("greeting.sh", "echo hey", "echo Good day") },
    { when: { status: "ok", contains: "greeting.sh" }, ...read("notes.md") },
    { when: { contains: "typed in the second window" }, ...replace("notes.md", "Say hey.", "Say Good day.") },
    { when: { status: "ok", contains: "notes.md" }, ...call("write_to_file", { path: "docs/greeting.md", content: "It says Good day.\n" }) },
    { when: { status: "ok", contains: "docs/greeting.md" }, ...call("attempt_completion", { result: "It greets formally." }) },
  ],
};

/** A window, and what its chat is told. */
class Window {
  readonly editor: Editor;
  readonly chat: Frame;
  readonly seen: Seen;

  private constructor(editor: Editor, chat: Frame, seen: Seen) {
    this.editor = editor;
    this.chat = chat;
    this.seen = seen;
  }

  static async open(user: User, name: string): Promise<Window> {
    // What counts for requests is in the user's own file, for all editors.
    const editor = await Editor.start({ user, settings: { "roo.profile": undefined, "roo.profiles": undefined, "roo.server.daemon": true } });
    const seen = new Seen(name);
    await editor.page.exposeFunction("chatIsTold", (text: string) => {
      const message = JSON.parse(text) as { params: EventParams } | { seq: number };
      if ("params" in message) seen.add(message.params);
      else seen.knows(message.seq);
    });
    const chat = await editor.newTask("new-task");
    await chat.evaluate(() => {
      const { chatIsTold } = window as unknown as { chatIsTold: (text: string) => void };
      window.addEventListener("message", ({ data }: MessageEvent<{ type: string; params?: object; request?: { seq: number } }>) => {
        if (data.type === "event") chatIsTold(JSON.stringify({ params: data.params }));
        if (data.type === "state" && data.request) chatIsTold(JSON.stringify({ seq: data.request.seq }));
      });
    });
    return new Window(editor, chat, seen);
  }

  async start(prompt: string): Promise<void> {
    await this.chat.locator("#mode").selectOption("code");
    await this.chat.locator("#prompt").fill(prompt);
    await this.chat.locator("#prompt").press("Enter");
  }

  /** Nothing waits for the user any more. */
  async asksNothing(): Promise<void> {
    await until(async () => (await this.chat.locator("#waiting .card").count()) === 0, "no card is shown");
  }

  async allow(): Promise<void> {
    await this.chat.locator('#waiting .approval [data-option="allow_once"]').click({ timeout: DEADLINE });
  }
}

/** A user with these files, whose model plays this script. */
function userOf(files: Record<string, string>, script: object): User {
  const user = new User((workspace) => {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(workspace, name), text);
  });
  // VS Code asks a login shell for the environment; a terminal has the same.
  writeFileSync(join(user.home, ".profile"), `export PATH='${user.environment["PATH"]}'\n`);
  const path = join(user.home, "script.yaml");
  writeFileSync(path, JSON.stringify(script));
  mkdirSync(join(user.home, "config/roo-lsp"), { recursive: true });
  writeFileSync(join(user.home, "config/roo-lsp/config.yaml"), JSON.stringify({ profiles: { default: { provider: "scripted", script: path } } }));
  return user;
}

/** Ends the user's daemons, and removes what they had. */
async function end(user: User): Promise<void> {
  stopDaemons(user);
  await until(() => daemons(user).length === 0, "the daemon has ended");
  user.remove();
}

test("two windows, Neovim, Helix and a terminal work on one live request", async () => {
  const user = userOf({ "greeting.sh": "echo hey\n", "notes.md": "Say hey.\n", "other.sh": "echo other\n" }, SCRIPT);
  const onDisk = (path: string): string => readFileSync(join(user.workspace, path), "utf8");

  const opening = ["the first window", "the second window"].map((name) => Window.open(user, name));
  const windows: Window[] = [];
  const others: { kill(): void }[] = [];
  try {
    windows.push(...(await Promise.all(opening)));
    const [first, second] = windows;
    assert.ok(first && second);
    const neovim = new Neovim(user);
    others.push(neovim);
    const helix = new Helix(user, "other.sh");
    others.push(helix);
    await neovim.command("edit greeting.sh");
    await until(() => daemons(user).map(({ clients }) => clients).join() === "4", "one daemon serves the four editors").catch((error: unknown) => {
      throw new Error(`${String(error)}: ${JSON.stringify(daemons(user))}`);
    });
    const [daemon] = daemons(user);

    // What their users type and don't save.
    await neovim.lua("vim.api.nvim_buf_set_lines(0, -1, -1, false, { '# typed in Neovim' })");
    await second.editor.open("notes.md");
    await second.editor.page.keyboard.press("Control+End");
    await second.editor.page.keyboard.type("typed in the second window\n");

    // The first window starts it. The others hear of it: here the chat shows another page, and leaves it when its user wants that.
    await first.start("Greet politely");
    await waitForCard(first.chat, "How polite?");
    await second.editor.pressInMessage("Roo asks in “Greet politely”: How polite?", "Show Task");
    await waitForCard(second.chat, "How polite?");
    await until(async () => (await neovim.waiting()) === "How polite?", "Neovim asks");
    const terminal = Terminal.attach(user);
    const program = Terminal.follow(user);
    others.push(terminal, program);
    // Editors may have it among what there was when their page came; the terminal is told of everything.
    const asked = await program.seen.until("the question", ({ event }) => event.type === "question.asked");
    let shown = await terminal.shows("How polite?");
    shown = await terminal.shows("  > ", shown);
    const clients = { first: first.seen, second: second.seen, neovim: neovim.seen, terminal: program.seen };
    /** Waits until all of these have seen an event, by the same number. */
    const allSee = async (params: EventParams, among: readonly Seen[] = Object.values(clients)): Promise<void> => {
      const seen = await Promise.all(among.map((one) => one.until(`number ${params.seq}`, ({ seq }) => seq === params.seq)));
      for (const { event } of seen) assert.equal(inOneForm(event), inOneForm(params.event));
    };
    /** The next approval, which all of these ask for. */
    const approval = async (title: string, ...open: readonly Window[]): Promise<EventParams> => {
      const requested = await neovim.seen.until(title, ({ event }) => event.type === "approval.requested" && event.title === title);
      for (const window of open) await waitForCard(window.chat, title);
      await until(async () => (await neovim.waiting()) === title, `Neovim asks for ${title}`);
      shown = await terminal.shows("Allow?", await terminal.shows(title, shown));
      return requested;
    };

    // Neovim answers the question; it vanishes elsewhere.
    await neovim.command("Roo answer 1");
    await allSee(await neovim.seen.until("the answer", ({ event }) => event.type === "question.answered"), [first.seen, second.seen, program.seen]);

    // The first edit is allowed in the second window, and lands in Neovim beside the line that is not saved.
    await allSee(await approval("Edit greeting.sh", first, second));
    await helix.openTask("Greet politely");
    await helix.pressUntil(/Waits for you: Edit greeting\.sh/, "g", "e");
    await second.allow();
    await helix.shows(/^(?![^]*Waits for you: Edit greeting\.sh)/);
    await allSee(await second.seen.until("the answer", ({ event }) => event.type === "approval.resolved"));
    await until(async () => (await neovim.text("greeting.sh")) === "echo Good day\n# typed in Neovim", "the edit is in Neovim's buffer");
    assert.equal(await neovim.lua("return vim.bo[vim.fn.bufnr('greeting.sh')].modified"), true);
    assert.equal(onDisk("greeting.sh"), "echo hey\n", "its user saves it");

    // The next one is allowed in the terminal, and lands in the second window.
    const notes = await approval("Edit notes.md", first, second);
    await allSee(notes);
    terminal.types("y");
    const allowed = await neovim.seen.until("the answer of the terminal", ({ seq, event }) => event.type === "approval.resolved" && (seq ?? 0) > (notes.seq ?? 0));
    await allSee(allowed);
    await until(async () => (await drawn(second.editor)) === "Say Good day.\ntyped in the second window\n", "the edit is in the second window");
    await second.editor.page.locator(".tab.dirty", { hasText: "notes.md" }).waitFor({ timeout: DEADLINE });
    assert.equal(onDisk("notes.md"), "Say hey.\n", "its user saves it");

    // The window that started it is killed while the request waits, with all processes below it.
    await allSee(await approval("Create docs/greeting.md", first, second));
    const before = first.seen.numbered();
    await first.editor.stop();
    assert.deepEqual(daemons(user).map((one) => one.process), [daemon?.process], "the daemon lives on");
    await helix.pressUntil(/Waits for you: Create docs\/greeting\.md/, "]", "D");
    await helix.choose("Allow: Create docs/greeting.md");
    await second.asksNothing();
    await second.chat.locator(".said.completion_result", { hasText: "It greets formally." }).waitFor({ timeout: DEADLINE });
    assert.equal(onDisk("docs/greeting.md"), "It says Good day.\n");
    await terminal.shows("It greets formally.", shown);
    await until(async () => (await neovim.waiting()) === "", "Neovim asks nothing");
    assert.deepEqual([await terminal.ended, await program.ended], [0, 0]);
    const isEnd = ({ rootId, taskId, event }: EventParams): boolean => taskId === rootId && event.type === "task.state" && event.state === "completed";
    const completed = await second.seen.until("the end", isEnd);
    await allSee(completed, [second.seen, neovim.seen, program.seen]);

    // Event by event: the program that attached late was told of all, and each client saw the same under the same number.
    const all = program.seen.numbered();
    assert.ok((asked.seq ?? 0) > 0 && all.has(asked.seq ?? 0) && all.size > 20, `${all.size} events`);
    for (const [name, events] of [["first", before] as const, ...Object.entries(clients).map(([name, seen]) => [name, seen.numbered()] as const)]) {
      for (const [seq, event] of events) if (all.has(seq)) assert.equal(event, all.get(seq), `${name}, ${seq}`);
    }
    assert.deepEqual([...neovim.seen.numbered().keys()].at(-1), [...all.keys()].at(-1));
  } catch (error) {
    for (const [index, window] of windows.entries()) await window.editor.failed(`shared-${index + 1}`, error);
    throw error;
  } finally {
    for (const other of others) other.kill();
    for (const window of await Promise.allSettled(opening)) if (window.status === "fulfilled") await window.value.editor.stop();
    await end(user);
  }
});

test("a window whose daemon is killed says so once, and the chat goes on where it was", async () => {
  const user = userOf({}, {
    turns: [
      // What was cut off comes again. There is time to end the daemon before the end of the text.
      { text: "This is written letter by letter, so that there is time to end the daemon before all of it is there.", chunk: 2, delayMs: 150, ...call("ask_followup_question", { question: "How polite?", follow_up: [{ text: "Formal" }] }) },
      { when: { contains: "Formal" }, ...call("attempt_completion", { result: "It greets formally." }) },
    ],
  });
  let window: Window | undefined;
  const kill = (): void => {
    const [daemon] = daemons(user);
    assert.ok(daemon);
    process.kill(daemon.process, "SIGKILL");
  };
  try {
    window = await Window.open(user, "the window");
    const { chat, editor } = window;
    const notice = editor.page.locator(".notification-list-item");
    /** The daemon is killed; the editor says so, and nothing else. */
    const lose = async (): Promise<void> => {
      kill();
      await (await editor.message("another one has taken over")).waitFor({ timeout: DEADLINE });
      await until(async () => (await notice.count()) === 1, "one message is shown");
      await editor.command("Notifications: Clear All Notifications");
      await until(async () => (await notice.count()) === 0, "no message is shown");
    };
    await window.start("Greet politely");
    await chat.locator(".said.text", { hasText: "This is written letter by" }).waitFor({ timeout: DEADLINE });
    await lose();
    await chat.locator("#resume").click({ timeout: DEADLINE });
    await waitForCard(chat, "How polite?");
    const said = chat.locator(".said.text", { hasText: "This is written letter by" });
    assert.equal(await said.count(), 1, "what was cut off is replaced");
    assert.match((await said.textContent()) ?? "", /before all of it is there\./);
    await lose();
    // What waits still does; to answer it is to go on.
    await chat.locator("#waiting .suggestion", { hasText: "Formal" }).click({ timeout: DEADLINE });
    await chat.locator(".said.completion_result", { hasText: "It greets formally." }).waitFor({ timeout: DEADLINE });
    await window.asksNothing();
    assert.match((await chat.locator("#feed").textContent()) ?? "", /Greet politely[^]*This is written[^]*It greets formally\./);
    assert.equal(await notice.count(), 0);
    window.seen.numbered();
  } catch (error) {
    throw (await window?.editor.failed("daemon-killed", error)) ?? error;
  } finally {
    await window?.editor.stop();
    await end(user);
  }
});
