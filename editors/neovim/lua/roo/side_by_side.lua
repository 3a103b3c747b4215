-- The texts before and after of what an approval changes: a tab page for each file, with the answers' keys above.

local M = {}

---@class roo.SideBySide
---@field tabs integer[] The tab pages, by their handles.
---@field heads integer[] The buffers with the keys.

---@param side string
---@param approval roo.Approval
---@param path string
---@param text string
---@param filetype string
---@return integer buffer
local function side_buffer(side, approval, path, text, filetype)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buffer, ('roo://review/%s/%s/%s'):format(approval.approvalId, side, path))
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, vim.split(text, '\n', { plain = true }))
  vim.bo[buffer].bufhidden = 'wipe'
  vim.bo[buffer].filetype = filetype
  vim.bo[buffer].modifiable = false
  return buffer
end

--- Opens a tab page with three windows: the keys above, and both texts.
---@param approval roo.Approval
---@param file {uri: string, before?: string, after: string, movedTo?: string}
---@param head {lines: string[], map: fun(buffer: integer)}
---@return integer tab
---@return integer head The buffer with the keys.
local function open_file(approval, file, head)
  local path = vim.fn.fnamemodify(vim.uri_to_fname(file.uri), ':.')
  local moved = file.movedTo and vim.fn.fnamemodify(vim.uri_to_fname(file.movedTo), ':.')
  local filetype = vim.filetype.match({ filename = path }) or ''
  vim.cmd.tabnew()
  local unnamed = vim.api.nvim_get_current_buf()
  local before = side_buffer('before', approval, path, file.before or '', filetype)
  local after = side_buffer('after', approval, moved or path, file.after, filetype)
  vim.api.nvim_win_set_buf(0, before)
  vim.api.nvim_buf_delete(unnamed, { force = true })
  vim.wo[0][0].winbar = 'before: ' .. path:gsub('%%', '%%%%')
  vim.cmd.diffthis()
  vim.cmd('rightbelow vsplit')
  vim.api.nvim_win_set_buf(0, after)
  vim.wo[0][0].winbar = 'after: ' .. (moved or path):gsub('%%', '%%%%')
  vim.cmd.diffthis()
  local main = vim.api.nvim_get_current_win()
  local keys = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(keys, 0, -1, false, head.lines)
  vim.bo[keys].bufhidden = 'wipe'
  vim.bo[keys].modifiable = false
  vim.bo[keys].filetype = 'rooreview'
  local window = vim.api.nvim_open_win(keys, false, { split = 'above', win = -1, height = #head.lines, style = 'minimal' })
  vim.wo[window][0].winfixheight = true
  vim.wo[window][0].winhighlight = 'Normal:RooKey'
  for _, buffer in ipairs({ before, after, keys }) do
    head.map(buffer)
  end
  vim.api.nvim_set_current_win(main)
  -- The first change, and not the beginning of a long file.
  vim.cmd('silent! normal! gg]c[c')
  return vim.api.nvim_get_current_tabpage(), keys
end

--- Shows both texts of each file.
---@param approval roo.Approval
---@param files table[] As `roo/approval/preview` has them.
---@param head fun(width: integer): {lines: string[], map: fun(buffer: integer)}
---@return roo.SideBySide
function M.open(approval, files, head)
  local opened = { tabs = {}, heads = {} }
  for index, file in ipairs(files) do
    opened.tabs[index], opened.heads[index] = open_file(approval, file, head(vim.o.columns))
  end
  vim.api.nvim_set_current_tabpage(opened.tabs[1])
  return opened
end

--- Gives it another title.
---@param opened roo.SideBySide
---@param title string
function M.retitle(opened, title)
  for _, buffer in ipairs(opened.heads) do
    if vim.api.nvim_buf_is_valid(buffer) then
      vim.bo[buffer].modifiable = true
      vim.api.nvim_buf_set_lines(buffer, 0, 1, false, { title })
      vim.bo[buffer].modifiable = false
    end
  end
end

--- Closes the tab pages that are still there; from one of them the user gets back to where they came from.
---@param opened roo.SideBySide
---@param origin integer A tab page.
function M.close(opened, origin)
  if M.is_in_front(opened) and vim.api.nvim_tabpage_is_valid(origin) then
    vim.api.nvim_set_current_tabpage(origin)
  end
  for _, tab in ipairs(opened.tabs) do
    if vim.api.nvim_tabpage_is_valid(tab) and #vim.api.nvim_list_tabpages() > 1 then
      vim.cmd.tabclose({ args = { tostring(vim.api.nvim_tabpage_get_number(tab)) }, bang = true })
    end
  end
end

--- Whether one of its tab pages is in front.
---@param opened roo.SideBySide
---@return boolean
function M.is_in_front(opened)
  return vim.list_contains(opened.tabs, vim.api.nvim_get_current_tabpage())
end

return M
