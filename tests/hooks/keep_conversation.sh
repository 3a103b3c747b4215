#!/bin/sh
# PreCompact: an automatic shortening is refused. decision block.
case "$(cat)" in
  *'"trigger":"auto"'*) echo '{"decision": "block", "reason": "Nothing may be lost now."}' ;;
esac
