#!/bin/sh
# Tests of lib/pages.sh, in the Test Anything Protocol.
. ./lib/pages.sh

number=0
failed=0

check() { # DESCRIPTION ACTUAL EXPECTED
    number=$((number + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $number - $1"
    else
        failed=$((failed + 1))
        echo "not ok $number - $1"
        echo "# expected $3, got $2"
    fi
}

echo "1..5"
check "no items fill no page" "$(page_count 0 5)" 0
check "full pages are counted" "$(page_count 10 5)" 2
check "a page begun is a page" "$(page_count 11 5)" 3
check "the first item is on the first page" "$(page_of 1 5)" 1
check "the sixth item is on the second page" "$(page_of 6 5)" 2
[ "$failed" -eq 0 ]
