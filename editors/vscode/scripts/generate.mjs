// Generates what follows from the server's schemas: `crates/roo-protocol/src.ts`, and the server's settings in `package.json`.
// With `--check` it changes nothing, and fails where something has drifted.
import { readFileSync, writeFileSync } from "node:fs";

const at = (path) => new URL(path, import.meta.url);
const json = (path) => JSON.parse(readFileSync(at(path), "utf8"));

/** A schema as a TypeScript type. */
function type(schema, indent = "") {
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    // What tells one variant from others stands beside its content.
    return schema.properties ? `(${object(schema, indent)} & ${name})` : name;
  }
  // Anything at all.
  if (schema === true) return "unknown";
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (alternatives) {
    const { anyOf: _any, oneOf: _one, description: _text, ...common } = schema;
    const union = alternatives.map((one) => type(one, indent)).join(" | ");
    return common.properties ? `${type(common, indent)} & (${union})` : union;
  }
  if (Array.isArray(schema.type)) {
    return schema.type.map((one) => type({ ...schema, type: one }, indent)).join(" | ");
  }
  switch (schema.type) {
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case "integer":
    case "number":
      return "number";
    case "array": {
      const items = type(schema.items, indent);
      return /^[\w"]+$/.test(items) ? `${items}[]` : `(${items})[]`;
    }
    case "object":
      return object(schema, indent);
    case undefined:
      return "unknown";
    default:
      throw new Error(`no type for ${JSON.stringify(schema)}`);
  }
}

function object(schema, indent) {
  const inner = `${indent}  `;
  const fields = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const optional = schema.required?.includes(name) ? "" : "?";
    return `${comment(field.description, inner)}${inner}${name}${optional}: ${type(field, inner)};\n`;
  });
  if (fields.length > 0) return `{\n${fields.join("")}${indent}}`;
  const values = schema.additionalProperties;
  return values ? `Record<string, ${type(values, indent)}>` : "Record<string, never>";
}

function comment(text, indent) {
  if (!text) return "";
  const lines = text.split("\n");
  if (lines.length === 1) return `${indent}/** ${text} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}\n`).join("")}${indent} */\n`;
}

function protocol() {
  const { protocolVersion, methods, $defs } = json("../../../schemas/roo-protocol.json");
  const parts = [
    "// The types of `roo/*`. Generated from schemas/roo-protocol.json by `npm run generate`; not to be edited.\n",
    `/** The version that this client speaks. */\nexport const PROTOCOL_VERSION = ${protocolVersion};\n`,
  ];
  for (const [name, schema] of Object.entries($defs)) {
    // An event that this client doesn't know is ignored, and has no shape.
    const known = schema.oneOf?.filter((one) => one.properties?.type?.const !== "Unknown");
    const shape = type(known ? { ...schema, oneOf: known } : schema);
    parts.push(`${comment(schema.description, "")}export type ${name} = ${shape};\n`);
  }
  const table = (title, name, directions) => {
    const rows = Object.entries(methods)
      .filter(([, method]) => directions.includes(method.direction))
      .map(([key, { params, result }]) => {
        const answer = result ? `; result: ${type(result)}` : "";
        return `  "${key}": { params: ${type(params)}${answer} };\n`;
      });
    parts.push(`/** ${title} */\nexport interface ${name} {\n${rows.join("")}}\n`);
  };
  table("Requests of the client.", "Requests", ["clientToServer"]);
  table("Notifications of the client.", "ClientNotifications", ["clientNotification"]);
  table("Requests of the server.", "ServerRequests", ["serverToClient"]);
  table("Notifications of the server.", "ServerNotifications", ["notification"]);
  return parts.join("\n");
}

/** What the protocol settles, and no user sets. */
const SETTLED = ["protocolVersion", "documentSave", "codeAsk"];

/** The server's settings as VS Code's. A workspace could loosen them, so only the user's own count. */
function settings(manifest) {
  const schema = json("../../../schemas/settings.json");
  const plain = (part) => {
    if (part.$ref) {
      const { $ref, ...rest } = part;
      return { ...plain(schema.$defs[$ref.split("/").at(-1)]), ...plain(rest) };
    }
    const out = {};
    for (const [key, value] of Object.entries(part)) {
      // VS Code knows no formats of numbers.
      if (key === "format") continue;
      if (key === "properties") {
        out[key] = Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plain(one)]));
      } else if (["items", "additionalProperties"].includes(key) && typeof value === "object") {
        out[key] = plain(value);
      } else if (["anyOf", "oneOf"].includes(key)) {
        out[key] = value.map(plain);
      } else {
        out[key] = value;
      }
    }
    return out;
  };
  const properties = Object.entries(schema.properties)
    .filter(([name]) => !SETTLED.includes(name))
    .map(([name, part], order) => {
      // Only what the user has set goes to the server, which has the defaults; so none is shown as set here.
      const { default: fallback, ...shape } = plain(part);
      const text = fallback === undefined || typeof fallback === "object" ? "" : ` By default \`${fallback}\`.`;
      const { description, ...rest } = shape;
      return [
        `roo.${name}`,
        { markdownDescription: `${description ?? name}${text}`, scope: "machine", order, ...rest, ...unset(shape) },
      ];
    });
  const sections = manifest.contributes.configuration.map((section) =>
    section.id === "server" ? { ...section, properties: Object.fromEntries(properties) } : section,
  );
  const contributes = { ...manifest.contributes, configuration: sections };
  return `${JSON.stringify({ ...manifest, contributes }, null, 2)}\n`;
}

function unset(shape) {
  return shape.type === "object" ? { default: {} } : { type: [...new Set([shape.type, "null"].flat())], default: null };
}

const check = process.argv.includes("--check");
const outputs = [
  ["../src/protocol.ts", protocol()],
  ["../package.json", settings(json("../package.json"))],
];
let drifted = false;
for (const [path, text] of outputs) {
  if (readFileSync(at(path), { encoding: "utf8", flag: "a+" }) === text) continue;
  if (check) {
    console.error(`${path.slice(3)} does not fit the schemas; run: npm run generate`);
    drifted = true;
  } else {
    writeFileSync(at(path), text);
  }
}
process.exit(drifted ? 1 : 0);
