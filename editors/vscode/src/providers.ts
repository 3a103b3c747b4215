// Who serves models, as the setup offers them. Pure.

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
