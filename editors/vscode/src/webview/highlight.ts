// Colours for code in messages: comments, strings, numbers, keywords and calls, by what most languages share.
// No parser: a language that is unknown, or text that is none, is left as it is.

const WORDS: Record<string, string> = {
  c: "auto bool break case char class const constexpr continue default delete do double else enum extern false float for friend goto if include inline int long namespace new nullptr NULL operator override private protected public register return short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while define ifdef ifndef endif",
  go: "break case chan const continue default defer else fallthrough false for func go goto if import interface map nil package range return select struct switch true type var",
  java: "abstract as async await boolean break byte case catch class const continue data default do double else enum extends false final finally float for fun get if implements import in instanceof int interface internal is let long namespace native new null object open out override package private protected public readonly record return sealed set short static string super switch this throw throws true try typeof using val var virtual void volatile when while yield",
  js: "any as async await boolean break case catch class const continue debugger default delete do else enum export extends false finally for from function get if implements import in instanceof interface is keyof let new null number of private protected public readonly return satisfies set static string super switch this throw true try type typeof undefined unknown var void while with yield",
  lua: "and break do else elseif end false for function goto if in local nil not or repeat return then true until while",
  php: "abstract and array as break case catch class clone const continue declare default do echo else elseif extends false final finally fn for foreach function global if implements include instanceof interface match namespace new null or print private protected public readonly require return static switch throw trait true try use var while yield",
  py: "and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield",
  rb: "alias and begin break case class def defined do else elsif end ensure false for if in module next nil not or puts raise redo require rescue retry return self super then true undef unless until when while yield",
  rs: "as async await bool break const continue crate dyn else enum extern false fn for i32 i64 if impl in let loop match mod move mut pub ref return Self self static str struct super trait true type u32 u64 u8 unsafe use usize where while",
  sh: "case do done echo elif else esac exit export fi for function if in local return set shift source then unset until while",
  sql: "add all alter and as asc between by case create default delete desc distinct drop else end exists from full group having in index inner insert into is join key left like limit not null on or order outer primary references right select set table then union unique update values view when where with",
  yaml: "true false null yes no",
};

const ALIASES: Record<string, string> = {
  bash: "sh", console: "sh", shell: "sh", zsh: "sh", fish: "sh", make: "sh", makefile: "sh", dockerfile: "sh", powershell: "sh", ps1: "sh",
  "c++": "c", cpp: "c", cc: "c", h: "c", hpp: "c", objc: "c", zig: "c",
  cs: "java", csharp: "java", kotlin: "java", kt: "java", scala: "java", swift: "java", dart: "java", groovy: "java",
  javascript: "js", jsx: "js", mjs: "js", cjs: "js", ts: "js", tsx: "js", typescript: "js", json: "js", jsonc: "js", vue: "js", svelte: "js", css: "js", scss: "js",
  golang: "go", python: "py", python3: "py", ruby: "rb", rust: "rs", yml: "yaml", toml: "yaml", ini: "yaml",
};

/** The longest code that is coloured, in characters. */
const LONGEST = 50_000;

/** Languages in which `#` begins a comment. */
const HASH = new Set(["sh", "py", "rb", "yaml", "php"]);
/** Languages in which `--` begins a comment. */
const DASHES = new Set(["sql", "lua"]);

/** Text as HTML that shows it. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign] ?? sign);
}

/** Code as HTML with its parts marked; escaped, and nothing else, where the language is unknown. */
export function highlight(code: string, language: string): string {
  const name = language.toLowerCase();
  if (name === "diff" || name === "patch") return diffLines(code);
  const family = Object.hasOwn(WORDS, name) ? name : Object.hasOwn(ALIASES, name) ? ALIASES[name] : undefined;
  // A block that streams is coloured again with each piece.
  if (family === undefined || code.length > LONGEST) return escapeHtml(code);
  const ignoresCase = family === "sql";
  const words = new Set(WORDS[family]?.split(" "));
  const comment = HASH.has(family) ? String.raw`(?<=^|\s)#[^\n]*` : DASHES.has(family) ? String.raw`--[^\n]*` : String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
  const token = new RegExp(
    [
      `(?<comment>${comment})`,
      String.raw`(?<string>"""[\s\S]*?(?:"""|$)|"(?:[^"\\\n]|\\.)*"|${family === "rs" ? String.raw`'(?:[^'\\\n]|\\.)'` : String.raw`'(?:[^'\\\n]|\\.)*'`}|${"`"}(?:[^${"`"}\\]|\\.)*${"`"})`,
      String.raw`(?<number>\b(?:0[xX][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b)`,
      String.raw`(?<word>[A-Za-z_$][\w$]*)(?<call>\s?\()?`,
    ].join("|"),
    "gm",
  );
  let html = "";
  let end = 0;
  for (const match of code.matchAll(token)) {
    const { comment: isComment, string: isString, number: isNumber, word, call } = match.groups ?? {};
    html += escapeHtml(code.slice(end, match.index));
    end = match.index + match[0].length;
    if (word !== undefined) {
      const isKeyword = words.has(ignoresCase ? word.toLowerCase() : word);
      const kind = isKeyword ? "keyword" : call !== undefined ? "call" : undefined;
      html += (kind === undefined ? escapeHtml(word) : mark(kind, word)) + escapeHtml(call ?? "");
    } else {
      const kind = isComment !== undefined ? "comment" : isString !== undefined ? "string" : isNumber !== undefined ? "number" : undefined;
      html += kind === undefined ? escapeHtml(match[0]) : mark(kind, match[0]);
    }
  }
  return html + escapeHtml(code.slice(end));
}

function mark(kind: string, text: string): string {
  return `<span class="tok-${kind}">${escapeHtml(text)}</span>`;
}

function diffLines(code: string): string {
  return code
    .split("\n")
    .map((line) => (/^[+-]/.test(line) ? mark(line.startsWith("+") ? "added" : "removed", line) : escapeHtml(line)))
    .join("\n");
}
