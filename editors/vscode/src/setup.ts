// Setup of a model in steps: provider, key, model, one request that must work. The server lists, tries and writes the
// profile to config.yaml; the key goes where the user wants it.
import * as vscode from "vscode";
import type { Connection } from "./connection.ts";
import { inWords, kindOf } from "./failures.ts";
import type { Keys } from "./keys.ts";
import { freeName, keySource, KEY_PLACES, PROVIDERS, type KeyPlace, type Provider } from "./providers.ts";
import type { ModelItem, ProfileDraft, ProfileItem } from "./protocol.ts";
import { modelFacts } from "./words.ts";

/** What the steps need. */
export interface Setup {
  readonly ask: Connection["request"];
  readonly keys: Keys;
  /** The profiles that there are. */
  readonly profiles: readonly ProfileItem[];
}

/** A profile that was saved, and a sentence about it. */
export interface Saved {
  readonly profile: string;
  readonly summary: string;
  /** Whether the server has to be restarted to get the key. */
  readonly needsRestart: boolean;
}

/** A key that the user has entered; none where one is set already, or none is needed. */
interface NewKey {
  readonly text: string;
  readonly place: KeyPlace;
}

/** Leads through the steps. Returns the new profile; none when the user stopped. */
export async function setUpModel({ ask, keys, profiles }: Setup): Promise<Saved | undefined> {
  const provider = await chooseProvider(ask);
  if (!provider) return undefined;
  for (;;) {
    const key = await askKey(provider, keys);
    if (key === undefined) return undefined;
    // The key isn't stored before a model has answered.
    const endpoint: ProfileDraft = { provider: provider.id, ...(key !== "none" && { key: { from: "file", key: key.text } }) };
    let models: readonly ModelItem[];
    try {
      ({ models } = await progress(vscode.ProgressLocation.Window, `Asking ${provider.label} for its models…`, () => ask("roo/model/list", { draft: endpoint })));
    } catch (error) {
      if (await again(`${provider.label}: ${inWords(error)}`)) continue;
      return undefined;
    }
    const model = await chooseModel(provider, models);
    if (model === undefined) return undefined;
    const draft: ProfileDraft = { ...endpoint, model: model.id, ...(model.contextWindow != null && { contextWindow: model.contextWindow }) };
    const saved = await progress(vscode.ProgressLocation.Notification, `One short request to ${model.id}…`, () => save(ask, keys, provider, key, draft, freeName(provider, profiles.map(({ name }) => name))));
    if ("problem" in saved) {
      if (await again(`${model.id}: ${saved.problem}`)) continue;
      return undefined;
    }
    return saved;
  }
}

/** Saves a profile whose model answers. */
async function save(ask: Connection["request"], keys: Keys, provider: Provider, key: NewKey | "none", draft: ProfileDraft, profile: string): Promise<Saved | { readonly problem: string }> {
  try {
    const source = key === "none" ? undefined : keySource(key.place, key.text);
    if (key === "none" || source) {
      const form = source ? { ...draft, key: source } : draft;
      const { saved, message, test, warnings } = await ask("roo/profile/save", { profile, draft: form, isDefault: true });
      if (!saved) return { problem: test.message };
      return { profile, summary: [test.message, message, ...warnings].join(" "), needsRestart: false };
    }
    // The server gets this key through its environment, when it starts: what is written can't be tried yet, and was tried with
    // the key itself.
    const test = await ask("roo/profile/test", { draft });
    if (!test.works) return { problem: test.message };
    if (provider.key !== undefined) await keys.store(provider.key, key.text);
    const { message } = await ask("roo/profile/save", { profile, draft: { ...draft, key: null }, isDefault: true, untested: true });
    return { profile, summary: `${test.message} ${message}`, needsRestart: true };
  } catch (error) {
    return { problem: inWords(error) };
  }
}

/** The servers on this machine that answer come first. */
async function chooseProvider(ask: Connection["request"]): Promise<Provider | undefined> {
  const pick = vscode.window.createQuickPick<vscode.QuickPickItem & { provider?: Provider }>();
  pick.title = "Set up a model (1 of 3): who serves it?";
  pick.ignoreFocusOut = true;
  pick.matchOnDescription = true;
  const running = new Set<string>();
  const draw = (): void => {
    const item = (provider: Provider): vscode.QuickPickItem & { provider: Provider } => ({
      label: provider.label,
      description: running.has(provider.id) ? `${provider.about} — running` : provider.about,
      provider,
    });
    const active = pick.activeItems[0]?.provider?.id;
    pick.items = [
      ...PROVIDERS.filter((one) => running.has(one.id)).map(item),
      ...PROVIDERS.filter((one) => !one.local).map(item),
      ...PROVIDERS.filter((one) => one.local && !running.has(one.id)).map(item),
    ];
    const again = pick.items.find((one) => one.provider?.id === active);
    if (again) pick.activeItems = [again];
  };
  draw();
  pick.busy = true;
  const looks = PROVIDERS.filter((one) => one.local).map(async ({ id }) => {
    if (await isRunning(ask, id)) {
      running.add(id);
      draw();
    }
  });
  void Promise.allSettled(looks).then(() => (pick.busy = false));
  return new Promise((resolve) => {
    pick.onDidAccept(() => {
      resolve(pick.selectedItems[0]?.provider);
      pick.hide();
    });
    pick.onDidHide(() => {
      resolve(undefined);
      pick.dispose();
    });
    pick.show();
  });
}

async function isRunning(ask: Connection["request"], provider: string): Promise<boolean> {
  try {
    await ask("roo/model/list", { provider });
    return true;
  } catch (error) {
    // One that wants a key is there.
    return kindOf(error) === "configuration";
  }
}

/** A new key, or `none` to use what is stored or set already; nothing when the user stopped. */
async function askKey(provider: Provider, keys: Keys): Promise<NewKey | "none" | undefined> {
  if (provider.key === undefined) return "none";
  const stored = (await keys.environment())[provider.key] !== undefined || process.env[provider.key] !== undefined;
  const text = await vscode.window.showInputBox({
    title: `Set up a model (2 of 3): the key of ${provider.label}`,
    prompt: stored || provider.local ? "Leave it empty to use the key that is set already, or none." : "It is stored once a model has answered. Leave it empty to use the one of `roo-lsp login`.",
    password: true,
    ignoreFocusOut: true,
    validateInput: (entered) => (/\s/.test(entered.trim()) ? "A key has no spaces." : undefined),
  });
  if (text === undefined) return undefined;
  if (text.trim() === "") return "none";
  const picked = await vscode.window.showQuickPick(KEY_PLACES, { title: `Where to store the key of ${provider.label}?`, ignoreFocusOut: true });
  return picked && { text: text.trim(), place: picked.place };
}

async function chooseModel(provider: Provider, models: readonly ModelItem[]): Promise<ModelItem | undefined> {
  const title = "Set up a model (3 of 3): which model?";
  const named = "$(edit) Another name…";
  const items = models.map((model) => ({ label: model.id, detail: modelFacts(model) }));
  const picked =
    items.length === 0
      ? named
      : (await vscode.window.showQuickPick([...items, { label: named, detail: `A model that ${provider.label} doesn't list` }], { title, ignoreFocusOut: true, matchOnDetail: true }))?.label;
  if (picked !== named) return models.find(({ id }) => id === picked);
  const id = (await vscode.window.showInputBox({ title, prompt: `The model's name at ${provider.label}`, ignoreFocusOut: true }))?.trim();
  return id ? { id } : undefined;
}

async function again(problem: string): Promise<boolean> {
  const retry = "Try Again";
  // A dialogue, as a notification could be missed, and the setup would just be gone.
  return (await vscode.window.showErrorMessage("Nothing was saved: the model can't be used.", { modal: true, detail: problem }, retry)) === retry;
}

/** VS Code hides messages that come too fast: what is usually short is told in the status bar. */
function progress<T>(location: vscode.ProgressLocation, title: string, act: () => Promise<T>): Thenable<T> {
  return vscode.window.withProgress({ location, title: `Roo: ${title}` }, act);
}
