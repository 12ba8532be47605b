// Package style holds the text of the repository to docs/style.md: make lint runs its tests. What was written before a
// rule is counted by file in testdata, and those numbers may only fall.
package style
