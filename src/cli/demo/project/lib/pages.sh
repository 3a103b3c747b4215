# Counting pages.

# page_count ITEMS PER_PAGE: how many pages the items fill.
page_count() {
    echo $(($1 / $2))
}

# page_of ITEM PER_PAGE: the page that an item is on; both count from 1.
page_of() {
    echo $((($1 - 1) / $2 + 1))
}
