// Setup of a model in steps: provider, key, model, one request that must work. The server's own program does the work
// and writes the profile to config.yaml; the key stays in the editor's secret storage.
import * as vscode from "vscode";
import { complaint, type RunProgram } from "./cli.ts";
import type { Keys } from "./keys.ts";
import { PROVIDERS, type Provider } from "./providers.ts";
import type { ModelItem } from "./protocol.ts";
import { modelFacts } from "./words.ts";

/** How long a server on this machine may take to answer, in milliseconds. */
const LOCAL_ANSWER = 3000;

/** What the steps need. */
export interface Setup {
  readonly run: RunProgram;
  readonly keys: Keys;
}

/** A profile that was saved, and a sentence about it. */
export interface Saved {
  readonly profile: string;
  readonly summary: string;
}

/** Leads through the steps. Returns the new profile; none when the user stopped. */
export async function setUpModel({ run, keys }: Setup): Promise<Saved | undefined> {
  const provider = await chooseProvider(run);
  if (!provider) return undefined;
  for (;;) {
    const key = await askKey(provider, keys);
    if (key === undefined) return undefined;
    const environment: Record<string, string> = provider.key !== undefined && key !== "" ? { [provider.key]: key } : {};
    const listed = await progress(vscode.ProgressLocation.Window, `Asking ${provider.label} for its models…`, () => run(["models", "--provider", provider.id, "--json"], { environment }));
    if (listed.code !== 0) {
      if (await again(`${provider.label}: ${complaint(listed)}`)) continue;
      return undefined;
    }
    const model = await chooseModel(provider, JSON.parse(listed.stdout) as ModelItem[]);
    if (model === undefined) return undefined;
    const tried = await progress(vscode.ProgressLocation.Notification, `One short request to ${model}…`, () => run(["setup", "--provider", provider.id], { environment, input: [model] }));
    if (tried.code !== 0) {
      if (await again(`${model}: ${failure(tried.stderr) ?? complaint(tried)}`)) continue;
      return undefined;
    }
    if (provider.key !== undefined && key !== "") await keys.store(provider.key, key);
    const answered = /answered in .*/.exec(tried.stderr)?.[0];
    const profile = /^profile (\S+):/m.exec(tried.stdout)?.[1] ?? "default";
    return { profile, summary: `${model} ${answered ?? "answered"}. The profile ${profile} is saved in config.yaml.` };
  }
}

/** The line about the request that failed: what follows it only asks again. */
function failure(stderr: string): string | undefined {
  const lines = stderr.split("\n").map((line) => line.trim());
  const asked = lines.findIndex((line) => line.includes("One short request"));
  return asked < 0 ? undefined : lines.slice(asked + 1).find((line) => line !== "");
}

/** The servers on this machine that answer come first. */
async function chooseProvider(run: RunProgram): Promise<Provider | undefined> {
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
    const { code } = await run(["models", "--provider", id, "--json"], { timeout: LOCAL_ANSWER });
    if (code === 0) {
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

/** A key: a new one, or empty to use what is stored or set already; none when the user stopped. */
async function askKey(provider: Provider, keys: Keys): Promise<string | undefined> {
  if (provider.key === undefined) return "";
  const stored = (await keys.environment())[provider.key] !== undefined || process.env[provider.key] !== undefined;
  return vscode.window.showInputBox({
    title: `Set up a model (2 of 3): the key of ${provider.label}`,
    prompt: stored ? "Leave it empty to use the key that is set already." : `It is kept in the secret storage and given to the server as ${provider.key}.`,
    password: true,
    ignoreFocusOut: true,
    validateInput: (text) => (text.trim() === "" && !stored && !provider.local ? "A key is needed." : undefined),
  }).then((key) => key?.trim());
}

async function chooseModel(provider: Provider, models: readonly ModelItem[]): Promise<string | undefined> {
  const title = "Set up a model (3 of 3): which model?";
  const named = "$(edit) Another name…";
  const items = models.map((model) => ({ label: model.id, detail: modelFacts(model) }));
  const picked =
    items.length === 0
      ? named
      : (await vscode.window.showQuickPick([...items, { label: named, detail: `A model that ${provider.label} doesn't list` }], { title, ignoreFocusOut: true, matchOnDetail: true }))?.label;
  if (picked !== named) return picked;
  return vscode.window.showInputBox({ title, prompt: `The model's name at ${provider.label}`, ignoreFocusOut: true }).then((name) => name?.trim() || undefined);
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
