// docs/other-users.md 1-
// snippet
