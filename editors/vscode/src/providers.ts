// Who serves models, and where keys are stored, as the setup offers them. Pure.
import type { KeySource } from "./protocol.ts";

/** Who serves models. */
export interface Provider {
  readonly id: string;
  readonly label: string;
  readonly about: string;
  /** The variable of its key; none where none is needed. */
  readonly key?: string;
  /** Whether it usually runs on this machine. */
  readonly local?: true;
}

/** The providers of the server's settings, except for the one that plays scripts. */
export const PROVIDERS: readonly Provider[] = [
  { id: "anthropic", label: "Anthropic", about: "Claude", key: "ANTHROPIC_API_KEY" },
  { id: "openai", label: "OpenAI", about: "Chat Completions", key: "OPENAI_API_KEY" },
  { id: "openai-responses", label: "OpenAI Responses", about: "keeps a model's reasoning between requests", key: "OPENAI_API_KEY" },
  { id: "gemini", label: "Google Gemini", about: "Gemini", key: "GEMINI_API_KEY" },
  { id: "openrouter", label: "OpenRouter", about: "models of many makers with one key", key: "OPENROUTER_API_KEY" },
  { id: "ollama", label: "Ollama", about: "on this machine, port 11434", local: true },
  { id: "lm-studio", label: "LM Studio", about: "on this machine, port 1234", local: true },
  { id: "llama-cpp", label: "llama.cpp", about: "on this machine, port 8080", local: true },
  { id: "vllm", label: "vLLM", about: "on this machine, port 8000", local: true },
  { id: "litellm", label: "LiteLLM", about: "a gateway on this machine, port 4000", key: "LITELLM_API_KEY", local: true },
];

/** The name for a new profile: `default`, or what is free. */
export function freeName(provider: Provider, taken: readonly string[]): string {
  const names = ["default", provider.id, ...taken.map((_, index) => `${provider.id}-${index + 2}`)];
  return names.find((name) => !taken.includes(name)) ?? provider.id;
}

/** Where a key is stored: by the editor, which gives it to the server when that starts, or by the server. */
export type KeyPlace = "editor" | "keyring" | "file";

/** The places to choose from. */
export const KEY_PLACES: readonly { readonly label: string; readonly detail: string; readonly place: KeyPlace }[] = [
  { label: "VS Code's secret storage", detail: "For this editor only. The server restarts for it as soon as no task runs.", place: "editor" },
  { label: "The system's keyring", detail: "By secret-tool, for all editors and the terminal.", place: "keyring" },
  { label: "A private file", detail: "In the state directory, for all editors and the terminal. Only you can read it; it is not encrypted.", place: "file" },
];

/** A key that the server stores, as a form has it; none of one that the editor stores. */
export function keySource(place: KeyPlace, key: string): KeySource | undefined {
  return place === "editor" ? undefined : { from: place, key };
}
