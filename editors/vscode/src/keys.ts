// API keys in the editor's secret storage. The server gets them through its environment alone.
import * as vscode from "vscode";

const NAMES = "roo.apiKeyNames";
const secretOf = (name: string): string => `roo.apiKey.${name}`;

/** The variables that providers read when a profile names none. */
const USUAL: Record<string, string> = { anthropic: "ANTHROPIC_API_KEY", openai: "OPENAI_API_KEY" };

/** The keys that the user has stored. */
export class Keys {
  readonly #context: vscode.ExtensionContext;

  constructor(context: vscode.ExtensionContext) {
    this.#context = context;
  }

  /** The variables for the server's environment. */
  async environment(): Promise<Record<string, string>> {
    const found: Record<string, string> = {};
    for (const name of this.#names()) {
      const key = await this.#context.secrets.get(secretOf(name));
      if (key !== undefined) found[name] = key;
    }
    return found;
  }

  /** Asks for a key and stores it. Whether one was stored. */
  async set(profiles: Record<string, { provider?: string; apiKeyEnv?: string | null }>): Promise<boolean> {
    const variables = new Map<string, string>();
    for (const [profile, { provider, apiKeyEnv }] of Object.entries(profiles)) {
      const name = apiKeyEnv ?? USUAL[provider ?? ""];
      if (name) variables.set(name, `for the profile ${profile}`);
    }
    for (const [provider, name] of Object.entries(USUAL)) {
      if (!variables.has(name)) variables.set(name, `what ${provider} reads by default`);
    }
    const other = "Another variable…";
    const items = [...variables].map(([label, description]) => ({ label, description }));
    const title = "Which environment variable is the key for?";
    const picked = await vscode.window.showQuickPick([...items, { label: other, description: "" }], { title });
    const name =
      picked?.label === other
        ? await vscode.window.showInputBox({ title: "The variable that the profile's apiKeyEnv names", validateInput: problem })
        : picked?.label;
    if (!name) return false;
    const key = await vscode.window.showInputBox({
      title: `The key for ${name}`,
      prompt: "It is stored in the secret storage and never written to settings.",
      password: true,
      ignoreFocusOut: true,
    });
    if (!key) return false;
    await this.store(name, key);
    return true;
  }

  /** Stores a key under the name of its variable. */
  async store(name: string, key: string): Promise<void> {
    await this.#context.secrets.store(secretOf(name), key);
    await this.#context.globalState.update(NAMES, [...new Set([...this.#names(), name])]);
  }

  /** Asks which key to forget, and forgets it. Whether one was. */
  async remove(): Promise<boolean> {
    const names = this.#names();
    if (names.length === 0) {
      void vscode.window.showInformationMessage("No API key is stored.");
      return false;
    }
    const name = await vscode.window.showQuickPick(names, { title: "Remove which key?" });
    if (name === undefined) return false;
    await this.#context.secrets.delete(secretOf(name));
    await this.#context.globalState.update(NAMES, names.filter((one) => one !== name));
    return true;
  }

  #names(): string[] {
    return this.#context.globalState.get<string[]>(NAMES, []);
  }
}

/** What a variable must not be: these steer how programs are loaded, not how a model is reached. */
const STEERING = /^(?:PATH|HOME|IFS|ENV|LD_.*|DYLD_.*|NODE_OPTIONS|BASH_ENV|XDG_.*|ROO_LSP_.*)$/i;

function problem(name: string): string | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return "A name of letters, digits and underscores.";
  return STEERING.test(name) ? "This variable changes how programs run." : undefined;
}
