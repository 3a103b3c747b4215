-- Markdown of a block, highlighted by treesitter: each block is parsed by itself, for its lines are indented in the
-- buffer, and what stands around it is no Markdown. Code in fences is highlighted where its parser is installed.

local M = {}

local namespace = vim.api.nvim_create_namespace('roo_markdown')
-- A longer text is left plain.
local LONGEST = 200000
-- Above the syntax, and above the group of a whole line.
local PRIORITY = 120

---@type boolean?
local available

--- Whether Neovim has the parsers; those that it comes with are enough.
---@return boolean
function M.is_available()
  if available == nil then
    available = pcall(vim.treesitter.language.add, 'markdown')
      and pcall(vim.treesitter.language.add, 'markdown_inline')
      and pcall(vim.treesitter.get_string_parser, '', 'markdown')
  end
  return available
end

--- Calls back with each highlight of a text: its group, what it is concealed by, and its range.
---@param text string
---@param on_capture fun(group: string, conceal: string?, range: {[1]: integer, [2]: integer, [3]: integer, [4]: integer})
local function each_capture(text, on_capture)
  local parser = vim.treesitter.get_string_parser(text, 'markdown')
  parser:parse(true)
  parser:for_each_tree(function(tree, language)
    local query = vim.treesitter.query.get(language:lang(), 'highlights')
    if not query then
      return
    end
    for id, node, metadata in query:iter_captures(tree:root(), text) do
      local name = query.captures[id]
      local own = metadata[id]
      if not vim.startswith(name, '_') and name ~= 'spell' and name ~= 'nospell' then
        local range = { vim.treesitter.get_node_range(node) }
        on_capture(('@%s.%s'):format(name, language:lang()), own and own.conceal or metadata.conceal, range)
      end
    end
  end)
end

--- Removes the highlights of these rows.
---@param buffer integer
---@param row integer
---@param rows integer
function M.clear(buffer, row, rows)
  vim.api.nvim_buf_clear_namespace(buffer, namespace, row, row + rows)
end

--- Highlights a block that stands at this row.
---@param buffer integer
---@param block roo.Block
---@param row integer
---@param indent integer The width of what stands before each line.
function M.decorate(buffer, block, row, indent)
  if not block.markdown or not M.is_available() then
    return
  end
  M.clear(buffer, row, #block.lines)
  local first = block.gap and 2 or 1
  local lines = vim.list_slice(block.lines, first)
  if not lines[1] then
    return
  end
  -- A mark of the plugin before the first line is no part of the text.
  local marker = math.min(block.marker or 0, #lines[1])
  lines[1] = lines[1]:sub(marker + 1)
  local text = table.concat(lines, '\n') .. '\n'
  if #text > LONGEST then
    return
  end
  local top = row + first - 1
  local function column(line, at)
    if line >= #lines or (at == 0 and lines[line + 1] == '') then
      return 0
    end
    return at + indent + (line == 0 and marker or 0)
  end
  local count = vim.api.nvim_buf_line_count(buffer)
  pcall(each_capture, text, function(group, conceal, range)
    local end_row, end_col = range[3], range[4]
    if end_row >= #lines then
      end_row, end_col = #lines - 1, #lines[#lines]
    end
    local last = top + end_row
    if last < count then
      vim.api.nvim_buf_set_extmark(buffer, namespace, top + range[1], column(range[1], range[2]), {
        end_row = last,
        end_col = column(end_row, end_col),
        hl_group = group,
        conceal = conceal,
        priority = PRIORITY,
        strict = false,
      })
    end
  end)
end

return M
