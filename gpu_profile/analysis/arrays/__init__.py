"""numpy helpers: columns, intervals, nesting, memoising."""
