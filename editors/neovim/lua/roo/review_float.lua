-- The float of the review: a heading on its border, and lines with their groups.

local M = {}

local namespace = vim.api.nvim_create_namespace('roo_review')

---@class roo.ReviewFloat
---@field buffer integer
---@field window integer

--- The width that its lines have.
---@return integer
function M.width()
  return math.min(math.max(60, math.floor(vim.o.columns * 0.8)), vim.o.columns - 4, 110)
end

---@param heading string
---@return string
local function title(heading)
  return (' %s '):format(heading)
end

---@param float? roo.ReviewFloat
---@return boolean
function M.is_open(float)
  return float ~= nil and vim.api.nvim_win_is_valid(float.window)
end

---@param float? roo.ReviewFloat
function M.close(float)
  if M.is_open(float) then
    vim.api.nvim_win_close(float.window, true)
  end
end

--- Gives it another heading.
---@param float roo.ReviewFloat
---@param heading string
function M.retitle(float, heading)
  vim.api.nvim_win_set_config(float.window, { title = title(heading), title_pos = 'center' })
end

--- Shows lines in a float; in the one that is there, if it is open.
---@param float? roo.ReviewFloat
---@param heading string
---@param lines string[]
---@param groups table<integer, string>
---@param on_open fun(buffer: integer) Called with the buffer of a new one.
---@return roo.ReviewFloat
function M.show(float, heading, lines, groups, on_open)
  local width, height = M.width(), 0
  for _, line in ipairs(lines) do
    height = height + math.max(1, math.ceil(vim.api.nvim_strwidth(line) / width))
  end
  height = math.min(height, math.max(3, vim.o.lines - 6))
  local config = {
    relative = 'editor',
    row = math.floor((vim.o.lines - height) / 2) - 1,
    col = math.floor((vim.o.columns - width) / 2),
    width = width,
    height = height,
    style = 'minimal',
    border = 'rounded',
    title = title(heading),
    title_pos = 'center',
  }
  local shown = float
  if shown and M.is_open(shown) then
    vim.api.nvim_win_set_config(shown.window, config)
  else
    local buffer = vim.api.nvim_create_buf(false, true)
    vim.bo[buffer].bufhidden = 'wipe'
    vim.bo[buffer].filetype = 'rooreview'
    vim.api.nvim_buf_set_name(buffer, ('roo://review/%d'):format(buffer))
    shown = { buffer = buffer, window = vim.api.nvim_open_win(buffer, true, config) }
    vim.wo[shown.window][0].wrap = true
    vim.wo[shown.window][0].linebreak = true
    on_open(buffer)
  end
  local buffer = shown.buffer
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_clear_namespace(buffer, namespace, 0, -1)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable = false
  for index, group in pairs(groups) do
    vim.api.nvim_buf_set_extmark(buffer, namespace, index - 1, 0, {
      end_row = index - 1,
      end_col = #lines[index],
      hl_group = group,
    })
  end
  vim.api.nvim_win_set_cursor(shown.window, { 1, 0 })
  return shown
end

return M
