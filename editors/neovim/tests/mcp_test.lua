-- The list of MCP servers: their states as they change, what a server offers and writes, and the keys.

local harness = require('harness')
local case, equal, has = harness.case, harness.equal, harness.has

local server = [[
import json, sys
def send(number, result):
    print(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        print("the desk is open", file=sys.stderr, flush=True)
        send(number, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "desk", "version": "1"}})
    elif method == "tools/list":
        send(number, {"tools": [{"name": "book", "description": "Books\na seat.", "inputSchema": {"type": "object"}}]})
    elif number is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "unknown"}}), flush=True)
]]

--- Writes the user's `mcp.json`.
---@param entry table
local function configure(workspace, entry)
  vim.fn.writefile(vim.split(server, '\n'), workspace .. '/desk.py')
  local directory = vim.env.XDG_CONFIG_HOME .. '/roo-lsp'
  vim.fn.mkdir(directory, 'p')
  local file = directory .. '/mcp.json'
  vim.fn.writefile({ vim.json.encode({ mcpServers = { desk = entry } }) }, file)
  return file
end

--- Waits until the list has a text.
local function shows(editor, text)
  return editor:wait(('the list with %q'):format(text), [[
    local buffer = vim.fn.bufnr('roo://mcp')
    local shown = buffer ~= -1 and table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n') or ''
    return shown:find(..., 1, true) and shown
  ]], text)
end

case('servers are listed, opened, restarted and switched off and on', function()
  local workspace = harness.workspace()
  local file = configure(workspace, { command = 'python3', args = { 'desk.py' } })
  local editor = harness.play(workspace, { 'turns: []' })
  editor:command('Roo mcp')
  shows(editor, '✓ desk — connected, 1 tool')
  editor:wait('the window', [[return vim.bo.filetype == 'roomcp']])
  equal(editor:lua([[return vim.api.nvim_win_get_cursor(0)[1] ]]), 2)
  editor:press('<CR>')
  has(shows(editor, '│ the desk is open'), '    python3 desk.py')
  shows(editor, '    book: Books ⏎ a seat.')
  editor:press('r')
  -- What it wrote before stays in its log.
  editor:wait('the second start', [[
    local shown = table.concat(vim.api.nvim_buf_get_lines(vim.fn.bufnr('roo://mcp'), 0, -1, false), '\n')
    return select(2, shown:gsub('the desk is open', '')) == 2 and shown:find('✓ desk', 1, true)
  ]])
  editor:press('e')
  shows(editor, '○ desk — switched off')
  has(table.concat(vim.fn.readfile(file), ''), '"disabled"')
  editor:press('e')
  shows(editor, '✓ desk — connected, 1 tool')
  editor:press('q')
  editor:wait('no list', [[return vim.fn.bufwinid('roo://mcp') == -1]])
  editor:quit()
end)

case('a server that does not start is listed with the reason, and an empty list says how to add one', function()
  local workspace = harness.workspace()
  local file = configure(workspace, { command = 'no-such-program' })
  local editor = harness.play(workspace, { 'turns: []' })
  editor:command('Roo mcp')
  has(shows(editor, '✗ desk — failed: '), 'no-such-program')
  editor:quit()
  vim.fn.delete(file)
  editor = harness.play(workspace, { 'turns: []' })
  editor:command('Roo mcp')
  shows(editor, 'no MCP servers are configured here')
  editor:quit()
end)

harness.run()
