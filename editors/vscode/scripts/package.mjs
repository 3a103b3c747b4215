// Packs the extension: `node scripts/package.mjs [--server PROGRAM] [--out FILE]`. A .vsix is a zip with two lists
// of what it holds. Equal files give equal bytes.
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { crc32, deflateRawSync } from "node:zlib";

const root = fileURLToPath(new URL("..", import.meta.url));
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const { values } = parseArgs({ options: { server: { type: "string" }, out: { type: "string" }, target: { type: "string" } } });

/** What goes in; all else is for building and testing. */
const CONTENT = ["dist", "media", "package.json", "README.md"];

function* files(path) {
  if (statSync(path).isFile()) return void (yield path);
  for (const name of readdirSync(path).sort()) yield* files(join(path, name));
}

const text = (value) => String(value).replace(/[&<>"]/g, (sign) => `&#${sign.codePointAt(0)};`);

const entries = [];
for (const name of CONTENT) {
  for (const file of files(join(root, name))) {
    entries.push({ name: `extension/${relative(root, file)}`, data: readFileSync(file), executable: false });
  }
}
for (const licence of ["LICENSE-MIT", "LICENSE-APACHE"]) {
  entries.push({ name: `extension/${licence}.txt`, data: readFileSync(join(root, "../..", licence)), executable: false });
}
if (values.server) {
  const name = values.server.endsWith(".exe") ? "roo-lsp.exe" : "roo-lsp";
  entries.push({ name: `extension/server/${name}`, data: readFileSync(values.server), executable: true });
}

const target = values.target ? ` TargetPlatform="${text(values.target)}"` : "";
const vsix = `<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id="${text(manifest.name)}" Version="${text(manifest.version)}" Publisher="${text(manifest.publisher)}"${target}/>
    <DisplayName>${text(manifest.displayName)}</DisplayName>
    <Description xml:space="preserve">${text(manifest.description)}</Description>
    <Tags>${text(manifest.keywords.join(","))}</Tags>
    <Categories>${text(manifest.categories.join(","))}</Categories>
    <GalleryFlags>Public</GalleryFlags>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value="${text(manifest.engines.vscode)}"/>
      <Property Id="Microsoft.VisualStudio.Code.ExtensionKind" Value="${text(manifest.extensionKind.join(","))}"/>
    </Properties>
    <License>extension/LICENSE-MIT.txt</License>
    <Icon>extension/${text(manifest.icon)}</Icon>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Icons.Default" Path="extension/${text(manifest.icon)}" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE-MIT.txt" Addressable="true"/>
  </Assets>
</PackageManifest>
`;
const TYPES = { cjs: "application/javascript", css: "text/css", js: "application/javascript", json: "application/json", md: "text/markdown", png: "image/png", svg: "image/svg+xml", txt: "text/plain", vsixmanifest: "text/xml", exe: "application/octet-stream" };
const defaults = Object.entries(TYPES).map(([extension, type]) => `<Default Extension=".${extension}" ContentType="${type}"/>`);
const overrides = values.server ? [`<Override PartName="/extension/server/roo-lsp" ContentType="application/octet-stream"/>`] : [];
const types = `<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">${[...defaults, ...overrides].join("")}</Types>
`;
entries.unshift(
  { name: "extension.vsixmanifest", data: Buffer.from(vsix), executable: false },
  { name: "[Content_Types].xml", data: Buffer.from(types), executable: false },
);

const out = values.out ?? join(root, `${manifest.name}-${manifest.version}.vsix`);
writeFileSync(out, zip(entries));
console.log(out);

/** A zip of these entries, all of the first day that zips know. */
function zip(all) {
  const DAY = 0x0021;
  const UTF8 = 0x0800;
  const UNIX = 3 << 8;
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const { name, data, executable } of all) {
    const path = Buffer.from(name);
    const packed = deflateRawSync(data, { level: 9 });
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0); // needs version 2.0
    common.writeUInt16LE(UTF8, 2);
    common.writeUInt16LE(8, 4); // deflated
    common.writeUInt16LE(0, 6);
    common.writeUInt16LE(DAY, 8);
    common.writeUInt32LE(crc32(data), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(data.length, 18);
    common.writeUInt16LE(path.length, 22);
    const local = Buffer.concat([Buffer.from("PK\x03\x04", "latin1"), common, path, packed]);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE((executable ? 0o100755 : 0o100644) * 0x10000, 6);
    rest.writeUInt32LE(offset, 10);
    const made = Buffer.alloc(2);
    made.writeUInt16LE(UNIX | 20);
    directory.push(Buffer.concat([Buffer.from("PK\x01\x02", "latin1"), made, common, rest, path]));
    parts.push(local);
    offset += local.length;
  }
  const listed = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write("PK\x05\x06", "latin1");
  end.writeUInt16LE(all.length, 8);
  end.writeUInt16LE(all.length, 10);
  end.writeUInt32LE(listed.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, listed, end]);
}
